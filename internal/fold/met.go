package fold

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/facts"
)

// outcomeUnknown is that of a fact which this assay does not have: the events are another's.
const outcomeUnknown = "unknown"

// met adds the facts that calls met, of all processes, and how many they are.
func (b *builder) met() {
	table, at := facts.Load(), map[string]int{}
	rows, full := []evidence.Met{}, false
	for _, c := range b.f.order { // a worker's wrong number is the run's as well
		p := b.f.conns[c]
		full = full || p.rehearsed.met.full
		for _, e := range p.rehearsed.met.list {
			key := fmt.Sprintf("%s\x00%s\x00%s\x00%v", e.Fact, e.Op, e.Where, e.Sure)
			if i, again := at[key]; again {
				rows[i].Count += e.N
				continue
			}
			if len(rows) == maxRows {
				full = true
				break
			}
			at[key] = len(rows)
			row := evidence.Met{Fact: e.Fact, Outcome: outcomeUnknown, Sure: e.Sure, Operator: e.Op,
				Where: b.place(e.Where), Count: e.N}
			if f := table.Fact(e.Fact); f != nil {
				f.Fill(&row)
			}
			rows = append(rows, row)
		}
	}
	facts.Sort(rows)
	b.run.Rehearsal.Met, b.metMore = rows, full

	for _, outcome := range []facts.Outcome{facts.Wrong, facts.Aborts} {
		name := "facts." + string(outcome)
		var told []string
		for _, rows := range evidence.MetBy(rows, true, string(outcome)) {
			told = append(told, rows[0].Fact+" ("+strings.Trim(rows[0].Where+"; "+rows[0].Remedy, "; ")+")")
		}
		if e := b.run.Outcome; len(told) == 0 && (e.Exit != 0 || e.Error != "") && e.Stopped == "" {
			b.unknown(name, "1", "none was met, and the run ended early")
			continue
		}
		b.known(name, float64(len(told)), "1", evidence.Rehearsed, strings.Join(told, "; "))
	}
	b.known("facts.perhaps", float64(len(evidence.MetBy(rows, false, string(facts.Wrong)))), "1", evidence.Rehearsed,
		"one call's arguments do not tell whether they are met")
}

// What leads the findings: numbers that are wrong, and what would end the process. named is how many facts that are not
// sure a finding names; the table has them all.
const (
	findingWrong  = "wrong-result"
	findingAborts = "process-ends"
	named         = 12
)

// factFindings says which facts were met: those that are sure a finding each, those that may be in one line by outcome.
func (b *builder) factFindings() {
	met := b.run.Rehearsal.Met
	for _, kind := range []struct {
		outcome       facts.Outcome
		name          string
		severity      evidence.Severity
		says, perhaps string // what happens; what may
	}{
		{facts.Wrong, findingWrong, evidence.Error, "wrong numbers on MPS: ", "known wrong results on MPS"},
		{facts.Aborts, findingAborts, evidence.Error, "a Mac's process would end: ", "known ends of the process"},
		{facts.CPU, "goes-to-cpu", evidence.Warning, "goes to the CPU by itself: ", "known detours to the CPU"},
		{facts.Slow, "slow-way", evidence.Warning, "takes a slower way: ", "known slower ways"},
		{outcomeUnknown, "fact-unknown", evidence.Note, "a fact that this assay does not know: ",
			"facts that this assay does not know"},
	} {
		sure := evidence.MetBy(met, true, string(kind.outcome))
		if kind.outcome == facts.CPU {
			sure = slices.DeleteFunc(sure, b.toldAsFallback)
		}
		for i, rows := range sure {
			if i == shownRefusals {
				b.find(kind.name, kind.severity, evidence.Rehearsed, "", "",
					"%d more facts of this outcome (%s) are in the table", len(sure)-i, kind.outcome)
				break
			}
			b.find(kind.name, kind.severity, evidence.Rehearsed, rows[0].Where, rows[0].Remedy, "%s%s", kind.says,
				factText(rows))
		}
		perhaps := evidence.MetBy(met, false, string(kind.outcome))
		if len(perhaps) == 0 {
			continue
		}
		var names []string
		for _, rows := range perhaps[:min(len(perhaps), named)] {
			if row := rows[0]; row.When != "" {
				names = append(names, row.Fact+" when "+row.When)
			} else {
				names = append(names, row.Fact)
			}
		}
		if more := len(perhaps) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("%d more in the table", more))
		}
		b.find(kind.name+"-perhaps", evidence.Note, evidence.Rehearsed, "", "assay ops OPERATOR says more of each",
			"%s that this run may meet, which one call does not tell: %d (%s)", kind.perhaps, len(perhaps),
			strings.Join(names, "; "))
	}
	if b.metMore {
		b.find("facts-not-told", evidence.Warning, evidence.Rehearsed, "", "rehearse a shorter part of the script",
			"more than %d calls met known facts about MPS: those beyond are in events.jsonl alone", maxRows)
	}
}

// toldAsFallback: the calls are among the fallbacks, which have a finding of their own.
func (b *builder) toldAsFallback(rows []evidence.Met) bool {
	return !slices.ContainsFunc(rows, func(m evidence.Met) bool {
		return !slices.ContainsFunc(b.run.Fallbacks, func(f evidence.Fallback) bool {
			name, _, _ := strings.Cut(m.Operator, ".")
			return f.Operator == m.Operator || f.Operator == name
		})
	})
}

// factText says what happens, where, when, in which releases, and by which source.
func factText(rows []evidence.Met) string {
	row, calls, places := rows[0], 0, map[string]bool{}
	for _, r := range rows {
		calls += r.Count
		places[r.Where] = true
	}
	s := row.Operator
	if row.Wrong != "" {
		s = row.Wrong + ". " + s
	}
	s += times(calls)
	if n := len(places); n > 1 {
		s += fmt.Sprintf(" from %d lines", n)
	}
	if row.When != "" {
		s += ", when: " + row.When
	}
	for _, part := range []string{row.Span, row.Source} {
		if part != "" {
			s += "; " + part
		}
	}
	return s + " [" + row.Fact + "]"
}
