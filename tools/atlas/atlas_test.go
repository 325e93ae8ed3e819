package main

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/atlas"
	"assay/internal/testkit"
	"assay/internal/testset"
)

const tablesFolder = "../../internal/atlas/tables"

// wheelOf writes a wheel with the given files.
func wheelOf(t *testing.T, name, version string, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+"-"+version+"-cp311-none-macosx_11_0_arm64.whl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	files[name+"-"+version+".dist-info/METADATA"] = "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version +
		"\n\nName: not-this\n"
	for file, text := range files {
		w, err := z.CreateHeader(&zip.FileHeader{Name: file}) // stored, not compressed
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// TestRefuses: what is no macOS wheel with MPS in it stops the generator before any table is touched.
func TestRefuses(t *testing.T) {
	const list = "- func: abs(Tensor self) -> Tensor\n  dispatch:\n    CPU: abs\n"
	whole := wheelOf(t, "torch", "9.9.9", map[string]string{operatorList: list, torchLibrary: "not a library"})
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "torch-9.9.9-cp311-none-macosx_11_0_arm64.whl")
	damaged := bytes.Replace(text, []byte("not a library"), []byte("not A library"), 1)
	broken := filepath.Join(t.TempDir(), "torch-9.9.9-cp311-none-macosx_11_0_arm64.whl")
	for file, content := range map[string][]byte{short: text[:len(text)/2], broken: damaged} {
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ wheel, want string }{
		"cut off":    {short, "open wheel"},
		"damaged":    {broken, "checksum"},
		"no library": {whole, "invalid magic number"},
		"for Linux":  {wheelOf(t, "torch", "9.9.9", map[string]string{operatorList: list}), "not a wheel for macOS"},
		"no list":    {wheelOf(t, "torch", "9.9.9", map[string]string{torchLibrary: "x"}), "no torchgen/packaged"},
		"another":    {wheelOf(t, "numpy", "2.0.0", map[string]string{}), "a wheel of numpy"},
		"not there":  {filepath.Join(t.TempDir(), "none.whl"), "no such file"},
		"list nonsense": {wheelOf(t, "torch", "9.9.9", map[string]string{operatorList: "- func: abs\n",
			torchLibrary: "x"}), "is no schema"},
	} {
		folder := t.TempDir()
		err := run(t.Context(), options{tables: folder}, []string{c.wheel}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(),
			"no table was touched") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
		if left, _ := os.ReadDir(folder); len(left) > 0 {
			t.Errorf("%s: wrote %v", name, left)
		}
	}
}

// TestNoMPS: a library that registers nothing for MPS is not taken for a release in which all is missing.
func TestNoMPS(t *testing.T) {
	listed := operators{"abs": {keyImplicit: true}}
	if _, err := joinTorch(listed, nil, &registry{defined: map[string]map[string]bool{"aten": {"abs": true}}},
		nil); err == nil || !strings.Contains(err.Error(), "no MPS in it") {
		t.Error(err)
	}
	if _, err := joinTorch(operators{"abs": {keyMPS: true}}, nil,
		&registry{defined: map[string]map[string]bool{"aten": {"abs": true}}}, nil); err == nil ||
		!strings.Contains(err.Error(), "registers 0") {
		t.Error(err)
	}
}

// TestOperatorList holds our reading of the operator list against torchgen's own, over the list that the installed
// torch packs.
func TestOperatorList(t *testing.T) {
	const script = `
import json, os, sys, torchgen
from torchgen.gen import parse_native_yaml
from torchgen.model import DispatchKey
base = os.path.join(os.path.dirname(torchgen.__file__), "packaged", "ATen", "native")
parsed = parse_native_yaml(os.path.join(base, "native_functions.yaml"), os.path.join(base, "tags.yaml"))
names = [k for k in ("MPS", "SparseMPS", "SparseCsrMPS", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")]
ops = {}
for f in parsed.native_functions:
    keys = []
    for k in names:
        index = parsed.backend_indices.get(DispatchKey.parse(k))
        kernel = index.get_kernel(f) if index else None
        if kernel is not None:
            keys.append(k)
    # a structured variant takes its out variant's backend kernels, and is generated for all backends
    if f.structured_delegate is not None:
        out = next(g for g in parsed.native_functions if g.func.name == f.structured_delegate)
        keys += [k for k in names[:3] if parsed.backend_indices.get(DispatchKey.parse(k)) and parsed.backend_indices[DispatchKey.parse(k)].has_kernel(out)]
        keys += [k for k in names[3:5] if parsed.backend_indices[DispatchKey.parse(k)].has_kernel(out)]
        keys.append(names[5])
    ops[str(f.func.name)] = sorted(set(keys))
print(json.dumps({"list": open(os.path.join(base, "native_functions.yaml")).read(), "ops": ops}))
`
	out, err := exec.Command(testkit.Python(t), "-c", script).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, err.(*exec.ExitError).Stderr)
	}
	var oracle struct {
		List string
		Ops  map[string][]string
	}
	if err := json.Unmarshal(out, &oracle); err != nil {
		t.Fatal(err)
	}
	got, made, err := parseOperatorList([]byte(oracle.List))
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for name, want := range oracle.Ops {
		ks, ok := got[name]
		if !ok {
			t.Errorf("%s is not found", name)
			continue
		}
		for _, k := range []string{keyMPS, keySparse, keySparseCsr, keyImplicit, keyExplicit, keyNonFunctional} {
			if has := strings.Contains(" "+strings.Join(want, " ")+" ", " "+k+" "); has != ks[k] && wrong < 20 {
				wrong++
				t.Errorf("%s under %s: torchgen says %v, we %v", name, k, has, ks[k])
			}
		}
	}
	for name := range got {
		if _, ok := oracle.Ops[name]; !ok && made[name].how != "autogen" {
			// torchgen leaves out those that would copy a composite
			t.Errorf("%s: torchgen has no such operator", name)
		}
	}
}

