// Package facts is the one table of what is known about MPS beyond whether an operator has a kernel: what PyTorch's
// backend refuses, what ends the process, what goes to the CPU by itself, what is wrong, what is slow. A fact stands
// once, as a row of rows/*.toml; the double's table (facts.json) and docs/knowledge.md are generated from it, and every
// surface, a place where a user meets facts, asks Table.Ask.
package facts

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"assay/internal/atlas"
)

//go:embed rows
var rows embed.FS

// Outcome is what happens to who meets a fact.
type Outcome string

// The outcomes, the worst for a user first: a wrong number goes unnoticed.
const (
	Wrong   Outcome = "wrong"   // wrong numbers, without a word
	Aborts  Outcome = "aborts"  // the process ends, no exception can be caught
	Refused Outcome = "refused" // an exception
	CPU     Outcome = "cpu"     // the operator goes to the CPU by itself, whatever PYTORCH_ENABLE_MPS_FALLBACK says
	Slow    Outcome = "slow"    // another, slower way is taken
	Warns   Outcome = "warns"   // a warning, and what it says is done
	Ignored Outcome = "ignored" // what was asked for is not done, or not refused where a CPU refuses
)

// Outcomes lists them, worst first.
var Outcomes = []Outcome{Wrong, Aborts, Refused, CPU, Slow, Warns, Ignored}

// Fact is a row. Its fields are described in docs/knowledge.md.
type Fact struct {
	Name   string   `toml:"name" json:"name"`
	Meets  []string `toml:"meets" json:"meets"` // aten::sum stands for all its overloads, * for any tensor
	Python []string `toml:"python" json:"python,omitempty"`
	// Python names of which each call meets it
	Always []string `toml:"always" json:"always,omitempty"`
	// forward, backward, "": as the operators say
	Direction string `toml:"direction" json:"direction,omitempty"`
	Kind      string `toml:"kind" json:"kind,omitempty"` // what it hangs on: dtype, rank, shape, …
	When      string `toml:"when" json:"when"`
	// all hold; empty: always; nil: one call's arguments do not tell
	If       []Clause          `toml:"if" json:"if"`
	Partly   bool              `toml:"partly" json:"partly,omitempty"` // If has to hold, and what When says beyond it
	Outcome  Outcome           `toml:"outcome" json:"outcome"`
	Error    string            `toml:"error" json:"error,omitempty"` // the exception's class
	Text     string            `toml:"text" json:"text,omitempty"`   // its message, {…} where it varies
	Wrong    string            `toml:"wrong" json:"wrong,omitempty"` // what comes out instead
	Remedy   string            `toml:"remedy" json:"remedy,omitempty"`
	From     string            `toml:"from" json:"from,omitempty"`   // first release in which it was seen
	Until    string            `toml:"until" json:"until,omitempty"` // last release in which it was seen
	Fixed    string            `toml:"fixed" json:"fixed,omitempty"` // first release in which it is right
	MacOS    string            `toml:"macos" json:"macos,omitempty"` // < 14.0, >= 26.0: only on these
	Source   string            `toml:"source" json:"source"`
	Known    string            `toml:"known" json:"known"`         // derived or reported
	Open     bool              `toml:"open" json:"open,omitempty"` // the issue was open when the row was written
	Verified []string          `toml:"verified" json:"verified,omitempty"`
	Call     string            `toml:"call" json:"call,omitempty"`     // the smallest Python that meets it
	Beside   string            `toml:"beside" json:"beside,omitempty"` // as near as can be, and does not
	Holes    map[string]string `toml:"holes" json:"holes,omitempty"`   // surface → why it cannot show the row

	family string // the file that has it
}

// Holds says whether the row speaks of a release of torch.
func (f *Fact) Holds(torch string) bool {
	switch {
	case f.From != "" && atlas.CompareReleases(torch, f.From) < 0:
		return false
	case f.Fixed != "" && atlas.CompareReleases(torch, f.Fixed) >= 0:
		return false
	case f.Until != "" && atlas.CompareReleases(torch, f.Until) > 0:
		return false
	}
	return true
}

// Certain says whether it is known that the row is true in a release of which it speaks. What was read in the releases
// is. What is known from reports is where a report shows it: from the first release to the last, or to the newest while
// the issue is open; whether a later release still has it, nobody has said.
func (f *Fact) Certain(torch string) bool {
	switch {
	case f.Known == "derived" || f.Open && f.From != "" || torch != "" && torch == f.Until:
		return true
	case f.From == "" || torch == "":
		return false
	case atlas.CompareReleases(torch, f.From) == 0:
		return true
	}
	return f.Until != "" || f.Fixed != ""
}

// On says whether the row speaks of a macOS; 0.0 is any.
func (f *Fact) On(macos [2]int) bool {
	if f.MacOS == "" || macos == [2]int{} {
		return true
	}
	for bound := range strings.SplitSeq(f.MacOS, ",") {
		m := boundRE.FindStringSubmatch(strings.TrimSpace(bound))
		c := atlas.CompareReleases(fmt.Sprintf("%d.%d", macos[0], macos[1]), twoParts(m[2]))
		if m[1] == "<" && c >= 0 || m[1] == ">=" && c < 0 {
			return false
		}
	}
	return true
}

var boundRE = regexp.MustCompile(`^(<|>=) *(\d+(?:\.\d+)?)$`)

