package models

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"assay/internal/atlas"
	"assay/internal/facts"
)

// What a model comes to in a release, the best first. What runs with a part on the CPU falls back: by itself, or with
// PYTORCH_ENABLE_MPS_FALLBACK=1 and not without it.
const (
	Runs      = "runs"
	Slow      = "slow"
	FallsBack = "falls back"
	Wrong     = "wrong numbers"
	Stops     = "stops"
	NotKnown  = "not known"
)

// States are all of them, the best first.
var States = []string{Runs, Slow, FallsBack, Wrong, Stops, NotKnown}

// Answer is what the table knows of a model in a release.
type Answer struct {
	Model   *Model
	Release string
	State   string
	Why     string   // it is no better, in a few words; "" where it runs
	Facts   []string // that were met for sure
	Perhaps []string // known wrong results of which one call does not tell
	Later   string   // the first later release in which it runs; "" where there is none, or it runs now
	Since   string   // the first release from which on, up to this one, it has been in this state
}

// ok is the outcome of an attempt in which nothing went wrong (internal/attempt).
const ok = "ok"

// At says what comes of the model in a release that the table has.
func (t *Table) At(m *Model, release string) Answer {
	a := Answer{Model: m, Release: release}
	a.State, a.Why = t.state(m, release)
	n := slices.Index(t.Releases, release)
	for _, x := range m.Met {
		if slices.Index(t.Releases, x.From) > n || slices.Index(t.Releases, x.To) < n {
			continue
		}
		if x.Sure {
			a.Facts = append(a.Facts, x.Fact)
		} else {
			a.Perhaps = append(a.Perhaps, x.Fact)
		}
	}
	a.Since = release
	for i := n - 1; i >= 0; i-- {
		if state, _ := t.state(m, t.Releases[i]); state != a.State {
			break
		}
		a.Since = t.Releases[i]
	}
	if a.State != Runs {
		for _, later := range t.Releases[n+1:] {
			if state, _ := t.state(m, later); state == Runs {
				a.Later = later
				break
			}
		}
	}
	return a
}

// state is the model's in a release, and why it is no better.
func (t *Table) state(m *Model, release string) (state, why string) {
	n := slices.Index(t.Releases, release)
	i := slices.IndexFunc(m.Spans, func(s Span) bool {
		return slices.Index(t.Releases, s.From) <= n && n <= slices.Index(t.Releases, s.To)
	})
	if n < 0 || i < 0 {
		return NotKnown, "the table has no torch " + release
	}
	s := m.Spans[i]
	worst := t.worst(m, n)
	at := strings.TrimSuffix(s.Operator+" in "+s.Phase, " in ")
	switch s.Outcome {
	case ok:
		switch {
		case worst == nil:
			return Runs, ""
		case worst.Outcome == facts.Slow:
			return Slow, worst.Name
		case worst.Outcome == facts.CPU:
			return FallsBack, worst.Name
		}
		return Runs, ""
	case "wrong":
		if worst != nil && worst.Outcome == facts.Wrong {
			return Wrong, s.Operator + ": " + worst.Name
		}
		return Wrong, s.Operator
	case "missing operator":
		switch s.Fallback {
		case ok:
			return FallsBack, "only with PYTORCH_ENABLE_MPS_FALLBACK=1: " + strings.Join(s.OnCPU, " ")
		case "wrong":
			return Wrong, "stops at " + at + " without PYTORCH_ENABLE_MPS_FALLBACK=1"
		}
		return Stops, at + " is missing, and with the fallback: " + cmp.Or(s.Fallback, "not tried")
	case "CPU too", "not built", "crash", "not done in time":
		return NotKnown, strings.TrimSuffix(s.Outcome+": "+s.Text, ": ")
	}
	return Stops, strings.TrimSuffix(cmp.Or(at, s.Outcome)+": "+s.Text, ": ")
}

// worst is the fact with the worst outcome that was met for sure in the release of that number; nil where none was.
func (t *Table) worst(m *Model, n int) *facts.Fact {
	var worst *facts.Fact
	for _, x := range m.Met {
		f := facts.Load().Fact(x.Fact)
		if !x.Sure || f == nil || slices.Index(t.Releases, x.From) > n || slices.Index(t.Releases, x.To) < n {
			continue
		}
		if worst == nil || f.Rank() < worst.Rank() {
			worst = f
		}
	}
	return worst
}

