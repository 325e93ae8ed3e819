package atlas

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

func TestMain(m *testing.M) { os.Exit(testset.Run(m)) }

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

// TestTypesAgreeWithTorch: the element types of types.txt are those that PyTorch's database of operators gives for MPS
// (dtypesIfMPS, which its own tests hold to what a Mac does), for operators that one function stands for.
func TestTypesAgreeWithTorch(t *testing.T) {
	testset.FullOnly(t)
	const list = `
import sys, types, unittest
stub = types.ModuleType("expecttest")
stub.TestCase = unittest.TestCase
sys.modules.setdefault("expecttest", stub)
import torch
import torch.testing._internal.common_methods_invocations as database
for op in database.op_db:
    if not op.variant_test_name:
        print("torch." + op.name, *(str(d)[6:] for d in op.supported_dtypes("mps")))
`
	out, err := exec.Command(testkit.Python(t), "-W", "ignore", "-c", list).Output()
	if err != nil {
		t.Fatal(err)
	}
	a := &Atlas{}
	releases := a.Releases("torch")
	newest := releases[len(releases)-1].Column
	held, agree := 0, 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		api, ok := a.API(words[0])
		if !ok || len(api.Forward) != 1 {
			continue
		}
		given := a.Types(api.Forward[0].Operator, newest)
		if given == nil {
			continue
		}
		for dtype := range strings.FieldsSeq("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 complex64") {
			if slices.Contains(given, dtype+"?") {
				continue
			}
			held++
			if slices.Contains(given, dtype) == slices.Contains(words[1:], dtype) {
				agree++
			} else {
				t.Logf("%s of %s: here %v", dtype, words[0], slices.Contains(given, dtype))
			}
		}
	}
	if held < 2000 || agree*100 < held*94 {
		t.Errorf("%d of %d pairs of operator and type agree", agree, held)
	}
}
