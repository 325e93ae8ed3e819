package main

import (
	"debug/macho"
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"os"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"assay/internal/atlas"
)

// metalLibrary is the plugin: where it lies differs, below tensorflow-plugins or below
// NAME.data/purelib/tensorflow-plugins.
const metalLibrary = "tensorflow-plugins/libmetal_plugin.dylib"

// deriveMetal reads a tensorflow-metal wheel: what the plugin registers when TensorFlow loads it. The plugin has no
// list of its operators. It builds each name in code, a short one out of immediates, so the code is followed from
// TF_InitKernel, the entry that TensorFlow calls, to each call of TF_RegisterKernelBuilder (tensorflow/c/kernels.h).
// What is registered only on a newer macOS counts.
func deriveMetal(w *wheel) (*derived, error) {
	library := ""
	for _, f := range w.zip.File {
		if f.Name == metalLibrary || strings.HasSuffix(f.Name, ".data/purelib/"+metalLibrary) {
			library = f.Name
		}
	}
	if library == "" {
		return nil, fmt.Errorf("read %s: no %s in it: it is not a wheel of tensorflow-metal for macOS", w.path,
			metalLibrary)
	}
	p, err := w.plugin(library)
	if err != nil {
		return nil, fmt.Errorf("read %s: %s: %w", w.path, library, err)
	}
	kernels, err := p.kernels()
	if err != nil {
		return nil, fmt.Errorf("read %s: %s: %w", w.path, library, err)
	}
	d, err := joinMetal(kernels, p.creators())
	if err != nil {
		return nil, fmt.Errorf("read %s: %s: %w", w.path, library, err)
	}
	d.types = metalTypes(kernels)
	d.release, err = w.release()
	return d, err
}

// joinMetal compares what is registered with the functions that create kernels, by their symbols, which say of what
// class a kernel is. What is registered is believed: it is what TensorFlow knows.
func joinMetal(kernels []*kernel, creators []string) (*derived, error) {
	d := &derived{cells: map[string]byte{}}
	registered, idle := map[string]bool{}, []string{}
	classes := map[string][]string{} // of an operator
	for _, k := range kernels {
		switch {
		case k.device != metalDevice:
		case k.registered:
			d.cells["tf::"+k.op] = byte(atlas.Native)
			registered[k.creator] = true
			classes[k.op] = append(classes[k.op], className(k.creator))
		default:
			idle = append(idle, k.creator)
			d.differ = append(d.differ, disagreement{"tf::" + k.op, atlas.Native, atlas.Undefined,
				"its kernel is made, and not registered"})
		}
	}
	if len(d.cells) == 0 {
		return nil, fmt.Errorf("none of the %d kernels that it makes is registered for %s", len(kernels), metalDevice)
	}
	for _, op := range slices.Sorted(maps.Keys(classes)) {
		if !slices.ContainsFunc(classes[op], func(class string) bool { return akin(op, class) }) {
			d.differ = append(d.differ, disagreement{"tf::" + op, atlas.Unknown, atlas.Native, "its kernel is a " +
				classes[op][0]})
		}
	}
	for _, creator := range creators {
		if !registered[creator] && !slices.Contains(idle, creator) {
			d.differ = append(d.differ, disagreement{"tf::" + className(creator), atlas.Native, atlas.Unknown,
				"a class of kernels that nothing is registered for"})
		}
	}
	return d, nil
}

// metalDevice is what TensorFlow calls the plugin's device, as any GPU.
const metalDevice = "GPU"

// creators lists the functions that make a kernel: CreateOpKernel<Class> and the like, which take a
// TF_OpKernelConstruction.
func (p *plugin) creators() (found []string) {
	for _, s := range p.syms {
		if creator.MatchString(s.name) {
			found = append(found, s.name)
		}
	}
	return found
}

var creator = regexp.MustCompile(`^__ZN12metal_pluginL\d+\w*?Create\w*?INS_(\d+)(\w+)EEPvP23TF_OpKernelConstruction$`)

// className reads the class out of the symbol of the function that creates it.
func className(symbol string) string {
	if m := creator.FindStringSubmatch(symbol); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n <= len(m[2]) {
			return m[2][:n]
		}
	}
	return symbol
}

