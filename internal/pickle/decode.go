package pickle

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"

	"assay/internal/fault"
)

// Bounds of one pickle. A state dict has about 30 operations for each tensor; a model pickled whole, with ten thousand
// modules, under a million.
const (
	maxOperations = 8 << 20
	maxText       = 256 << 20 // bytes of texts, bytes and numpy arrays together
	maxInteger    = 1024      // bytes of one integer
	maxDigits     = 4300      // of an integer as text, as CPython has it (sys.int_info.default_max_str_digits)
	maxCalls      = 32        // calls within calls
)

// Options say what a pickle may ask for beyond the list of this package.
type Options struct {
	// Lookup gives the value of a name ("torch.float32"), often a *Function; it is asked before any other list.
	Lookup func(name string) (Value, bool)
	// Persistent gives what a persistent id stands for; nil where there are none.
	Persistent func(id Value) (Value, error)
	// Classes says whether objects of unknown classes are made as an Object; without it their names are refused.
	Classes bool
}

// A Decoder reads pickles that follow one another.
type Decoder struct {
	in      *bufio.Reader
	offset  int64 // of the next byte
	options Options

	at         int64 // offset of the operation at work
	operations int
	text       int64
	calls      int
	stack      []Value
	marks      []int
	memo       map[int64]Value
}

// NewDecoder reads from r, whose first byte is counted as offset in what errors say.
func NewDecoder(r io.Reader, offset int64, options Options) *Decoder {
	return &Decoder{in: bufio.NewReaderSize(r, 64<<10), offset: offset, options: options}
}

// Offset of the byte behind the last pickle.
func (d *Decoder) Offset() int64 { return d.offset }

// Spend pays for so many items that an operation makes beside the first.
func (d *Decoder) Spend(n int) error {
	if d.operations += n; d.operations > maxOperations {
		return fault.Hint(fmt.Errorf("it has more than %d operations", maxOperations),
			"weights have some ten for each tensor: what is large beside them belongs in a file of its own")
	}
	return nil
}

// SpendBytes pays for so many bytes.
func (d *Decoder) SpendBytes(n int64) error {
	if d.text += n; n < 0 || d.text > maxText {
		return fmt.Errorf("it has more than %d MiB of text and bytes", maxText>>20)
	}
	return nil
}

// Load reads one pickle. Its errors say at which byte; a name that is refused is a *Refusal.
func (d *Decoder) Load() (Value, error) {
	d.stack, d.marks, d.memo, d.operations, d.text = nil, nil, map[int64]Value{}, 0, 0
	v, err := d.load()
	d.stack, d.marks, d.memo = nil, nil, nil
	if err == nil {
		return v, nil
	}
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return nil, err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fault.Hint(fmt.Errorf("its pickle ends at byte %d, within an operation", d.offset),
			"the file is cut off: fetch it again")
	}
	return nil, fmt.Errorf("its pickle at byte %d: %w", d.at, err)
}

func (d *Decoder) load() (Value, error) {
	for {
		d.at = d.offset
		op, err := d.byte()
		if err != nil {
			return nil, err
		}
		if op == '.' { // STOP
			if len(d.stack) != 1 || len(d.marks) > 0 {
				return nil, fmt.Errorf("it stops with %d values where one belongs", len(d.stack))
			}
			return d.stack[0], nil
		}
		if err := d.Spend(1); err != nil {
			return nil, err
		}
		if err := d.operate(op); err != nil {
			return nil, err
		}
	}
}

