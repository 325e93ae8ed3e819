package atlas

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// API is a name of a Python interface, PyTorch's or a library's, and the operators that it calls.
type API struct {
	Name              string
	Forward, Backward []Call
}

// Libraries are the beginnings of the Python names of which the atlas knows some.
var Libraries = []string{"torch.", "torchvision.", "torchaudio.", "detectron2.", "mmcv.", "torch_cluster.",
	"torch_geometric.", "torch_scatter."}

// pythonNames are the lines of api.txt and its like for libraries: "name direction" → operators.
func (a *Atlas) pythonNames() map[string][]Call {
	a.python.Do(func() {
		a.names = maps.Clone(a.calls("api.txt", 2))
		maps.Copy(a.names, a.calls("api-torchvision.txt", 2))
		maps.Copy(a.names, a.calls("api-torchaudio.txt", 2))
		maps.Copy(a.names, a.calls("api-libraries.txt", 2))
		known := a.Namespaces()
		for _, calls := range a.calls("api-libraries.txt", 2) {
			for _, c := range calls {
				if space, _, _ := strings.Cut(c.Operator, "::"); !slices.Contains(known, space) {
					a.others = append(a.others, space)
				}
			}
		}
	})
	return a.names
}

// foreign reports whether an operator is one of a library that has no table, and no kernel for MPS either:
// api-libraries.txt says where that was read.
func (a *Atlas) foreign(operator string) bool {
	a.pythonNames()
	space, _, _ := strings.Cut(operator, "::")
	return slices.Contains(a.others, space)
}

// spellings are the full names that a person may mean by a name: nn.Conv3d, Conv3d, F.interpolate, Tensor.add_,
// torch.nn.modules.conv.Conv3d, optim.AdamW, whose operators are those of its step.
func spellings(name string) []string {
	if rest, ok := strings.CutPrefix(name, "F."); ok {
		name = "torch.nn.functional." + rest
	}
	list := []string{name, "torch." + name, "torch.nn." + name, "torch.nn.functional." + name, "torch.optim." + name}
	for _, inside := range []string{"torch.nn.modules.", "torch.optim.", "torchvision.ops.",
		"torchaudio.functional."} {
		for _, full := range list[:2] {
			if file, rest, ok := strings.Cut(strings.TrimPrefix(full, inside), "."); ok &&
				strings.HasPrefix(full, inside) && strings.ToLower(file) == file {
				list = append(list, strings.Replace(inside, "modules.", "", 1)+rest)
			}
		}
	}
	for _, full := range slices.Clone(list) {
		if strings.HasPrefix(full, "torch.optim.") {
			list = append(list, full+".step")
		}
	}
	return list
}

// API finds a Python name: torch.linalg.eig, torch.nn.Conv3d, torchvision.ops.nms. Shorter forms are found as well:
// nn.Conv3d, F.interpolate, Tensor.add_; an optimizer stands for its step.
func (a *Atlas) API(name string) (API, bool) {
	lists := a.pythonNames()
	for _, full := range spellings(name) {
		forward, ok := lists[full+" forward"]
		backward, also := lists[full+" backward"]
		if ok || also {
			return API{full, forward, backward}, true
		}
	}
	return API{}, false
}

// In is what a Python name calls in a release of torch: that of api.txt, which one release was traced for, or where the
// release's own Python calls others, those (api-earlier.txt).
func (a *Atlas) In(torch Release, api API) API {
	a.aged.Do(func() {
		a.earlier = map[string][]callsOf{}
		for key, calls := range a.calls("api-earlier.txt", 3) {
			name, span, _ := strings.Cut(key, " ")
			direction, span, _ := strings.Cut(span, " ")
			from, to, _ := strings.Cut(span, "-")
			a.earlier[name+" "+direction] = append(a.earlier[name+" "+direction], callsOf{from, to, calls})
		}
	})
	in := func(direction string, calls []Call) []Call {
		for _, e := range a.earlier[api.Name+" "+direction] {
			if e.holds(torch.Column) {
				return e.calls
			}
		}
		return calls
	}
	return API{api.Name, in("forward", api.Forward), in("backward", api.Backward)}
}

// Ways lists calls of a Python name that were traced apart, each with the argument that sets it apart:
// torch.optim.AdamW.step(fused=True), torch.add(out=).
func (a *Atlas) Ways(name string) []API {
	var list []API
	for _, n := range a.APIs() {
		if strings.HasPrefix(n, name+"(") {
			api, _ := a.API(n)
			list = append(list, api)
		}
	}
	return list
}

// MatchAPIs lists the Python names that a pattern with * or ? fits, sorted: torch.linalg.*, nn.Conv*. Calls that were
// traced apart (Ways) are left out.
func (a *Atlas) MatchAPIs(pattern string) []API {
	patterns := spellings(pattern)[:3]
	var list []API
	for _, n := range a.APIs() {
		if strings.Contains(n, "(") || !slices.ContainsFunc(patterns, func(p string) bool { return matches(p, n) }) {
			continue
		}
		api, _ := a.API(n)
		list = append(list, api)
	}
	return list
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// Namesake is the operator that a function of torch binds by its own name: torch.poisson, torch.Tensor.geqrf,
// torch.special.zeta; "" where no operator is so called.
func (a *Atlas) Namesake(name string) string {
	rest, ok := strings.CutPrefix(name, "torch.")
	if !ok {
		return ""
	}
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "Tensor."), "nn.functional.")
	for _, m := range []string{"special", "linalg", "fft"} {
		if n, ok := strings.CutPrefix(rest, m+"."); ok {
			rest = m + "_" + n
		}
	}
	if strings.Contains(rest, ".") || strings.HasPrefix(rest, "_") || len(a.Named("aten::"+rest)) == 0 {
		return ""
	}
	return "aten::" + rest
}

// APIs lists the Python names that the atlas has, sorted.
func (a *Atlas) APIs() []string {
	var names []string
	for key := range a.pythonNames() {
		name, _, _ := strings.Cut(key, " ")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// NearAPI lists Python names that are spelt almost so, or that end so.
func (a *Atlas) NearAPI(name string, n int) []string {
	names := a.APIs()
	var found []string
	_, last, ok := strings.Cut(name, ".")
	for ok && strings.Contains(last, ".") {
		_, last, _ = strings.Cut(last, ".")
	}
	if last == "" {
		last = name
	}
	for _, s := range names {
		if strings.HasSuffix(strings.ToLower(s), "."+strings.ToLower(last)) {
			found = append(found, s)
		}
	}
	found = append(found, nearest(strings.ToLower(name), names, n)...)
	var list []string
	for _, s := range found {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list[:min(n, len(list))]
}