// akin says whether the name of a class speaks of an operator: half of the shorter of the two, and no fewer than three
// letters, occur in the other. MPSSoftmaxXentWithLogitsOp does of SoftmaxCrossEntropyWithLogits, MPSReluOp does not of
// Tanh.
func akin(op, class string) bool {
	op = strings.ToLower(strings.TrimSuffix(strings.TrimRight(strings.TrimPrefix(op, "_"), "V23"), "Op"))
	class = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(class, "MPS"), "Metal"), "Op"))
	piece := max(3, min(len(op), len(class))/2)
	for i := 0; i+piece <= len(op); i++ {
		if strings.Contains(class, op[i:i+piece]) {
			return true
		}
	}
	return false
}

// metalTypes lists for each operator the types of values that its kernels take, those of training first. A kernel says
// them as a constraint on an attribute, T in most operators; it may have others, on the types of indices or of a
// result. What has no such constraint is left out: LogicalAnd, whose values are bool by definition, and the random
// generators' RngSkip.
func metalTypes(kernels []*kernel) map[string]string {
	found := map[string][]int{}
	for _, k := range kernels {
		for _, attr := range []string{"T", "dtype", "Tparams", "SrcT", "Tidx"} { // Tidx is what Range counts in
			if types := k.types[attr]; len(types) > 0 && k.registered && k.device == metalDevice {
				found[k.op] = append(found[k.op], types...)
				break
			}
		}
	}
	listed := map[string]string{}
	for op, types := range found {
		var names []string
		for _, t := range tensorTypes {
			if slices.Contains(types, t.number) {
				names = append(names, t.name)
			}
		}
		for _, n := range slices.Compact(slices.Sorted(slices.Values(types))) {
			if !slices.ContainsFunc(tensorTypes, func(t tensorType) bool { return t.number == n }) {
				names = append(names, fmt.Sprintf("type%d", n))
			}
		}
		listed[op] = strings.Join(names, " ")
	}
	return listed
}

type tensorType struct {
	number int
	name   string
}

// tensorflow/core/framework/types.proto, enum DataType; tensorflow/c/tf_datatype.h has the same numbers.
var tensorTypes = []tensorType{{1, "float"}, {19, "half"}, {14, "bfloat16"}, {2, "double"}, {6, "int8"}, {5, "int16"},
	{3, "int32"}, {9, "int64"},
	{4, "uint8"}, {17, "uint16"}, {22, "uint32"}, {23, "uint64"}, {10, "bool"}, {8, "complex64"}, {18, "complex128"},
	{7, "string"},
	{20, "resource"}, {21, "variant"}}

// plugin is the library with what following its code needs besides: constants of every kind, and the names of what it
// imports.
type plugin struct {
	*image
	fixed   []section
	imports map[uint64]string // a stub's address → the function that it jumps to
}

// section is a part of the library that does not change when it runs.
type section struct {
	addr uint64
	data []byte
}

func (w *wheel) plugin(library string) (*plugin, error) {
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
		return nil, err
	}
	m, err := macho.NewFile(f)
	if fat, fatErr := macho.NewFatFile(f); fatErr == nil { // readImage has seen that there is a part for arm64
		i := slices.IndexFunc(fat.Arches, func(arch macho.FatArch) bool { return arch.Cpu == macho.CpuArm64 })
		m, err = fat.Arches[i].File, nil
	}
	if err != nil {
		return nil, err
	}
	p := &plugin{image: im, imports: readStubs(m)}
	for _, s := range m.Sections {
		fixed := s.Seg == "__TEXT" || s.Seg == "__DATA_CONST" || s.Seg == "__DATA" && s.Name == "__const"
		if fixed && s.Flags&0xff != 1 { // S_ZEROFILL has no bytes in the file
			data, err := s.Data()
			if err != nil {
				return nil, fmt.Errorf("section %s: %w", s.Name, err)
			}
			p.fixed = append(p.fixed, section{s.Addr, data})
		}
	}
	return p, nil
}