// operate does one operation; letters and codes are those of CPython's Lib/pickle.py.
func (d *Decoder) operate(op byte) error {
	switch op {
	case 0x80: // PROTO
		version, err := d.byte()
		if err == nil && version > 5 {
			err = fmt.Errorf("it is of protocol %d; known are 0 to 5", version)
		}
		return err
	case 0x95: // FRAME: a hint for buffering
		_, err := d.number(8)
		return err
	case '(':
		d.marks = append(d.marks, len(d.stack))
		return nil
	case '0': // POP, which takes a mark where one is on top
		if n := len(d.marks); n > 0 && d.marks[n-1] == len(d.stack) {
			d.marks = d.marks[:n-1]
			return nil
		}
		_, err := d.pop()
		return err
	case '1': // POP_MARK
		_, err := d.popMark()
		return err
	case '2': // DUP
		v, err := d.top()
		return d.pushed(v, err)
	case 'N':
		return d.push(nil)
	case 0x88:
		return d.push(true)
	case 0x89:
		return d.push(false)
	case ')':
		return d.push(&Tuple{})
	case ']':
		return d.push(&List{})
	case '}':
		return d.push(&Dict{})
	case 0x8f:
		return d.push(&Set{})
	case 'I', 'L', 'F', 'S', 'V':
		return d.textual(op)
	case 'J':
		n, err := d.number(4)
		return d.pushed(int64(int32(n)), err)
	case 'K':
		n, err := d.number(1)
		return d.pushed(n, err)
	case 'M':
		n, err := d.number(2)
		return d.pushed(n, err)
	case 0x8a, 0x8b: // LONG1, LONG4
		return d.long(op == 0x8b)
	case 'G':
		raw, err := d.bytes(8)
		if err != nil {
			return err
		}
		return d.push(math.Float64frombits(binary.BigEndian.Uint64(raw)))
	case 'U', 0x8c, 'T', 'X', 0x8d: // SHORT_BINSTRING, SHORT_BINUNICODE, BINSTRING, BINUNICODE, BINUNICODE8
		raw, err := d.sized(widthOf(op))
		return d.pushed(string(raw), err)
	case 'C', 'B', 0x8e, 0x96: // SHORT_BINBYTES, BINBYTES, BINBYTES8, BYTEARRAY8
		raw, err := d.sized(widthOf(op))
		return d.pushed(raw, err)
	case 't', 'l', 'd', 0x91, 0x90, 'e', 'u', 'a', 's', 0x85, 0x86, 0x87:
		return d.gather(op)
	case 'p', 'q', 'r', 0x94, 'g', 'h', 'j':
		return d.remember(op)
	case 'c', 0x93, 'i', 'o', 'R', 'b', 0x81, 0x92:
		return d.make(op)
	case 'P', 'Q':
		return d.persistent(op)
	case 0x82, 0x83, 0x84:
		return errors.New("it uses an extension code, which stands for a name that the file does not say: refused")
	case 0x97, 0x98:
		return errors.New("it uses a buffer that lies outside of it (protocol 5): refused")
	}
	return fmt.Errorf("0x%02x is no operation of a pickle", op)
}

// widthOf the length that stands before a text, in bytes.
func widthOf(op byte) int {
	switch op {
	case 'U', 0x8c, 'C':
		return 1
	case 'T', 'X', 'B':
		return 4
	}
	return 8
}

// textual reads a value that stands as a line of text (protocol 0).
func (d *Decoder) textual(op byte) error {
	line, err := d.line()
	if err != nil {
		return err
	}
	switch op {
	case 'F':
		f, err := strconv.ParseFloat(line, 64)
		if err != nil && !math.IsInf(f, 0) {
			return errors.New("a floating-point number is no number")
		}
		return d.push(f)
	case 'S':
		s, err := unquote(line)
		return d.pushed(s, err)
	case 'V':
		s, err := unescape(line, true)
		return d.pushed(s, err)
	case 'I':
		if line == "00" || line == "01" {
			return d.push(line == "01")
		}
	}
	line = strings.TrimSuffix(line, "L")
	if n, err := strconv.ParseInt(line, 10, 64); err == nil {
		return d.push(n)
	}
	if len(line) > maxDigits {
		return fmt.Errorf("an integer has more than %d digits", maxDigits)
	}
	n, ok := new(big.Int).SetString(line, 10)
	if !ok {
		return errors.New("an integer is no number")
	}
	return d.push(n)
}