// TestComposed holds the table's composed operators against the dispatcher of the installed torch: the kernels for all
// devices are the same ones on Linux. The states come from the macOS library, so this crosses both systems.
func TestComposed(t *testing.T) {
	const script = `
import json, torch
has = torch._C._dispatch_has_kernel_for_dispatch_key
names = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")]
print(json.dumps({"release": torch.__version__, "ops": {n: any(has(n, k) for k in ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")) for n in names}}))
`
	out, err := exec.Command(testkit.Python(t), "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	var oracle struct {
		Release string
		Ops     map[string]bool
	}
	if err := json.Unmarshal(out, &oracle); err != nil {
		t.Fatal(err)
	}
	a := &atlas.Atlas{}
	release, err := a.Release("torch", oracle.Release)
	if err != nil {
		t.Fatal(err)
	}
	cells := a.Table("torch").Column(release.Column)
	compared := 0
	for op, cell := range cells {
		composite, ok := oracle.Ops[op]
		if !ok { // Linux builds of this operator are not there, or it is no aten operator
			continue
		}
		compared++
		if how, _ := a.Generated(op); atlas.State(cell) == atlas.Composed && !composite {
			t.Errorf("%s: composed in the table, but the dispatcher has no kernel for all devices", op)
		} else if atlas.State(cell) == atlas.Missing && composite && how != "structured" {
			t.Errorf("%s: missing in the table, but the dispatcher has a kernel for all devices", op)
		}
	}
	if compared < 2500 {
		t.Errorf("only %d operators could be compared", compared)
	}
}