// readStubs names the stubs through which a library calls others (mach-o/loader.h, struct section_64: a section of
// stubs says in reserved1 where its names begin in the table of indirect symbols, in reserved2 how long a stub is).
func readStubs(m *macho.File) map[uint64]string {
	const header, entry, symbolStubs = 72, 80, 8
	stubs := map[uint64]string{}
	if m.Dysymtab == nil || m.Symtab == nil {
		return stubs
	}
	for _, load := range m.Loads {
		seg, ok := load.(*macho.Segment)
		if !ok {
			continue
		}
		raw := seg.Raw()
		for i := range seg.Nsect {
			at := header + entry*int(i)
			if len(raw) < at+entry {
				break
			}
			word := func(off int) uint64 { return uint64(m.ByteOrder.Uint32(raw[at+off:])) }
			addr, size := m.ByteOrder.Uint64(raw[at+32:]), m.ByteOrder.Uint64(raw[at+40:])
			first, each := word(68), word(72)
			if word(64)&0xff != symbolStubs || each == 0 {
				continue
			}
			for n := uint64(0); n < size/each && first+n < uint64(len(m.Dysymtab.IndirectSyms)); n++ {
				if sym := m.Dysymtab.IndirectSyms[first+n]; uint64(sym) < uint64(len(m.Symtab.Syms)) {
					stubs[addr+n*each] = m.Symtab.Syms[sym].Name
				}
			}
		}
	}
	return stubs
}

// kernel is one kernel that the plugin registers, or makes and does not register.
type kernel struct {
	op         string
	device     string
	creator    string           // the function that creates it, mangled
	types      map[string][]int // attribute → the types of TensorFlow that it is for
	registered bool
}

var (
	// RegisterAddNKernels(char const*), and the templates that these call: metal_plugin::RegisterKernel<Op>(…).
	family = regexp.MustCompile(`^__Z\d+Register\w+Kernels?PKc$`)
	helper = regexp.MustCompile(`^__ZN12metal_plugin\d+Register\w*Kernels?I`)
	block  = regexp.MustCompile(`_block_invoke(_\d+)?$`)
	opName = regexp.MustCompile(`^_?[A-Z]\w*$`)
)

// kernels follows the plugin's code from TF_InitKernel.
func (p *plugin) kernels() ([]*kernel, error) {
	entry, families := uint64(0), 0
	for _, s := range p.syms {
		if s.name == "_TF_InitKernel" {
			entry = s.addr
		}
		if family.MatchString(s.name) {
			families++
		}
	}
	if entry == 0 || families == 0 {
		return nil, fmt.Errorf("expected are TF_InitKernel and the functions RegisterConvOpKernels(char const*) and so on that it calls; it has %d of these: "+
			"the library was made in a way that this does not read", families)
	}
	var made []*kernel
	builders := map[uint64]*kernel{} // by the address that TF_NewKernelBuilder is taken to return
	depth := 0
	var call func(m *machine, pc, target uint64) (value, error)
	follow := func(m *machine, fn uint64) error {
		// TF_InitKernel, RegisterDeviceKernels, a family, a template, its block, a template, its block
		const deepest = 8
		if depth++; depth > deepest {
			return fmt.Errorf("calls of %s go deeper than %d", p.names[fn], deepest)
		}
		defer func() { depth-- }()
		return m.run(p.image, fn, call)
	}
	call = func(m *machine, pc, target uint64) (result value, err error) {
		name, imported := p.imports[target]
		if !imported {
			name = p.names[target]
		}
		switch {
		case name == "__Znwm": // operator new
			return known(newAt(pc)), nil
		case name == "_TF_NewKernelBuilder":
			op, ok := m.text(m.x[0])
			device, ok2 := m.text(m.x[1])
			if !ok || !ok2 || !opName.MatchString(op) {
				return value{}, fmt.Errorf("at %#x a kernel is made whose operator (%q) or device (%q) is not read", pc,
					op, device)
			}
			k := &kernel{op: op, device: device, creator: p.names[m.x[2].lo], types: map[string][]int{}}
			made = append(made, k)
			builders[newAt(pc)] = k
			return known(newAt(pc)), nil
		case name == "_TF_KernelBuilder_TypeConstraint":
			k := builders[m.x[0].lo]
			attr, ok := m.text(m.x[1])
			if k == nil || !ok || !m.x[2].known {
				return value{}, fmt.Errorf("at %#x a type that is not read is given to a kernel", pc)
			}
			k.types[attr] = append(k.types[attr], int(uint32(m.x[2].lo)))
		case name == "_TF_RegisterKernelBuilder":
			k := builders[m.x[1].lo]
			if k == nil {
				return value{}, fmt.Errorf("at %#x a kernel is registered of which nothing is known", pc)
			}
			k.registered = true
		case family.MatchString(name), helper.MatchString(name), block.MatchString(name):
			err := follow(m.clone(), target)
			m.handOver()
			return value{}, err
		case target == 0 && (builders[m.x[0].lo] != nil || builders[m.x[1].lo] != nil):
			return value{}, fmt.Errorf("at %#x a kernel is handed to a function whose address is not read", pc)
		case !strings.HasPrefix(name, "_TF_"): // TensorFlow's interface is one of C: it takes names as const char *
			m.handOver()
		}
		return value{}, nil
	}
	if err := follow(newMachine(p.fixed), entry); err != nil {
		return nil, err
	}
	return made, nil
}

