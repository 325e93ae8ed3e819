package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"assay/internal/abstract"
	"assay/internal/atlas"
	"assay/internal/facts"
)

// Options of a check.
type Options struct {
	Base     string // folder that paths are relative to
	Files    []string
	Rules    []*Rule // that are looked for
	Known    []*Rule // all there are: a comment may allow those that are not looked for
	Target   Target
	Sure     bool // leave out what is only suspected
	All      bool // and notes that are only suspected
	Baseline *Baseline
	Version  string    // of assay
	Fix      Safety    // "": none; Safe: safe fixes; Unsafe: these too
	Stdin    io.Reader // the content of the file "-"
	StdinAs  string    // the name that it goes by

	Changed map[string][]byte // by absolute path: what fixes made of files, instead of what stands on the disk
}

// outcome is what came of one file. Its tree is not kept: the trees of all files together are many times their size.
type outcome struct {
	src      *Source // nil where no comment allows anything
	comments [][2]int
	findings map[string][]Finding // by path
	sources  map[string]*Source
	trouble  []Trouble
}

// Check looks at files and reports what it found, in the order of files and places.
func Check(o *Options) (*Report, error) {
	if o.Target.Atlas == nil {
		o.Target.Atlas = &atlas.Atlas{}
	}
	base, err := filepath.Abs(o.Base)
	if err != nil {
		return nil, err
	}
	o.Base = base
	// Most of what a file's tree and values take is garbage when the file is done: a larger heap saves half of the
	// collector's work.
	defer debug.SetGCPercent(debug.SetGCPercent(300))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	rules := sorted(o.Rules)
	pr := &project{base: base, finder: abstract.NewFinder(base), changed: maps.Clone(o.Changed),
		names: make(map[string]string, len(o.Files)),
		files: map[string]*parsed{}}
	for _, name := range o.Files {
		pr.names[o.absolute(name)] = name
	}
	shared := &answers{target: &o.Target, ops: map[string]operators{},
		told: map[string][]facts.Said{}, sakes: map[string]string{}}
	outcomes := make([]*outcome, len(o.Files))
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), max(1, len(o.Files))) {
		wait.Go(func() {
			rules, memo := sorted(o.Rules), abstract.NewMemo()
			for {
				i := int(next.Add(1)) - 1
				if i >= len(o.Files) {
					return
				}
				outcomes[i] = o.checkFile(o.Files[i], rules, memo, pr, shared)
			}
		})
	}
	wait.Wait()
	return o.gather(outcomes, rules)
}

func (o *Options) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(o.Base, path)
}

func (o *Options) checkFile(path string, rules *ruleSet, memo *abstract.Memo, pr *project,
	shared *answers) (out *outcome) {
	out = &outcome{findings: map[string][]Finding{}, sources: map[string]*Source{}}
	trouble := func(err error) *outcome {
		out.trouble = append(out.trouble, Trouble{File: path, Text: err.Error()})
		return out
	}
	defer func() { // a mistake of ours in one file must not hide what was found in the others
		if r := recover(); r != nil {
			out.trouble = append(out.trouble, Trouble{File: path,
				Text: fmt.Sprintf("a mistake in assay: %v (%s); please report it with the file", r,
					firstOwnFrame(debug.Stack()))})
		}
	}()
	name := path
	read := func() ([]byte, error) { return pr.read(o.absolute(name)) }
	if path == "-" {
		name = o.StdinAs
		read = func() ([]byte, error) { return io.ReadAll(io.LimitReader(o.Stdin, maxSource+1)) }
	}
	switch kind := KindOf(name); kind {
	case "requirements", "pyproject", "environment":
		raw, err := read()
		if err != nil {
			return trouble(plain(err))
		}
		t := &Text{Kind: kind, Path: name, Src: &Source{Path: name, Text: raw, Raw: raw}, Target: &o.Target}
		out.sources[name], out.src, out.comments = t.Src, t.Src, hashComments(raw)
		for _, r := range rules.texts {
			for _, f := range r.Text(t) {
				f.Rule = r
				if f.Severity == "" {
					f.Severity = r.Severity
				}
				out.findings[name] = append(out.findings[name], f)
			}
		}
		return out
	}
	var f *parsed
	if path == "-" {
		raw, err := read()
		if err != nil {
			return trouble(plain(err))
		}
		f = parse(name, raw)
	} else {
		f = pr.load(o.absolute(name))
	}
	if f.err != nil {
		if errors.Is(f.err, ErrNotPython) {
			return out
		}
		return trouble(f.err)
	}
	if bytes.Contains(f.src.Text, []byte("assay:")) {
		out.src = f.src
		for _, c := range f.file.Tree.Comments {
			out.comments = append(out.comments, [2]int{int(c.From), int(c.To)})
		}
	}
	for i, e := range f.file.Tree.Errors {
		if i == 20 {
			out.trouble = append(out.trouble, Trouble{File: name,
				Text: fmt.Sprintf("%d more syntax errors", len(f.file.Tree.Errors)-i)})
			break
		}
		at := f.src.Place(e.Pos())
		out.trouble = append(out.trouble, Trouble{File: name, Line: at.Line, cell: at.Cell,
			Text: "syntax error: " + e.Message, syntax: true})
	}
	if f.file.Idle {
		return out
	}
	p := newPass(&o.Target, rules, memo, pr, shared, o.absolute(name), f)
	p.whole()
	for key, f := range p.found {
		out.findings[key.path] = append(out.findings[key.path], *f)
		out.sources[key.path] = p.reported[key.path]
	}
	return out
}

