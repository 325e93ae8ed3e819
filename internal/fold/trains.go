package fold

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/unit"
)

const (
	maxFrameworks = 16 // kept of a process
	// A training function is compiled for a whole batch, for the last and shorter one, and for evaluation.
	fewCompiles = 3
)

// lead chooses the framework that the evidence names: the one that said that it trains, else the first that was
// imported. Keras imports what computes for it, and other libraries import several.
func (p *process) lead() {
	p.framework = nil
	for i := range p.imported {
		if p.imported[i].Name == p.trains.Framework {
			p.framework = &p.imported[i]
		}
	}
	if p.framework == nil && len(p.imported) > 0 {
		p.framework = &p.imported[0]
	}
}

// backend is what computes for the framework that leads, where that is another, and its release.
func (p *process) backend() (name, release string) {
	if p.framework == nil || p.trains.Backend == "" || p.trains.Framework != p.framework.Name {
		return "", ""
	}
	for _, e := range p.imported {
		if e.Name == p.trains.Backend {
			return e.Name, e.Version
		}
	}
	return p.trains.Backend, p.framework.BackendVersion
}

func (p *process) addCompile(row []any) {
	if len(row) != 6 {
		return
	}
	name, _ := row[0].(string)
	number := func(i int) float64 { v, _ := row[i].(float64); return max(0, v) }
	trains, _ := row[5].(bool)
	if _, known := p.compiles[name]; !known && len(p.compiles) >= maxRows {
		return
	}
	if p.compiles == nil {
		p.compiles = map[string]evidence.Compile{}
	}
	p.compiles[name] = evidence.Compile{Function: name, Times: int(number(1)), Trace: number(2) / 1e9,
		Seconds: number(3) / 1e9, Step: int(number(4)), Trains: trains}
}

// compiled lists what was compiled, the longest first, and says of a function that trains whether it was compiled over
// and over.
func (b *builder) compiled() {
	list := slices.SortedFunc(maps.Values(b.p.compiles), func(x, y evidence.Compile) int {
		return cmp.Or(cmp.Compare(y.Seconds+y.Trace, x.Seconds+x.Trace), cmp.Compare(x.Function, y.Function))
	})
	b.run.Compiles = list
	if len(list) == 0 {
		return
	}
	for i, w := range b.run.Windows {
		b.run.Windows[i].Excluded = strings.Replace(w.Excluded, "profiled and traced steps",
			"profiled and traced steps and those in which functions were compiled", 1)
	}
	times, sum := 0, 0.0
	for _, c := range list {
		times, sum = times+c.Times, sum+c.Trace+c.Seconds
	}
	b.find("compiled-functions", evidence.Note, b.basis, "", "",
		"%d functions were traced and compiled, %d times in all, in %s; %s took %s of it", len(list), times,
		unit.Seconds(sum), list[0].Function, unit.Seconds(list[0].Trace+list[0].Seconds))
	for _, c := range list {
		if c.Trains && c.Times > fewCompiles {
			b.find("recompiled", evidence.Warning, b.basis, "",
				"shapes, types or static arguments change from call to call: pad the batch, or drop the last one; "+
					"jax_explain_cache_misses says which",
				"%s was compiled %d times, in %s; the last time before step %d", c.Function, c.Times,
				unit.Seconds(c.Trace+c.Seconds), c.Step)
		}
	}
}

// noSplit says that the framework's step cannot be taken apart, and why, where it has no backward pass of its own.
func (b *builder) noSplit() {
	why := b.p.unseen["backward"]
	if _, has := b.p.phases.numbers["backward"]; has || why == "" || len(b.p.steps) == 0 {
		return
	}
	b.find("no-split", evidence.Note, b.basis, "",
		"step time, waits and compile time are of the whole step; the framework's own profiler tells what is in it",
		"there is no split into forward, backward and update: %s", why)
}

// described joins the name of a framework and its backend for a process's row.
func (p *process) described() (name, release string) {
	name, release = p.framework.Name, p.framework.Version
	if backend, version := p.backend(); backend != "" {
		release += fmt.Sprintf(" on %s %s", backend, version)
	}
	return name, release
}
