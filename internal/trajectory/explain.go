package trajectory

import (
	"regexp"
	"slices"
	"strings"

	"assay/internal/evidence"
)

// Change is one thing about the two runs that is not the same; "": not there, or not known.
type Change struct{ Part, Name, From, To string }

// Whether a change can make losses come out otherwise.
const (
	Can     = "yes"
	Cannot  = "no"
	NotSure = "not known"
)

// What is known of a change beyond that it can: only another run tells whether it does.
const (
	Possible = "possible"
	Explains = "explains" // a run with just this change departs as well
	RuledOut = "ruled out"
	Open     = "" // it cannot
)

// Row is a change with what it can do.
type Row struct {
	Part   string `json:"part"`
	Name   string `json:"name"`
	From   string `json:"from"`
	To     string `json:"to"`
	Can    string `json:"can_explain"`
	Why    string `json:"why"`
	Does   string `json:"does"`             // possible, explains, ruled out; "" where it cannot
	By     string `json:"by,omitempty"`     // the run that tells
	Facts  []Cite `json:"facts,omitempty"`  // what is known of the place that it leads to
	Judged bool   `json:"judged,omitempty"` // --allow names it
}

// Cite is what is known about wrong numbers on a device: a row of docs/knowledge.md, or of the run's own evidence.
type Cite struct {
	Run    string `json:"run"` // A or B: which of the two was there
	Name   string `json:"name"`
	Says   string `json:"says"`
	Source string `json:"source"`
	// Met: the run called it, as its rehearsal saw; else an operator of its profile is one of those that the row is
	// about, and whether its condition held is not known
	Met bool `json:"met"`
}

// kinds says what changes of a kind can do. The first whose part and name fit counts: a name that ends in * is the
// beginning of one.
var kinds = []struct{ part, name, can, why string }{
	{"subject", "commit", Can, "other code may compute something else"},
	{"subject", "working copy", Can, "code that is in no commit may compute something else"},
	{"target", "asked", Cannot, "what was asked for; the device says what it came to"},
	{"target", "device", Can, "kernels of another device add up in another order, and round otherwise"},
	{"target", "python", Cannot, "Python computes no tensor; what it brings along is among the packages"},
	{"target", "system", Can, "another build of the framework has other kernels"},
	{"target", "*", Can, "another release has other kernels and other defaults"},
	{"double", "*", Cannot, "a rehearsal computes on this machine's CPU, whatever Mac it stands for"},
	{"host", "chip", Can,
		"another processor takes other kernels (its vector instructions), and adds up in another order"},
	{"host", "cpu.*", Can, "sums are split among the threads: another number of them adds up in another order"},
	{"host", "gpu*", Can, "another GPU or driver takes other kernels"},
	{"host", "system*", Can, "Metal's kernels come with macOS, the C library's functions with the system"},
	{"host", "*", Cannot, "power, memory, mounts and other programs change how long a step takes, and no number"},
	{"environment", "PYTORCH_ENABLE_MPS_FALLBACK", Can, "operators that MPS lacks are computed on the CPU"},
	// docs/source/mps_environment_variables.rst of PyTorch says what each does
	{"environment", "PYTORCH_MPS_FAST_MATH", Can, "Metal's kernels compute with less exact functions"},
	{"environment", "PYTORCH_MPS_PREFER_METAL", Can, "matrix products take other kernels"},
	{"environment", "PYTORCH_MPS_*_WATERMARK_RATIO", Cannot, "limits of the allocator change no number"},
	{"environment", "OMP_*", Can, "sums are split among the threads: another number of them adds up in another order"},
	{"environment", "MKL_*", Can, "sums are split among the threads: another number of them adds up in another order"},
	{"environment", "CUBLAS_WORKSPACE_CONFIG", Can, "it decides whether cuBLAS takes the same algorithm each time"},
	{"environment", "NVIDIA_TF32_OVERRIDE", Can,
		"with TF32 the inputs of products are rounded to ten bits of mantissa"},
	{"environment", "*", NotSure, "assay knows nothing about this variable's effect on numbers"},
	{"package", "torch", Can, "another release has other kernels and other defaults"},
	{"package", "nvidia-*", Can, "a library of kernels"},
	{"package", "numpy", Can, "it computes, and draws random numbers"},
	{"package", "*", NotSure, "whether the training uses it is not recorded"},
	{"data", "*fingerprint", Can, "other data"},
	{"data", "*batch", Can, "a step's loss is the mean of other samples"},
	{"data", "*workers", Can, "what workers draw at random is seeded worker by worker"},
	{"data", "*", Can, "other data"},
	{"randomness", "*fp32_precision", Can, "with TF32 the inputs of products are rounded to ten bits of mantissa"},
	{"randomness", "*allow_tf32", Can, "with TF32 the inputs of products are rounded to ten bits of mantissa"},
	{"randomness", "*matmul_precision", Can, "with TF32 the inputs of products are rounded to ten bits of mantissa"},
	{"randomness", "*deterministic*", Can, "kernels that add up in any order, or in one"},
	{"randomness", "*benchmark", Can, "the kernel is chosen by its time, which differs from run to run"},
	{"randomness", "PYTHONHASHSEED", Can, "the order of sets of texts"},
	{"randomness", "*", Can, "another seed: another order of the data, other weights to begin with, other dropout"},
	{"lever", "*", Can, "assay changed the training, as it was asked to"},
	{"learning rate", "*", Can, "another learning rate is another training"},
}

