// Package models knows which architectures run on MPS, forward and backward, release by release: the table behind
// `assay models` and `assay advise`. models.tsv holds what tools/models saw on the double; nothing of it was seen on a
// Mac. What a fact says stands in internal/facts, what an operator's state is in internal/atlas: the table names both.
package models

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed models.tsv
var built []byte

// Open gives the table that is built in. It is shared: it is not to be changed.
var Open = sync.OnceValue(func() *Table {
	t, err := Parse(built)
	if err != nil {
		panic(err) // built in, and read by a test
	}
	return t
})

// Batches are those whose peak the table has.
var Batches = []int{1, 8}

// Table is the matrix, and how it was made.
type Table struct {
	Made     []Made   // versions of packages, and the Mac that the double stood for
	Releases []string // of torch, oldest first
	Limits   []Limit
	Models   []Model // by name
}

// Limit is how much memory Metal recommends to use at most, on a Mac with so much under a macOS.
type Limit struct {
	GiB   int    `json:"gib"`   // of unified memory
	MacOS int    `json:"macos"` // its first number
	Bytes int64  `json:"bytes"`
	Known string `json:"known"` // how: observed, or derived from those that were observed
}

// Made is one thing that the table was made with.
type Made struct{ What, Is string }

// Model is one architecture at one size.
type Model struct {
	Name, Task, Family, Package string
	Input                       string // of one row of the batch, in words
	Parameters                  int64
	Carried                     string // shapes, or values where the model asks for values
	Peaks                       []Peak // one for each of Batches
	Spans                       []Span // oldest first, without gaps, over all releases
	Met                         []Met  // known facts that calls met
	CPU                         string // where it fails on the newest release: ok, or the CPU's error
}

// Part is how much of a model stands in the table where that is not all of it, as in NAME/2-layers; "" where it is.
// It calls the operators of the whole; parameters and peaks are the part's.
func (m *Model) Part() string {
	if i := strings.LastIndex(m.Name, "/"); i >= 0 && strings.HasSuffix(m.Name, "-layers") {
		return strings.TrimSuffix(m.Name[i+1:], "-layers") + " layers"
	}
	return ""
}

// Peak is the most memory that training takes: two steps of AdamW in float32 on the newest release, as Metal's driver
// counts.
type Peak struct {
	Batch int
	Bytes int64  // 0: not known
	Why   string // it is not known
}

// Span is a stretch of releases in which the same comes of it. A name that is empty is none.
type Span struct {
	From, To string   // both within
	Outcome  string   // as `assay try` names it
	Phase    string   // where it ended
	Operator string   // that ended it
	Text     string   // of the error, its first line
	Fallback string   // outcome with PYTORCH_ENABLE_MPS_FALLBACK=1; "": not tried
	OnCPU    []string // operators that run there with the fallback
}

// Met is a fact that calls of the model met, from a release to another.
type Met struct {
	Fact      string
	Sure      bool // false: one call's arguments do not tell whether its condition holds
	From, To  string
	Operators []string
}

// header says what the table is, and is written above it.
const header = `# Which architectures run on MPS, release by release, as rehearsed on the double: no Mac was used.
# Made by tools/models: go run ./tools/models --python PYTHON. It takes up where it was stopped, and adds what zoo.py has more.
# made      what  is
# releases  those of torch
# limit     GiB of a Mac  macOS  bytes of Metal's recommended working set  observed or derived (agent/assay_agent/double/allocator.py)
# model     name  task  family  package  input  parameters  carried  CPU
# peak      batch  bytes or -  why it is not known    two steps of AdamW, float32, newest release, as Metal's driver counts
# span      from  to  outcome  phase  operator  fallback's outcome  operators on the CPU  error
# met       fact  sure or perhaps  from  to  operators
# An empty cell is -. What follows a model is of it. Fields are parted by tabs.
`

// cells are how many fields a line of a kind has, the kind not counted.
var cells = map[string]int{"made": 2, "releases": 1, "limit": 4, "model": 8, "peak": 3, "span": 8, "met": 5}

// Parse reads a table; the error names the line that is not well formed.
func Parse(text []byte) (*Table, error) {
	t := &Table{}
	for n, line := range strings.Split(string(bytes.TrimSuffix(text, []byte("\n"))), "\n") {
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		if err := t.line(line); err != nil {
			return nil, fmt.Errorf("models: line %d: %w", n+1, err)
		}
	}
	for _, m := range t.Models {
		if err := t.check(m); err != nil {
			return nil, fmt.Errorf("models: %s: %w", m.Name, err)
		}
	}
	return t, nil
}

