package symptom

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/atlas"
	"assay/internal/claims"
	"assay/internal/facts"
)

// explain fills a rule in with what its pattern read.
func (s *scanner) explain(r *Rule, groups map[string]string, own bool, line string) Symptom {
	sym := Symptom{Rule: r.Name, Topic: r.Topic, Severity: r.Severity, Title: fill(r.Title, groups),
		Cause: fill(r.Cause, groups), Code: fill(r.Code, groups),
		Source: r.Source, Claims: r.Claims, After: r.After, Likely: r.Likely, Remedy: []string{}}
	for _, line := range r.Remedy {
		sym.Remedy = append(sym.Remedy, fill(line, groups))
	}
	if r.Releases != "" {
		sym.Releases = append(sym.Releases, fill(r.Releases, groups))
	}
	s.ofAtlas(r, &sym, own, line)
	switch r.Reads {
	case "operator":
		s.atlas.torch(groups["op"], s.release(), s.asked, &sym)
		for _, n := range claims.Open().About(groups["op"]) {
			if !slices.Contains(sym.Claims, n) {
				sym.Claims = append(slices.Clip(sym.Claims), n)
			}
		}
	case "graph operands":
		graphOperands(groups["what"], groups["weight"], &sym)
	case "two types":
		twoTypes(groups["a"], groups["b"], &sym)
	case "sparse operator":
		s.atlas.sparse(groups["op"], groups["layout"], s.release(), &sym)
	case "torch name":
		s.atlas.name(groups["where"], groups["what"], &sym)
	case "tensorflow operator":
		s.atlas.tensorflow(groups["op"], &sym)
	case "mps memory":
		mpsMemory(groups, s.rep.Context, &sym)
	case "cuda memory":
		cudaMemory(groups, s.rep.Context, &sym)
	case "one buffer":
		oneBuffer(groups, s.rep.Context, &sym)
	case "overflowed size":
		overflowedSize(groups, &sym)
	}
	if sym.Severity == "error" && r.After {
		sym.Severity = "note"
	}
	return sym
}

// heading explains what a guide calls a symptom by, where somebody asks with those words.
func (s *scanner) heading(line string) (Symptom, bool) {
	asked := " " + strings.ToLower(strings.Join(strings.FieldsFunc(line, func(r rune) bool {
		return strings.ContainsRune(" \t:;,.!?\"'`*#()", r)
	}), " ")) + " "
	named := func(list []string) bool {
		return slices.ContainsFunc(list, func(h string) bool { return strings.Contains(asked, " "+h+" ") })
	}
	for _, r := range s.rules {
		if named(r.Headings) {
			groups := map[string]string{}
			for _, name := range r.groups {
				groups[name] = ""
			}
			return s.explain(r, groups, true, line), true
		}
	}
	for _, o := range Observations {
		if named(o.Headings) {
			return o.symptom(), true
		}
	}
	return Symptom{}, false
}

// fill puts what the groups matched into a text; … where this form of the message does not say it.
func fill(text string, groups map[string]string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	return hole.ReplaceAllStringFunc(text, func(name string) string {
		value, ok := groups[name[1:len(name)-1]]
		switch {
		case !ok:
			return name
		case strings.TrimSpace(value) == "":
			return "…"
		}
		return strings.TrimSpace(value)
	})
}