// long reads an integer in two's complement, little-endian.
func (d *Decoder) long(wide bool) error {
	width := 1
	if wide {
		width = 4
	}
	n, err := d.number(width)
	if err != nil {
		return err
	}
	if n > maxInteger {
		return fmt.Errorf("an integer has more than %d bytes", maxInteger)
	}
	raw, err := d.bytes(n)
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return d.push(int64(0))
	}
	turned := make([]byte, len(raw))
	for i, b := range raw {
		turned[len(raw)-1-i] = b
	}
	made := new(big.Int).SetBytes(turned)
	if turned[0] >= 0x80 {
		made.Sub(made, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	if made.IsInt64() {
		return d.push(made.Int64())
	}
	return d.push(made)
}

// gather makes a collection of what lies on the stack, or adds that to one.
func (d *Decoder) gather(op byte) error {
	var from []Value
	var err error
	switch op {
	case 0x85, 0x86, 0x87: // TUPLE1, 2, 3
		from, err = d.popN(int(op) - 0x84)
	case 'a': // APPEND
		from, err = d.popN(1)
	case 's': // SETITEM
		from, err = d.popN(2)
	default:
		from, err = d.popMark()
	}
	if err != nil {
		return err
	}
	switch op {
	case 't', 0x85, 0x86, 0x87:
		return d.push(&Tuple{from})
	case 'l':
		return d.push(&List{from})
	case 0x91: // FROZENSET
		return d.push(&Set{from})
	case 'd':
		made := &Dict{}
		if err := setAll(made, from); err != nil {
			return err
		}
		return d.push(made)
	}
	to, err := d.top()
	if err != nil {
		return err
	}
	if object, ok := to.(*Object); ok { // one derived from list or dict
		if op == 's' || op == 'u' {
			if object.Items == nil {
				object.Items = &Dict{}
			}
			to = object.Items
		} else {
			if object.List == nil {
				object.List = &List{}
			}
			to = object.List
		}
	}
	switch to := to.(type) {
	case *Dict:
		if op == 's' || op == 'u' {
			return setAll(to, from)
		}
	case *List:
		if op == 'a' || op == 'e' {
			to.Items = append(to.Items, from...)
			return nil
		}
	case *Set:
		if op == 0x90 { // ADDITEMS
			to.Items = append(to.Items, from...)
			return nil
		}
	}
	return fmt.Errorf("it adds to %s", kindOf(to))
}

func setAll(to *Dict, from []Value) error {
	if len(from)%2 != 0 {
		return errors.New("a key has no value")
	}
	for i := 0; i < len(from); i += 2 {
		to.Set(from[i], from[i+1])
	}
	return nil
}

// remember puts the top of the stack into the memo, or takes a value out of it.
func (d *Decoder) remember(op byte) error {
	var key int64
	var err error
	switch op {
	case 'p', 'g':
		var line string
		if line, err = d.line(); err == nil {
			key, err = strconv.ParseInt(line, 10, 64)
			if err != nil || key < 0 {
				return errors.New("a key of its memo is no number")
			}
		}
	case 'q', 'h':
		key, err = d.number(1)
	case 'r', 'j':
		key, err = d.number(4)
	case 0x94: // MEMOIZE
		key = int64(len(d.memo))
	}
	if err != nil {
		return err
	}
	if op == 'g' || op == 'h' || op == 'j' {
		v, found := d.memo[key]
		if !found {
			return fmt.Errorf("it asks for entry %d of its memo, which is not there", key)
		}
		return d.push(v)
	}
	v, err := d.top()
	if err == nil {
		d.memo[key] = v
	}
	return err
}

// make looks a name up, calls one, makes an object, or sets its state.
func (d *Decoder) make(op byte) error {
	switch op {
	case 'c': // GLOBAL
		module, name, err := d.twoLines()
		if err != nil {
			return err
		}
		v, err := d.find(module, name)
		return d.pushed(v, err)
	case 0x93: // STACK_GLOBAL
		two, err := d.popN(2)
		if err != nil {
			return err
		}
		module, ok := two[0].(string)
		name, also := two[1].(string)
		if !ok || !also {
			return errors.New("a name that it asks for is no text")
		}
		v, err := d.find(module, name)
		return d.pushed(v, err)
	case 'i': // INST
		module, name, err := d.twoLines()
		if err != nil {
			return err
		}
		class, err := d.find(module, name)
		if err != nil {
			return err
		}
		args, err := d.popMark()
		if err != nil {
			return err
		}
		v, err := d.Call(class, args)
		return d.pushed(v, err)
	case 'o': // OBJ
		from, err := d.popMark()
		if err != nil {
			return err
		}
		if len(from) == 0 {
			return errors.New("an object has no class")
		}
		v, err := d.Call(from[0], from[1:])
		return d.pushed(v, err)
	case 0x92: // NEWOBJ_EX: keywords stand behind the others
		three, err := d.popN(3)
		if err != nil {
			return err
		}
		args, ok := three[1].(*Tuple)
		if !ok {
			return fmt.Errorf("it makes an object with %s for arguments", kindOf(three[1]))
		}
		if err := d.Spend(len(args.Items)); err != nil {
			return err
		}
		v, err := d.newOf(three[0], append(append([]Value(nil), args.Items...), three[2]))
		return d.pushed(v, err)
	}
	two, err := d.popN(2)
	if err != nil {
		return err
	}
	if op == 'b' { // BUILD
		if err := build(two[0], two[1]); err != nil {
			return err
		}
		return d.push(two[0])
	}
	args, ok := two[1].(*Tuple)
	if !ok {
		return fmt.Errorf("it calls %s with %s for arguments", kindOf(two[0]), kindOf(two[1]))
	}
	var v Value
	if op == 0x81 { // NEWOBJ
		v, err = d.newOf(two[0], args.Items)
	} else { // REDUCE
		v, err = d.Call(two[0], args.Items)
	}
	return d.pushed(v, err)
}

// find gives what a name stands for, or refuses it.
func (d *Decoder) find(module, name string) (Value, error) {
	full := canonical(module, name)
	if d.options.Lookup != nil {
		if v, found := d.options.Lookup(full); found {
			return v, nil
		}
	}
	if do, found := listed[full]; found {
		if do == nil {
			return &Class{full}, nil
		}
		return &Function{full, do}, nil
	}
	if danger, found := dangerOf(full); found {
		return nil, refuse(full, d.at, danger)
	}
	if !d.options.Classes {
		return nil, refuse(full, d.at, NotListed)
	}
	if err := d.SpendBytes(int64(len(full))); err != nil {
		return nil, err
	}
	return &Class{full}, nil
}

// Call calls what stands on the list, and makes an Object of a class that does not.
func (d *Decoder) Call(callee Value, args []Value) (Value, error) {
	switch callee := callee.(type) {
	case *Function:
		if d.calls++; d.calls > maxCalls {
			return nil, fmt.Errorf("it has more than %d calls within calls", maxCalls)
		}
		v, err := callee.Do(d, args)
		d.calls--
		if err != nil {
			return nil, fmt.Errorf("%s: %w", callee.Name, err)
		}
		return v, nil
	case *Class:
		if !isClass(callee.Name) {
			return nil, refuse(callee.Name, d.at, NotListed)
		}
		return &Object{Class: callee.Name, Args: args}, nil
	}
	return nil, fmt.Errorf("it calls %s", kindOf(callee))
}

// newOf is a class's __new__, which a function has not.
func (d *Decoder) newOf(class Value, args []Value) (Value, error) {
	if class, ok := class.(*Class); ok {
		return &Object{Class: class.Name, Args: args}, nil
	}
	return d.Call(class, args)
}

// build sets the state of an object. No class's __setstate__ is run: there are none.
func build(to, state Value) error {
	switch to := to.(type) {
	case *Object:
		to.State = state
		return nil
	case *Dict:
		to.Attributes = state
		return nil
	case Builder:
		return to.Build(state)
	}
	return fmt.Errorf("it sets the state of %s", kindOf(to))
}

func (d *Decoder) persistent(op byte) error {
	var id Value
	var err error
	if op == 'P' {
		id, err = d.line()
	} else {
		id, err = d.pop()
	}
	if err != nil {
		return err
	}
	if d.options.Persistent == nil {
		return errors.New("it asks for a value that lies outside of it")
	}
	v, err := d.options.Persistent(id)
	return d.pushed(v, err)
}

// kindOf a value, for messages.
func kindOf(v Value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool, int64, *big.Int, float64, complex128:
		return "a number"
	case string:
		return "a text"
	case []byte:
		return "bytes"
	case *List:
		return "a list"
	case *Tuple:
		return "a tuple"
	case *Set:
		return "a set"
	case *Dict:
		return "a dict"
	case *Class:
		return clean(v.Name)
	case *Object:
		return "an object of " + clean(v.Class)
	case *Function:
		return v.Name
	case *Array:
		return "a numpy array"
	case *DType:
		return "a numpy.dtype"
	}
	return "a value of the file's framework"
}

