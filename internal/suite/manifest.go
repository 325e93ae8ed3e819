package suite

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/text"
)

// Manifest is a file of the failures that a suite is expected to have on MPS. docs/formats/manifest.md describes it.
type Manifest struct {
	head    []string // lines before the first entry
	entries []*Expected
	tail    []string // lines after the last
}

// Expected is one test, and how it fails on some releases.
type Expected struct {
	ID       string
	Error    string // class of the exception, without its module; ended, hung; failed: without an exception
	Operator string // that the device refuses; "": any, or none
	Reason   string // the user's words
	on       releases
	above    []string // comments and empty lines before it
	raw      string   // the line as it was read; "" of one that was changed
	line     int
}

// What stands for a failure that raised no exception.
const (
	endedKind, hungKind = string(Ended), string(Hung)
	failedKind          = "failed" // as a strict xfail that passed
)

// Bounds of a manifest.
const (
	maxManifest     = 64 << 20 // bytes
	maxManifestLine = 128 << 10
	maxOfTest       = 100 // lines of one test: there are fewer releases
)

var (
	errorForm    = regexp.MustCompile(`^[\pL_][\pL\pN_]*(\.[\pL_][\pL\pN_]*)*$`)
	operatorForm = regexp.MustCompile(`^\w+::\w+(\.\w+)?$`)
	marker       = regexp.MustCompile(`^(<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|)( |$)|^=======$`)
)

// newHead stands above a manifest that is written for the first time.
var newHead = []string{
	"# Failures that are expected on Apple's GPU, a line each: exception, test, op=, torch=, # reason; tabs between.",
	"# Written by: assay test --manifest FILE --update. Comments and reasons stay.",
}

// OpenManifest reads the manifest at path. With settle, what a merge left in it is taken from both sides, and where
// there is no file it is empty.
func OpenManifest(path string, settle bool) (*Manifest, error) {
	f, err := os.Open(path)
	if settle && errors.Is(err, fs.ErrNotExist) {
		return &Manifest{head: slices.Clone(newHead)}, nil
	}
	if err != nil {
		return nil, fault.Hint(fmt.Errorf("read the manifest: %w", err), "--update writes one")
	}
	defer f.Close()
	m, err := ReadManifest(f, settle)
	if err != nil {
		return nil, fault.Hint(fmt.Errorf("read the manifest: %s: %w", path, err), fault.HintOf(err))
	}
	return m, nil
}

// ReadManifest reads a manifest. With settle, lines of both sides of a conflict count, and of two lines for the same
// test and release the first; else both are errors, as is each line that is none of a manifest.
func ReadManifest(r io.Reader, settle bool) (*Manifest, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxManifest {
		return nil, fmt.Errorf("it is larger than %d MiB", maxManifest>>20)
	}
	m := &Manifest{}
	var above []string
	inBase := false // between ||||||| and =======: what both sides had before
	n := 0
	for line := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		n++
		one := string(bytes.TrimSuffix(line, []byte("\r")))
		if mark := marker.FindString(one); mark != "" {
			if !settle {
				return nil, fault.Hint(fmt.Errorf("line %d: %s: a merge was left unsettled there", n, mark),
					"keep the lines of both sides, or run it with --update, which settles it by what the tests do")
			}
			inBase = strings.HasPrefix(mark, "|")
			continue
		}
		if inBase {
			continue
		}
		if err := harmless(one); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if strings.HasPrefix(one, "#") || strings.TrimSpace(one) == "" {
			above = append(above, strings.TrimRight(one, " \t"))
			continue
		}
		e, err := parseExpected(one)
		if err != nil {
			return nil, fault.Hint(fmt.Errorf("line %d: %w", n, err),
				"a line is an exception's class, a tab, and the test's id, as pytest prints it; then, if wanted, op=, "+
					"torch= and # reason, each after a tab")
		}
		e.line = n
		if len(m.entries) == 0 {
			m.head = above
		} else {
			e.above = above
		}
		above = nil
		m.entries = append(m.entries, e)
	}
	m.tail = above
	if len(m.entries) == 0 {
		m.head, m.tail = above, nil
		if len(m.head) == 1 && m.head[0] == "" { // an empty file
			m.head = nil
		}
	}
	return m, m.unlike(settle)
}

// harmless is the error of a line that no test has.
func harmless(line string) error {
	if len(line) > maxManifestLine {
		return fmt.Errorf("it has %d bytes; %d are read", len(line), maxManifestLine)
	}
	if !utf8.ValidString(line) {
		return errors.New("it is no UTF-8")
	}
	for _, c := range line {
		if c != '\t' && unicode.IsControl(c) {
			return fmt.Errorf("it has the control character %U", c)
		}
	}
	return nil
}

