package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/atlas"
)

// metalProgram is a plugin in small, assembled by llvm-mc: what clang makes of a short name, of one that operator new
// has room for, of a registration that depends on the version of macOS, and of a block that adds a constraint, with the
// code after an exception.
const metalProgram = `
_TF_InitKernel:
10000e40 adr x0, "GPU"
14000001 b RegisterDeviceKernels
__Z21RegisterDeviceKernelsPKc:
a9bf7bfd stp x29, x30, [sp, #-16]!
a9bf4ff4 stp x20, x19, [sp, #-16]!
aa0003f3 mov x19, x0
94000006 bl RegisterAddNKernels
aa1303e0 mov x0, x19
94000018 bl RegisterPadKernels
a8c14ff4 ldp x20, x19, [sp], #16
a8c17bfd ldp x29, x30, [sp], #16
d65f03c0 ret
__Z19RegisterAddNKernelsPKc:
d10103ff sub sp, sp, #64
a9037bfd stp x29, x30, [sp, #48]
9100c3fd add x29, sp, #48
52800088 mov w8, #4
381ef3a8 sturb w8, [x29, #-17]
528c8828 mov w8, #25665
72a9cc88 movk w8, #20068, lsl #16
b81d83a8 stur w8, [x29, #-40]
381dc3bf sturb wzr, [x29, #-36]
d100a3a1 sub x1, x29, #40
94000023 bl RegisterSimpleKernels<MPSAddNOp<float>, float>
38def3a8 ldursb w8, [x29, #-17]
36f80068 tbz w8, #31
f85d83a0 ldur x0, [x29, #-40]
9400004e bl ZdlPv
a9437bfd ldp x29, x30, [sp, #48]
910103ff add sp, sp, #64
d65f03c0 ret
aa0003f3 mov x19, x0
9400004c bl Unwind_Resume
__Z18RegisterPadKernelsPKc:
d10103ff sub sp, sp, #64
a9037bfd stp x29, x30, [sp, #48]
aa0003f3 mov x19, x0
94000047 bl isPlatformVersionAtLeast
34000240 cbz w0
52800400 mov w0, #32
94000043 bl Znwm
100009c8 adr x8, name
3dc00100 ldr q0, [x8]
3d800000 str q0, [x0]
3cc09100 ldur q0, [x8, #9]
3c809000 stur q0, [x0, #9]
3900641f strb wzr, [x0, #25]
d2800409 mov x9, #32
f2f00009 movk x9, #32768, lsl #48
52800328 mov w8, #25
a90127e8 stp x8, x9, [sp, #16]
f90007e0 str x0, [sp, #8]
910023e1 add x1, sp, #8
10000742 adr x2, literal
aa1303e0 mov x0, x19
94000018 bl RegisterKernel<MetalPadOp<float, int> >
a9437bfd ldp x29, x30, [sp, #48]
910103ff add sp, sp, #64
d65f03c0 ret
__ZN12metal_plugin21RegisterSimpleKernelsINS_9MPSAddNOpIfEEfEEvPKc:
a9be7bfd stp x29, x30, [sp, #-32]!
a9014ff4 stp x20, x19, [sp, #16]
aa0103f4 mov x20, x1
aa0003f5 mov x21, x0
39c05e88 ldrsb w8, [x20, #23]
aa1403e0 mov x0, x20
36f80048 tbz w8, #31
f9400280 ldr x0, [x20]
10000442 adr x2, CreateOpKernel<MPSAddNOp<float> >
aa1503e1 mov x1, x21
94000022 bl TF_NewKernelBuilder
aa0003f5 mov x21, x0
100005e1 adr x1, "T"
52800022 mov w2, #1
9400001f bl TF_KernelBuilder_TypeConstraint
aa1503e1 mov x1, x21
9400001e bl TF_RegisterKernelBuilder
a9414ff4 ldp x20, x19, [sp, #16]
a8c27bfd ldp x29, x30, [sp], #32
d65f03c0 ret
__ZN12metal_plugin14RegisterKernelINS_10MetalPadOpIfiEEEEvPKcU13block_pointer:
a9be7bfd stp x29, x30, [sp, #-32]!
aa0203f3 mov x19, x2
aa0003f5 mov x21, x0
39c05c28 ldrsb w8, [x1, #23]
aa0103e0 mov x0, x1
36f80048 tbz w8, #31
f9400020 ldr x0, [x1]
10000202 adr x2, CreateOpKernel<MetalPadOp<float, int> >
aa1503e1 mov x1, x21
9400000f bl TF_NewKernelBuilder
aa0003f4 mov x20, x0
f9400a68 ldr x8, [x19, #16]
aa1303e0 mov x0, x19
aa1403e1 mov x1, x20
d63f0100 blr x8
aa1403e1 mov x1, x20
a8c27bfd ldp x29, x30, [sp], #32
14000009 b TF_RegisterKernelBuilder
____Z18RegisterPadKernelsPKc_block_invoke:
aa0103e0 mov x0, x1
10000281 adr x1, "T"
52800262 mov w2, #19
14000004 b TF_KernelBuilder_TypeConstraint
__ZN12metal_pluginL14CreateOpKernelINS_9MPSAddNOpIfEEEEPvP23TF_OpKernelConstruction:
d65f03c0 ret
__ZN12metal_pluginL14CreateOpKernelINS_10MetalPadOpIfiEEEEPvP23TF_OpKernelConstruction:
d65f03c0 ret
_TF_NewKernelBuilder:
d65f03c0 ret
_TF_KernelBuilder_TypeConstraint:
d65f03c0 ret
_TF_RegisterKernelBuilder:
d65f03c0 ret
__ZdlPv:
d65f03c0 ret
__Znwm:
d65f03c0 ret
___isPlatformVersionAtLeast:
d65f03c0 ret
__Unwind_Resume:
d65f03c0 ret
d503201f nop
literal:
00000000 \x00\x00\x00\x00
00000000 \x00\x00\x00\x00
00000000 \x00\x00\x00\x00
00000000 \x00\x00\x00\x00
00010178 x\x01\x01\x00
80100000 \x00\x00\x10\x80
gpu:
00555047 GPU\x00
t:
00000054 T\x00\x00\x00
name:
7272694d Mirr
6150726f orPa
61724764 dGra
4c664f64 dOfL
4e676e6f ongN
58656d61 ameX
00000059 Y\x00\x00\x00
`