// machine follows code for arm64 as far as it works on constants: a register or a byte of memory is known or it is not.
// There are no loops in it: a function that branches backwards is given up.
type machine struct {
	fixed []section
	x, v  [32]value // general registers, the last the stack pointer; vector registers
	mem   map[uint64]byte
	left  *int // instructions that it may still carry out
}

func newMachine(fixed []section) *machine {
	left := maxSteps
	m := &machine{fixed: fixed, mem: map[uint64]byte{}, left: &left}
	m.x[31] = known(stackTop)
	return m
}

// value is what a register holds.
type value struct {
	lo, hi uint64
	known  bool
}

func known(n uint64) value { return value{lo: n, known: true} }

// No library is loaded where the stack and what operator new returns are taken to lie.
const (
	stackEnd = 0x7e << 56
	stackTop = stackEnd + 1<<32
	newBase  = 0x7f << 56
)

func newAt(pc uint64) uint64 { return newBase | pc<<16 }

// What a hostile library may cost. 1.2.0 takes 90 180 instructions, 1167 of them in RegisterCastKernels, and 846 bytes
// are known at most.
const (
	maxSteps        = 1 << 20
	maxInstructions = 1 << 12 // of a function
	maxKnownBytes   = 1 << 12
)

func (m *machine) clone() *machine {
	c := *m
	c.mem = maps.Clone(m.mem)
	return &c
}

// meet keeps what is known on both of two ways to the same place.
func (m *machine) meet(other *machine) *machine {
	if m == nil {
		return other
	}
	if other == nil {
		return m
	}
	for i := range m.x {
		if m.x[i] != other.x[i] {
			m.x[i] = value{}
		}
		if m.v[i] != other.v[i] {
			m.v[i] = value{}
		}
	}
	maps.DeleteFunc(m.mem, func(addr uint64, b byte) bool {
		o, ok := other.mem[addr]
		return !ok || o != b
	})
	return m
}