// ofAtlas adds what the atlas says of the conditions behind a text: cause and remedy where the rule has none, releases
// and sources in any case.
func (s *scanner) ofAtlas(r *Rule, sym *Symptom, own bool, line string) {
	if len(r.atlas) == 0 {
		return
	}
	rows := r.atlas
	if own { // those whose text this line has
		var these []*facts.Fact
		for i, c := range rows {
			if r.texts[i].MatchString(line) {
				these = append(these, c)
			}
		}
		rows = these
	}
	if v := s.release(); v != "" {
		if held := slices.DeleteFunc(slices.Clone(rows),
			func(c *facts.Fact) bool { return !c.Holds(v) }); len(held) > 0 {
			rows = held
		}
	}
	var sources []string
	if sym.Source != "" {
		sources = strings.Split(sym.Source, "; ")
	}
	var of []string // who reads it may have met any of these
	for _, c := range rows {
		for _, op := range c.Meets {
			if !slices.Contains(of, op) {
				of = append(of, op)
			}
		}
	}
	for _, c := range rows {
		add := func(list *[]string, text string) {
			if text != "" && !slices.Contains(*list, text) {
				*list = append(*list, text)
			}
		}
		for part := range strings.SplitSeq(c.Source, "; ") {
			if part != "binary text" || c.Source == part {
				add(&sources, part)
			}
		}
		if r.Releases == "" && r.Reads != "operator" {
			add(&sym.Releases, span(c))
		}
		if !own {
			add(&sym.Remedy, facts.Load().Warned(&s.atlas.a, sentence(c.Remedy), of))
		}
	}
	if !own {
		var causes []string
		for _, c := range rows[:min(3, len(rows))] {
			text := c.When
			if about := operatorsOf(c); about != "" {
				text = about + ": " + text
			}
			if !slices.Contains(causes, text) {
				causes = append(causes, text)
			}
		}
		sym.Cause = strings.Join(causes, "; or ") + outcomeOf(rows[0])
		if r.Likely {
			sym.Cause = "On MPS these words mean this; a CPU or another library may print them for a reason of its own. " + sym.Cause
		}
		if len(sym.Remedy) == 0 {
			sym.Remedy = append(sym.Remedy, byKind[rows[0].Kind])
			if sym.Remedy[0] == "" {
				sym.Remedy[0] = byKind["stub"]
			}
		}
	}
	sym.Source = strings.Join(sources, "; ")
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

func operatorsOf(c *facts.Fact) string {
	if len(c.Meets) == 0 || c.Meets[0] == "*" {
		return ""
	}
	n := min(4, len(c.Meets))
	text := strings.Join(c.Meets[:n], ", ")
	if n < len(c.Meets) {
		text += fmt.Sprintf(" and %d more", len(c.Meets)-n)
	}
	return text
}

func outcomeOf(c *facts.Fact) string {
	switch c.Outcome {
	case facts.CPU:
		return ". It runs on the CPU, with copies there and back."
	case facts.Wrong:
		return ". What comes out is wrong: " + c.Wrong + "."
	case facts.Ignored:
		return ". It goes on, without what was asked for."
	case facts.Slow:
		return ". It runs, slowly."
	}
	return "."
}

// byKind is what can be done where the atlas names no remedy for a refusal.
var byKind = map[string]string{
	"dtype": "Convert the operands to a type that the backend has (float32, or int32 for indices) before the call, or compute this call " +
		"on the CPU: op(x.cpu()).to(\"mps\").",
	"size":        "Split the tensor, or lower the batch or the resolution.",
	"shape":       "Change the sizes, or compute this call on the CPU: op(x.cpu()).to(\"mps\").",
	"rank":        "Merge dimensions by reshape before the call, or compute this call on the CPU.",
	"value":       "Choose another value for this argument, or compute this call on the CPU: op(x.cpu()).to(\"mps\").",
	"mode":        "Choose another mode for this argument, or compute this call on the CPU: op(x.cpu()).to(\"mps\").",
	"layout":      "Make the tensor dense or contiguous (x.to_dense(), x.contiguous()), or compute this call on the CPU.",
	"device":      "Move all operands to one device.",
	"macos":       "Update macOS, or choose a release of PyTorch that does not ask for a newer one.",
	"grad":        "Detach this input, or compute this call on the CPU where its gradient is needed.",
	"environment": "Correct the setting that the message names.",
	"stub":        "Compute this call on the CPU: op(x.cpu()).to(\"mps\"); `assay ops NAME` says which releases have a kernel.",
}

// span says in which releases a condition was seen.
func span(c *facts.Fact) string {
	text := ""
	switch {
	case c.Until != "" && c.Until == c.From:
		text = "PyTorch " + c.From
	case c.Until != "":
		text = "PyTorch " + c.From + " to " + c.Until
	case c.From != "":
		text = "PyTorch from " + c.From + " on"
	}
	if c.Fixed != "" {
		text += ", right from " + c.Fixed + " on"
	}
	if c.MacOS != "" && text != "" {
		text += ", on macOS " + c.MacOS
	}
	return text
}

// operators answers from the atlas since when one has a kernel.
type operators struct{ a atlas.Atlas }

func (o *operators) torch(name, release string, asked For, sym *Symptom) {
	op, ok := o.a.Operator(name)
	if !ok {
		// aten::sum without its overload: the one that lacks a kernel; never an operator of another name
		for _, f := range o.a.Find(name) {
			if base, _, _ := strings.Cut(f.Name, "."); base == name && (!ok || f.NativeFrom() == "") {
				op, ok = f, true
			}
		}
	}
	if !ok {
		sym.Releases = append(sym.Releases,
			fmt.Sprintf("not known: the atlas does not have %s, which is no operator of torch, torchvision or "+
				"torchaudio; its own package has to bring a kernel for MPS", name))
		sym.Remedy = append(sym.Remedy, "Ask the package that defines "+name+" for MPS, or take its plain PyTorch path where it has one.")
		return
	}
	list := o.a.Releases(op.Package)
	newest := list[len(list)-1].Version
	show := "`assay ops " + strings.TrimPrefix(name, "aten::") + "`"
	u, _ := facts.Load().Upgrade(&o.a, op.Name)
	how := "has a kernel for MPS"
	if op.NativeFrom() == "" {
		how = "is composed of operators that have kernels for MPS"
		if op.Spans[len(op.Spans)-1].State == atlas.CPU {
			how = "runs on the CPU by itself"
		}
	}
	mine := op.Package == "torch" && release != ""
	switch {
	case strings.HasPrefix(name, "c10d::"):
		sym.Cause = "torch.distributed has no collectives for MPS: " + name + " was given a tensor on it."
		sym.Remedy = []string{"A collective does not fall back to the CPU. Give it CPU tensors under the backend gloo, or train in one process."}
		sym.Code = ""
	case u.Runs == "":
		sym.Releases = append(sym.Releases,
			fmt.Sprintf("%s has no kernel for MPS in any release up to %s %s (derived: %s)", name, op.Package, newest,
				show))
		sym.Remedy = append([]string{"No upgrade helps. Replace the operator, or compute it on the CPU."},
			sym.Remedy...)
	case u.Runs == list[0].Version || mine && atlas.CompareReleases(release, u.Runs) >= 0:
		sym.Releases = append(sym.Releases,
			fmt.Sprintf("%s %s from %s %s on (derived: %s): the release that printed this is an "+
				"older one or another build, or another overload of it was called", name, how, op.Package, u.Runs, show))
		if !mine {
			sym.Remedy = append([]string{fmt.Sprintf("Where %s is older than %s: ", op.Package, u.Runs) +
				strings.ToLower(upgrade(u)[:1]) + upgrade(u)[1:]}, sym.Remedy...)
		}
	default:
		text := fmt.Sprintf("%s %s from %s %s on (derived: %s)", name, how, op.Package, u.Runs, show)
		if u.Maybe {
			text += "; whether all of them do was not traced"
		}
		if mine {
			if release == asked.Typed || release == asked.Else {
				text += "; this is judged for PyTorch " + release
			} else {
				text += "; this log says PyTorch " + release
			}
		}
		sym.Releases = append(sym.Releases, text)
		sym.Remedy = append([]string{upgrade(u)}, sym.Remedy...)
	}
	if base, _, _ := strings.Cut(name, "."); slices.Contains(complexResults, base) {
		sym.Remedy = append(sym.Remedy, "In PyTorch 2.1 and 2.2 the fallback fails here as well: its result is complex, which MPS does "+
			"not take there. Keep this part on the CPU.")
	}
	if layout := layoutOf(name); layout != "" {
		sym.Code = ""
		sym.Remedy = slices.DeleteFunc(sym.Remedy, func(r string) bool { return strings.Contains(r, "FALLBACK=1") })
		sym.Remedy = append(sym.Remedy, "PYTORCH_ENABLE_MPS_FALLBACK does not help: what it makes is a "+layout+
			" tensor, which cannot go back to MPS. Keep this part on the CPU, and move dense results.")
	}
}

// graphOperands says what is wrong of two operands as MPSGraph writes them: 32x10x1xf32.
func graphOperands(a, b string, sym *Symptom) {
	kind := func(t string) string { return t[strings.LastIndexByte(t, 'x')+1:] }
	integer := func(t string) bool { return strings.HasPrefix(strings.TrimLeft(t, "su"), "i") }
	switch x, y := kind(a), kind(b); {
	case x == y:
		sym.Cause = fmt.Sprintf("The operands' sizes, %s and %s, do not broadcast: counted from the right each pair has to be equal, or 1. "+
			"MPSGraph ends the process over it (LLVM ERROR), where a CPU raises.", a, b)
		sym.Remedy = append([]string{"Mostly predictions of (batch, 1) meet targets of (batch,): squeeze or unsqueeze one of them."},
			sym.Remedy...)
	case integer(x) || integer(y):
		sym.Cause = fmt.Sprintf("An integer operand, %s or %s, meets one of another type: the operator does not promote on MPS. "+
			"MPSGraph ends the process over it (LLVM ERROR).", a, b)
		sym.Remedy = append([]string{"Convert the integer one before the call: x.float()."}, sym.Remedy...)
	default:
		sym.Cause = fmt.Sprintf("One operand is %s, the other %s: half of the model or of its inputs was converted (.half(), an autocast region, "+
			"a checkpoint in float16) and half was not. MPSGraph ends the process over it (LLVM ERROR), where a CPU or CUDA would promote.", a, b)
		sym.Remedy = append([]string{"Give both one type: x = x.to(next(model.parameters()).dtype), or model.float()."}, sym.Remedy...)
		sym.Claims = append(slices.Clip(sym.Claims), "4")
	}
}

// twoTypes says which mistake two types that meet come of.
func twoTypes(a, b string, sym *Symptom) {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool {
			return strings.Contains(strings.ToLower(a), w) || strings.Contains(strings.ToLower(b), w)
		})
	}
	switch {
	case has("long", "int", "bool", "byte", "char", "short"):
		sym.Cause = fmt.Sprintf("One operand is %s, the other %s: an integer meets a floating-point number. Labels of cross_entropy and indices of "+
			"an embedding have to be integers (Long), targets of mse_loss and binary_cross_entropy floating-point. Every device says so.", a, b)
		sym.Remedy = []string{"Labels and indices: y = y.long(). Targets of a regression: y = y.float().",
			"print(x.dtype, y.dtype) before the line that the traceback names."}
	case has("half", "bfloat16"):
		sym.Claims = append(slices.Clip(sym.Claims), "4")
	}
}

