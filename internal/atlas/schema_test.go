package atlas

import (
	"slices"
	"testing"
)

// TestSchema: arguments as native_functions.yaml has them.
func TestSchema(t *testing.T) {
	a := &Atlas{}
	max := []string{"aten::max", "aten::max.dim", "aten::max.other"}
	if got := a.Overloads("aten::max"); !slices.Equal(got, max) {
		t.Errorf("the overloads of max: %v", got)
	}
	want := []Parameter{{Name: "A", Kind: 'T'}, {Name: "full_matrices", Kind: 'B', Optional: true},
		{Name: "driver", Kind: 'S', Optional: true, Keyword: true}}
	if got := a.Schema("aten::linalg_svd"); !slices.Equal(got, want) {
		t.Errorf("linalg_svd: %+v", got)
	}
	if a.Schema("aten::nothing") != nil || a.Overloads("aten::nothing") != nil {
		t.Error("an operator that is not there has arguments")
	}
}
