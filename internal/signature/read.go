package signature

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"

	"assay/internal/fault"
)

// What a reader takes. A file may come from anybody.
const (
	MaxLine       = 1 << 20   // bytes
	MaxFile       = 256 << 20 // bytes: 200,000 signatures of 1.3 KB; those of ResNet-18's training have 0.7 KB
	MaxSignatures = 200_000
	MaxDims       = 64
	MaxList       = 10_000
	MaxDepth      = 8
	maxText       = 4096 // bytes of a string argument
	maxName       = 256  // bytes of an operator's, an argument's or a type's name
	maxElements   = 1 << 62
)

// Reader gives the signatures of a file one after the other, each line held against the format's bounds.
type Reader struct {
	Header Header
	in     *bufio.Reader
	line   int
	read   int64
	count  int
}

// NewReader reads the header.
func NewReader(r io.Reader) (*Reader, error) {
	out := &Reader{in: bufio.NewReaderSize(r, 1<<16)}
	line, err := out.next()
	if err == io.EOF {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, notOne(err)
	}
	if err := out.Header.parse(line); err != nil {
		return nil, notOne(err)
	}
	return out, nil
}

func notOne(err error) error {
	return fault.Hint(fmt.Errorf("no file of signatures: %w", err), "assay signatures record writes such a file")
}

func (h *Header) parse(line []byte) error {
	var version struct {
		Signatures any `json:"signatures"`
	}
	if err := json.Unmarshal(line, &version); err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	switch v, ok := version.Signatures.(float64); {
	case version.Signatures == nil:
		return errors.New(`line 1 has no "signatures"`)
	case !ok || v != Version:
		return fmt.Errorf("line 1: version %v of the format, and this assay reads %d", version.Signatures, Version)
	}
	if err := json.Unmarshal(line, h); err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	for _, s := range []string{h.Torch, h.Python, h.Device, h.DeviceName, h.System} {
		if len(s) > maxName {
			return fmt.Errorf("line 1: a text of %d bytes, beyond %d", len(s), maxName)
		}
	}
	if len(h.Why) > maxText {
		return fmt.Errorf("line 1: a text of %d bytes, beyond %d", len(h.Why), maxText)
	}
	if h.Steps < 0 || h.Seen < 0 || h.Looked < 0 {
		return errors.New("line 1: a count below 0")
	}
	return nil
}

// Next is the next signature, or io.EOF.
func (r *Reader) Next() (*Signature, error) {
	line, err := r.next()
	if err != nil {
		return nil, err
	}
	if r.count++; r.count > MaxSignatures {
		return nil, fmt.Errorf("line %d: more than %d signatures", r.line, MaxSignatures)
	}
	s, err := Parse(line)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", r.line, err)
	}
	return s, nil
}

// next is the next line, without its end; it is good until the next call.
func (r *Reader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		r.read += int64(len(part))
		line = append(line, part...)
		switch {
		case len(line) > MaxLine:
			return nil, fmt.Errorf("line %d: longer than %d bytes", r.line+1, MaxLine)
		case r.read > MaxFile:
			return nil, fmt.Errorf("line %d: the file is longer than %d bytes", r.line+1, MaxFile)
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(line) > 0:
			return nil, fmt.Errorf("line %d: cut off", r.line+1)
		case err != nil:
			return nil, err
		}
		r.line++
		return bytes.TrimSuffix(line, []byte("\n")), nil
	}
}

// Load reads a file whole.
func Load(path string) (*Header, []*Signature, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	r, err := NewReader(f)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	var list []*Signature
	for {
		s, err := r.Next()
		if err == io.EOF {
			return &r.Header, list, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", path, err)
		}
		list = append(list, s)
	}
}