const metalBase = 0x10000

// assembled reads a listing: labels, and a word at the start of each other line.
func assembled(t testing.TB, listing string) *plugin {
	t.Helper()
	p := &plugin{image: &image{codeAddr: metalBase, names: map[uint64]string{}}, imports: map[uint64]string{}}
	for line := range strings.Lines(strings.TrimSpace(listing)) {
		at := metalBase + uint64(len(p.code))
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name, ok := strings.CutSuffix(first, ":"); ok {
			if p.names[at] = name; strings.HasPrefix(name, "_") {
				p.syms = append(p.syms, symbol{at, name})
			}
			if len(p.imports) > 0 && strings.HasPrefix(name, "_") || name == "_TF_NewKernelBuilder" { // the first stub
				p.imports[at] = name
			}
			continue
		}
		w, err := strconv.ParseUint(first, 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		p.code = binary.LittleEndian.AppendUint32(p.code, uint32(w))
	}
	p.fixed = []section{{metalBase, p.code}}
	return p
}

func TestMetal(t *testing.T) {
	p := assembled(t, metalProgram)
	kernels, err := p.kernels()
	if err != nil {
		t.Fatal(err)
	}
	d, err := joinMetal(kernels, p.creators())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(slices.Sorted(maps.Keys(d.cells))),
		"[tf::AddN tf::MirrorPadGradOfLongNameXY]"; got != want {
		t.Errorf("operators %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(metalTypes(kernels)), "map[AddN:float MirrorPadGradOfLongNameXY:half]"; got != want {
		t.Errorf("types %s, want %s", got, want)
	}
	if len(d.differ) > 0 {
		t.Errorf("two readings of one plugin differ: %v", d.differ)
	}
}

// file writes the plugin as a Mach-O library: its code, its stubs and its constants.
func (p *plugin) file() []byte {
	stubs := slices.Sorted(maps.Keys(p.imports))
	first, past := stubs[0]-metalBase, stubs[len(stubs)-1]-metalBase+4
	order := binary.LittleEndian
	var symbols, indirect []byte
	names, count := []byte{0}, uint32(0)
	symbol := func(name string, kind, section byte, addr uint64) {
		symbols = append(order.AppendUint32(symbols, uint32(len(names))), kind, section, 0, 0)
		symbols = order.AppendUint64(symbols, addr)
		names = append(append(names, name...), 0)
		count++
	}
	for _, s := range p.syms {
		if _, imported := p.imports[s.addr]; !imported {
			symbol(s.name, 0x0f, 1, s.addr) // N_SECT | N_EXT
		}
	}
	for _, addr := range stubs {
		indirect = order.AppendUint32(indirect, count)
		symbol(p.imports[addr], 0x01, 0, 0) // N_UNDF | N_EXT
	}

	const header, segment, symtab, dysymtab = 32, 72 + 3*80, 24, 80
	const start = header + segment + symtab + dysymtab
	words := func(out []byte, ws ...uint32) []byte {
		for _, w := range ws {
			out = order.AppendUint32(out, w)
		}
		return out
	}
	name := func(out []byte, name string) []byte {
		return append(append(out, name...), make([]byte, 16-len(name))...)
	}
	size := uint64(len(p.code))
	// MH_MAGIC_64, CPU_TYPE_ARM64, MH_DYLIB
	out := words(nil, 0xfeedfacf, 0x0100000c, 0, 6, 3, segment+symtab+dysymtab, 0, 0)
	out = name(words(out, 0x19, segment), "__TEXT")
	for _, n := range []uint64{metalBase, size, start, size} {
		out = order.AppendUint64(out, n)
	}
	out = words(out, 5, 5, 3, 0)
	for _, s := range []struct {
		name           string
		from, to       uint64
		kind, reserved uint32
	}{{"__text", 0, first, 0, 0}, {"__stubs", first, past, 8, 4}, {"__cstring", past, size, 2, 0}} {
		out = name(name(out, s.name), "__TEXT")
		out = order.AppendUint64(order.AppendUint64(out, metalBase+s.from), s.to-s.from)
		out = words(out, start+uint32(s.from), 2, 0, 0, s.kind, 0, s.reserved, 0)
	}
	at := start + uint32(size)
	out = words(out, 0x2, symtab, at, count, at+uint32(len(symbols)+len(indirect)), uint32(len(names)))
	out = words(out, 0xb, dysymtab, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, at+uint32(len(symbols)), uint32(len(stubs)), 0,
		0, 0, 0)
	return slices.Concat(out, p.code, symbols, indirect, names)
}

// TestMetalWheel: both places where releases keep the plugin.
func TestMetalWheel(t *testing.T) {
	for _, folder := range []string{"", "tensorflow_metal-9.9.9.data/purelib/"} {
		library := string(assembled(t, metalProgram).file())
		w, err := openWheel(wheelOf(t, "tensorflow_metal", "9.9.9", map[string]string{folder + metalLibrary: library}))
		if err != nil {
			t.Fatal(err)
		}
		d, err := deriveMetal(w)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.cells) != 2 || d.cells["tf::AddN"] != 'N' || d.release.Version != "9.9.9" || d.release.SHA256 == "" {
			t.Errorf("%sderived %v of %+v", folder, d.cells, d.release)
		}
		w.Close()
	}
}

// TestMetalSays: what cannot be read stops the generator; what is only odd is said.
func TestMetalSays(t *testing.T) {
	for _, test := range []struct{ what, old, new, want string }{
		{"a name that is not made of constants", "528c8828", "394000a8 ldrb w8, [x5]", "is not read"},
		{"a loop", "14000004", "17fffffe b .-8", "a loop"},
		{"a type that is not made of constants", "52800262", "39400002 ldrb w2, [x0]", "a type that is not read"},
		{"a block at an unknown address", "f9400a68", "f8616a68 ldr x8, [x19, x1]", "handed to a function"},
		{"a jump to an unknown address", "d63f0100", "d61f0060 br x3", "what comes next"},
		{"data among the code", "aa1303e0", "00000000", "what comes next"},
		{"a function that calls itself", "94000018", "97fffffb bl RegisterDeviceKernels", "deeper than"},
		{"no entry", "_TF_InitKernel:", "_TF_InitGraph:", "TF_InitKernel"},
	} {
		p := assembled(t, strings.Replace(metalProgram, "\n"+test.old, "\n"+test.new, 1))
		if _, err := p.kernels(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.what, err, test.want)
		}
	}

	made := func(op, class string, registered bool) *kernel {
		creator := fmt.Sprintf("__ZN12metal_pluginL14CreateOpKernelINS_%d%sIfEEEEPvP23TF_OpKernelConstruction",
			len(class), class)
		return &kernel{op: op, device: "GPU", creator: creator, registered: registered}
	}
	relu, not, tanh := made("Relu6", "MetalRelu6Op", true), made("LogicalNot", "MetalLogicalNotOp", false),
		made("TruncateDiv", "MPSDivisionOp", true)
	d, err := joinMetal([]*kernel{relu, not, tanh}, []string{relu.creator, not.creator, tanh.creator,
		made("", "MPSFFTOp", true).creator})
	if err != nil {
		t.Fatal(err)
	}
	want := []disagreement{
		{"tf::LogicalNot", atlas.Native, atlas.Undefined, "its kernel is made, and not registered"},
		{"tf::TruncateDiv", atlas.Unknown, atlas.Native, "its kernel is a MPSDivisionOp"},
		{"tf::MPSFFTOp", atlas.Native, atlas.Unknown, "a class of kernels that nothing is registered for"},
	}
	if !slices.Equal(d.differ, want) || len(d.cells) != 2 {
		t.Errorf("%v differ, want %v; cells %v", d.differ, want, d.cells)
	}
	if _, err := joinMetal([]*kernel{not}, nil); err == nil || !strings.Contains(err.Error(), "none of the 1 kernels") {
		t.Errorf("a plugin that registers nothing: %v", err)
	}
}