func (d *Decoder) push(v Value) error {
	d.stack = append(d.stack, v)
	return nil
}

func (d *Decoder) pushed(v Value, err error) error {
	if err != nil {
		return err
	}
	return d.push(v)
}

// floor is where the values below the last mark end, which operations do not reach.
func (d *Decoder) floor() int {
	if n := len(d.marks); n > 0 {
		return d.marks[n-1]
	}
	return 0
}

var errEmpty = errors.New("it takes a value where there is none")

func (d *Decoder) top() (Value, error) {
	if len(d.stack) == d.floor() {
		return nil, errEmpty
	}
	return d.stack[len(d.stack)-1], nil
}

func (d *Decoder) pop() (Value, error) {
	v, err := d.top()
	if err == nil {
		d.stack = d.stack[:len(d.stack)-1]
	}
	return v, err
}

func (d *Decoder) popN(n int) ([]Value, error) {
	at := len(d.stack) - n
	if at < d.floor() {
		return nil, errEmpty
	}
	return d.cut(at), nil
}

func (d *Decoder) popMark() ([]Value, error) {
	n := len(d.marks)
	if n == 0 {
		return nil, errors.New("it asks for a mark where there is none")
	}
	at := d.marks[n-1]
	d.marks = d.marks[:n-1]
	return d.cut(at), nil
}

