package main

import (
	"bytes"
	"cmp"
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strings"

	"assay/internal/atlas"
)

// image is a macOS library for arm64, as far as its registrations need it: code, constant strings, symbols.
type image struct {
	code      []byte
	codeAddr  uint64
	text      []byte // the section of C strings
	textAddr  uint64
	syms      []symbol          // functions, by address
	constants []byte            // other constants, the texts of Metal sources among them
	names     map[uint64]string // of every defined symbol
}

type symbol struct {
	addr uint64
	name string
}

// Mach-O symbol types (mach-o/nlist.h).
const (
	symDebug   = 0xe0 // N_STAB
	symType    = 0x0e // N_TYPE
	symDefined = 0x0e // N_SECT
)

// readImage reads a library. A universal file gives its arm64 part.
func readImage(r io.ReaderAt) (*image, error) {
	f, err := macho.NewFile(r)
	if errors.Is(err, macho.ErrNotFat) || err != nil {
		fat, fatErr := macho.NewFatFile(r)
		if fatErr != nil {
			return nil, err
		}
		for _, arch := range fat.Arches {
			if arch.Cpu == macho.CpuArm64 {
				f, err = arch.File, nil
			}
		}
		if err != nil {
			return nil, errors.New("a universal library without an arm64 part")
		}
	}
	if f.Cpu != macho.CpuArm64 {
		return nil, fmt.Errorf("built for %v, not for arm64", f.Cpu)
	}
	if f.Symtab == nil {
		return nil, errors.New("no symbol table")
	}
	im := &image{names: map[uint64]string{}}
	var index uint8
	for i, s := range f.Sections {
		switch {
		case s.Seg == "__TEXT" && s.Name == "__text":
			im.codeAddr, index = s.Addr, uint8(i+1)
			im.code, err = s.Data()
		case s.Seg == "__TEXT" && s.Name == "__cstring":
			im.textAddr = s.Addr
			im.text, err = s.Data()
		case s.Seg == "__TEXT" && s.Name == "__const":
			im.constants, err = s.Data()
		}
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", s.Name, err)
		}
	}
	if im.code == nil || im.text == nil {
		return nil, errors.New("no code or no strings in it")
	}
	for _, s := range f.Symtab.Syms {
		if s.Type&symDebug != 0 || s.Type&symType != symDefined {
			continue
		}
		im.names[s.Value] = s.Name
		if s.Sect == index {
			im.syms = append(im.syms, symbol{s.Value, s.Name})
		}
	}
	sort.SliceStable(im.syms, func(i, j int) bool { return im.syms[i].addr < im.syms[j].addr })
	return im, nil
}

// reference is something whose address the code of a function takes: a constant string, or a named symbol.
type reference struct {
	text string // a constant string
	name string // a symbol's name, when it is no string
	addr uint64
	call bool // jumped to, not only taken the address of
}

// references lists what the function at syms[i] takes the address of, in order. Compilers for arm64 load an address by
// ADRP, the page, and ADD, the offset in it; a near one by ADR alone. What it jumps to, by B or BL, is listed as well.
func (im *image) references(i int) []reference {
	start, end := im.syms[i].addr, im.codeAddr+uint64(len(im.code))
	for j := i + 1; j < len(im.syms); j++ {
		if im.syms[j].addr > start {
			end = im.syms[j].addr
			break
		}
	}
	if start < im.codeAddr || start >= end || end > im.codeAddr+uint64(len(im.code)) || start%4 != 0 {
		return nil
	}
	var refs []reference
	var page [32]uint64
	add := func(addr uint64, call bool) {
		if addr >= im.textAddr && addr < im.textAddr+uint64(len(im.text)) {
			s := im.text[addr-im.textAddr:]
			if n := bytes.IndexByte(s, 0); n >= 0 {
				refs = append(refs, reference{text: string(s[:n]), addr: addr})
			}
		} else if name, ok := im.names[addr]; ok {
			refs = append(refs, reference{name: name, addr: addr, call: call})
		}
	}
	for pc := start; pc+4 <= end; pc += 4 {
		w := binary.LittleEndian.Uint32(im.code[pc-im.codeAddr:])
		rd, rn := w&31, w>>5&31
		near := int64(int32((w>>5&0x7ffff<<2|w>>29&3)<<11) >> 11) // the signed 21 bits of ADR and ADRP
		switch {
		case w&0x9f000000 == 0x90000000: // ADRP
			page[rd] = pc&^0xfff + uint64(near<<12)
		case w&0x9f000000 == 0x10000000: // ADR
			page[rd] = 0
			add(pc+uint64(near), false)
		case w&0xffc00000 == 0x91000000: // ADD, 64 bits, immediate
			base := page[rn]
			if page[rd] = 0; base != 0 {
				add(base+uint64(w>>10&0xfff), false)
			}
		case w&0x7c000000 == 0x14000000: // B, BL
			if add(pc+uint64(int64(int32(w<<6)>>6)<<2), true); w>>31 == 1 {
				clear(page[:19]) // a call may change x0 to x18
			}
		case w>>26&7 == 4, w>>25&7 == 5, w>>25&5 == 4 && w>>22&1 == 1: // arithmetic, immediate or in registers; a load
			page[rd] = 0
		}
	}
	return refs
}

