package audit

import (
	"path/filepath"

	"assay/internal/pyast"
)

// Pass is the interpretation of one file, with what it calls of others.
type Pass struct {
	Target *Target
	Src    *Source // of the code that is being looked at
	Main   *Unit   // the file that is checked

	rules   *ruleSet
	memo    *memo
	rule    *Rule              // that is looking
	unless  func(*Pass) bool   // where this holds, the rule keeps silent
	doubt   func(*Pass) string // why a finding of the rule is only suspected here; "" where it is not
	project *project
	shared  *answers
	mod     *Unit
	modules map[string]*Unit
	env     *env
	frame   *currentFrame
	loops   []Loop
	blocks  []Block
	found   map[place]*Finding
	sources map[string]*Source

	defaultDevice Devices
	defaultType   string
	quiet         bool
	nesting       int
	steps         int
	depth         int
	calls         int
	maybe         int
	guarded       int        // try blocks around that take a failed import
	caughtErrors  int        // and those that take a failed call
	main          int        // if __name__ == "__main__" around
	tests         []openTest // of the ifs around whose outcome is open
	handlers      int        // except clauses around
	lone          bool       // a function is looked at that the file itself never calls
	imports       map[string]bool
	notes         map[string]any // of rules, by name: Note
	print         []byte         // fingerprint's buffer
	numbers       map[any]uint32 // and its numbers: identity
	spare         []*Call        // calls that are done with
	callRoom      []Call         // room for more
	argRoom       []*Value
}

type place struct {
	path string
	rule *Rule
	from int
	text string
}

// Package is the path of the code that is being looked at within its outermost package, without its file: "" for a script. Folders that hold the
// project, whatever they are called, do not count.
func (p *Pass) Package() string {
	if p.mod.within == nil {
		within := p.project.packageOf(filepath.Dir(p.mod.Path))
		p.mod.within = &within
	}
	return *p.mod.within
}

// Func is the function around, nil at the top of a file.
func (p *Pass) Func() *Func {
	if p.frame == nil {
		return nil
	}
	return p.frame.fn
}

// File is the tree of the code that is being looked at.
func (p *Pass) File() *pyast.File { return p.mod.File }

// Loops around, the innermost last: those of callers too. Func says which are the function's own.
func (p *Pass) Loops() []Loop { return p.loops }

// Blocks are the with blocks around, the innermost last.
func (p *Pass) Blocks() []Block { return p.blocks }

// Guarded reports whether a failing import is caught here; Caught the same of a failing call.
func (p *Pass) Guarded() bool { return p.guarded > 0 }

// Caught reports whether an exception of a call is caught here.
func (p *Pass) Caught() bool { return p.caughtErrors > 0 }

// InMain reports whether `if __name__ == "__main__"` stands around, or a function runs that only such code calls.
func (p *Pass) InMain() bool { return p.main > 0 }

// Maybe reports whether the code runs under a condition that is not known.
func (p *Pass) Maybe() bool { return p.maybe > 0 }

// Imported reports whether the package has been imported so far, here or in a file that is imported.
func (p *Pass) Imported(name string) bool { return p.imports[name] }

// Note is a place for what a rule must remember through a file; make makes it.
func Note[T any](p *Pass, make func() T) T {
	if v, ok := p.notes[p.rule.Name]; ok {
		return v.(T)
	}
	v := make()
	p.notes[p.rule.Name] = v
	return v
}

// Report keeps a finding. From and To are taken of at, unless they are set.
func (p *Pass) Report(at pyast.Node, f Finding) {
	if p.quiet {
		return
	}
	if p.doubt != nil && f.Sure {
		if why := p.doubt(p); why != "" {
			f.Sure, f.Text = false, f.Text+why
		}
	}
	r := p.rule
	f.Rule = r
	if f.Severity == "" {
		f.Severity = r.Severity
	}
	if f.To == 0 {
		f.From, f.To = at.Pos(), at.End()
	}
	switch { // what is caught, and what is reached by an error alone
	case !f.Sure:
	case p.handlers > 0:
		f.Sure, f.Text = false, f.Text+", if the error before it gets here"
	case p.caughtErrors > 0 && f.Severity == Error:
		f.Sure, f.Text = false, f.Text+"; the error is caught here"
	}
	if p.Src.fixed {
		f.Fix = nil
	}
	key := place{p.Src.Path, r, f.From, f.Text}
	if old := p.found[key]; old != nil && (old.Sure || !f.Sure) {
		return
	}
	if p.unless != nil && p.unless(p) {
		return
	}
	p.sources[p.Src.Path] = p.Src
	p.found[key] = &f
}

// Unless calls look, whose findings are kept where the condition does not hold, and are suspected where doubt says why. Both are asked when there is
// a finding: most calls have none.
func (p *Pass) Unless(condition func(*Pass) bool, doubt func(*Pass) string, look func(*Pass, *Call), c *Call) {
	p.unless, p.doubt = condition, doubt
	look(p, c)
	p.unless, p.doubt = nil, nil
}

// Text of the source that a node has.
func (p *Pass) Text(n pyast.Node) string { return p.mod.File.Source(n) }

// Owns reports whether a call stands in the code that is being looked at.
func (p *Pass) Owns(c *Call) bool { return c.unit == p.mod }

// AtHome reports whether the code that is being looked at stands in the file that is checked.
func (p *Pass) AtHome() bool { return p.mod == p.Main }

// Global is what the file binds a name to at its top, as it is written; nil if it does not.
func (p *Pass) Global(name string) pyast.Expr {
	for _, s := range p.mod.File.Body {
		if a, ok := s.(*pyast.Assign); ok && len(a.Targets) == 1 {
			if n, ok := a.Targets[0].(*pyast.Name); ok && n.ID == name {
				return a.Value
			}
		}
	}
	return nil
}

// DefaultDevice is what torch.set_default_device has set, 0 if it was not called.
func (p *Pass) DefaultDevice() Devices { return p.defaultDevice }

// Place is where a value that is given as a device puts things.
func (p *Pass) Place(v *Value) Devices { return v.place() }

// Within reports whether one of the functions in whose text the place stands is as asked.
func (p *Pass) Within(at pyast.Node, is func(*Func) bool) bool {
	for s, f := range p.mod.funcs {
		if s.Pos() <= at.Pos() && at.End() <= s.End() && is(f) {
			return true
		}
	}
	return false
}

// FromTop reports whether the code that is being looked at was reached from the top of the file, by calls that stand there.
func (p *Pass) FromTop() bool { return !p.lone }

// Under reports whether one of the tests of the ifs around here, whose outcome is open, is as asked.
func (p *Pass) Under(test func(pyast.Expr) bool) bool {
	mod := p.mod
	defer func() { p.mod = mod }()
	for _, t := range p.tests {
		p.mod = t.unit
		if test(t.Expr) {
			return true
		}
	}
	return false
}

// openTest is the test of an if, with the file that it stands in.
type openTest struct {
	pyast.Expr
	unit *Unit
}

// InHandler reports whether an except clause stands around.
func (p *Pass) InHandler() bool { return p.handlers > 0 }
