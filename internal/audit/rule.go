// Package audit reads Python source and finds what will break, fall back, slow down or mislead on the target, before anything runs.
//
// A file is parsed (internal/pyast) and interpreted in the abstract: every expression gets a Value, which says what is known of it: the
// dotted name of an API, a constant, the devices on which a tensor may live, its dtype. Rules look at nodes with their values and report.
// What follows from the source alone is reported as sure; what depends on something that the source leaves open is suspected.
package audit

import (
	"strings"

	"assay/internal/atlas"
	"assay/internal/pyast"
)

// Severity says how much a finding matters on the target.
type Severity string

const (
	Error   Severity = "error"   // it stops the program, or gives wrong results silently
	Warning Severity = "warning" // it slows down, falls back to the CPU, or breaks under circumstances that are common
	Notice  Severity = "note"    // worth knowing
)

// Safety says how far a fix can be trusted.
type Safety string

const (
	Safe   Safety = "safe"   // keeps the meaning on every device; applied by --fix
	Unsafe Safety = "unsafe" // may change what the program does; applied by --fix --unsafe-fixes
	Manual Safety = "manual" // is only shown
)

// Edit replaces the bytes [From, To) of a source.
type Edit struct {
	From, To int
	Text     string
}

// Fix is a set of edits that belong together, and what they do, in the imperative: "write float32".
type Fix struct {
	Safety Safety
	Title  string
	Edits  []Edit
}

// Finding is what a rule says about a place.
type Finding struct {
	Rule     *Rule
	Severity Severity
	Sure     bool // false: suspected, and Text says what it depends on
	From, To int  // bytes of the source
	Text     string
	Hint     string // what to do; may be empty where Fix says it
	Fix      *Fix
	Source   string // of the fact behind it: a file of PyTorch, an issue, the atlas
}

// Doc is a rule's page.
type Doc struct {
	Why    string // what happens on the target, in a few sentences
	Bad    string // source that earns the finding
	Good   string // the same, right
	Source string // where the facts come from
}

// Rule finds one kind of trouble. Its name says what it finds, not the cure.
type Rule struct {
	Name     string
	Title    string
	Severity Severity // what its findings usually are; a finding may say otherwise
	Doc      Doc
	Fixable  bool

	// What the rule looks at; nil ones are not called.
	Names func(path string) bool  // which names Call asks for: the answer is kept; nil is all
	Call  func(*Pass, *Call)      // calls whose function has a name: an API's, a method's, or ?.name of an unknown value
	Node  func(*Pass, pyast.Node) // nodes of Kinds, when their parts have been interpreted; no Kinds: the if where a program gives up for want of CUDA
	Kinds []pyast.Kind
	File  func(*Pass)           // once a file, when it has been interpreted
	Text  func(*Text) []Finding // files that are not Python
}

// Text is a file that is not Python: requirements, pyproject, environment.
type Text struct {
	Kind   string
	Path   string
	Src    *Source
	Target *Target
}

// Target is what the code is judged for.
type Target struct {
	Device string        // mps (the default), cpu, cuda; tensorflow and mlx code is judged by what it imports
	Torch  atlas.Release // of PyTorch
	MacOS  [2]int        // 0.0: any
	Atlas  *atlas.Atlas
}

// Since reports whether the release aimed at is this one or later.
func (t *Target) Since(release string) bool {
	return atlas.CompareReleases(t.Torch.Version, release) >= 0
}

// Near is the rule whose name is spelt almost so, or "".
func Near(rules []*Rule, name string) string {
	best, at := "", 4
	for _, r := range rules {
		if strings.Contains(r.Name, name) && name != "" {
			return r.Name
		}
		if d := distance(r.Name, name); d < at {
			best, at = r.Name, d
		}
	}
	return best
}

// distance counts the edits between two short texts.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