// TORCH_LIBRARY(ns), TORCH_LIBRARY_FRAGMENT(ns) and TORCH_LIBRARY_IMPL(ns, key) each make a function of this name
// (torch/library.h), which names every operator that it defines or implements.
var (
	initDefine    = regexp.MustCompile(`TORCH_LIBRARY_(?:FRAGMENT_)?init_(.+?)(?:_\d+)?E?RN5torch7LibraryE$`)
	initImplement = regexp.MustCompile(`TORCH_LIBRARY_IMPL_init_(.+)_([A-Za-z0-9]+)_\d+E?RN5torch7LibraryE$`)
	stableDefine  = regexp.MustCompile(`STABLE_TORCH_LIBRARY_(?:FRAGMENT_)?static_init_(.+?)_\d+E?$`)
	stableImpl    = regexp.MustCompile(`STABLE_TORCH_LIBRARY_IMPL_static_init_(.+)_([A-Za-z0-9]+)_\d+E?$`)
	operatorName  = regexp.MustCompile(`^(?:([A-Za-z_]\w*)::)?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)$`)
	schema        = regexp.MustCompile(`^(?:([A-Za-z_]\w*)::)?([A-Za-z_]\w*(?:\.\w+)?)\(.*\) ?-> ?.+`)
)

// registration is one m.impl: an operator overload, the key that it was registered under, and what for.
type registration struct {
	namespace, overload, key string

	kernel string // the mangled symbol whose address was loaded last before the name; "" where none was
	file   string // the source file whose static initialiser ran it
}

// registry is what a library registers with PyTorch's dispatcher, read from its code.
type registry struct {
	defined    map[string]map[string]bool // namespace → overloads
	registered []registration
	stubs      map[string]bool // dispatch stubs that got an MPS kernel
	lacking    map[string]bool // overloads of aten whose kernel for MPS goes through stubs that all lack one
	throughOne int             // how many kernels for MPS go through a stub
}

// readRegistry reads the functions that register operators. It needs the local symbols, which PyTorch's macOS wheels
// keep.
func readRegistry(im *image) *registry {
	reg := &registry{defined: map[string]map[string]bool{}, stubs: map[string]bool{}, lacking: map[string]bool{}}
	at := map[string]int{}
	files := map[uint64]string{} // of an initialiser's address
	for i, s := range im.syms {
		at[s.name] = i
		file, ok := strings.CutPrefix(s.name, "_GLOBAL__sub_I_")
		if !ok {
			continue
		}
		refs := im.references(i)
		reg.stable(refs, file)
		for _, ref := range refs {
			if ref.name == "" {
				continue
			}
			if strings.Contains(ref.name, "TORCH_LIBRARY_") {
				files[ref.addr] = file
			}
			// REGISTER_DISPATCH in an Objective-C++ file gives the stub its MPS kernel (ATen/native/DispatchStub.h).
			if stub := stubName(ref.name); stub != "" && strings.HasSuffix(file, ".mm") {
				reg.stubs[stub] = true
			}
		}
	}
	for i, s := range im.syms {
		if m := initImplement.FindStringSubmatch(s.name); m != nil {
			reg.implementations(im.references(i), m[1], m[2], files[s.addr])
		} else if m := initDefine.FindStringSubmatch(s.name); m != nil {
			reg.definitions(im.references(i), m[1])
		}
	}
	for _, r := range reg.registered {
		if r.key != keyMPS || r.namespace != "aten" {
			continue
		}
		if stubs := im.stubs(at, r.kernel); len(stubs) > 0 {
			reg.throughOne++
			reg.lacking[r.overload] = !slices.ContainsFunc(stubs, func(s string) bool { return reg.stubs[s] })
		}
	}
	return reg
}