func parseExpected(line string) (*Expected, error) {
	fields := strings.Split(line, "\t")
	if len(fields) < 2 {
		return nil, errors.New("no tab in it")
	}
	e := &Expected{Error: fields[0], ID: fields[1], raw: line}
	if !errorForm.MatchString(e.Error) {
		return nil, fmt.Errorf("%q is no class of an exception", e.Error)
	}
	if e.ID == "" || strings.TrimSpace(e.ID) != e.ID {
		return nil, fmt.Errorf("%q is no id of a test", e.ID)
	}
	if e.Error == "pytest.fail.Exception" { // what pytest.fail raises, by the name that it has outside
		e.Error = "Failed"
	}
	e.Error = e.Error[strings.LastIndex(e.Error, ".")+1:]
	rest := fields[2:]
	if len(rest) > 0 && strings.HasPrefix(rest[0], "op=") {
		e.Operator = strings.TrimPrefix(rest[0], "op=")
		if !operatorForm.MatchString(e.Operator) {
			return nil, fmt.Errorf("%s: write an operator as op=aten::foo", rest[0])
		}
		rest = rest[1:]
	}
	if len(rest) > 0 && strings.HasPrefix(rest[0], "torch=") {
		var err error
		if e.on, err = parseReleases(strings.TrimPrefix(rest[0], "torch=")); err != nil {
			return nil, err
		}
		rest = rest[1:]
	}
	if len(rest) > 0 {
		reason, ok := strings.CutPrefix(strings.Join(rest, " "), "#")
		if !ok {
			return nil, fmt.Errorf("%q is neither op=, torch= nor # reason, in that order", rest[0])
		}
		e.Reason = strings.TrimSpace(reason)
	}
	return e, nil
}

// unlike sees to it that a test has one entry for a release.
func (m *Manifest) unlike(settle bool) error {
	before := map[string][]*Expected{}
	kept := m.entries[:0]
	for _, e := range m.entries {
		at := slices.IndexFunc(before[e.ID], func(b *Expected) bool { return b.on.meets(e.on) })
		if at >= 0 && !settle {
			return fault.Hint(fmt.Errorf("line %d: %s is in line %d already, for the same release", e.line, e.ID,
				before[e.ID][at].line), "keep one of the two, or run it with --update")
		}
		if at >= 0 {
			before[e.ID][at].Reason = cmp.Or(before[e.ID][at].Reason, e.Reason)
			before[e.ID][at].raw = ""
			continue
		}
		if len(before[e.ID]) == maxOfTest {
			return fmt.Errorf("line %d: %s has more than %d lines", e.line, text.Short(e.ID, 200), maxOfTest)
		}
		before[e.ID] = append(before[e.ID], e)
		kept = append(kept, e)
	}
	m.entries = kept
	return nil
}

// String is the line of an entry.
func (e *Expected) String() string {
	if e.raw != "" {
		return e.raw
	}
	s := e.Error + "\t" + e.ID
	if e.Operator != "" {
		s += "\top=" + e.Operator
	}
	if e.on != nil {
		s += "\ttorch=" + e.on.String()
	}
	if e.Reason != "" {
		s += "\t# " + e.Reason
	}
	return s
}

// Bytes is the file: by test, then by release. An entry that was not changed is as it was read.
func (m *Manifest) Bytes() []byte {
	slices.SortStableFunc(m.entries, func(a, b *Expected) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), cmp.Compare(a.on.least(), b.on.least()))
	})
	var b strings.Builder
	lines := func(all []string) {
		for _, line := range all {
			b.WriteString(line + "\n")
		}
	}
	lines(m.head)
	for _, e := range m.entries {
		lines(e.above)
		b.WriteString(e.String() + "\n")
	}
	lines(m.tail)
	return []byte(b.String())
}

// Write writes it whole, where it says something else than the file that is there.
func (m *Manifest) Write(path string) error {
	data := m.Bytes()
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, data) {
		return nil
	}
	if err := file.Rewrite(path, data); err != nil {
		return fmt.Errorf("write the manifest %s: %w", path, err)
	}
	return nil
}

// byID are the entries of each test.
func (m *Manifest) byID() map[string][]*Expected {
	all := map[string][]*Expected{}
	for _, e := range m.entries {
		all[e.ID] = append(all[e.ID], e)
	}
	return all
}
