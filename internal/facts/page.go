package facts

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/atlas"
)

// Stand is how a row stands at a surface.
type Stand int

// A row is held to a surface by a test of its call, has a hole there with its reason, has no call yet by which it could
// be held, or has nothing to say there: a wrong number has no text to explain.
const (
	Held Stand = iota
	Hole
	NoCall
	Nothing
)

// At says how a row stands at a surface, with the reason of a hole.
func (f *Fact) At(surface string) (Stand, string) {
	if why := f.Holes[surface]; why != "" {
		return Hole, why
	}
	switch {
	case surface == "explain" && f.Text == "":
		return Nothing, ""
	case surface == "explain", surface == "ops": // by its text, by its Python names
		return Held, ""
	case surface == "check" && slices.ContainsFunc(f.If, func(c Clause) bool {
		return c.Predicate != "" && !slices.Contains(Judged, c.Predicate)
	}):
		return Hole, "its condition is a function of the double's"
	case surface == "check" && (f.Outcome == Warns || f.Outcome == Ignored || f.If == nil && len(f.Always) == 0):
		return Nothing, "" // rules of its own speak of those; of these the source does not tell
	case f.Call == "":
		return NoCall, ""
	}
	return Held, ""
}

// Newest is the newest release of torch of which a row speaks; false where it speaks of none that the atlas has.
func (f *Fact) Newest(a *atlas.Atlas) (string, bool) {
	for _, r := range slices.Backward(a.Releases("torch")) {
		if f.Holds(r.Version) {
			return r.Version, true
		}
	}
	return "", false
}

// Page writes docs/knowledge.md.
func (t *Table) Page() []byte {
	var b strings.Builder
	b.WriteString(pageHead)
	fmt.Fprintf(&b, "\n## Rows × surfaces\nMade by `go test ./internal/facts -update`; tests hold each figure. A row is *held* where a test runs its call (or\nits text, or its Python name) through the surface; a *hole* has its reason below; *no call*: nobody has written its smallest call yet.\n\n")
	b.WriteString("| outcome | rows |")
	for _, s := range Surfaces {
		fmt.Fprintf(&b, " %s: held | hole | no call |", s)
	}
	b.WriteString("\n| --- | ---: |" + strings.Repeat(" ---: | ---: | ---: |", len(Surfaces)) + "\n")
	line := func(name string, rows []*Fact) {
		fmt.Fprintf(&b, "| %s | %d |", name, len(rows))
		for _, s := range Surfaces {
			var n [4]int
			for _, f := range rows {
				stand, _ := f.At(s)
				n[stand]++
			}
			fmt.Fprintf(&b, " %d | %d | %d |", n[Held], n[Hole], n[NoCall])
		}
		b.WriteByte('\n')
	}
	for _, o := range Outcomes {
		line(string(o), t.of(func(f *Fact) bool { return f.Outcome == o }))
	}
	line("all", t.All)
	open, asked := t.of(func(f *Fact) bool { return f.If == nil }), 0
	for _, f := range t.All {
		if len(f.Verified) > 0 {
			asked++
		}
	}
	fmt.Fprintf(&b, "\nOf %d rows the arguments of one call do not tell whether they are met: surfaces say \"may\" there. %d rows were seen to "+
		"agree with something outside this project (`verified`). No Mac has confirmed a row yet.\n", len(open), asked)
	b.WriteString("\n## Holes\n\n| row | surface | why |\n| --- | --- | --- |\n")
	for _, f := range t.All {
		for _, s := range Surfaces {
			if stand, why := f.At(s); stand == Hole {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, s, why)
			}
		}
	}
	b.WriteString("\n## Rows without a call\n\n")
	families := map[string][]string{}
	for _, f := range t.All {
		if f.Call == "" && (f.Holes["double"] == "" || f.Holes["check"] == "") {
			families[f.family] = append(families[f.family], "`"+f.Name+"`")
		}
	}
	var names []string
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "- %s (%d): %s\n", name, len(families[name]), strings.Join(families[name], ", "))
	}
	return []byte(b.String())
}