func fits(pattern, name string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if rest, ends := strings.CutSuffix(after, "*"); ends && rest != "" {
		return strings.Contains(name, rest)
	}
	return strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

// explain says what a change from a to b can do.
func explain(a, b *evidence.Run, c Change) Row {
	r := Row{Part: c.Part, Name: c.Name, From: c.From, To: c.To, Can: NotSure}
	for _, k := range kinds {
		if k.part == c.Part && fits(k.name, c.Name) {
			r.Can, r.Why = k.can, k.why
			break
		}
	}
	if c.Part == "subject" && c.Name == "command" {
		x, y := arguments(a), arguments(b)
		switch {
		case evidence.Title(a) != evidence.Title(b):
			r.Can, r.Why = Can, "another script"
		case strings.Join(x, "\x00") == strings.Join(y, "\x00"):
			r.Can, r.Why = Cannot, "the same script with the same arguments; the interpreter's packages stand below"
		case strings.Join(withoutDevice(x), "\x00") == strings.Join(withoutDevice(y), "\x00"):
			r.Can, r.Why = Cannot, "it names another device, which stands for itself"
		default:
			r.Can, r.Why = Can, "other arguments: "+wordsApart(x, y)
		}
	}
	if r.Can != Cannot {
		r.Does = Possible
	}
	return r
}

// Policy is in which types a part of the training is computed, as far as the evidence tells.
type Policy struct {
	What string `json:"what"`
	A    string `json:"a"` // "" where it is not known
	B    string `json:"b"`
	How  string `json:"how"` // how it is known, or why it is not
}

// policies lists the types of both, each of S4's (docs/claims.md, section 14) for itself: what the evidence does not
// tell stands there as not known.
func policies(a, b *evidence.Run) []Policy {
	two := func(what, how string, of func(*evidence.Run) string) Policy { return Policy{what, of(a), of(b), how} }
	setting := func(names ...string) func(*evidence.Run) string {
		return func(run *evidence.Run) string {
			all := settings(run)
			for _, n := range names {
				if s, ok := all[n]; ok && s.State != evidence.StateUnknown {
					return setTo(s) + " (" + n + ")"
				}
			}
			return ""
		}
	}
	const notRecorded = "no run records it; assay golden has the types of weights and buffers"
	return []Policy{
		two("inputs of the model", "seen where they enter it", inputTypes),
		two("autocast by assay", "what --with was asked for", func(run *evidence.Run) string {
			return lever(run,
				"autocast")
		}),
		two("autocast of the script's own", "not recorded by a run", func(*evidence.Run) string { return "" }),
		two("gradient scaler", "seen", func(run *evidence.Run) string {
			if run.Steps.Number == nil {
				return ""
			}
			return map[bool]string{true: "yes", false: "no"}[run.Numerics.Scaler]
		}),
		two("float32 products on CUDA", "the setting as training began",
			setting("torch.backends.cuda.matmul.fp32_precision", "torch.set_float32_matmul_precision")),
		two("float32 convolutions on CUDA", "the setting as training began",
			setting("torch.backends.cudnn.conv.fp32_precision", "torch.backends.cudnn.allow_tf32")),
		two("weights of convolutions", notRecorded, func(*evidence.Run) string { return "" }),
		two("statistics of batch normalisation", notRecorded, func(*evidence.Run) string { return "" }),
		two("reductions", "no run records in which type a kernel adds up", func(*evidence.Run) string { return "" }),
	}
}

func lever(run *evidence.Run, name string) string {
	for _, l := range run.Levers {
		if l.Lever == name && l.Done {
			return orNone(l.Note)
		}
	}
	return "none"
}

// typed is a tensor as the evidence writes it: float32[16, 3, 8, 8] on cpu.
var typed = regexp.MustCompile(`([a-z][a-z0-9_]*)\[`)

// inputTypes are those of the tensors that entered the model.
func inputTypes(run *evidence.Run) string {
	var types []string
	for _, s := range run.Shapes {
		for _, m := range typed.FindAllStringSubmatch(s.Inputs, -1) {
			if !slices.Contains(types, m[1]) {
				types = append(types, m[1])
			}
		}
	}
	return strings.Join(types, ", ")
}
