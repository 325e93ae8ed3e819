// Package steps reads recordings of training steps, docs/formats/steps.md (recording.go, tensor.go), aligns two of them
// (align.go), and says where the second first departs from the first (compare.go, start.go, text.go).
package steps

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/fault"
)

// Version of the recordings that are read.
const Version = 2

// Files of a recording's folder.
const (
	rowsName  = "steps.jsonl"
	startName = "start.safetensors"
)

// Most that a recording may have. What is kept of a row in memory is some 200 bytes; the rest is read again where it
// is compared. An update of 1,000 weights by one foreach operator is a line of 4 MB.
const (
	mostLine  = 16 << 20
	mostRows  = 1_000_000
	mostNames = 64 << 20 // bytes of all names that are not the same
	mostWords = 1 << 10  // bytes of one name
)

// A Recording is an open one. Close it.
type Recording struct {
	Head
	Path string // its folder
	Name string // as it was asked for

	file  *os.File
	rows  []row // by the number of the line, from 0
	ended bool  // it has the line that closes it
	last  int   // the highest number of a step
}

// Head is what a recording says of itself.
type Head struct {
	Version     int             `json:"steps"`
	Torch       string          `json:"torch"`
	Python      string          `json:"python"`
	Device      string          `json:"device"`
	DeviceName  string          `json:"device_name"`
	System      string          `json:"system"`
	Double      json.RawMessage `json:"double"`
	Seed        *int64          `json:"seed"`
	StartedFrom string          `json:"started_from"` // SHA-256 of the start that it was given
	Start       string          `json:"start"`        // SHA-256 of its own
	Moved       int             `json:"moved"`        // units in the last place by which its inputs were moved
	Random      string          `json:"random"`       // where random numbers were drawn
	Batch       *int64          `json:"batch"`
	Policy      map[string]any  `json:"policy"`
	Complete    bool            `json:"complete"` // it has the steps that were asked for
	Recorded    int             `json:"recorded"` // whole steps
	Failed      *bool           `json:"failed"`   // the script did not end well
	Why         string          `json:"why"`
}

// rehearsed is the Mac for which a double stood, in words; "" where it ran on a device of its own.
func (h *Head) rehearsed() string {
	if len(h.Double) == 0 || string(h.Double) == "null" {
		return ""
	}
	var mac struct {
		Release string `json:"release"`
		MacOS   []int  `json:"macos"`
	}
	if json.Unmarshal(h.Double, &mac) != nil || mac.Release == "" || len(mac.MacOS) == 0 {
		return "a double"
	}
	return fmt.Sprintf("the double of PyTorch %s, macOS %d", mac.Release, mac.MacOS[0])
}

// Kinds of rows.
const (
	kindStep   = "step"
	kindOp     = "op"
	kindModule = "module"
	kindWeight = "weight"
	kindGrad   = "grad"
	kindLoss   = "loss"
	kindEnd    = "end"
)

// row is what is kept of a line: what aligns it, and where it stands.
type row struct {
	kind, phase, module, name string // name: the operator, the weight, or the module's class
	shapes                    string // of an operator's outputs
	step, call                int32
	at                        int64 // offset of its line
	length                    int32
}

// line is a row as it is written.
type line struct {
	Kind     string         `json:"k"`
	Index    int            `json:"i"`
	Step     int            `json:"n"`
	Op       string         `json:"op"`
	Phase    string         `json:"phase"`
	Module   string         `json:"module"`
	Class    string         `json:"class"`
	Call     int            `json:"call"`
	In       inputs         `json:"in"`
	Out      []*Tensor      `json:"out"`
	InFrom   []source       `json:"in_from"`
	Settings map[string]any `json:"settings"`
	Random   bool           `json:"random"`
	What     string         `json:"what"`
	Tensor   *Tensor        `json:"t"`
	Value    *number        `json:"value"`
}

// inputs are an operator's sources, or a module's tensors.
type inputs struct {
	from    []source
	tensors []*Tensor
}

func (in *inputs) UnmarshalJSON(b []byte) error {
	if trimmed := bytes.TrimLeft(b, "[ \t\r\n"); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == 'n') {
		return json.Unmarshal(b, &in.tensors)
	}
	return json.Unmarshal(b, &in.from)
}