// run follows one function to its returns. Where a branch depends on what is not known, both ways are followed.
func (m *machine) run(im *image, fn uint64, call func(m *machine, pc, target uint64) (value, error)) error {
	if fn < im.codeAddr || fn-im.codeAddr >= uint64(len(im.code)) || fn%4 != 0 {
		return fmt.Errorf("no code at %#x", fn)
	}
	code := im.code[fn-im.codeAddr:]
	if i := sort.Search(len(im.syms), func(i int) bool { return im.syms[i].addr > fn }); i < len(im.syms) {
		// the next function
		code = code[:min(uint64(len(code)), im.syms[i].addr-fn)]
	}
	if len(code) > 4*maxInstructions {
		return fmt.Errorf("the function at %#x has %d instructions, more than %d", fn, len(code)/4, maxInstructions)
	}
	waiting := map[uint64]*machine{} // at the targets of branches
	for pc := fn; len(code) >= 4; pc, code = pc+4, code[4:] {
		m = m.meet(waiting[pc])
		delete(waiting, pc)
		if m == nil {
			continue // nothing known leads here: the code that cleans up after an exception
		}
		if *m.left--; *m.left < 0 || len(m.mem) > maxKnownBytes {
			return fmt.Errorf("at %#x more than %d instructions were carried out or %d bytes written", pc, maxSteps,
				maxKnownBytes)
		}
		next := m.step(binary.LittleEndian.Uint32(code), pc)
		switch {
		case next.lost:
			return fmt.Errorf("at %#x it is not read what comes next", pc)
		case next.call:
			result, err := call(m, pc, next.target)
			if err != nil {
				return err
			}
			m.called(result)
		case next.taken && next.target >= fn && next.target <= pc:
			return fmt.Errorf("a loop at %#x", pc)
		case next.taken && (next.target < fn || next.target-pc >= uint64(len(code))): // a call in the place of a return
			if _, err := call(m.clone(), pc, next.target); err != nil {
				return err
			}
		case next.taken:
			waiting[next.target] = waiting[next.target].meet(m.clone())
		}
		if !next.falls {
			m = nil
		}
	}
	return nil
}

// handOver forgets what a call may change that its arguments point to, 24 bytes for a std::string.
func (m *machine) handOver() {
	for _, arg := range m.x[:8] {
		if arg.known && arg.lo >= stackEnd {
			m.store(arg, 24, value{})
		}
	}
}

// called forgets the registers that are the callee's.
func (m *machine) called(result value) {
	for i := range 19 {
		m.x[i] = value{}
	}
	m.x[30], m.v = value{}, [32]value{}
	m.x[0] = result
}

// flow is what an instruction does to the order of instructions.
type flow struct {
	falls  bool   // the next instruction may be next
	taken  bool   // the target may be next
	call   bool   // and comes back
	target uint64 // of a call 0 when not known
	lost   bool   // none of these is known
}

func signed(w uint32, low, width int) int64 {
	return int64(int32(w<<(32-low-width)) >> (32 - width))
}

// step carries out one instruction, by the groups of the Arm Architecture Reference Manual, section C4.1.
func (m *machine) step(w uint32, pc uint64) flow {
	next := flow{falls: true}
	switch {
	case w>>26&7 == 4:
		m.immediate(w, pc)
	case w>>26&7 == 5:
		return m.branch(w, pc)
	case w>>27&1 == 1 && w>>25&1 == 0:
		m.memory(w, pc)
	case w>>25&7 == 5:
		result := value{}
		if w&0x7fe0ffe0 == 0x2a0003e0 { // ORR of the zero register: MOV
			result = m.general(w >> 16).truncate(w)
		}
		m.setGeneral(w, result)
	case w>>25&7 == 7: // may move between the banks
		m.v[w&31] = value{}
		m.setGeneral(w, value{})
	default: // no instruction, or none that code for Apple's processors has
		return flow{lost: true}
	}
	return next
}

func (m *machine) general(r uint32) value {
	if r &= 31; r == 31 {
		return known(0)
	}
	return m.x[r&31]
}

func (m *machine) setGeneral(r uint32, v value) {
	if r &= 31; r != 31 {
		m.x[r] = v
	}
}

// truncate gives the 32 bits that an instruction works on whose bit 31 is clear.
func (v value) truncate(w uint32) value {
	if w>>31 == 0 {
		v.lo &= 1<<32 - 1
	}
	v.hi = 0
	return v
}

