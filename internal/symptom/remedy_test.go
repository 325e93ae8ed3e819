package symptom

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/internal/atlas"
	"assay/internal/claims"
	"assay/internal/facts"
)

// releaseNamed finds what sends a reader to a release of torch: pip install 'torch>=2.8', "or 2.14.0 or later".
var releaseNamed = regexp.MustCompile(`torch>=(2\.\d+(?:\.\d+)?)|(2\.\d+\.\d+) or later`)

// andMore: where many wrong results are known, the others are counted; the facts' own test counts them.
var andMore = regexp.MustCompile(`and \d+ more, of which`)

func releases(remedy string) []string {
	var list []string
	for _, m := range releaseNamed.FindAllStringSubmatch(remedy, -1) {
		release := m[1] + m[2]
		if strings.Count(release, ".") == 1 {
			release += ".0"
		}
		list = append(list, release)
	}
	return list
}

// wrongs are the facts whose outcome is a wrong result.
func wrongs() []*facts.Fact {
	return slices.DeleteFunc(slices.Clone(facts.Load().All), func(f *facts.Fact) bool { return f.Outcome != facts.Wrong })
}

// known says whether it is known that a row is true in a release.
func known(f *facts.Fact, torch string) bool { return f.Holds(torch) && f.Certain(torch) }

// gradientOf are the names under which the facts may speak of an operator.
func gradientOf(op string) []string {
	base, _, _ := strings.Cut(op, ".")
	space, short, _ := strings.Cut(base, "::")
	return []string{op, base, base + "_backward", space + "::_" + short + "_backward", base + "_dense_backward"}
}

// TestNoRemedyLeadsIntoAWrongResult: over all remedies that explain can print of the atlas's rows: where one names a
// release, what the facts knows to be wrong there, of the row's operators or their gradients, stands beside it.
func TestNoRemedyLeadsIntoAWrongResult(t *testing.T) {
	a := &atlas.Atlas{}
	newest := a.Releases("torch")[len(a.Releases("torch"))-1].Version
	named, warned := 0, 0
	for _, c := range facts.Load().All {
		if c.Text == "" {
			continue
		}
		class := c.Error
		if class == "" {
			class = "UserWarning"
		}
		rep := scan(t, class+": "+sample(c.Text))
		for _, s := range rep.Symptoms {
			for _, remedy := range s.Remedy {
				for _, release := range releases(remedy) {
					named++
					for _, bug := range wrongs() {
						if slices.Contains(bug.Meets, "*") {
							continue
						}
						if strings.HasPrefix(s.Rule, "atlas/") && (known(bug, release) || known(bug, newest)) &&
							slices.ContainsFunc(c.Meets, func(op string) bool {
								return slices.ContainsFunc(gradientOf(op), func(n string) bool {
									return slices.Contains(bug.Meets, n)
								})
							}) {
							warned++
							if !strings.Contains(remedy, bug.Wrong) && !andMore.MatchString(remedy) {
								t.Errorf("%s: %q leads to %s, where %s holds", c.Name, remedy, release, bug.Name)
							}
						}
					}
				}
			}
		}
	}
	if named < 15 || warned == 0 {
		t.Errorf("%d remedies name a release, %d of them with a wrong result there", named, warned)
	}
}