// source is where an argument came from.
type source struct {
	kind  string // op, weight, batch, other
	name  string // of a weight
	row   int    // of an op: its line; of a batch: its number
	place int    // which of its outputs, or of the batch's tensors
	held  *Tensor
	view  *view // where the argument is one of it
}

// view is how an argument lies in the tensor that it comes from.
type view struct {
	Shape  []int64 `json:"shape"`
	Stride []int64 `json:"stride"`
	Offset int64   `json:"offset"`
}

func (v *view) like(w *view) bool {
	return slices.Equal(v.Shape, w.Shape) && slices.Equal(v.Stride, w.Stride) && v.Offset == w.Offset
}

func (v *view) String() string {
	if v == nil {
		return "the whole"
	}
	return fmt.Sprintf("a view of shape %.60s with strides %.60s", fmt.Sprint(v.Shape), fmt.Sprint(v.Stride))
}

const (
	fromOp     = "op"
	fromWeight = "weight"
	fromBatch  = "batch"
	fromOther  = "other"
)

func (s *source) UnmarshalJSON(b []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil || len(parts) == 0 {
		return fmt.Errorf("%.40q says of no argument where it is from", b)
	}
	if err := json.Unmarshal(parts[0], &s.kind); err != nil {
		return err
	}
	if last := parts[len(parts)-1]; s.kind != fromOther && last[0] == '{' {
		if err := json.Unmarshal(last, &s.view); err != nil {
			return err
		}
		parts = parts[:len(parts)-1]
	}
	into := map[string][]any{fromOp: {&s.row, &s.place}, fromWeight: {&s.name}, fromBatch: {&s.row, &s.place},
		fromOther: {&s.held}}
	wanted, ok := into[s.kind]
	if !ok || len(parts)-1 < len(wanted) && s.kind != fromOther {
		return fmt.Errorf("%.40q says of no argument where it is from", b)
	}
	for i, to := range wanted[:min(len(wanted), len(parts)-1)] {
		if err := json.Unmarshal(parts[i+1], to); err != nil {
			return err
		}
	}
	if s.row < 0 || s.place < 0 {
		return fmt.Errorf("%.40q: a number below 0", b)
	}
	return nil
}

const recordAgain = "record it again; what reads recordings is made for those of this release of assay"

// Open reads a recording: its head, and which rows it has. What the rows hold is read again where it is compared.
func Open(folder string) (*Recording, error) {
	path := filepath.Join(folder, rowsName)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fault.Hint(fmt.Errorf("reading the recording %s: %w", folder, err),
			"a recording is a folder with "+rowsName+" and "+startName)
	}
	if !info.Mode().IsRegular() {
		return nil, fault.Hint(fmt.Errorf("reading the recording %s: its %s is no regular file", folder, rowsName),
			recordAgain)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the recording %s: %w", folder, err)
	}
	r := &Recording{Path: folder, Name: folder, file: file}
	if err := r.index(); err != nil {
		file.Close()
		return nil, fault.Hint(fmt.Errorf("reading the recording %s: %w", folder, err), recordAgain)
	}
	return r, nil
}

// Close closes the recording.
func (r *Recording) Close() error { return r.file.Close() }

var errLong = fmt.Errorf("the line is longer than %d bytes, the most", mostLine)