func (m *machine) immediate(w uint32, pc uint64) {
	rd, rn := w&31, w>>5&31
	switch w >> 23 & 7 {
	case 0, 1: // ADR, ADRP
		near := uint64(signed(w, 5, 19)<<2) | uint64(w>>29&3)
		if w>>31 == 1 {
			m.setGeneral(rd, known(pc&^0xfff+near<<12))
		} else {
			m.setGeneral(rd, known(pc+near))
		}
	case 2: // ADD, SUB
		n := uint64(w >> 10 & 0xfff << (12 * (w >> 22 & 1)))
		if w>>30&1 == 1 {
			n = -n
		}
		sum := m.x[rn]
		if sum.lo += n; !sum.known {
			sum = value{}
		}
		if sum = sum.truncate(w); w>>29&1 == 0 || rd != 31 {
			m.x[rd] = sum
		}
	case 4: // AND, ORR, EOR, ANDS
		result := value{}
		if mask, ok := bitmask(w); ok && w>>29&3 == 1 && m.general(rn).known {
			result = known(m.general(rn).lo | mask).truncate(w)
		}
		if w>>29&3 != 3 || rd != 31 {
			m.x[rd] = result
		}
	case 5: // MOVN, MOVZ, MOVK
		shift := w >> 21 & 3 * 16
		n, old := uint64(w>>5&0xffff)<<shift, m.general(rd)
		switch w >> 29 & 3 {
		case 0:
			m.setGeneral(rd, known(^n).truncate(w))
		case 2:
			m.setGeneral(rd, known(n).truncate(w))
		case 3:
			if old.known {
				m.setGeneral(rd, known(old.lo&^(0xffff<<shift)|n).truncate(w))
			}
		default:
			m.setGeneral(rd, value{})
		}
	default:
		m.x[rd] = value{}
	}
}

// bitmask decodes the immediate of a logical instruction: a run of ones in an element of 2 to 64 bits, turned and
// repeated (DecodeBitMasks in the manual).
func bitmask(w uint32) (uint64, bool) {
	n, turn, ones := w>>22&1, w>>16&63, w>>10&63
	length := bits.Len32(n<<6|^ones&63) - 1
	if length < 1 || w>>31 == 0 && n == 1 {
		return 0, false
	}
	size := uint32(1) << length
	if ones &= size - 1; ones == size-1 {
		return 0, false
	}
	turn &= size - 1
	element := uint64(1)<<(ones+1) - 1
	element = element>>turn | element<<(size-turn)
	if size < 64 {
		element &= 1<<size - 1
	}
	for ; size < 64; size *= 2 {
		element |= element << size
	}
	return element, true
}

func (m *machine) branch(w uint32, pc uint64) flow {
	to := func(low, width int) uint64 { return pc + uint64(signed(w, low, width)<<2) }
	when := func(bit uint64, target uint64) flow { // CBZ and TBZ branch when it is 0, CBNZ and TBNZ when it is not
		if !m.general(w).known {
			return flow{falls: true, taken: true, target: target}
		}
		taken := (m.general(w).lo&bit != 0) == (w>>24&1 == 1)
		return flow{falls: !taken, taken: taken, target: target}
	}
	switch {
	case w&0x7c000000 == 0x14000000: // B, BL
		call := w>>31 == 1
		return flow{falls: call, taken: true, call: call, target: to(0, 26)}
	case w&0xff000000 == 0x54000000: // B.cond
		return flow{falls: true, taken: true, target: to(5, 19)}
	case w&0x7e000000 == 0x34000000:
		return when(1<<(32<<(w>>31))-1, to(5, 19))
	case w&0x7e000000 == 0x36000000:
		return when(1<<(w>>26&32|w>>19&31), to(5, 14))
	case w&0xfe000000 == 0xd6000000:
		target := m.general(w >> 5)
		// A pointer in a constant of the library has 36 bits; above them the loader's list of pointers may go on
		// (mach-o/fixup-chains.h).
		addr := target.lo & (1<<36 - 1)
		if !target.known {
			addr = 0
		}
		switch w >> 21 & 7 {
		case 0: // BR
			return flow{taken: true, target: addr, lost: !target.known}
		case 1: // BLR
			return flow{falls: true, taken: true, call: true, target: addr}
		}
		return flow{} // RET
	case w&0xff000000 == 0xd5000000: // of the system: MRS sets a register
		if w>>21&1 == 1 {
			m.setGeneral(w, value{})
		}
		return flow{falls: true}
	}
	return flow{} // BRK and other exceptions
}

