package weights

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTenThousandTensors are written, read and listed, a line each.
func TestTenThousandTensors(t *testing.T) {
	var plan []Tensor
	for i := range 10_000 {
		plan = append(plan, Tensor{Name: fmt.Sprintf("layers.%d.weight", i), DType: F32, Shape: []int64{2}})
	}
	path := filepath.Join(t.TempDir(), "many.safetensors")
	write(t, path, nil, plan)
	f := openFor(t, path)
	var b bytes.Buffer
	listed, table := f.Listed(), NewTable(&b, f, f.Tensors, false, 100)
	for _, one := range f.Tensors {
		row := RowOf(one, nil)
		listed.Add(row)
		if err := table.Row(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.End(listed); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\nlayers."); n != 10_000 {
		t.Errorf("%d lines", n)
	}
	if want := "\nF32: 10,000 tensors, 20,000 elements, 78.1 KiB\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("it ends in %q, want %q", b.String()[b.Len()-60:], want)
	}
}

// TestMuchMetadata: what a file says of itself does not push its tensors from the screen.
func TestMuchMetadata(t *testing.T) {
	f := &File{Path: "x", Format: "torch", Meta: map[string]string{}}
	for i := range 480 {
		f.Meta[fmt.Sprintf("layer%03d.__class__", i)] = "torch.nn.modules.conv.Conv2d"
	}
	var b bytes.Buffer
	NewTable(&b, f, nil, false, 100)
	if n := strings.Count(b.String(), "\n"); n != mostMeta+2 ||
		!strings.Contains(b.String(), "  and 440 more, in --json\n") {
		t.Errorf("%d lines:\n%s", n, b.String())
	}
}

// TestHostileText: names, metadata, notes of a stranger's move no cursor and begin no line.
func TestHostileText(t *testing.T) {
	f := &File{Path: "x\n\x1b[2J", Format: "npz", Meta: map[string]string{"k\x1b\n": "v\n\x1b]0;x\a"},
		Notes:   []string{"note\n\x1b[2J"},
		Tensors: []Tensor{{Name: "a\nb\x1b[31m\u202e", DType: F32, Shape: []int64{1}, Bytes: 4}}}
	var b bytes.Buffer
	table := NewTable(&b, f, f.Tensors, false, 100)
	listed := f.Listed()
	listed.Add(RowOf(f.Tensors[0], nil))
	if err := table.Row(listed.Tensors[0]); err != nil {
		t.Fatal(err)
	}
	if err := table.End(listed); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\a\u202e") {
		t.Errorf("%q", b.String())
	}
	if n := strings.Count(b.String(), "\n"); n != 8 {
		t.Errorf("%d lines, want 8:\n%s", n, b.String())
	}
}

// TestNamed: * stands for any characters, dots and slashes too.
func TestNamed(t *testing.T) {
	f := &File{Tensors: []Tensor{{Name: "a/b.c"}, {Name: "a.weight"}, {Name: "[x]"}}}
	for pattern, want := range map[string]string{"": "a/b.c a.weight [x]", "a*": "a/b.c a.weight", "*c": "a/b.c",
		"a?*": "a/b.c a.weight", "[ab]/?.c": "a/b.c", `\[x]`: "[x]", "none": ""} {
		list, err := f.Named(pattern)
		var names []string
		for _, one := range list {
			names = append(names, one.Name)
		}
		if err != nil || !slices.Equal(names, strings.Fields(want)) {
			t.Errorf("%q: %q, %v, want %q", pattern, names, err, want)
		}
	}
	if _, err := f.Named("["); err == nil {
		t.Error("[ is a pattern")
	}
}