// TestMetalWords compares single instructions with what they do, as llvm-mc assembles them.
func TestMetalWords(t *testing.T) {
	for _, test := range []struct {
		word     uint32
		text     string
		register int
		want     string // unknown, or in base 16
	}{
		{0x92800020, "mov x0, #-2", 0, "fffffffffffffffe"},
		{0x12800020, "mov w0, #-2", 0, "fffffffe"},
		{0xf2e24681, "movk x1, #0x1234, lsl #48", 1, "1234000000001111"},
		{0x72824681, "movk w1, #0x1234", 1, "1234"},
		{0xb200c3e0, "mov x0, #0x101010101010101", 0, "101010101010101"},
		{0x320f87e0, "mov w0, #0x60006", 0, "60006"},
		{0xb27be820, "orr x0, x1, #0xffffffffffffffe0", 0, "fffffffffffffff1"},
		{0x12000c20, "and w0, w1, #0xf", 0, "unknown"},
		{0x90000020, "adrp x0, .+16384", 0, "14000"},
		{0x10ffffe0, "adr x0, .-4", 0, "fffc"},
		{0x9147fc20, "add x0, x1, #0x1ff, lsl #12", 0, "200111"},
		{0xd1001021, "sub x1, x1, #4", 1, "110d"},
		{0xaa0103e0, "mov x0, x1", 0, "1111"},
		{0x8b020020, "add x0, x1, x2", 0, "unknown"},
		{0x1e260020, "fmov w0, s1", 0, "unknown"},
		{0x9a820020, "csel x0, x1, x2, eq", 0, "unknown"},
		{0xf9400020, "ldr x0, [x1]", 0, "unknown"},
		{0xf9400060, "ldr x0, [x3]", 0, "8877665544332281"},
		{0xb9400460, "ldr w0, [x3, #4]", 0, "88776655"},
		{0x39c00060, "ldrsb w0, [x3]", 0, "ffffff81"},
		{0x39800060, "ldrsb x0, [x3]", 0, "ffffffffffffff81"},
		{0x78402460, "ldrh w0, [x3], #2", 3, "10002"},
		{0xa9400460, "ldp x0, x1, [x3]", 1, "ffeeddccbbaa0099"},
		{0x69400460, "ldpsw x0, x1, [x3]", 1, "unknown"},
		{0x58000000, "ldr x0, .", 0, "8877665544332281"},
		{0xc85f7c60, "ldxr x0, [x3]", 0, "unknown"},
		{0xd53bd040, "mrs x0, tpidr_el0", 0, "unknown"},
	} {
		data := []byte{0x81, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
		m := newMachine([]section{{metalBase, data}})
		m.x[0], m.x[1], m.x[2], m.x[3] = known(7), known(0x1111), known(0x2222), known(metalBase)
		if next := m.step(test.word, metalBase); !next.falls || next.taken {
			t.Errorf("%s: %+v", test.text, next)
		}
		got := "unknown"
		if r := m.x[test.register]; r.known {
			got = strconv.FormatUint(r.lo, 16)
		}
		if got != test.want {
			t.Errorf("%s: x%d is %s, want %s", test.text, test.register, got, test.want)
		}
	}
}

// TestMetalBranches: a branch on what is known goes one way, on anything else both.
func TestMetalBranches(t *testing.T) {
	there := uint64(metalBase + 8)
	for _, test := range []struct {
		word uint32
		text string
		want flow
	}{
		{0x36f80040, "tbz w0, #31, .+8", flow{taken: true, target: there}},
		{0x37f80040, "tbnz w0, #31, .+8", flow{falls: true, target: there}},
		{0xb4000040, "cbz x0, .+8", flow{falls: true, target: there}},
		{0x34000041, "cbz w1, .+8", flow{falls: true, taken: true, target: there}},
		{0x3400005f, "cbz wzr, .+8", flow{taken: true, target: there}},
		{0x54000040, "b.eq .+8", flow{falls: true, taken: true, target: there}},
		{0x14000002, "b .+8", flow{taken: true, target: there}},
		{0x94000002, "bl .+8", flow{falls: true, taken: true, call: true, target: there}},
		{0xd63f0000, "blr x0", flow{falls: true, taken: true, call: true, target: 7}},
		{0xd63f0020, "blr x1", flow{falls: true, taken: true, call: true}},
		{0xd61f0020, "br x1", flow{taken: true, lost: true}},
		{0xd65f03c0, "ret", flow{}},
		{0xd4200020, "brk #1", flow{}},
		{0x00000000, "udf #0", flow{lost: true}},
	} {
		m := newMachine(nil)
		m.x[0] = known(7)
		if got := m.step(test.word, metalBase); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.text, got, test.want)
		}
	}
}