func (t *Table) of(wanted func(*Fact) bool) []*Fact {
	var list []*Fact
	for _, f := range t.All {
		if wanted(f) {
			list = append(list, f)
		}
	}
	return list
}

const pageHead = `# What is known about MPS

Beyond whether an operator has a kernel ([atlas.md](atlas.md)), each thing that is known about MPS is a *fact*: one row of
[internal/facts/rows](../internal/facts/rows), a file a family. Everything else asks the table or is generated from it: the double
refuses or remarks, ` + "`check`, `ops`, `try`, `explain`, `verdict`, `init` and `doctor`" + ` say it. This page is generated as well, but for this
description of a row.

| field | what it says |
| --- | --- |
| ` + "`name`" + ` | what it is; a message that changed is two rows, NAME and NAME-2 |
| ` + "`meets`" + ` | operators that meet it: an overload, or a name for all of its overloads, out= and in place too; ` + "`*`" + ` is any tensor on MPS |
| ` + "`python`" + ` | Python names by which a user meets it, where these are not just the names that come down to ` + "`meets`" + ` |
| ` + "`always`" + ` | those of which each call meets it |
| ` + "`direction`" + ` | forward or backward, where the operators do not say it |
| ` + "`when`" + `, ` + "`kind`" + ` | the condition in words, and what it hangs on: dtype, rank, shape, size, value … |
| ` + "`if`" + ` | the condition as data: clauses that all hold. Empty: always. Left out: one call's arguments do not tell |
| ` + "`partly`" + ` | the clauses have to hold, but are not all of it: surfaces say "may" |
| ` + "`outcome`" + ` | wrong (numbers, without a word), aborts (the process ends), refused (an exception), cpu (goes there by itself), slow, warns, ignored |
| ` + "`error`, `text`" + ` | the exception's class and its message as it stands in the binaries, {…} where it varies |
| ` + "`wrong`, `remedy`" + ` | what comes out instead; what to do |
| ` + "`from`, `until`, `fixed`" + ` | first and last release of torch in which it was seen, first in which it is right; left out: not known |
| ` + "`macos`" + ` | only on these: ` + "`< 14.0`, `>= 26.0`, `>= 14.4, < 15.0`" + ` |
| ` + "`source`, `known`, `open`" + ` | where it comes from; derived (read in binaries or sources of the releases) or reported (from issues alone); whether the issue was open |
| ` + "`verified`" + ` | what outside this project agrees |
| ` + "`call`, `beside`" + ` | the smallest Python that meets it, and one as near as can be that does not; ` + "`import torch`" + ` is done |
| ` + "`holes`" + ` | surfaces that cannot show it, with the reason |

A clause has a subject and a test. ` + "`of`" + ` is tensors: a position among the operator's arguments, several, ` + "`common`" + ` (the type to which the
operands are promoted), ` + "`any`" + `, ` + "`result`" + ` (the type that a factory is asked for); its tests are ` + "`dtype`, `not_dtype`, `unequal_dtype`, `rank`,\n`not_rank`, `rank_above`, `rank_below`, `elements_above`, `size_above`, `contiguous`. `argument`" + ` is what is no tensor, by ` + "`[position, name]`" + ` or,
where it is given by keyword only, by name, with ` + "`default`" + `; its tests are ` + "`is`, `not`, `above`, `below`, `not_above`, `outside`, `among`, `not_among`,\n`imaginary`, `truthy`, `absent`. `predicate`" + ` names a function of the double's predicates.py, for what no test says.

A rehearsal and ` + "`try`" + ` count a row as met *for sure* where a call shows its condition, the predicate does not answer "perhaps", and the
release is one in which it was seen or lies between such (` + "`until`" + `; ` + "`from`" + ` with ` + "`fixed`" + ` or ` + "`open`" + `; or ` + "`from`" + ` itself). Else it *may* be met, which is said once.
`