// TestAddRelease: the one command adds a release that the tables do not have yet, and what comes out is what is
// committed. torchvision's wheel is small enough for every test run; torch's goes the same way.
func TestAddRelease(t *testing.T) {
	testset.FullOnly(t) // it wants the network
	folder := t.TempDir()
	wheels := t.TempDir()
	for _, file := range []string{"torchvision.txt", "releases.txt", "disagreements.txt", "generated.txt"} {
		text, err := os.ReadFile(filepath.Join(tablesFolder, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, file), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(folder, "torchvision.txt")
	committed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table, err := atlas.ParseTable(committed)
	if err != nil {
		t.Fatal(err)
	}
	at := len(table.Columns)
	for i, c := range table.Columns {
		if c == "0.23" {
			at = i
		}
	}
	table.Columns = append(table.Columns[:at:at], table.Columns[at+1:]...)
	for i, r := range table.Rows {
		table.Rows[i].Cells = r.Cells[:at] + r.Cells[at+1:]
	}
	var without bytes.Buffer
	if _, err := table.WriteTo(&without); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(without.Bytes(), committed) {
		t.Fatal("nothing was taken out")
	}
	if err := os.WriteFile(path, without.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), options{tables: folder, wheels: wheels, python: testkit.Python(t)},
		[]string{"torchvision==0.23.0"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"torchvision.txt", "releases.txt", "disagreements.txt", "generated.txt"} {
		got, _ := os.ReadFile(filepath.Join(folder, file))
		want, _ := os.ReadFile(filepath.Join(tablesFolder, file))
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not as committed: %d bytes, %d", file, len(got), len(want))
		}
	}
	if err := run(t.Context(), options{tables: folder, wheels: wheels, python: testkit.Python(t)},
		[]string{"torchvision==0.999.0"}, io.Discard); err == nil || !strings.Contains(err.Error(),
		"torchvision==0.999.0") {
		t.Errorf("a release that does not exist: %v", err)
	}
}

// code assembles instruction words.
func code(words ...uint32) []byte {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// An image in which the code lies at 0x10000, strings at 0x20000, and data symbols at 0x30000.
func madeUp(fn string, words ...uint32) *image {
	return &image{
		code: code(words...), codeAddr: 0x10000,
		text:     []byte("abs.out\x00fill_.Scalar\x00add.Tensor(Tensor self, Tensor other) -> Tensor\x00"),
		textAddr: 0x20000,
		syms:     []symbol{{0x10000, fn}},
		names:    map[uint64]string{0x10000: fn, 0x30010: "__ZN2at6native8exp_stubE"},
	}
}

// Words as `llvm-mc -triple=arm64 --show-encoding` gives them.
const (
	adrpX1   = 0x90000081 // adrp x1, #0x10000
	addX1    = 0x91000021 // add x1, x1, #0
	addX18   = 0x91002021 // add x1, x1, #8
	adrpX0   = 0xb0000100 // adrp x0, #0x21000
	ldrX1    = 0xf9400021 // ldr x1, [x1]
	callSelf = 0x97ffffff // bl #-4
	ret      = 0xd65f03c0
)

func TestReferences(t *testing.T) {
	im := madeUp("__ZN2atL34TORCH_LIBRARY_IMPL_init_aten_MPS_3ERN5torch7LibraryE", adrpX1, addX18, ret)
	if refs := im.references(0); len(refs) != 1 || refs[0].text != "fill_.Scalar" {
		t.Errorf("%+v", refs)
	}
	im = madeUp("f", adrpX1, ldrX1, addX18, ret) // the load changes x1, so that the sum is no address of ours
	if refs := im.references(0); len(refs) != 0 {
		t.Errorf("a register that was loaded: %+v", refs)
	}
	im = madeUp("f", adrpX1, callSelf, addX18) // so may a call
	if refs := im.references(0); len(refs) != 1 || !refs[0].call {
		t.Errorf("a register across a call: %+v", refs)
	}
}

func TestRegistry(t *testing.T) {
	im := madeUp("__ZN2atL34TORCH_LIBRARY_IMPL_init_aten_MPS_3ERN5torch7LibraryE", adrpX1, addX1, ret)
	reg := readRegistry(im)
	if len(reg.registered) != 1 || reg.registered[0].overload != "abs.out" || reg.registered[0].key != "MPS" ||
		reg.registered[0].namespace != "aten" {
		t.Errorf("%+v", reg.registered)
	}
}

// FuzzReferences: code from elsewhere is only read, whatever it is.
func FuzzReferences(f *testing.F) {
	f.Add(code(adrpX1, addX18, adrpX0, callSelf, ret))
	f.Fuzz(func(t *testing.T, b []byte) {
		im := madeUp("f")
		im.code = b
		im.references(0)
		im.syms[0].addr = 0xfffffffffffffffc
		im.references(0)
	})
}

func TestImageRefuses(t *testing.T) {
	for _, b := range [][]byte{nil, []byte("MZ"), bytes.Repeat([]byte{0xfe, 0xed, 0xfa, 0xcf}, 64),
		{0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 9}} {
		if _, err := readImage(bytes.NewReader(b)); err == nil {
			t.Errorf("%x was taken for a library", b)
		}
	}
}