// memory carries out a load or a store.
func (m *machine) memory(w uint32, pc uint64) {
	vector, kind := w>>26&1 == 1, w>>28&3
	bank := &m.x
	if vector {
		bank = &m.v
	}
	set := func(r uint32, v value) {
		if vector || r&31 != 31 {
			bank[r&31] = v
		}
	}
	get := func(r uint32) value {
		if vector {
			return m.v[r&31]
		}
		return m.general(r)
	}
	base := &m.x[w>>5&31]
	// at gives the address and moves the base: mode 1 after the access, 3 before it.
	at := func(mode uint32, off int64) value {
		addr := *base
		if addr.hi = 0; !addr.known {
			return value{}
		}
		moved := known(addr.lo + uint64(off))
		if mode != 1 {
			addr = moved
		}
		if mode == 1 || mode == 3 {
			*base = moved
		}
		return addr
	}
	switch {
	case kind == 1 && w>>24&1 == 0: // a literal
		size := 4 << (w >> 30)
		if vector || w>>30 < 2 {
			set(w, m.load(known(pc+uint64(signed(w, 5, 19)<<2)), size))
		} else if w>>30 == 2 { // LDRSW; the other prefetches
			set(w, value{})
		}
	case kind == 2: // a pair
		size := 4 << (w >> 30)
		if !vector {
			size = 4 << (w >> 31)
		}
		addr := at(w>>23&3, signed(w, 15, 7)*int64(size))
		second := addr
		second.lo += uint64(size)
		switch {
		case w>>22&1 == 0:
			first, other := get(w), get(w>>10)
			m.store(addr, size, first)
			m.store(second, size, other)
		case !vector && w>>30 == 1: // LDPSW
			set(w, value{})
			set(w>>10, value{})
		default:
			first, other := m.load(addr, size), m.load(second, size)
			set(w, first)
			set(w>>10, other)
		}
	case kind == 3 && (w>>24&1 == 1 || w>>21&1 == 0): // one register
		size, opc := 1<<(w>>30), w>>22&3
		if vector && opc&2 != 0 {
			size, opc = 16, opc&1
		}
		mode, off := w>>10&3, signed(w, 12, 9)
		if w>>24&1 == 1 {
			mode, off = 0, int64(w>>10&0xfff)*int64(size)
		}
		old := get(w)
		switch addr := at(mode, off); {
		case opc == 0:
			m.store(addr, size, old)
		case opc == 1:
			set(w, m.load(addr, size))
		case size < 8: // with its sign
			v := m.load(addr, size)
			v.lo = uint64(int64(v.lo<<(64-8*size)) >> (64 - 8*size))
			if opc == 3 {
				v.lo &= 1<<32 - 1
			}
			if !v.known {
				v = value{}
			}
			set(w, v)
		}
	default: // atomic, of structures, at an offset in a register: may load or store anything
		set(w, value{})
		set(w>>10, value{})
		set(w>>16, value{})
		*base = value{}
		clear(m.mem)
	}
}

func (m *machine) at(addr uint64) (byte, bool) {
	if b, ok := m.mem[addr]; ok {
		return b, true
	}
	for _, c := range m.fixed {
		if addr >= c.addr && addr-c.addr < uint64(len(c.data)) {
			return c.data[addr-c.addr], true
		}
	}
	return 0, false
}

func (m *machine) load(addr value, size int) value {
	var b [16]byte
	for i := range size {
		var ok bool
		if b[i&15], ok = m.at(addr.lo + uint64(i)); !ok || !addr.known || i > 15 {
			return value{}
		}
	}
	return value{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]), true}
}

// store forgets what was in memory when the value is not known, and everything when the address is not.
func (m *machine) store(addr value, size int, v value) {
	if !addr.known {
		clear(m.mem)
		return
	}
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], v.lo)
	binary.LittleEndian.PutUint64(b[8:], v.hi)
	for i := range size {
		if at := addr.lo + uint64(i); v.known {
			m.mem[at] = b[i&15]
		} else {
			delete(m.mem, at)
		}
	}
}

// text reads a string of C.
func (m *machine) text(addr value) (string, bool) {
	const longest = 256
	var text []byte
	for i := range uint64(longest) {
		b, ok := m.at(addr.lo + i)
		if !addr.known || !ok {
			break
		}
		if b == 0 {
			return string(text), true
		}
		text = append(text, b)
	}
	return string(text), false
}