// TestMetalStores: memory is forgotten where what is stored, or where, is not known.
func TestMetalStores(t *testing.T) {
	m := newMachine(nil)
	m.x[0] = known(0x4e646441)
	for _, w := range []uint32{0xb90003e0 /* str w0, [sp] */, 0x390013ff /* strb wzr, [sp, #4] */} {
		m.step(w, metalBase)
	}
	sp := m.x[31]
	if got, ok := m.text(sp); got != "AddN" || !ok {
		t.Errorf("stored %q, %v, want AddN", got, ok)
	}
	if m.step(0x390007e5 /* strb w5, [sp, #1] */, metalBase); len(m.mem) != 4 {
		t.Errorf("an unknown byte leaves %d known, want 4", len(m.mem))
	}
	if got, ok := m.text(sp); ok {
		t.Errorf("reads %q with an unknown byte in it", got)
	}
	if m.step(0xf90000a0 /* str x0, [x5] */, metalBase); len(m.mem) != 0 {
		t.Errorf("after a store to an unknown address %d bytes are known", len(m.mem))
	}
	m.step(0xd10083ff /* sub sp, sp, #32 */, metalBase)
	m.step(0xf90003e0 /* str x0, [sp] */, metalBase)
	m.x[1] = m.x[31]
	m.handOver()
	if m.called(value{}); len(m.mem) != 0 || m.x[0].known || !m.x[31].known {
		t.Error("a call leaves known what it was handed, or takes the stack pointer")
	}
}