// TestNoUpgradeIntoAWrongResult: the same of the releases that are worked out for an operator that is missing. Those
// that the facts names are asked, and those whose gradients it names.
func TestNoUpgradeIntoAWrongResult(t *testing.T) {
	a := &atlas.Atlas{}
	pip := regexp.MustCompile(`pip install '(torch|torchvision|torchaudio)>=([\d.]+)'`)
	about := map[string][]*facts.Fact{} // by the names that are asked
	for _, bug := range wrongs() {
		for _, op := range bug.Meets {
			forward := strings.TrimSuffix(op, "_backward")
			names := []string{op, forward, strings.Replace(forward, "::_", "::", 1)}
			slices.Sort(names)
			for _, name := range slices.Compact(names) {
				about[name] = append(about[name], bug)
			}
		}
	}
	torch := a.Releases("torch")
	newest := torch[len(torch)-1].Version
	n := 0
	for name, bugs := range about {
		rep := scan(t, "NotImplementedError: The operator '"+name+"' is not currently implemented for the MPS device.")
		if len(rep.Symptoms) == 0 {
			continue
		}
		for _, remedy := range rep.Symptoms[0].Remedy {
			m := pip.FindStringSubmatch(remedy)
			if m == nil {
				continue
			}
			n++
			for _, r := range torch { // all that this sends somebody to
				beside, ok := a.Beside(m[1], r.Version)
				if !ok || atlas.CompareReleases(beside.Version, m[2]) < 0 {
					continue
				}
				for _, bug := range bugs {
					if known(bug, r.Version) && !strings.Contains(remedy, bug.Wrong) && !andMore.MatchString(remedy) &&
						(r.Version == newest || !strings.Contains(remedy, "wrong")) {
						t.Errorf("%s: %q, and %s holds in torch %s", name, remedy, bug.Name, r.Version)
					}
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("%d upgrades", n)
	}
	out := printed(t, scan(t, "The operator 'aten::mps_convolution' is not currently implemented for the MPS device"))
	if !strings.Contains(out, "the atlas does not have aten::mps_convolution") { // and says nothing of another operator
		t.Error(out)
	}
	out = printed(t, scan(t, "The operator 'torchvision::roi_align' is not currently implemented for the MPS device."))
	if !strings.Contains(out, "torchvision>=0.29") || strings.Contains(out, "torchvision>=0.16") {
		t.Error(out)
	}
}

// everyRelease says whether no release is known to be free of a row: no choice of one leads into it, or out of it.
func everyRelease(f *facts.Fact) bool { return f.From == "" && f.Until == "" && f.Fixed == "" }

// TestRulesByHandNameSoundReleases: a rule that names a release in its remedy keeps clear of what the facts says of the
// rule's subject in that release.
func TestRulesByHandNameSoundReleases(t *testing.T) {
	subjects := map[string]*regexp.Regexp{ // by topic: what a fact says when it is about it
		"torch.compile": regexp.MustCompile(`compile|inductor`),
		"precision":     regexp.MustCompile(`autocast|GradScaler`),
		"types":         regexp.MustCompile(`bfloat16 input`),
	}
	n := 0
	for _, r := range Rules() {
		if strings.HasPrefix(r.Name, "atlas/") || subjects[r.Topic] == nil {
			continue
		}
		for _, remedy := range r.Remedy {
			for _, release := range releases(remedy) {
				n++
				for _, bug := range wrongs() {
					if known(bug, release) && !everyRelease(bug) && subjects[r.Topic].MatchString(bug.When) {
						t.Errorf("%s: %q leads to %s, where %s holds", r.Name, remedy, release, bug.Name)
					}
				}
			}
		}
	}
	if n < 3 {
		t.Errorf("%d rules name a release", n)
	}
}

// TestNamesOfNoRelease: an upgrade is not advised for a name that no release has, whatever the name, and is for one
// that came later.
func TestNamesOfNoRelease(t *testing.T) {
	for _, name := range []string{"torch.mps.is_metal_capture_enabled", "torch.mps.metal_capture",
		"torch.mps.memory_allocated", "torch.mps.get_device_name", "torch.backends.mps.version", "torch.mpss",
		"torch.nn.Convv2d", "torch.amp.Autocast", "torch.utils.data.Dataloader"} {
		at := strings.LastIndexByte(name, '.')
		for _, text := range []string{
			"AttributeError: module '" + name[:at] + "' has no attribute '" + name[at+1:] + "'",
			"ImportError: cannot import name '" + name[at+1:] + "' from '" + name[:at] + "' (/x/__init__.py)"} {
			out := printed(t, scan(t, text))
			if !strings.Contains(out, "No upgrade helps") || strings.Contains(out, "pip install") {
				t.Errorf("%s:\n%s", text, out)
			}
		}
	}
	for name, since := range map[string]string{"torch.mps.compile_shader": "2.7", "torch.accelerator": "2.6",
		"torch.nn.RMSNorm": "2.4", "torch.backends.mps.get_name": "2.9"} {
		at := strings.LastIndexByte(name, '.')
		out := printed(t, scan(t, "AttributeError: module '"+name[:at]+"' has no attribute '"+name[at+1:]+"'"))
		if !strings.Contains(out, "torch>="+since) {
			t.Errorf("%s:\n%s", name, out)
		}
	}
	out := printed(t, scan(t, "AttributeError: module 'torch.some.thing' has no attribute 'frob'"))
	if !strings.Contains(out, "was not read") || strings.Contains(out, "pip install") {
		t.Error(out)
	}
}

// TestFallbackReachesDenseTensorsAlone: PYTORCH_ENABLE_MPS_FALLBACK is no remedy for a kernel of a sparse, quantised or
// nested backend, nor for what a package or a collective refuses by itself.
func TestFallbackReachesDenseTensorsAlone(t *testing.T) {
	for _, text := range []string{
		"NotImplementedError: Could not run 'aten::_coalesce' with arguments from the 'SparseMPS' backend.",
		"NotImplementedError: Could not run 'aten::add.out' with arguments from the 'SparseCsrMPS' backend.",
		"NotImplementedError: Could not run 'aten::mul.Tensor' with arguments from the 'QuantizedMPS' backend.",
		"NotImplementedError: The operator 'aten::quantize_per_tensor' is not currently implemented for the MPS device.",
		"NotImplementedError: The operator 'aten::_to_sparse_csr' is not currently implemented for the MPS device.",
		"NotImplementedError: The operator 'aten::_nested_tensor_from_mask' is not currently implemented for the MPS device.",
		"NotImplementedError: The operator 'c10d::allreduce_' is not currently implemented for the MPS device.",
		"RuntimeError: nms_impl: implementation for device mps:0 not found.",
	} {
		rep := scan(t, text)
		if len(rep.Symptoms) == 0 {
			t.Errorf("not known: %s", text)
			continue
		}
		for _, remedy := range rep.Symptoms[0].Remedy {
			if strings.Contains(remedy, "FALLBACK=1 python") {
				t.Errorf("%s: %s", text, remedy)
			}
		}
	}
}

// TestHeadings: the symptoms of the guides' tables are known by the names that the guides give them.
func TestHeadings(t *testing.T) {
	for asked, rule := range map[string]string{
		// S0 part 5
		"### Error: Training runs but very slow (hours per epoch)": "training-slow",
		"DataLoader hangs or crashes":                              "loader-hangs",
		// S4 §5 and §9
		"Fast start then cliff": "starts-fast-then-slow", "Cache pressure": "starts-fast-then-slow",
		"One layer slow": "one-operator-takes-most", "Kernel gap": "one-operator-takes-most",
		"Loss drift": "loss-drifts", "Reduction dtype": "loss-drifts",
		"Speedup near 1x": "training-slow", "OOM patterns": "memory-grows", "Dynamic graph chains": "memory-grows",
		"Multi-process oddities": "several-processes-on-mps", "MPS multiprocess limits": "several-processes-on-mps",
		// S4 §1 and §16, S2
		"(1) Interpreter and wheel mismatch": "x86-python", "opaque hangs": "loader-hangs",
		"Throughput hides in the dataloader": "waits-for-data", "Sparse Tensor Operations": "sparse-on-mps",
	} {
		rep := scan(t, asked)
		if len(rep.Symptoms) != 1 || rep.Symptoms[0].Rule != rule || len(rep.Unknown) > 0 {
			t.Errorf("%q: %v %v, want %s", asked, rules(rep), rep.Unknown, rule)
			continue
		}
		if out := printed(t, rep); strings.Contains(out, "{") || !strings.Contains(out, "remedy") {
			t.Errorf("%q:\n%s", asked, out)
		}
	}
	// In a log the same words are prose.
	if rep := scan(t, "epoch 1\nloss drift 0.3\n"); len(rep.Symptoms) > 0 {
		t.Errorf("a log's own words: %v", rules(rep))
	}
}

// TestClaims: the claims that a rule names exist, and where a claim's error is met the claim is named.
func TestClaims(t *testing.T) {
	for _, r := range Rules() {
		for _, n := range r.Claims {
			if len(claims.Open().Find(n)) != 1 {
				t.Errorf("%s names claim %s, which is none", r.Name, n)
			}
		}
	}
	for n, text := range map[string]string{
		"1":   "The operator 'torchvision::roi_align' is not currently implemented for the MPS device.",
		"4":   "RuntimeError: Input type (MPSHalfType) and weight type (MPSFloatType) should be the same",
		"5":   "InvalidBackend: 'mps'",
		"6":   "AttributeError: 'collections.OrderedDict' object has no attribute 'to'",
		"8":   "AttributeError: module 'torch.mps' has no attribute 'metal_capture'",
		"11":  "RuntimeError: generator didn't stop after throw()",
		"15":  "The Conv2D op currently only supports the NHWC tensor format on the CPU.",
		"16a": "RuntimeError: roi_align_forward_impl: implementation for device mps:0 not found.",
		"17":  "RuntimeError: No backend type associated with device type mps",
		"x5":  "RuntimeError: Placeholder storage has not been allocated on MPS device",
	} {
		if out := printed(t, scan(t, text)); !strings.Contains(out, "`assay claims "+n+"`") {
			t.Errorf("claim %s is not named:\n%s", n, out)
		}
	}
}
