package audit

import (
	"bytes"
	"slices"
	"strings"

	"assay/internal/abstract"
	"assay/internal/atlas"
	"assay/internal/facts"
	"assay/internal/pyast"
)

// keepNames bounds the names whose rules are kept.
const keepNames = 50_000

// of lists who looks at calls of a name.
func (s *ruleSet) of(path string) []look {
	list, known := s.named[path]
	if !known {
		for _, r := range s.calls {
			if i := slices.IndexFunc(r.Calls, func(a Ask) bool { return a.Names(path) }); i >= 0 {
				list = append(list, look{r, r.Calls[i].Look})
			}
		}
		if len(s.named) >= keepNames {
			clear(s.named)
		}
		s.named[path] = list
	}
	return list
}

// sorted sorts rules by what they look at, for one worker.
func sorted(rules []*Rule) *ruleSet {
	s := &ruleSet{all: rules, named: map[string][]look{}}
	for _, r := range rules {
		if len(r.Calls) > 0 {
			s.calls = append(s.calls, r)
		}
		if r.File != nil {
			s.files = append(s.files, r)
		}
		if r.Text != nil {
			s.texts = append(s.texts, r)
		}
		if r.End != nil {
			s.ends = append(s.ends, r)
		}
		for _, k := range r.Kinds {
			s.nodes[k] = append(s.nodes[k], r)
			s.kinds[k] = true
		}
	}
	return s
}

// operators of a Python name, with their states in the release aimed at.
func (a *answers) operators(path string) operators {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, asked := a.ops[path]
	if !asked {
		if api, ok := a.target.Atlas.API(path); ok && api.Name == path {
			o.known = true
			api = a.target.Atlas.In(a.target.Torch, api)
			o.forward, _ = a.target.Atlas.Needs(a.target.Torch, api.Forward)
			o.backward, _ = a.target.Atlas.Needs(a.target.Torch, api.Backward)
		}
		a.ops[path] = o
	}
	return o
}

// Operators that a Python name comes down to, forward and backward, in the release aimed at; false where the atlas
// does not know the name.
func (p *Pass) Operators(path string) (forward, backward []atlas.Need, ok bool) {
	o := p.answers.operators(path)
	return o.forward, o.backward, o.known
}

// said are the facts about what is asked, of the release and the macOS aimed at; nothing is known of arguments. The
// answer is kept under a key.
func (a *answers) said(key string, ask func(ask func(facts.Question) []facts.Said) []facts.Said) []facts.Said {
	a.mu.Lock()
	defer a.mu.Unlock()
	list, asked := a.told[key]
	if !asked {
		list = ask(func(q facts.Question) []facts.Said {
			q.Torch, q.MacOS = a.target.Torch.Version, a.target.MacOS
			return facts.Load().Ask(a.target.Atlas, q)
		})
		a.told[key] = list
	}
	return list
}

// Said lists the facts about a Python name: those about the operators that it comes down to, and those that name it
// (Operator is ""). That a fact names a function does not say that each call meets it, but where it is Always.
func (p *Pass) Said(path string) []facts.Said {
	return p.answers.said(path, func(ask func(facts.Question) []facts.Said) []facts.Said {
		var list []facts.Said
		at := map[*facts.Fact]int{}
		add := func(s facts.Said) {
			i, again := at[s.Fact]
			switch {
			case !again:
				at[s.Fact] = len(list)
				list = append(list, s)
			case list[i].Sometimes && !s.Sometimes || list[i].Operator == "" && !list[i].Always && !s.Sometimes:
				list[i] = s
			}
		}
		for _, s := range ask(facts.Question{Python: path}) {
			if s.Operator == "" {
				if !s.Always && s.Met == facts.Yes {
					s.Met = facts.Open
				}
				add(s)
			}
		}
		if api, ok := p.Target.Atlas.API(path); ok && api.Name == path {
			for _, s := range ask(facts.Question{Operators: p.Target.Atlas.Reached(p.Target.Torch, api.Forward)}) {
				add(s)
			}
			for _, s := range ask(facts.Question{Operators: p.Target.Atlas.Reached(p.Target.Torch, api.Backward)}) {
				s.Backward = true
				add(s)
			}
		}
		return list
	})
}

// SaidOf lists the facts about an operator.
func (p *Pass) SaidOf(operator string) []facts.Said {
	return p.answers.said(operator, func(ask func(facts.Question) []facts.Said) []facts.Said {
		return ask(facts.Question{Operators: []atlas.Call{{Operator: operator}}})
	})
}

// Everywhere lists the facts about any tensor on MPS that a call's arguments can show.
func (p *Pass) Everywhere() []facts.Said {
	return p.answers.said("*", func(ask func(facts.Question) []facts.Said) []facts.Said {
		return slices.DeleteFunc(ask(facts.Question{Everyone: true}), func(s facts.Said) bool { return len(s.If) == 0 })
	})
}