func twoParts(version string) string {
	if !strings.Contains(version, ".") {
		return version + ".0"
	}
	return version
}

// About says whether the row speaks of an operator, aten::add.Tensor.
func (f *Fact) About(operator string) bool {
	base, _, _ := strings.Cut(operator, ".")
	return slices.Contains(f.Meets, operator) || slices.Contains(f.Meets, base)
}

// Everywhere says whether the row speaks of any tensor on MPS, and not of single operators.
func (f *Fact) Everywhere() bool { return slices.Contains(f.Meets, "*") }

// Rank is the outcome's place in Outcomes: 0 is the worst.
func (f *Fact) Rank() int { return slices.Index(Outcomes, f.Outcome) }

// Table is the facts, by family and in the order of the files.
type Table struct {
	All    []*Fact
	byName map[string]*Fact
	named  map[string][]*Fact // by operator as Meets names it
	every  []*Fact            // of any tensor
	python map[string][]*Fact // by the Python names that rows give
}

// Load reads what is built in.
var Load = sync.OnceValue(func() *Table {
	t, err := Parse(rows)
	if err != nil {
		panic(err) // built in, and read by a test
	}
	return t
})

// Parse reads the rows of a folder of TOML files. It fails with the file's and the row's name where a row is not
// well-formed.
func Parse(folder fs.FS) (*Table, error) {
	files, err := fs.Glob(folder, "rows/*.toml")
	if err != nil {
		return nil, err
	}
	t := &Table{byName: map[string]*Fact{}, named: map[string][]*Fact{}, python: map[string][]*Fact{}}
	for _, name := range files {
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		if err := t.add(strings.TrimSuffix(strings.TrimPrefix(name, "rows/"), ".toml"), text); err != nil {
			return nil, fmt.Errorf("facts: read %s: %w", name, err)
		}
	}
	return t, nil
}

func (t *Table) add(family string, text []byte) error {
	var file struct {
		Fact []*Fact `toml:"fact"`
	}
	if err := toml.NewDecoder(strings.NewReader(string(text))).DisallowUnknownFields().Decode(&file); err != nil {
		return err
	}
	for _, f := range file.Fact {
		f.family = family
		if err := f.check(); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if t.byName[f.Name] != nil {
			return fmt.Errorf("%s stands twice", f.Name)
		}
		t.byName[f.Name] = f
		t.All = append(t.All, f)
		for _, op := range f.Meets {
			if op == "*" {
				t.every = append(t.every, f)
				continue
			}
			t.named[op] = append(t.named[op], f)
		}
		for _, name := range slices.Concat(f.Python, f.Always) {
			t.python[name] = append(t.python[name], f)
		}
	}
	return nil
}

// Fact finds a row by its name; nil where there is none.
func (t *Table) Fact(name string) *Fact { return t.byName[name] }

var releaseRE = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

func (f *Fact) check() error {
	need := func(field, value string) error {
		if value == "" {
			return fmt.Errorf("it has no %s", field)
		}
		return nil
	}
	for _, e := range []error{need("name", f.Name), need("when", f.When), need("source", f.Source),
		need("outcome", string(f.Outcome))} {
		if e != nil {
			return e
		}
	}
	if len(f.Meets) == 0 {
		return fmt.Errorf("it meets nothing")
	}
	for _, op := range f.Meets {
		if op != "*" && !strings.Contains(op, "::") {
			return fmt.Errorf("it meets %q: an operator has a namespace, aten::add", op)
		}
	}
	if f.Rank() < 0 {
		return fmt.Errorf("outcome %q is none of %v", f.Outcome, Outcomes)
	}
	if f.Outcome == Refused && f.Error == "" {
		return fmt.Errorf("it is refused: error belongs to it")
	}
	if f.Outcome == Wrong && f.Wrong == "" {
		return fmt.Errorf("it is wrong: what comes out belongs to it")
	}
	if f.Known != "derived" && f.Known != "reported" {
		return fmt.Errorf("known is %q, neither derived nor reported", f.Known)
	}
	for field, value := range map[string]string{"from": f.From, "until": f.Until, "fixed": f.Fixed} {
		if value != "" && !releaseRE.MatchString(value) {
			return fmt.Errorf("%s is %q, no release like 2.8.0", field, value)
		}
	}
	for bound := range strings.SplitSeq(f.MacOS, ",") {
		if f.MacOS != "" && !boundRE.MatchString(strings.TrimSpace(bound)) {
			return fmt.Errorf("macos is %q, no bound like < 14.0 or >= 26.0", f.MacOS)
		}
	}
	switch f.Direction {
	case "", "forward", "backward":
	default:
		return fmt.Errorf("direction is %q, neither forward nor backward", f.Direction)
	}
	if f.Call == "" != (f.Beside == "") {
		return fmt.Errorf("call and beside belong together")
	}
	for surface := range f.Holes {
		if !slices.Contains(Surfaces, surface) {
			return fmt.Errorf("holes: %q is none of the surfaces %v", surface, Surfaces)
		}
	}
	if f.Partly && f.If == nil {
		return fmt.Errorf("partly is about if, which it has not")
	}
	for i, c := range f.If {
		if err := c.check(); err != nil {
			return fmt.Errorf("clause %d of if: %w", i+1, err)
		}
	}
	return nil
}

// Surfaces are those to which each row is held by a test.
var Surfaces = []string{"double", "check", "ops", "explain"}