func (t *Table) line(line string) error {
	fields := strings.Split(line, "\t")
	kind, fields := fields[0], fields[1:]
	if n, known := cells[kind]; !known || n != len(fields) {
		return fmt.Errorf("%.40q with %d fields is no line of the table", kind, len(fields))
	}
	for i, f := range fields {
		if f == "-" {
			fields[i] = ""
		}
	}
	if kind == "peak" || kind == "span" || kind == "met" {
		if len(t.Models) == 0 {
			return fmt.Errorf("a %s before any model", kind)
		}
		return t.Models[len(t.Models)-1].line(kind, fields)
	}
	switch kind {
	case "made":
		t.Made = append(t.Made, Made{fields[0], fields[1]})
	case "releases":
		t.Releases = strings.Fields(fields[0])
	case "limit":
		gib, err := strconv.Atoi(fields[0])
		macos, err2 := strconv.Atoi(fields[1])
		bytes, err3 := strconv.ParseInt(fields[2], 10, 64)
		if err := errors.Join(err, err2, err3); err != nil {
			return err
		}
		t.Limits = append(t.Limits, Limit{gib, macos, bytes, fields[3]})
	case "model":
		parameters, err := strconv.ParseInt(fields[5], 10, 64)
		if err != nil {
			return err
		}
		t.Models = append(t.Models, Model{Name: fields[0], Task: fields[1], Family: fields[2], Package: fields[3],
			Input: fields[4], Parameters: parameters, Carried: fields[6], CPU: fields[7]})
	}
	return nil
}

// line adds a line that is of the model.
func (m *Model) line(kind string, fields []string) error {
	switch kind {
	case "peak":
		batch, err := strconv.Atoi(fields[0])
		if err != nil {
			return err
		}
		p := Peak{Batch: batch, Why: fields[2]}
		if fields[1] != "" {
			if p.Bytes, err = strconv.ParseInt(fields[1], 10, 64); err != nil {
				return err
			}
		}
		m.Peaks = append(m.Peaks, p)
	case "span":
		m.Spans = append(m.Spans, Span{From: fields[0], To: fields[1], Outcome: fields[2], Phase: fields[3],
			Operator: fields[4], Fallback: fields[5], OnCPU: strings.Fields(fields[6]), Text: fields[7]})
	case "met":
		if fields[1] != "sure" && fields[1] != "perhaps" {
			return fmt.Errorf("%q is neither sure nor perhaps", fields[1])
		}
		m.Met = append(m.Met, Met{fields[0], fields[1] == "sure", fields[2], fields[3], strings.Fields(fields[4])})
	}
	return nil
}

// check: the spans are all releases, one after the other; other releases are known ones.
func (t *Table) check(m Model) error {
	next := 0
	for _, s := range m.Spans {
		from, to := slices.Index(t.Releases, s.From), slices.Index(t.Releases, s.To)
		if from != next || to < from || s.Outcome == "" {
			return fmt.Errorf("the span %s to %s does not follow the one before it", s.From, s.To)
		}
		next = to + 1
	}
	if next != len(t.Releases) {
		return fmt.Errorf("its spans are of %d releases, and there are %d", next, len(t.Releases))
	}
	for _, x := range m.Met {
		if from := slices.Index(t.Releases, x.From); from < 0 || slices.Index(t.Releases, x.To) < from {
			return fmt.Errorf("the fact %s from %q to %q: no such releases", x.Fact, x.From, x.To)
		}
	}
	if len(m.Peaks) != len(Batches) {
		return fmt.Errorf("it has %d peaks, and should have %d", len(m.Peaks), len(Batches))
	}
	return nil
}

// Write writes the table as Parse reads it.
func (t *Table) Write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(header)
	row := func(fields ...string) {
		for i, f := range fields {
			if f = strings.Join(strings.Fields(f), " "); f == "" {
				f = "-"
			}
			fields[i] = f
		}
		b.WriteString(strings.Join(fields, "\t") + "\n")
	}
	for _, m := range t.Made {
		row("made", m.What, m.Is)
	}
	row("releases", strings.Join(t.Releases, " "))
	for _, l := range t.Limits {
		row("limit", strconv.Itoa(l.GiB), strconv.Itoa(l.MacOS), strconv.FormatInt(l.Bytes, 10), l.Known)
	}
	for _, m := range t.Models {
		row("model", m.Name, m.Task, m.Family, m.Package, m.Input, strconv.FormatInt(m.Parameters, 10), m.Carried,
			m.CPU)
		for _, p := range m.Peaks {
			bytes := ""
			if p.Bytes > 0 {
				bytes = strconv.FormatInt(p.Bytes, 10)
			}
			row("peak", strconv.Itoa(p.Batch), bytes, p.Why)
		}
		for _, s := range m.Spans {
			row("span", s.From, s.To, s.Outcome, s.Phase, s.Operator, s.Fallback, strings.Join(s.OnCPU, " "), s.Text)
		}
		for _, x := range m.Met {
			sure := "perhaps"
			if x.Sure {
				sure = "sure"
			}
			row("met", x.Fact, sure, x.From, x.To, strings.Join(x.Operators, " "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