func TestMetalRefuses(t *testing.T) {
	for _, test := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"tensorflow-plugins/__init__.py": ""}, "no tensorflow-plugins/libmetal_plugin.dylib in it"},
		{map[string]string{metalLibrary: "no library"}, "libmetal_plugin.dylib: "},
		{map[string]string{"tensorflow_metal-9.9.9.data/purelib/" + metalLibrary: "no library"},
			"purelib/tensorflow-plugins/libmetal_plugin.dylib: "},
	} {
		w, err := openWheel(wheelOf(t, "tensorflow_metal", "9.9.9", test.files))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deriveMetal(w); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
		w.Close()
	}
}

// FuzzMetalCode: whatever the code is, following it ends, without a panic.
func FuzzMetalCode(f *testing.F) {
	f.Add(assembled(f, metalProgram).code)
	f.Add(bytes.Repeat([]byte{0xe0, 0x03, 0x00, 0xf8}, 64)) // stur x0, [sp]
	f.Fuzz(func(t *testing.T, code []byte) {
		p := assembled(t, metalProgram)
		p.code = append(code, p.code[min(len(code), len(p.code)):]...)
		p.fixed[0].data = p.code
		kernels, err := p.kernels()
		if err == nil {
			_, _ = joinMetal(kernels, p.creators())
		}
	})
}