// complexResults are operators that make complex numbers of real ones: MPS refused such tensors in 2.1 and 2.2.
var complexResults = []string{"aten::_fft_r2c", "aten::_fft_c2c", "aten::complex", "aten::polar", "aten::linalg_eig",
	"aten::view_as_complex"}

// layoutOf names the layout of what an operator makes, where the fallback cannot bring that back to MPS; "" elsewhere.
func layoutOf(operator string) string {
	space, name, _ := strings.Cut(operator, "::")
	switch {
	case space == "quantized" || strings.HasPrefix(name, "quantize_per") || strings.Contains(name, "_quantized"):
		return "quantised"
	case strings.HasPrefix(name, "_to_sparse") || strings.HasPrefix(name, "to_sparse") ||
		strings.HasPrefix(name, "_sparse_"):
		return "sparse"
	case strings.HasPrefix(name, "_nested_"):
		return "nested"
	}
	return ""
}

// upgrade says which release to take, and what is known to be wrong on the way there.
func upgrade(u facts.Upgrade) string {
	if u.Sound == u.Runs {
		return fmt.Sprintf("Upgrade: pip install '%s>=%s'.", u.Package, u.Runs)
	}
	if u.Sound != "" {
		with := ""
		if u.Package != "torch" {
			with = ", which goes with torch " + u.Torch
		}
		return fmt.Sprintf("Upgrade: pip install '%s>=%s'%s. It runs from %s on, but wrongly until then: %s.",
			u.Package, u.Sound, with, u.Runs, facts.Wrongly(u.Wrong))
	}
	return fmt.Sprintf("Upgrade: pip install '%s>=%s', and compare with the CPU: a wrong result is known, and no release up to torch %s is known to be without it: %s.",
		u.Package, u.Runs, u.Torch, facts.Wrongly(u.Wrong))
}

