package fold

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/evidence"
)

const (
	shownSeeds   = 4 // different seeds of one call that are named
	shownLoaders = 8 // whose generators are told
)

// randomness says which seeds and settings decide whether the run can be repeated: what was set, where, and what was
// not.
func (b *builder) randomness() {
	pr, p := &b.run.Provenance, b.p
	unknown := func(name, why string) {
		pr.Randomness = append(pr.Randomness, evidence.Setting{Name: name, State: evidence.StateUnknown, Note: why})
	}
	if p == nil {
		unknown("seeds", "no process was seen that could have set one")
		return
	}
	if p.seeds == nil {
		unknown("seeds", "the agent that watched the run did not look at them")
		return
	}
	now := map[string]string{} // at the end
	if n := len(p.settings); n > 0 {
		for _, row := range p.settings[n-1].named() {
			now[row.name] = row.value
		}
	}
	for _, what := range []string{seedOfTorch, "random.seed", "numpy.random.seed", "numpy.random.default_rng"} {
		if slices.Contains(p.seeds.Watched, what) {
			pr.Randomness = append(pr.Randomness, b.seed(what))
		}
	}
	for _, l := range p.loaders[:min(len(p.loaders), shownLoaders)] {
		pr.Randomness = append(pr.Randomness, given(fmt.Sprintf("generator of DataLoader %d", l.ID), l.Generator))
		if l.Workers > 0 {
			pr.Randomness = append(pr.Randomness,
				given(fmt.Sprintf("worker_init_fn of DataLoader %d", l.ID), l.WorkerInit))
		}
	}
	hash := evidence.Setting{Name: "PYTHONHASHSEED", Value: p.seeds.HashSeed, State: evidence.Set}
	if hash.Value == "" || hash.Value == "random" {
		hash.State, hash.Note = evidence.NotSet, "the order of sets of texts differs from run to run"
	}
	if later, told := now[hash.Name]; told && later != hash.Value {
		hash.Note = strings.TrimPrefix(hash.Note+fmt.Sprintf("; set to %q after Python had started, when it has no effect"+
			" on this process", later), "; ")
	}
	pr.Randomness = append(pr.Randomness, hash)
	if len(p.settings) == 0 {
		if p.framework != nil && p.framework.Name == "torch" {
			unknown("deterministic settings", "no step was seen to its end, and the process said nothing at its own")
		}
		return
	}
	for _, row := range p.settings[0].named() {
		if row.name == "torch.initial_seed" || row.name == hash.Name {
			continue
		}
		s := evidence.Setting{Name: row.name, Value: row.value, State: evidence.Set}
		switch {
		case row.value == "":
			s.State = evidence.NotSet
		case row.value == row.before:
			s.State = evidence.Default
		}
		if later, told := now[row.name]; told && later != row.value {
			s.State, s.Note = evidence.Set, fmt.Sprintf("as training began; %q at the end", later)
		}
		pr.Randomness = append(pr.Randomness, s)
	}
}

const seedOfTorch = "torch.manual_seed"

type namedSetting struct{ name, value, before string }

// named are the rows that have what they should.
func (e settingsEvent) named() []namedSetting {
	var rows []namedSetting
	for _, row := range e.Rows[:min(len(e.Rows), maxRows)] {
		if len(row) != 3 || row[0] == nil || row[1] == nil {
			continue
		}
		s := namedSetting{name: *row[0], value: *row[1]}
		if row[2] != nil {
			s.before = *row[2]
		}
		rows = append(rows, s)
	}
	return rows
}

func given(name string, value *string) evidence.Setting {
	if value == nil {
		return evidence.Setting{Name: name, State: evidence.NotSet}
	}
	return evidence.Setting{Name: name, Value: *value, State: evidence.Set}
}

// seed adds up the calls of one function that gives a seed.
func (b *builder) seed(what string) evidence.Setting {
	s := evidence.Setting{Name: what, State: evidence.NotSet}
	var seeds, notes []string
	calls, late := 0, -1
	for _, row := range b.p.seeds.Rows[:min(len(b.p.seeds.Rows), maxRows)] {
		if len(row) != 6 || row[0] != what {
			continue
		}
		text := func(i int) string { s, _ := row[i].(string); return s }
		number := func(i int) int { v, _ := row[i].(float64); return int(v) }
		value := text(1)
		if value == "" {
			value = "none"
		} else {
			s.State = evidence.Set
		}
		if !slices.Contains(seeds, value) {
			seeds = append(seeds, value)
		}
		if calls == 0 {
			s.Where = b.place(text(2))
			late = number(5)
			if via := text(3); via != "" {
				notes = append(notes, "through "+library(via))
			}
		}
		calls += number(4)
	}
	if calls > 0 {
		if more := len(seeds) - shownSeeds; more > 0 {
			seeds = append(seeds[:shownSeeds], fmt.Sprintf("%d more", more))
		}
		s.Value = strings.Join(seeds, ", ")
		if s.State == evidence.NotSet {
			s.Value = ""
			notes = append(notes, "called without a seed")
		}
	}
	if calls > 1 {
		notes = append(notes, fmt.Sprintf("%d calls", calls))
	}
	if late > 0 {
		notes = append(notes, fmt.Sprintf("after step %d", late))
	}
	if what == seedOfTorch && calls == 0 && len(b.p.settings) > 0 {
		for _, row := range b.p.settings[0].named() {
			switch {
			case row.name != "torch.initial_seed":
			case row.value == row.before:
				notes = append(notes, "PyTorch took "+row.value+" for itself: with that seed it would be the same numbers")
			default:
				s.State, s.Value = evidence.Set, row.value
				notes = append(notes, "by the generator itself: no call of "+what+" was seen")
			}
		}
	}
	s.Note = strings.Join(notes, "; ")
	return s
}

// library shortens the path of a library's line to what follows the folder of packages.
func library(where string) string {
	for _, folder := range []string{"/site-packages/", "/dist-packages/"} {
		if i := strings.LastIndex(where, folder); i >= 0 {
			return where[i+len(folder):]
		}
	}
	return where
}
