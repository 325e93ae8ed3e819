package facts

import (
	"strings"
	"testing"

	"assay/internal/atlas"
)

// TestRemedies: the refusals are real ones, as PyTorch's sources word them; what is to be done is the atlas's rows.
func TestRemedies(t *testing.T) {
	const (
		float64Text = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. " +
			"Please use float32 instead."
		cudaText = "Torch not compiled with CUDA enabled"
	)
	for _, c := range []struct {
		release, operator, cause, text string
		want                           string // begins and ends so, where it has an ellipsis
	}{
		{"2.8.0", "aten::max_pool3d_with_indices", "missing", "",
			"native from torch 2.9 on; PYTORCH_ENABLE_MPS_FALLBACK=1, set before Python starts, runs it on the CPU"},
		{"2.8.0", "aten::linalg_eig", "missing", "",
			"no release up to torch 2.15 has a kernel; PYTORCH_ENABLE_MPS_FALLBACK=1, …"},
		{"2.8.0", "aten::mul.Tensor", "missing",
			"Could not run 'aten::mul.Tensor' with arguments from the 'SparseMPS' backend.",
			"PYTORCH_ENABLE_MPS_FALLBACK does not reach a sparse tensor: …"},
		{"2.8.0", "aten::mul.Tensor", "missing",
			"Could not run 'aten::mul.Tensor' with arguments from the 'QuantizedMPS' backend.",
			"PYTORCH_ENABLE_MPS_FALLBACK does not reach a quantised tensor: …"},
		{"2.1.0", "torchvision::roi_align", "missing", "",
			"native from torchvision 0.16 on, with wrong results until torchvision 0.29 …"},
		{"2.8.0", "mine::frob", "missing", "",
			"PYTORCH_ENABLE_MPS_FALLBACK=1, set before Python starts, runs it on the CPU"},
		{"2.8.0", "aten::_to_copy", "dtype", float64Text, "…float32…"},
		{"2.8.0", "aten::add", "device", cudaText, "it asks for CUDA by name: …"},
		{"2.8.0", "aten::add", "device", "nobody wrote this", "move the tensors to one device before the call"},
		{"2.8.0", "aten::add", "memory", "nobody wrote this", "try a smaller batch, …"},
		{"2.8.0", "aten::add", "argument", "nobody wrote this", ""},
		{"2.8.0", "aten::nonzero", "values", "nobody wrote this", "rehearse it with data: without --shape-only"},
	} {
		got := Load().Remedies(&atlas.Atlas{}, c.release).Of(c.operator, c.cause, c.text)
		parts := strings.Split(c.want, "…")
		ok := got == c.want
		if len(parts) > 1 {
			ok = strings.HasPrefix(got, parts[0]) && strings.HasSuffix(got, parts[len(parts)-1]) &&
				strings.Contains(got, parts[1])
		}
		if !ok {
			t.Errorf("%s of %s: %q, want %q", c.cause, c.operator, got, c.want)
		}
	}
}

// TestRemedyOfAStub: an operator that is registered and raises is not reached by the fallback. Which are, the tables
// say.
func TestRemedyOfAStub(t *testing.T) {
	a := &atlas.Atlas{}
	stubs := 0
	for _, r := range a.Releases("torch") {
		remedies := Load().Remedies(a, r.Version)
		for operator, state := range a.Table("torch").Column(r.Column) {
			if atlas.State(state) != atlas.NoStub && atlas.State(state) != atlas.Raises {
				continue
			}
			stubs++
			if got := remedies.Of(operator, "missing", ""); !strings.HasSuffix(got,
				"PYTORCH_ENABLE_MPS_FALLBACK does not reach it: call it on CPU tensors") {
				t.Errorf("%s, %s in torch %s: %s", operator, atlas.State(state), r.Version, got)
			}
		}
	}
	if stubs == 0 {
		t.Error("no release has such an operator: the test says nothing")
	}
}

