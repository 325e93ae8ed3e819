package atlas

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"assay/internal/testkit"
)

// TestNamesAgreeWithTorch: which operator a function of torch's binds is what TorchScript's own table says
// (torch.jit._builtins), for every one that was traced.
func TestNamesAgreeWithTorch(t *testing.T) {
	const list = `
import torch
from torch.jit import _builtins
_builtins._get_builtin_table()
for prefix, space in (("torch", torch), ("torch.nn.functional", torch.nn.functional), ("torch.linalg", torch.linalg),
                      ("torch.fft", torch.fft), ("torch.special", torch.special)):
    for name in dir(space):
        operator = callable(getattr(space, name)) and _builtins._find_builtin(getattr(space, name))
        if operator:
            print(prefix + "." + name, operator)
`
	out, err := exec.Command(testkit.Python(t), "-c", list).Output()
	if err != nil {
		t.Fatal(err)
	}
	// TorchScript has an operator for what is Python, or a binding of several operators, outside it.
	python := strings.Fields("as_tensor broadcast_shapes manual_seed pca_lowrank svd_lowrank tensor unravel_index " +
		"sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor " +
		"sparse_csr_tensor conj")
	also := map[string]string{"torch._foreach_add": "aten::item", "torch._foreach_add_": "aten::item",
		"torch.nonzero": "aten::nonzero_numpy", "torch.split": "aten::split_with_sizes"}
	a := &Atlas{}
	held := 0
	for line := range strings.Lines(string(out)) {
		name, operator, _ := strings.Cut(strings.TrimSpace(line), " ")
		api, ok := a.API(name)
		if !ok || api.Name != name || slices.Contains(python, strings.TrimPrefix(name, "torch.")) {
			continue
		}
		held++
		for _, c := range api.Forward {
			if base, _, _ := strings.Cut(c.Operator, "."); base != operator && base != also[name] {
				t.Errorf("%s calls %s, and binds %s", name, c.Operator, operator)
			}
		}
		if len(api.Forward) == 0 {
			t.Errorf("%s calls nothing, and binds %s", name, operator)
		}
	}
	if held < 700 {
		t.Errorf("%d functions were held against torch's table", held)
	}
}