// stable reads the registrations that a static initialiser makes through the stable interface
// (torch/csrc/stable/library.h), where the body of STABLE_TORCH_LIBRARY_IMPL(ns, key) is no function of its own: the
// object is named first, then what it implements.
func (reg *registry) stable(refs []reference, file string) {
	start, from := func([]reference) {}, 0
	for i, ref := range refs {
		begin := start
		if m := stableImpl.FindStringSubmatch(ref.name); m != nil {
			begin = func(refs []reference) { reg.implementations(refs, m[1], m[2], file) }
		} else if m := stableDefine.FindStringSubmatch(ref.name); m != nil {
			begin = func(refs []reference) { reg.definitions(refs, m[1]) }
		} else {
			continue
		}
		start(refs[from:i])
		start, from = begin, i+1
	}
	start(refs[from:])
}

// stubs lists the dispatch stubs that a registered kernel names: it or what the generated wrapper calls in at::native.
func (im *image) stubs(at map[string]int, kernel string) (stubs []string) {
	seen := map[string]bool{}
	var walk func(string)
	walk = func(name string) {
		i, ok := at[name]
		if !ok || seen[name] {
			return
		}
		seen[name] = true
		for _, ref := range im.references(i) {
			if stub := stubName(ref.name); stub != "" {
				stubs = append(stubs, stub)
			} else if strings.Contains(ref.name, "wrapper_MPS") || strings.Contains(name, "wrapper_MPS") &&
				strings.HasPrefix(ref.name, "__ZN2at6native") {
				walk(ref.name)
			}
		}
	}
	walk(kernel)
	return stubs
}

// definitions reads m.def calls: a schema, or a full name whose schema follows from the function's type.
func (reg *registry) definitions(refs []reference, namespace string) {
	for _, ref := range refs {
		op := schema.FindStringSubmatch(ref.text)
		if op == nil {
			if op = operatorName.FindStringSubmatch(ref.text); op == nil || op[1] != namespace {
				continue
			}
		}
		ns := cmp.Or(op[1], namespace)
		if reg.defined[ns] == nil {
			reg.defined[ns] = map[string]bool{}
		}
		reg.defined[ns][op[2]] = true
	}
}

func (reg *registry) implementations(refs []reference, namespace, key, file string) {
	kernel := ""
	for _, ref := range refs {
		op := operatorName.FindStringSubmatch(ref.text)
		switch {
		case ref.call, strings.HasPrefix(ref.name, "__ZTI"), strings.Contains(ref.name, "make_boxed_from_unboxed"):
		case ref.name != "":
			kernel = ref.name
		case op != nil:
			ns := cmp.Or(op[1], namespace)
			reg.registered = append(reg.registered, registration{namespace: ns, overload: op[2], key: key,
				kernel: kernel, file: file})
			kernel = ""
		}
	}
}

// operators folds the registrations of one namespace into the form that the operator list has. An m.impl of a name that
// was never defined is something else that looks like one, and is left out.
func (reg *registry) operators(namespace string) operators {
	ops := operators{}
	for name := range reg.defined[namespace] {
		ops[name] = keys{}
	}
	for _, r := range reg.registered {
		if ks := ops[r.overload]; r.namespace == namespace && ks != nil {
			ks.add(r.key)
		}
	}
	return ops
}

// fallbackFile registers operators to run on the CPU, whatever PYTORCH_ENABLE_MPS_FALLBACK says, and one,
// _slow_conv2d_forward, to raise: the only kernel in it that has a name.
const fallbackFile = "MPSFallback.mm"

// special says which registrations for MPS are no kernels for it.
func (reg *registry) special() map[string]atlas.State {
	found := map[string]atlas.State{}
	for op, lacking := range reg.lacking {
		if lacking {
			found[op] = atlas.NoStub
		}
	}
	for _, r := range reg.registered {
		switch {
		case r.key != keyMPS || r.file != fallbackFile || r.namespace != "aten":
		case r.kernel == "" || strings.Contains(r.kernel, "mps_fallback"):
			found[r.overload] = atlas.CPU
		default:
			found[r.overload] = atlas.Raises
		}
	}
	return found
}

// stubName returns the name of a dispatch stub from its mangled symbol, __ZN2at6native8exp_stubE, or "".
func stubName(mangled string) string {
	inner, ok := strings.CutSuffix(strings.TrimPrefix(mangled, "__ZN2at6native"), "_stubE")
	if !ok {
		return ""
	}
	return strings.TrimLeft(inner, "0123456789") + "_stub"
}