// star is what `from torch.nn import *` binds, as far as the atlas knows.
func (a *answers) star(name string) []string {
	if name != "torch.nn" && name != "torch.nn.functional" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.names == nil {
		a.names = a.target.Atlas.APIs()
	}
	var list []string
	for _, n := range a.names {
		if rest, ok := strings.CutPrefix(n, name+"."); ok && !strings.ContainsAny(rest, ".(") {
			list = append(list, rest)
		}
	}
	return list
}

// newPass makes the view of a file, and the interpreter behind it.
func newPass(target *Target, rules *ruleSet, memo *abstract.Memo, pr *project, a *answers, path string,
	f *parsed) *Pass {
	p := &Pass{Target: target, rules: rules, project: pr, answers: a, home: f.src,
		sources: map[string]*Source{path: f.src},
		found:   map[place]*Finding{}, reported: map[string]*Source{}, notes: map[string]any{},
		trains: map[*Source]bool{}}
	world := &abstract.World{Device: target.Device, Since: target.Since,
		Operator: func(path string) bool { return a.operators(path).known },
		Exports:  a.star, Finder: pr.finder, Load: p.load}
	watch := &abstract.Watch{Call: p.seeCall, Kinds: rules.kinds, Node: p.seeNode, End: p.seeEnd}
	p.Interp = abstract.New(world, watch, memo, path, f.file.Tree)
	return p
}

// load hands a file of the project to the interpreter, and keeps what its tree was read from.
func (p *Pass) load(path string) *abstract.File {
	f := p.project.load(path)
	if f.err != nil {
		p.sources[path] = &Source{}
		return &abstract.File{Tree: &pyast.File{}}
	}
	p.sources[path] = f.src
	return f.file
}

func (p *Pass) seeCall(c *abstract.Call) bool {
	looks := p.rules.of(c.Path)
	p.call++
	for _, l := range looks {
		p.rule = l.rule
		l.at(p, c)
	}
	return len(looks) > 0
}

func (p *Pass) seeNode(n pyast.Node) {
	for _, r := range p.rules.nodes[n.Kind()] {
		p.rule = r
		r.Node(p, n)
	}
}

func (p *Pass) seeEnd(s pyast.Stmt) {
	for _, r := range p.rules.ends {
		p.rule = r
		r.End(p, s)
	}
}

// whole interprets the file and asks the rules that look at files.
func (p *Pass) whole() {
	p.Run()
	for _, r := range p.rules.files {
		p.rule = r
		r.File(p)
	}
}

// Src is the source of the code that is being looked at.
func (p *Pass) Src() *Source { return p.sources[p.Unit().Path] }

// Home is the source of the file that is checked.
func (p *Pass) Home() *Source { return p.home }

// Note is a place for what a rule must remember through a file; make makes it.
func Note[T any](p *Pass, make func() T) T {
	if v, ok := p.notes[p.rule.Name]; ok {
		return v.(T)
	}
	v := make()
	p.notes[p.rule.Name] = v
	return v
}

// Once is what rules share of the call that is being looked at; make makes it for the first that asks.
func Once[T any](p *Pass, make func() T) T {
	if p.sharedAt == p.call && p.shared != nil {
		return p.shared.(T)
	}
	v := make()
	p.shared, p.sharedAt = v, p.call
	return v
}

// Trains reports whether the file that is checked, or the one that is being looked at, asks for gradients.
func (p *Pass) Trains() bool {
	for _, src := range []*Source{p.home, p.Src()} {
		yes, asked := p.trains[src]
		if !asked {
			yes = bytes.Contains(src.Text, []byte("backward("))
			p.trains[src] = yes
		}
		if yes {
			return true
		}
	}
	return false
}

// Namesake is the operator that a function of torch binds by its own name: Atlas.Namesake.
func (p *Pass) Namesake(path string) string {
	a := p.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	name, asked := a.sakes[path]
	if !asked {
		if len(a.sakes) >= keepNames {
			clear(a.sakes)
		}
		name = a.target.Atlas.Namesake(path)
		a.sakes[strings.Clone(path)] = name
	}
	return name
}

// Report keeps a finding. From and To are taken of at, unless they are set.
func (p *Pass) Report(at pyast.Node, f Finding) {
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
	case p.InHandler():
		f.Sure, f.Text = false, f.Text+", if the error before it gets here"
	case p.Caught() && f.Severity == Error:
		f.Sure, f.Text = false, f.Text+"; the error is caught here"
	}
	src := p.Src()
	key := place{src.Path, r, f.From, f.Text}
	if old := p.found[key]; old != nil && (old.Sure || !f.Sure) {
		return
	}
	if p.unless != nil && p.unless(p) {
		return
	}
	p.reported[src.Path] = src
	p.found[key] = &f
}

// Unless calls look, whose findings are kept where the condition does not hold, and are suspected where doubt says
// why. Both are asked when there is a finding: most calls have none.
func (p *Pass) Unless(condition func(*Pass) bool, doubt func(*Pass) string, at Look, c *abstract.Call) {
	p.unless, p.doubt = condition, doubt
	at(p, c)
	p.unless, p.doubt = nil, nil
}