// sparse answers from the atlas since when an operator takes sparse tensors of a layout on MPS.
func (o *operators) sparse(name, layout, release string, sym *Symptom) {
	letter, words := "O", "sparse COO tensors"
	if layout == "SparseCsrMPS" {
		letter, words = "R", "compressed sparse tensors"
	}
	sym.Releases = nil
	t := o.a.Table("sparse")
	since := ""
	for _, r := range t.Rows {
		if r.Name != name {
			continue
		}
		for i := len(r.Cells) - 1; i >= 0 && (r.Cells[i:i+1] == letter || r.Cells[i] == 'B'); i-- {
			since = t.Columns[i]
		}
	}
	switch last := t.Columns[len(t.Columns)-1]; {
	case layout == "" || !strings.Contains(name, "::"):
	case since == "":
		sym.Releases = []string{fmt.Sprintf("no release up to torch %s has a kernel of %s for %s on MPS (derived)", last,
			name, words)}
		sym.Remedy = append([]string{"No upgrade helps."}, sym.Remedy...)
	default:
		sym.Releases = []string{fmt.Sprintf("%s takes %s on MPS from torch %s on (derived)", name, words, since)}
		if release == "" || atlas.CompareReleases(release, since) < 0 {
			sym.Remedy = append([]string{facts.Load().Warned(&o.a, fmt.Sprintf("Upgrade: pip install 'torch>=%s'.", since),
				[]string{name})}, sym.Remedy...)
		}
	}
}