// Parse reads one signature, a line of a file.
func Parse(line []byte) (*Signature, error) {
	if len(line) > MaxLine {
		return nil, fmt.Errorf("longer than %d bytes", MaxLine)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var raw any
	if err := dec.Decode(&raw); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	return parseSignature(raw)
}

// An operator's name is a namespace and a word; an overload or a keyword is a word.
var (
	opName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*::[A-Za-z_][A-Za-z0-9_.]*$`)
	wordName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	typeName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

func parseSignature(raw any) (*Signature, error) {
	m, ok := raw.(map[string]any)
	if !ok {
		return nil, errors.New("a signature is an object")
	}
	var s Signature
	var err error
	if s.Op, err = word(m["op"], opName); err != nil {
		return nil, fmt.Errorf("op: %w", err)
	}
	if o, _ := m["overload"].(string); o != "" || m["overload"] == nil {
		if s.Overload, err = word(m["overload"], wordName); err != nil {
			return nil, fmt.Errorf("overload: %w", err)
		}
	}
	if s.Phase, _ = m["phase"].(string); !slices.Contains(Phases, s.Phase) {
		return nil, fmt.Errorf("phase: one of %q", Phases)
	}
	if s.Count, err = integer(m["count"], 1); err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	if s.First, err = integer(m["first"], 0); err != nil {
		return nil, fmt.Errorf("first: %w", err)
	}
	args, err := list(m["args"])
	if err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	s.Args, s.Kwargs, s.Out, s.Alias = []Value{}, map[string]Value{}, []Tensor{}, [][]int{}
	for i, a := range args {
		v, err := parseValue(a, 1)
		if err != nil {
			return nil, fmt.Errorf("args: %d: %w", i, err)
		}
		s.Args = append(s.Args, v)
	}
	kwargs, ok := m["kwargs"].(map[string]any)
	if !ok {
		return nil, errors.New("kwargs: an object")
	}
	for _, name := range names(kwargs) {
		if _, err := word(name, wordName); err != nil {
			return nil, fmt.Errorf("kwargs: %w", err)
		}
		if s.Kwargs[name], err = parseValue(kwargs[name], 1); err != nil {
			return nil, fmt.Errorf("kwargs: %s: %w", name, err)
		}
	}
	out, err := list(m["out"])
	if err != nil {
		return nil, fmt.Errorf("out: %w", err)
	}
	for i, o := range out {
		t, err := parseTensor(o)
		if err != nil {
			return nil, fmt.Errorf("out: %d: %w", i, err)
		}
		s.Out = append(s.Out, *t)
	}
	return &s, s.aliases(m["alias"])
}

// aliases reads groups of numbers of the signature's own tensors, each in one group at most.
func (s *Signature) aliases(raw any) error {
	groups, err := list(raw)
	if err != nil {
		return fmt.Errorf("alias: %w", err)
	}
	n, in := int64(len(s.Tensors())), map[int64]bool{}
	for _, g := range groups {
		group, err := list(g)
		if err != nil {
			return fmt.Errorf("alias: %w", err)
		}
		var numbers []int
		for _, item := range group {
			k, err := integer(item, 0)
			if err != nil || k >= n || in[k] {
				return fmt.Errorf("alias: groups of numbers of the %d tensors, each once", n)
			}
			in[k] = true
			numbers = append(numbers, int(k))
		}
		s.Alias = append(s.Alias, numbers)
	}
	return nil
}

func parseValue(raw any, depth int) (Value, error) {
	if depth > MaxDepth {
		return Value{}, fmt.Errorf("deeper than %d", MaxDepth)
	}
	switch x := raw.(type) {
	case nil:
		return Value{Kind: Null}, nil
	case bool:
		return Value{Kind: Bool, Bool: x}, nil
	case string:
		if len(x) > maxText {
			return Value{}, fmt.Errorf("a text of %d bytes, beyond %d", len(x), maxText)
		}
		return Value{Kind: Text, Text: x}, nil
	case json.Number:
		if n, err := strconv.ParseInt(x.String(), 10, 64); err == nil {
			return Value{Kind: Int, Int: n}, nil
		}
		f, err := number(x)
		return Value{Kind: Float, Float: f}, err
	case map[string]any:
		if len(x) == 1 {
			for key, inner := range x {
				return parseObject(key, inner, depth)
			}
		}
	}
	return Value{}, errors.New("no value: null, a number, a text, or an object with one key")
}

func parseObject(key string, raw any, depth int) (Value, error) {
	switch key {
	case "t":
		t, err := parseTensor(raw)
		return Value{Kind: OfTensor, Tensor: t}, err
	case "l":
		items, err := list(raw)
		v := Value{Kind: List, List: []Value{}}
		for _, item := range items {
			inner, err := parseValue(item, depth+1)
			if err != nil {
				return Value{}, err
			}
			v.List = append(v.List, inner)
		}
		return v, err
	case "float":
		f, err := float(map[string]any{key: raw})
		return Value{Kind: Float, Float: f}, err
	case "complex":
		pair, err := list(raw)
		if err != nil || len(pair) != 2 {
			return Value{}, errors.New("complex: two numbers")
		}
		v := Value{Kind: Complex}
		for i := range v.Complex {
			if v.Complex[i], err = float(pair[i]); err != nil {
				return Value{}, err
			}
		}
		return v, nil
	case "generator":
		if raw != true {
			return Value{}, errors.New("generator: true")
		}
		return Value{Kind: Generator}, nil
	case "symbol":
		s, ok := raw.(string)
		if !ok || len(s) > maxText {
			return Value{}, fmt.Errorf("symbol: a text of at most %d bytes", maxText)
		}
		return Value{Kind: Symbol, Text: s}, nil
	}
	for kind, name := range named {
		if name == key {
			s, err := word(raw, typeName)
			return Value{Kind: kind, Text: s}, err
		}
	}
	return Value{}, fmt.Errorf("no kind of value: %q", clip(key))
}

func float(raw any) (float64, error) {
	switch x := raw.(type) {
	case json.Number:
		return number(x)
	case map[string]any:
		switch s, _ := x["float"].(string); {
		case len(x) != 1:
		case s == "nan":
			return math.NaN(), nil
		case s == "inf":
			return math.Inf(1), nil
		case s == "-inf":
			return math.Inf(-1), nil
		}
	}
	return 0, errors.New(`no number: one, or {"float": "nan", "inf" or "-inf"}`)
}

func number(n json.Number) (float64, error) {
	f, err := n.Float64()
	if err != nil {
		return 0, fmt.Errorf("%s: beyond a float64", clip(n.String()))
	}
	return f, nil
}

// valuesOf are what a tensor's "values" can be.
var valuesOf = []string{"", "ints", "floats", "bools", "zero", "one", "constant", "nan", "unknown"}

func parseTensor(raw any) (*Tensor, error) {
	m, ok := raw.(map[string]any)
	if !ok {
		return nil, errors.New("a tensor is an object")
	}
	var t Tensor
	var err error
	for _, f := range []struct {
		name string
		to   *[]int64
	}{{"shape", &t.Shape}, {"stride", &t.Stride}} {
		items, err := list(m[f.name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if len(items) > MaxDims {
			return nil, fmt.Errorf("%s: more than %d dimensions", f.name, MaxDims)
		}
		*f.to = make([]int64, len(items))
		for i, item := range items {
			if (*f.to)[i], err = integer(item, 0); err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	if t.Offset, err = integer(m["offset"], 0); err != nil {
		return nil, fmt.Errorf("offset: %w", err)
	}
	if t.Storage, err = integer(m["storage"], 0); err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	for _, f := range []struct {
		name string
		to   *string
	}{{"dtype", &t.Dtype}, {"layout", &t.Layout}, {"device", &t.Device}} {
		if *f.to, err = word(m[f.name], typeName); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if m["range"] != nil {
		pair, err := list(m["range"])
		if err != nil || len(pair) != 2 {
			return nil, errors.New("range: two numbers")
		}
		var ends [2]float64
		for i, end := range pair {
			n, ok := end.(json.Number)
			if !ok {
				return nil, errors.New("range: two numbers")
			}
			if ends[i], err = number(n); err != nil {
				return nil, fmt.Errorf("range: %w", err)
			}
			t.Range = append(t.Range, n)
		}
		if ends[0] > ends[1] {
			return nil, errors.New("range: the lower end first")
		}
	}
	t.Values, _ = m["values"].(string)
	if !slices.Contains(valuesOf, t.Values) {
		return nil, fmt.Errorf("values: one of %q", valuesOf[1:])
	}
	t.Grad, _ = m["grad"].(bool)
	return &t, t.fits()
}

// fits says whether the elements lie in the storage.
func (t *Tensor) fits() error {
	if t.Layout != "strided" {
		return nil
	}
	if len(t.Stride) != len(t.Shape) {
		return fmt.Errorf("%d strides of %d dimensions", len(t.Stride), len(t.Shape))
	}
	last, elements := t.Offset, int64(1)
	for i, n := range t.Shape {
		if n == 0 {
			return nil // none
		}
		if n > maxElements/elements || n > 1 && t.Stride[i] > (maxElements-last)/(n-1) {
			return errors.New("more elements than can be counted")
		}
		elements *= n
		last += (n - 1) * t.Stride[i]
	}
	if last >= t.Storage {
		return fmt.Errorf("element %d of a storage of %d", last, t.Storage)
	}
	return nil
}

func list(raw any) ([]any, error) {
	items, ok := raw.([]any)
	if !ok {
		return nil, errors.New("a list")
	}
	if len(items) > MaxList {
		return nil, fmt.Errorf("a list of %d, beyond %d", len(items), MaxList)
	}
	return items, nil
}

func integer(raw any, least int64) (int64, error) {
	n, ok := raw.(json.Number)
	if ok {
		if k, err := strconv.ParseInt(n.String(), 10, 64); err == nil && k >= least && k < maxElements {
			return k, nil
		}
	}
	return 0, fmt.Errorf("a whole number from %d on", least)
}

func word(raw any, is *regexp.Regexp) (string, error) {
	s, ok := raw.(string)
	if !ok || len(s) > maxName || !is.MatchString(s) {
		return "", fmt.Errorf("no name: %q", clip(fmt.Sprint(raw)))
	}
	return s, nil
}

func clip(s string) string { return s[:min(len(s), 60)] }

func names[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