func (d *Decoder) cut(at int) []Value {
	from := append([]Value(nil), d.stack[at:]...)
	clear(d.stack[at:])
	d.stack = d.stack[:at]
	return from
}

func (d *Decoder) byte() (byte, error) {
	b, err := d.in.ReadByte()
	if err == nil {
		d.offset++
	}
	return b, err
}

// bytes reads so many; memory is taken as they come, whatever the file says.
func (d *Decoder) bytes(n int64) ([]byte, error) {
	if err := d.SpendBytes(n); err != nil {
		return nil, err
	}
	raw := make([]byte, 0, min(n, 64<<10))
	for int64(len(raw)) < n {
		at := len(raw)
		raw = append(raw, make([]byte, min(n-int64(at), max(4<<10, int64(at))))...)
		got, err := io.ReadFull(d.in, raw[at:])
		d.offset += int64(got)
		if err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// number reads an unsigned one, little-endian.
func (d *Decoder) number(width int) (int64, error) {
	var raw [8]byte
	n, err := io.ReadFull(d.in, raw[:width])
	d.offset += int64(n)
	if err != nil {
		return 0, err
	}
	made := binary.LittleEndian.Uint64(raw[:])
	if made > math.MaxInt64 {
		return 0, errors.New("a length passes what there is in the world")
	}
	return int64(made), nil
}

func (d *Decoder) sized(width int) ([]byte, error) {
	n, err := d.number(width)
	if err != nil {
		return nil, err
	}
	return d.bytes(n)
}

// line reads up to the end of one, which it leaves out.
func (d *Decoder) line() (string, error) {
	var made []byte
	for {
		part, err := d.in.ReadSlice('\n')
		d.offset += int64(len(part))
		if paid := d.SpendBytes(int64(len(part))); paid != nil {
			return "", paid
		}
		made = append(made, part...)
		if err == nil {
			return string(made[:len(made)-1]), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
}

func (d *Decoder) twoLines() (first, second string, err error) {
	if first, err = d.line(); err == nil {
		second, err = d.line()
	}
	return first, second, err
}

// unquote reads the text of protocol 0, as Python 2's repr wrote it.
func unquote(s string) (string, error) {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '\'' && s[0] != '"' {
		return "", errors.New("a text has no quotes")
	}
	return unescape(s[1:len(s)-1], false)
}

// unescape resolves backslashes: those of a Python text, or (raw) the two with which raw-unicode-escape writes a
// character.
func unescape(s string, raw bool) (string, error) {
	if raw { // bytes stand for latin-1
		var latin strings.Builder
		for i := 0; i < len(s); i++ {
			latin.WriteRune(rune(s[i]))
		}
		s = latin.String()
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		digits := 0
		switch c := s[i]; {
		case raw && c == 'u':
			digits = 4
		case raw && c == 'U':
			digits = 8
		case raw:
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		case c == 'x':
			digits = 2
		case c >= '0' && c <= '7':
			end := i
			for end < len(s) && end < i+3 && s[end] >= '0' && s[end] <= '7' {
				end++
			}
			n, _ := strconv.ParseUint(s[i:end], 8, 16)
			b.WriteByte(byte(n))
			i = end - 1
			continue
		default:
			if at := strings.IndexByte(`abfnrtv\'"`, c); at >= 0 {
				b.WriteByte("\a\b\f\n\r\t\v\\'\""[at])
			} else {
				b.WriteByte('\\')
				b.WriteByte(c)
			}
			continue
		}
		if i+digits >= len(s) {
			return "", errors.New("a text ends within an escape")
		}
		n, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
		if err != nil {
			return "", errors.New("a text has an escape that is none")
		}
		if raw {
			b.WriteRune(rune(n))
		} else {
			b.WriteByte(byte(n))
		}
		i += digits
	}
	return b.String(), nil
}