// gather puts the files' findings together: one for each place and rule, sure ones first; suppressed and known ones
// apart.
func (o *Options) gather(outcomes []*outcome, rules *ruleSet) (*Report, error) {
	r := &Report{Schema: "assay.check/1", Version: o.Version,
		Target: ReportTarget{Device: o.Target.Device, Torch: o.Target.Torch.Version, From: o.Target.Aim.Why,
			Beside: o.Target.Aim.Besides},
		Items: []Item{}, Troubles: []Trouble{}, rules: rules.all, aim: o.Target.Aim}
	if o.Target.MacOS[0] > 0 {
		r.Target.MacOS = fmt.Sprintf("%d.%d", o.Target.MacOS[0], o.Target.MacOS[1])
	}
	checked := map[string]int{} // path as reported → its index
	for i := range outcomes {
		name := o.Files[i]
		if name == "-" {
			name = o.StdinAs
		}
		checked[filepath.Clean(name)] = i
	}
	all := make([]map[place]Finding, len(outcomes))
	sources := make([]*Source, len(outcomes))
	for _, out := range outcomes {
		r.Files++
		r.Troubles = append(r.Troubles, out.trouble...)
		for path, list := range out.findings {
			i, ok := checked[filepath.Clean(path)]
			if !ok {
				continue // a file that was followed, but not asked about
			}
			if all[i] == nil {
				all[i] = map[place]Finding{}
				sources[i] = out.sources[path]
			}
			for _, f := range list {
				key := place{path, f.Rule, f.From, f.Text}
				if old, there := all[i][key]; !there || f.Sure && !old.Sure {
					all[i][key] = f
				}
			}
		}
	}
	names := map[string]*Rule{UnusedAllow.Name: UnusedAllow, BareAllow.Name: BareAllow}
	for _, rule := range rules.all {
		names[rule.Name] = rule
	}
	for i, out := range outcomes {
		name := o.Files[i]
		if name == "-" {
			name = o.StdinAs
		}
		src := sources[i]
		if out.src != nil {
			src = out.src
		}
		if src == nil {
			continue
		}
		allow := allows(src, out.comments)
		var list []Finding
		for _, f := range all[i] {
			list = append(list, f)
		}
		slices.SortFunc(list, func(a, b Finding) int {
			if a.From != b.From {
				return a.From - b.From
			}
			return strings.Compare(a.Rule.Name+a.Text, b.Rule.Name+b.Text)
		})
		list = oncePerPlace(list)
		var kept []Finding
		for _, f := range list {
			switch {
			case allowed(src, allow, f):
				r.Counts.Suppressed++
			case !f.Sure && (o.Sure || f.Severity == Notice && !o.All):
			default:
				kept = append(kept, f)
			}
		}
		kept = append(kept, left(src, allow, func(name string) (bool, bool) {
			_, ok := names[name]
			return ok || slices.ContainsFunc(o.Known, func(r *Rule) bool { return r.Name == name }), ok
		}, func(name string) string { return Near(o.Known, name) })...)
		if src.fixed { // nothing can be written back, and no fix is offered
			for i := range kept {
				kept[i].Fix = nil
			}
		}
		if o.Fix != "" {
			if content, rest, err := applyFixes(src, kept, o.Fix); err != nil {
				r.Troubles = append(r.Troubles, Trouble{File: name, Text: err.Error()})
			} else if content != nil {
				if o.Changed == nil {
					o.Changed = map[string][]byte{}
				}
				o.Changed[o.absolute(name)] = content
				r.Counts.Fixed += len(kept) - len(rest)
				kept = rest
			}
		}
		for _, f := range kept {
			it := item(src, f)
			if o.Baseline.has(it) {
				r.Counts.Baseline++
				continue
			}
			r.add(it)
		}
	}
	r.sort()
	return r, nil
}

// oncePerPlace keeps one finding of a rule for a place, and of each fact behind it: what is sure hides what is
// suspected there.
func oncePerPlace(list []Finding) []Finding {
	var kept []Finding
	for _, f := range list {
		if i := slices.IndexFunc(kept, func(k Finding) bool {
			return k.Rule == f.Rule && k.From == f.From &&
				k.To == f.To && k.Fact == f.Fact
		}); i >= 0 {
			if f.Sure && !kept[i].Sure {
				kept[i] = f
			}
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// firstOwnFrame names where a panic came from.
func firstOwnFrame(stack []byte) string {
	for line := range strings.Lines(string(stack)) {
		if i := strings.Index(line, "internal/"); i >= 0 && strings.Contains(line, ".go:") &&
			!strings.Contains(line, "check.go") {
			where, _, _ := strings.Cut(strings.TrimSpace(line[i:]), " ")
			return where
		}
	}
	return "unknown place"
}
