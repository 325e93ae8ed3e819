package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"assay/internal/atlas"
)

// derived is what one wheel says.
type derived struct {
	release  atlas.Release
	cells    map[string]byte   // operator with namespace → state
	autocast map[string]byte   // operator → how autocast treats it on MPS
	sparse   map[string]byte   // operator → sparse layouts with a kernel
	texts    map[string]byte   // conditions whose message occurs in the wheel
	types    map[string]string // TensorFlow operator, without namespace → element types of its kernels
	made     map[string]generated
	differ   []disagreement
}

// disagreement is an operator of which the operator list and the library say different things.
type disagreement struct {
	operator      string
	list, library atlas.State
	why           string // the library is what it is
}

// torchLibrary holds PyTorch's kernels, on macOS those for MPS among them.
const torchLibrary = "torch/lib/libtorch_cpu.dylib"

// deriveTorch reads a torch wheel twice: the operator list that it packs, and what its library registers.
func deriveTorch(w *wheel, texts messages) (*derived, error) {
	text, err := w.read(operatorList)
	if err != nil {
		return nil, fmt.Errorf("%w: a torch wheel packs it since 1.13", err)
	}
	listed, made, err := parseOperatorList(text)
	if err != nil {
		return nil, err
	}
	if w.find(torchLibrary) == nil {
		return nil, fmt.Errorf("read %s: no %s in it: it is not a wheel for macOS", w.path, torchLibrary)
	}
	im, err := w.image(torchLibrary)
	if err != nil {
		return nil, err
	}
	inPython, err := w.pythonKernels()
	if err != nil {
		return nil, err
	}
	d, err := joinTorch(listed, made, readRegistry(im), inPython)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", w.path, err)
	}
	if d.texts, err = texts.occurring(w, im); err != nil {
		return nil, err
	}
	d.release, err = w.release()
	return d, err
}

// pythonKernels lists the operators that the wheel's Python registers for MPS when torch is imported: decompositions.
func (w *wheel) pythonKernels() (map[string]bool, error) {
	const file = "torch/backends/mps/__init__.py"
	text, err := w.read(file)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, m := range pythonImpl.FindAllSubmatch(text, -1) {
		found[string(m[1])] = true
	}
	return found, nil
}

var pythonImpl = regexp.MustCompile(`\.impl\(\s*"([\w.]+)",\s*\w+,\s*"MPS"\s*\)`)

// image reads a library of the wheel.
func (w *wheel) image(library string) (*image, error) {
	file, err := w.unpack(library)
	if err != nil {
		return nil, err
	}
	defer os.Remove(file)
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	im, err := readImage(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %s: %w", w.path, library, err)
	}
	return im, nil
}

// release describes the wheel; the column is settled when the tables are written.
func (w *wheel) release() (atlas.Release, error) {
	f, err := os.Open(w.path)
	if err != nil {
		return atlas.Release{}, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return atlas.Release{}, fmt.Errorf("read %s: %w", w.path, err)
	}
	r := atlas.Release{Package: w.name, Version: w.version, Torch: w.torch, Wheel: filepath.Base(w.path),
		SHA256: hex.EncodeToString(sum.Sum(nil))}
	if text, err := w.read(strings.ReplaceAll(w.name, "-", "_") + "/version.py"); err == nil {
		if m := builtFrom.FindSubmatch(text); m != nil {
			r.Commit = string(m[1])
		}
	}
	return r, nil
}

var builtFrom = regexp.MustCompile(`(?m)^git_version\s*=\s*'([0-9a-f]{40})'`)

// joinTorch compares the two readings. The library is believed where they differ: it is what runs.
func joinTorch(listed operators, made map[string]generated, reg *registry, inPython map[string]bool) (*derived, error) {
	seen := reg.operators("aten")
	native := func(ops operators) (n int) {
		for _, ks := range ops {
			if ks[keyMPS] {
				n++
			}
		}
		return n
	}
	switch inList, inLibrary := native(listed), native(seen); {
	case inList == 0 && inLibrary == 0:
		return nil, fmt.Errorf("no MPS in it: neither its list of %d operators nor its library has a kernel for MPS",
			len(listed))
	case inLibrary*10 < inList*9:
		return nil, fmt.Errorf("its list has %d kernels for MPS and its library registers %d: the library was made in a way that this does not read",
			inList, inLibrary)
	}
	d := &derived{cells: map[string]byte{}, autocast: map[string]byte{}, sparse: map[string]byte{},
		made: map[string]generated{}}
	byHand := reg.special()
	names := slices.AppendSeq(slices.Collect(maps.Keys(listed)), maps.Keys(seen))
	slices.Sort(names)
	unlisted := reg.unlisted(listed)
	for _, op := range slices.Compact(names) {
		if state, ok := unlisted["aten::"+op]; ok {
			d.cells["aten::"+op] = byte(state)
			continue
		}
		inList, inLibrary := listed.state(op, nil), seen.state(op, byHand)
		if out := made[op].around; made[op].how == "structured" {
			// composed only in that it allocates and calls the out variant
			if inList == atlas.Composed && listed.bare(op) {
				inList = listed.state(out, nil)
			}
			if inLibrary == atlas.Composed && seen.bare(op) {
				inLibrary = seen.state(out, byHand)
			}
		}
		if inPython[op] {
			inLibrary = atlas.Composed
		}
		if inLibrary != atlas.Undefined {
			d.cells["aten::"+op] = byte(inLibrary)
		}
		if inList != inLibrary {
			why := reg.why(op, made[op].around)
			if inPython[op] {
				why = "registered by torch/backends/mps/__init__.py, as a decomposition"
			}
			d.differ = append(d.differ, disagreement{"aten::" + op, inList, inLibrary, why})
		}
		if g, ok := made[op]; ok && inLibrary != atlas.Undefined {
			d.made["aten::"+op] = generated{g.how, "aten::" + g.around}
		}
		switch ks := seen[op]; {
		case ks[keySparse] && ks[keySparseCsr]:
			d.sparse["aten::"+op] = 'B'
		case ks[keySparse]:
			d.sparse["aten::"+op] = 'O'
		case ks[keySparseCsr]:
			d.sparse["aten::"+op] = 'R'
		}
	}
	for op, state := range unlisted {
		d.cells[op] = byte(state)
	}
	for _, r := range reg.registered {
		if m := castPolicy.FindStringSubmatch(r.kernel); m != nil && r.key == "AutocastMPS" {
			d.autocast[r.namespace+"::"+r.overload] = "LFFFW"[m[1][0]-'0']
		}
	}
	return d, nil
}