// TestRemedyOfACondition: for each text of the atlas with a remedy, one that holds is found by the text as it would be
// printed.
func TestRemedyOfACondition(t *testing.T) {
	a := &atlas.Atlas{}
	all := map[string]bool{"": false}
	for _, c := range Load().All {
		all[c.Remedy] = true
		if c.Fixed != "" {
			all[strings.TrimPrefix(c.Remedy+"; right from torch "+c.Fixed+" on", "; ")] = true
		}
	}
	newest := a.Releases("torch")
	remedies := Load().Remedies(a, newest[len(newest)-1].Version)
	looked := 0
	for _, c := range Load().All {
		if c.Remedy == "" || !c.Holds(remedies.release) || len(blank.ReplaceAllString(c.Text, "")) < minText {
			continue
		}
		looked++
		if got := remedies.Of(c.Meets[0], "argument", "first line\n"+blank.ReplaceAllString(c.Text,
			"7\n7")); !all[got] {
			t.Errorf("%s: %q", c.Name, got)
		}
	}
	if looked < 20 {
		t.Errorf("only %d conditions looked at", looked)
	}
}

// TestWordings: of made-up conditions, the one about the operator goes before a longer text about any, and what does
// not hold, says nothing to do or could stand in any error is not looked for.
func TestWordings(t *testing.T) {
	rows := []*Fact{
		{Name: "any", Meets: []string{"*"}, Text: "Expected {a} to be (one) of the {b} dimensions", Remedy: "ask"},
		{Name: "mine", Meets: []string{"aten::mine"}, Text: "to be (one) of", Remedy: "reshape"},
		{Name: "old", Meets: []string{"*"}, Text: "Expected much of what was before", Until: "2.5.1",
			Remedy: "wait"},
		{Name: "silent", Meets: []string{"*"}, Text: "Expected nothing to be done"},
		{Name: "short", Meets: []string{"*"}, Text: "bad {whatever is said here}", Remedy: "guess"},
		{Name: "fixed", Meets: []string{"*"}, Text: "comes out wrong {here}", Fixed: "2.9.0"},
		{Name: "both", Meets: []string{"*"}, Text: "comes out odd {here}", Fixed: "2.9.0", Remedy: "copy first"},
	}
	r := &Remedies{table: Load(), atlas: &atlas.Atlas{}, release: "2.8.0", facts: wordings(rows, "2.8.0")}
	for _, c := range []struct{ operator, text, want string }{
		{"aten::other", "Expected 3\nor 4 to be (one) of the 5 dimensions", "ask"},
		{"aten::mine", "Expected 3 to be (one) of the 5 dimensions", "reshape"},
		{"aten::mine.out", "Expected 3 to be (one) of the 5 dimensions", "reshape"},
		{"aten::other", "Expected 3 to be one of the 5 dimensions", ""},
		{"aten::other", "Expected much of what was before", ""},
		{"aten::other", "Expected nothing to be done", ""},
		{"aten::other", "bad luck", ""},
		{"aten::other", "it comes out wrong there", "right from torch 2.9.0 on"},
		{"aten::other", "it comes out odd there", "copy first; right from torch 2.9.0 on"},
	} {
		if got := r.Of(c.operator, "argument", c.text); got != c.want {
			t.Errorf("%s, %q: %q, want %q", c.operator, c.text, got, c.want)
		}
	}
	if now := wordings(rows, "2.5.1"); len(now) != 5 {
		t.Errorf("in 2.5.1: %d", len(now))
	}
}

// TestNamesMPS: MPS as a word, and nothing that has the letters in it.
func TestNamesMPS(t *testing.T) {
	for text, want := range map[string]bool{
		"Cannot convert a MPS Tensor": true, "no such device: mps": true, "device='mps:0'": true, "MPSGraph": false,
		"clamps": false, "Mps": false, "": false,
	} {
		if NamesMPS(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