// index goes over all lines once.
func (r *Recording) index() error {
	in := bufio.NewReaderSize(io.NewSectionReader(r.file, 0, 1<<62), 1<<20)
	var held []byte
	next := func() ([]byte, error) { // a line with its end
		held = held[:0]
		for {
			part, err := in.ReadSlice('\n')
			if len(held)+len(part) > mostLine {
				return nil, errLong
			}
			held = append(held, part...)
			if err != bufio.ErrBufferFull {
				return held, err
			}
		}
	}
	text, err := next()
	if err != nil {
		return fmt.Errorf("line 1: %w", short(err))
	}
	var version struct {
		Version *int `json:"steps"`
	}
	if err := json.Unmarshal(text, &version); err != nil || version.Version == nil {
		return errors.New("line 1: it is none: its first line does not say so")
	}
	if *version.Version != Version {
		return fmt.Errorf("line 1: it is of version %d, and this assay reads %d", *version.Version, Version)
	}
	if err := json.Unmarshal(text, &r.Head); err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	kept := interned{}
	at := int64(len(text))
	for {
		text, err := next()
		if len(text) == 0 && err == io.EOF {
			return nil
		}
		wrong := func(err error) error { return fmt.Errorf("line %d: %w", len(r.rows)+2, err) }
		if err == io.EOF && !r.Complete {
			return nil // it was cut off within a line, and says that it is not whole
		}
		if err != nil {
			return wrong(short(err))
		}
		if r.ended {
			return wrong(errors.New("there is more behind its end"))
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return wrong(err)
		}
		if l.Kind == kindEnd {
			r.ended = true
			at += int64(len(text))
			continue
		}
		if err := r.check(&l); err != nil {
			return wrong(err)
		}
		if len(r.rows) == mostRows {
			return wrong(fmt.Errorf("there are more than %d, the most", mostRows))
		}
		l.alike()
		one := row{kind: kept.of(l.Kind), phase: kept.of(l.Phase), module: kept.of(l.Module), step: int32(l.Step),
			call: int32(l.Call), at: at, length: int32(len(text))}
		switch l.Kind {
		case kindOp:
			one.name, one.shapes = kept.of(l.Op), kept.of(shapesOf(l.Out))
		case kindModule:
			one.name = kept.of(l.Class)
		default:
			one.name = kept.of(l.What)
		}
		if kept.bytes > mostNames {
			return wrong(fmt.Errorf("its names have more than %d bytes, the most", mostNames))
		}
		r.rows = append(r.rows, one)
		r.last = max(r.last, l.Step)
		at += int64(len(text))
	}
}

func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// check says what is wrong with a row.
func (r *Recording) check(l *line) error {
	if l.Index != len(r.rows) {
		return fmt.Errorf("it says that it is row %d, and is row %d", l.Index, len(r.rows))
	}
	if !slices.Contains([]string{kindStep, kindOp, kindModule, kindWeight, kindGrad, kindLoss}, l.Kind) {
		return fmt.Errorf("%.40q is no kind of row", l.Kind)
	}
	if l.Step < 0 || l.Step > mostRows || l.Call < 0 || l.Call > mostRows {
		return fmt.Errorf("step %d, call %d: 0 to %d are possible", l.Step, l.Call, mostRows)
	}
	for _, name := range []string{l.Op, l.Phase, l.Module, l.Class, l.What} {
		if len(name) > mostWords {
			return fmt.Errorf("a name of %d bytes: %d is the most", len(name), mostWords)
		}
	}
	if (l.Kind == kindWeight || l.Kind == kindGrad) && l.Tensor == nil {
		return fmt.Errorf("%.80q has no tensor", l.What)
	}
	for _, list := range [][]*Tensor{l.Out, l.In.tensors, {l.Tensor}} {
		for _, t := range list {
			if err := t.check(); err != nil {
				return err
			}
		}
	}
	for _, list := range [][]source{l.In.from, l.InFrom} {
		for _, s := range list {
			if s.kind == fromOp && s.row >= len(r.rows) {
				return fmt.Errorf("an argument comes from row %d, which is none before it", s.row)
			}
			if err := s.held.check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads a row again.
func (r *Recording) read(i int) (*line, error) {
	text := make([]byte, r.rows[i].length)
	var l line
	_, err := r.file.ReadAt(text, r.rows[i].at)
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil && (l.Index != i || l.Kind != r.rows[i].kind) {
		err = errors.New("it is another row than before: the file was changed")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: reading row %d again: %w", r.Path, i, err)
	}
	l.alike()
	return &l, nil
}

// interned keeps one copy of each name.
type interned struct {
	names map[string]string
	bytes int
}

func (in *interned) of(s string) string {
	if kept, ok := in.names[s]; ok {
		return kept
	}
	if in.names == nil {
		in.names = map[string]string{}
	}
	s = strings.Clone(s)
	in.names[s] = s
	in.bytes += len(s)
	return s
}

func shapesOf(list []*Tensor) string {
	var b strings.Builder
	for _, t := range list {
		if b.Len() > mostWords {
			return b.String() // as much as tells one call from another
		}
		b.WriteByte('[')
		if t != nil {
			for i, d := range t.Shape {
				if i > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(strconv.FormatInt(d, 10))
			}
		}
		b.WriteByte(']')
	}
	return b.String()
}