// castPolicy finds the policy among a kernel's template arguments: 0 lower_precision_fp, 1 to 3 fp32 and its two
// variants for operators that take a dtype, 4 promote (ATen/autocast_mode.h, enum class CastPolicy).
var castPolicy = regexp.MustCompile(`CastPolicyE([0-4])E`)

// why explains a difference between the list and the library.
func (reg *registry) why(op, out string) string {
	for _, r := range reg.registered {
		if r.key == keyMPS && r.namespace == "aten" && (r.overload == op || r.overload == out) {
			if r.overload == out && r.overload != op {
				return "calls " + out + ", registered in " + r.file
			}
			return "registered in " + r.file
		}
	}
	return "listed for generation, but not generated"
}

// unlisted tells the states of operators that the library defines and the list does not have, those of other namespaces
// among them, by full name. There is nothing to compare with.
func (reg *registry) unlisted(listed operators) map[string]atlas.State {
	states := map[string]atlas.State{}
	for ns, ops := range reg.defined {
		for op := range ops {
			if _, ok := listed[op]; !ok || ns != "aten" {
				states[ns+"::"+op] = atlas.Unknown // its function may be given where it is defined
			}
		}
	}
	forAll := map[string]bool{} // one function for all devices: it may be anything
	for _, r := range reg.registered {
		if r.key == keyImplicit || r.key == keyExplicit || r.key == "CatchAll" {
			forAll[r.namespace+"::"+r.overload] = true
		}
	}
	for _, r := range reg.registered {
		op := r.namespace + "::" + r.overload
		state, ok := states[op]
		switch {
		case ok && r.key == keyMPS:
			states[op] = atlas.Native
		case ok && state == atlas.Unknown && !forAll[op]:
			states[op] = atlas.Missing
		}
	}
	return states
}

// summary counts the states, for the line that is printed about a release.
func (d *derived) summary() string {
	count := map[atlas.State]int{}
	for _, cell := range d.cells {
		count[atlas.State(cell)]++
	}
	text := fmt.Sprintf("%d operators", len(d.cells))
	for _, s := range []atlas.State{atlas.Native, atlas.Composed, atlas.CPU, atlas.Raises, atlas.NoStub, atlas.Missing,
		atlas.Unknown} {
		if count[s] > 0 {
			text += fmt.Sprintf(", %d %s", count[s], s)
		}
	}
	return fmt.Sprintf("%s; the two readings differ on %d", text, len(d.differ))
}

// deriveExtension reads a torchvision or torchaudio wheel: what its libraries register, compared with the Metal sources
// in them.
func deriveExtension(w *wheel) (*derived, error) {
	all := &registry{defined: map[string]map[string]bool{}}
	sources := map[string]bool{} // files of kernels for MPS, and Metal functions, by name
	libraries := 0
	for _, f := range w.zip.File {
		if ext := filepath.Ext(f.Name); ext != ".so" && ext != ".dylib" || strings.Contains(f.Name, "/.dylibs/") {
			continue
		}
		im, err := w.image(f.Name)
		if err != nil {
			return nil, err
		}
		reg := readRegistry(im)
		all.registered = append(all.registered, reg.registered...)
		for ns, ops := range reg.defined {
			if all.defined[ns] == nil {
				all.defined[ns] = ops
				continue
			}
			maps.Copy(all.defined[ns], ops)
		}
		for _, text := range [][]byte{im.text, im.constants} {
			for _, m := range slices.Concat(mpsSource.FindAllSubmatch(text, -1),
				metalFunction.FindAllSubmatch(text, -1)) {
				sources[string(m[1])] = true
			}
		}
		libraries++
	}
	d := &derived{cells: map[string]byte{}}
	for op, state := range all.unlisted(nil) {
		d.cells[op] = byte(state)
	}
	if len(d.cells) == 0 {
		return nil, fmt.Errorf("read %s: none of its %d libraries for macOS registers an operator", w.path, libraries)
	}
	for _, op := range slices.Sorted(maps.Keys(d.cells)) {
		_, name, _ := strings.Cut(op, "::")
		inSource := atlas.Missing
		if sources[strings.TrimPrefix(name, "_")] {
			inSource = atlas.Native
		}
		if s := atlas.State(d.cells[op]); (s == atlas.Native) != (inSource == atlas.Native) {
			d.differ = append(d.differ, disagreement{op, inSource, s, "its sources and what is registered differ"})
		}
	}
	var err error
	d.release, err = w.release()
	return d, err
}

var (
	mpsSource     = regexp.MustCompile(`/csrc/ops/mps/(\w+)_kernel\.mm`)
	metalFunction = regexp.MustCompile(`kernel void (\w+)`)
)