// Tasks are those that the table has models for, by name.
func (t *Table) Tasks() []string {
	var list []string
	for _, m := range t.Models {
		if !slices.Contains(list, m.Task) {
			list = append(list, m.Task)
		}
	}
	slices.Sort(list)
	return list
}

// otherWords are words that people have for tasks, beside the table's own.
var otherWords = map[string]string{"object detection": "detection", "semantic segmentation": "segmentation",
	"nlp": "text", "language": "text", "text classification": "text", "embedding": "text", "embeddings": "text",
	"language model": "text generation", "llm": "text generation", "asr": "speech", "speech recognition": "speech",
	"image classification": "classification", "image generation": "generation", "diffusion": "generation"}

// Task is the table's word for a task; false where it has no models for it.
func (t *Table) Task(word string) (string, bool) {
	word = strings.Join(strings.FieldsFunc(strings.ToLower(word), func(r rune) bool {
		return r == '-' || r == '_' || r == ' '
	}), " ")
	word = cmp.Or(otherWords[word], word)
	return word, slices.Contains(t.Tasks(), word)
}

// Find lists the models whose name, family or package a pattern fits: the one of that name, else what * and ? stand
// for, else a part of the word. "" fits all. Capitals do not count.
func (t *Table) Find(pattern string) []*Model {
	pattern = strings.ToLower(pattern)
	var named, fits []*Model
	for i := range t.Models {
		m := &t.Models[i]
		if strings.ToLower(m.Name) == pattern {
			named = append(named, m)
		}
		for _, word := range []string{m.Name, m.Family, m.Package} {
			word = strings.ToLower(word)
			glob, _ := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(word, "/", "\x00"))
			if glob || strings.Contains(word, pattern) {
				fits = append(fits, m)
				break
			}
		}
	}
	if len(named) > 0 {
		return named
	}
	return fits
}

// Release is the release of the table that speaks for one of torch: itself, else the newest of its series; false where
// the table was made before it was out.
func (t *Table) Release(torch string) (string, bool) {
	if slices.Contains(t.Releases, torch) {
		return torch, true
	}
	for _, r := range slices.Backward(t.Releases) {
		if atlas.Series(r) == atlas.Series(torch) {
			return r, true
		}
	}
	return "", false
}

// History is what comes of the model, release by release, a line for each stretch in which that does not change.
func (t *Table) History(m *Model) []string {
	var list []string
	for i := 0; i < len(t.Releases); {
		state, why := t.state(m, t.Releases[i])
		to := i
		for to+1 < len(t.Releases) {
			if s, w := t.state(m, t.Releases[to+1]); s != state || w != why {
				break
			}
			to++
		}
		span := t.Releases[i] + " to " + t.Releases[to]
		switch {
		case to == len(t.Releases)-1 && i == 0:
			span = "all, " + span
		case to == len(t.Releases)-1:
			span = "since " + t.Releases[i]
		case to == i:
			span = t.Releases[i]
		}
		line := span + ": " + state
		if why != "" {
			line += ", " + why
		}
		list = append(list, line)
		i = to + 1
	}
	return list
}

// Operators are those that the model's history names, and those that met a fact for sure: what `assay ops` can be asked
// about.
func (m *Model) Operators() []string {
	var list []string
	for _, s := range m.Spans {
		list = append(append(list, s.Operator), s.OnCPU...)
	}
	for _, x := range m.Met {
		if x.Sure {
			list = append(list, x.Operators...)
		}
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(s string) bool { return s == "" })
}

// Peak is the peak at a batch; false where it is not known.
func (m *Model) Peak(batch int) (int64, bool) {
	for _, p := range m.Peaks {
		if p.Batch == batch && p.Bytes > 0 {
			return p.Bytes, true
		}
	}
	return 0, false
}

// how says what the table cannot know.
func (t *Table) how() string {
	var with []string
	mac := ""
	for _, m := range t.Made {
		if m.What == "Mac" {
			mac = m.Is
			continue
		}
		with = append(with, m.What+" "+m.Is)
	}
	return fmt.Sprintf("rehearsed on the double (%s), no Mac ran them; one step at batch 2 with random weights, at the size "+
		"that is named, made with %s. Other sizes, options and data may reach other operators", mac, strings.Join(with, ", "))
}