// name answers from the atlas which releases have a name of torch's.
func (o *operators) name(where, what string, sym *Symptom) {
	module := strings.TrimSuffix("torch."+where, ".")
	full := module + "." + what
	n, there, read := o.a.PythonName(module, what)
	series := o.a.Releases("torch")
	first, last := atlas.Series(series[0].Version), atlas.Series(series[len(series)-1].Version)
	show := "python -c \"import torch; print(torch.__version__, torch.__file__)\" says which is installed."
	switch {
	case there && n.Until != "":
		sym.Cause = fmt.Sprintf("%s was there up to PyTorch %s, and is gone.", full, n.Until)
		sym.Remedy = []string{"Update the package that asks for it; or, until it is updated, pip install 'torch==" +
			n.Until + ".*'.", show}
		sym.Releases = []string{"PyTorch " + n.Since + " to " + n.Until + " have it (derived)"}
	case there && n.Since == first:
		sym.Cause = fmt.Sprintf("Every release of PyTorch from %s on has %s: this one is older, or something else is imported under its name.",
			first, full)
		sym.Remedy = []string{show + " The file has to lie in site-packages.",
			"An older release: pip install -U torch."}
		sym.Releases = []string{"PyTorch from " + first + " on (derived)"}
	case there && n.Since != "":
		sym.Cause = fmt.Sprintf("%s came with PyTorch %s.", full, n.Since)
		sym.Remedy = []string{fmt.Sprintf("pip install 'torch>=%s', or ask first with hasattr.", n.Since), show}
		sym.Releases = []string{"PyTorch from " + n.Since + " on (derived)"}
	case there || !read:
		sym.Cause = fmt.Sprintf("This release of PyTorch does not have %s. Since when another has it, or whether any does, was not read.", full)
		sym.Remedy = []string{"Look it up in the documentation of the release that is installed. " + show}
	default:
		sym.Title = "no release of PyTorch has " + full
		sym.Cause = fmt.Sprintf("No release from %s to %s has that name: it was invented, misspelt, or belongs to another module. No upgrade helps.",
			first, last)
		sym.Remedy = []string{}
		if instead := o.a.Instead(full); instead != "" {
			sym.Remedy = append(sym.Remedy, "Use "+instead+".")
		}
		if in := o.a.Modules(what); len(in) > 0 && len(in) <= 3 && len(sym.Remedy) == 0 {
			slices.Sort(in)
			sym.Remedy = append(sym.Remedy, "Of that name there is "+strings.Join(in, "."+what+", ")+"."+what+".")
		}
		if near := o.a.NearName(module, what); near != "" && len(sym.Remedy) == 0 {
			sym.Remedy = append(sym.Remedy, "The nearest is "+module+"."+near+".")
		}
		if len(sym.Remedy) == 0 {
			sym.Remedy = append(sym.Remedy, "Take it out; dir("+module+") lists what there is.")
		}
		sym.Releases = []string{"none (derived, from the Python of the wheels)"}
		for _, c := range claims.Open().Claims {
			if len(what) > 8 && strings.Contains(c.Title, what) {
				sym.Claims = append(slices.Clip(sym.Claims), c.Row)
			}
		}
	}
}

func (o *operators) tensorflow(name string, sym *Symptom) {
	op, ok := o.a.Operator("tf::" + name)
	if !ok {
		sym.Releases = append(sym.Releases,
			"No release of tensorflow-metal up to 1.2.0 has a GPU kernel for "+name+" (derived).")
		return
	}
	if since := op.NativeFrom(); since != "" {
		text := fmt.Sprintf("tensorflow-metal has a GPU kernel for %s from %s on (derived)", name, since)
		if types := o.a.Types("tf::"+name, op.Columns[len(op.Columns)-1]); len(types) > 0 {
			text += ", in " + op.Columns[len(op.Columns)-1] + " for the types " + strings.Join(types, ", ")
		}
		sym.Releases = append(sym.Releases, text+".")
	}
}
