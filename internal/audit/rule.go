// Package audit reads Python source and finds what will break, fall back, slow down or mislead on the target, before
// anything runs.
//
// A file is parsed (internal/pyast) and interpreted in the abstract (internal/abstract): every expression gets a
// Value, which says what is known of it. Rules look at nodes and calls with their values and report. What follows
// from the source alone is reported as sure; what depends on something that the source leaves open is suspected.
package audit

import (
	"strings"
	"sync"

	"assay/internal/abstract"
	"assay/internal/atlas"
	"assay/internal/facts"
	"assay/internal/pyast"
	"assay/internal/target"
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
	Fact     string // name of its row in internal/facts; "" where it is none
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
	Claims   []string // of internal/claims, by their numbers: what circulates about this

	// What the rule looks at; what is left out is not looked at.
	Calls []Ask
	Node  func(*Pass, pyast.Node) // nodes of Kinds, when their parts have been interpreted
	Kinds []pyast.Kind
	End   func(*Pass, pyast.Stmt) // the if or assert where a program gives up for want of CUDA
	File  func(*Pass)             // once a file, when it has been interpreted
	Text  func(*Text) []Finding   // files that are not Python
}

// Ask is the calls that a rule asks for, and what looks at one. Of a rule's asks the first whose names fit gets the
// call.
type Ask struct {
	// Names are the functions asked for: an API's, a method's, or ?.name of an unknown value. The answer is kept.
	Names func(path string) bool
	Look  Look
}

// Look is what a rule does with a call.
type Look func(*Pass, *abstract.Call)

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
	Aim    target.Aim    // why that one
	MacOS  [2]int        // 0.0: any
	Atlas  *atlas.Atlas
}

// Since reports whether the release aimed at is this one or later.
func (t *Target) Since(release string) bool {
	return atlas.CompareReleases(t.Torch.Version, release) >= 0
}

// Pass is a rule's view of the file that is checked: where the interpreter is, and what it knows.
type Pass struct {
	*abstract.Interp
	Target *Target

	rules    *ruleSet
	rule     *Rule              // that is looking
	unless   func(*Pass) bool   // where this holds, the rule keeps silent
	doubt    func(*Pass) string // why a finding of the rule is only suspected here; "" where it is not
	project  *project
	answers  *answers
	home     *Source            // of the file that is checked
	sources  map[string]*Source // by the absolute paths of files
	found    map[place]*Finding
	reported map[string]*Source // those that something was found in, by their own paths
	notes    map[string]any     // of rules, by name: Note
	call     int                // how many calls were looked at
	shared   any                // Once
	sharedAt int
	trains   map[*Source]bool
}

type place struct {
	path string
	rule *Rule
	from int
	text string
}

// ruleSet is the rules by what they look at.
type ruleSet struct {
	all   []*Rule
	calls []*Rule
	nodes [256][]*Rule
	kinds [256]bool // of nodes that any looks at
	ends  []*Rule
	files []*Rule
	texts []*Rule
	named map[string][]look // who looks at calls of a name
}

// look is one rule's way with the calls of a name.
type look struct {
	rule *Rule
	at   Look
}

// answers are what the atlas says, asked once for all files.
type answers struct {
	target *Target
	mu     sync.Mutex
	ops    map[string]operators
	told   map[string][]facts.Said // by Python name or operator; "*": of any tensor
	names  []string
	sakes  map[string]string // Namesake
}

type operators struct {
	forward, backward []atlas.Need
	known             bool
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
