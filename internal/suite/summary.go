package suite

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/file"
	"assay/internal/text"
)

// SummaryLimit is what GitHub takes of a step's summary, in bytes; of more it takes nothing (docs.github.com, "Workflow
// commands", job summary limits: 1 MiB a step).
const SummaryLimit = 1 << 20

// summaryRows is how many rows of a table a summary has, and how many tests of a list; the rest is counted.
const (
	summaryRows  = 50
	summaryTests = 200
)

// SummaryTo writes the summary to a file, or behind what is in it where it is the one of GitHub's step, which other
// commands of the step write too: step is $GITHUB_STEP_SUMMARY, "" elsewhere.
func (r *Result) SummaryTo(name, step string, d *Difference, j *Judgement) error {
	if step == "" || filepath.Clean(name) != filepath.Clean(step) {
		return file.Write(name, 0o644, func(w io.Writer) error {
			_, err := io.WriteString(w, r.Summary(d, j, SummaryLimit))
			return err
		})
	}
	room := int64(SummaryLimit)
	info, err := os.Stat(name)
	switch {
	case err == nil:
		room -= info.Size()
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("write the summary: %w", err)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	_, err = io.WriteString(f, r.Summary(d, j, int(max(0, room))))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

// Summary is the result in GitHub's Markdown, with a difference and a judgement where they are not nil, limit bytes at
// most: parts that do not fit whole are left out from the end, and the last line says so.
func (r *Result) Summary(d *Difference, j *Judgement, limit int) string {
	parts := r.summaryParts(d, j)
	const cut = "\nThe rest did not fit into GitHub's limit of 1 MiB a step: `assay test show` has all of it.\n"
	total := 0
	for _, p := range parts {
		total += len(p)
	}
	b := &strings.Builder{}
	for _, p := range parts {
		if total > limit && b.Len()+len(p)+len(cut) > limit {
			if b.Len()+len(cut) <= limit {
				b.WriteString(cut)
			}
			break
		}
		b.WriteString(p)
	}
	return b.String()
}

func (r *Result) summaryParts(d *Difference, j *Judgement) (parts []string) {
	b := &strings.Builder{}
	end := func() {
		parts = append(parts, b.String())
		b.Reset()
	}
	sums := make([]Sum, len(r.Runs))
	for i := range r.Runs {
		sums[i] = SumOf(&r.Runs[i])
		sums[i].Advise()
	}
	b.WriteString("## assay test\n\n")
	b.WriteString("| | passed | failed | known wrong | on the CPU too | never on the device | not known |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for i := range sums {
		s := &sums[i]
		fmt.Fprintf(b, "| %s %s | %d | %d | %d | %d | %d | %s |\n", mark(s), text.Markdown(s.Run.Label(), 100),
			s.Passed, s.Failed, len(s.Wrong), len(s.CPU), s.Untouched, text.Markdown(s.Unknown(), 300))
	}
	b.WriteString("\n*passed* and *failed* are tests that had a tensor on the device; *known wrong* are operators with a " +
		"known wrong result that passing tests met. What is rehearsed ran on a stand-in for the device.\n")
	end()
	if j != nil {
		j.summary(b)
		end()
	}
	if d != nil {
		d.summary(b)
		end()
	}
	for i := range sums {
		s := &sums[i]
		fmt.Fprintf(b, "\n### %s\n\n%s", text.Markdown(s.Run.Label(), 100), text.Markdown(s.Lead(), 500))
		if beside := s.Beside(); beside != "" {
			fmt.Fprintf(b, " Beside them: %s.", beside)
		}
		b.WriteString("\n")
		s.groups(b, "Refused by the device", true)
		s.groups(b, "Other failures", false)
		end()
		if len(s.Wrong) > 0 {
			b.WriteString("\n**Known wrong results that passing tests met**: they may have used other values.\n\n" +
				"| known as | tests | one of them |\n| --- | ---: | --- |\n")
			for n, k := range s.Wrong {
				if n == summaryRows {
					fmt.Fprintf(b, "| %d more | | |\n", len(s.Wrong)-n)
					break
				}
				fmt.Fprintf(b, "| %s | %d | %s |\n", text.Markdown(k.Name, 200), len(k.Tests),
					text.Markdown(k.Tests[0].ID, 200))
			}
			end()
		}
	}
	for i := range sums {
		s := &sums[i]
		var bad []*Test
		for _, g := range s.Groups {
			bad = append(bad, g.Tests...)
		}
		name := text.Markdown(s.Run.Label(), 100)
		details(b, count(len(bad), "failing test")+" on "+name, bad)
		end()
		details(b, count(len(s.CPU), "test")+" failing on the CPU too, beside "+name, s.CPU)
		end()
	}
	fmt.Fprintf(b, "\n<sub>assay %s", text.Markdown(r.Assay, 50))
	if r.Commit != "" {
		fmt.Fprintf(b, ", commit %s", text.Markdown(r.Commit, 50))
	}
	fmt.Fprintf(b, ": %s</sub>\n", text.Markdown(strings.Join(r.Command, " "), 500))
	end()
	return parts
}

// mark is a run in one sign: green where all is known, all passed, and none met a wrong result.
func mark(s *Sum) string {
	switch s.State() {
	case StateGood:
		return "✅"
	case StateBad:
		return "❌"
	case StateWrong:
		return "⚠️"
	}
	return "❔"
}

func (s *Sum) groups(b *strings.Builder, title string, operators bool) {
	rows, head := 0, "| operator | cause | tests | runs from | where | one of them |\n| --- | --- | ---: | --- | --- | --- |\n"
	if !operators {
		head = "| what | tests | where | one of them |\n| --- | ---: | --- | --- |\n"
	}
	left := 0
	for i := range s.Groups {
		g := &s.Groups[i]
		if (g.Kind == KindOperator) != operators {
			continue
		}
		if rows++; rows == 1 {
			fmt.Fprintf(b, "\n**%s**\n\n%s", title, head)
		}
		if rows > summaryRows {
			left++
			continue
		}
		where := text.Markdown(g.Places[0].String(), 200)
		if n := len(g.Places) - 1; n > 0 {
			where += fmt.Sprintf(" and %s", count(n, "other line"))
		}
		if operators {
			tests := fmt.Sprint(len(g.Tests))
			if g.Met > 0 {
				tests += fmt.Sprintf(" (%d met it, and failed by something else)", g.Met)
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", text.Markdown(cmp.Or(g.Operator, "–"), 100),
				text.Markdown(g.Cause, 100), tests, text.Markdown(cmp.Or(g.From, "–"), 20), where,
				text.Markdown(g.Tests[0].ID, 200))
			continue
		}
		fmt.Fprintf(b, "| %s | %d | %s | %s |\n", text.Markdown(g.Title(), 100), len(g.Tests), where,
			text.Markdown(g.Tests[0].ID, 200))
	}
	if left > 0 {
		fmt.Fprintf(b, "\n%s not shown.\n", count(left, "further row"))
	}
}

func details(b *strings.Builder, title string, tests []*Test) {
	if len(tests) == 0 {
		return
	}
	fmt.Fprintf(b, "\n<details><summary>%s</summary>\n\n", title)
	for n, t := range tests {
		if n == summaryTests {
			fmt.Fprintf(b, "- and %d more\n", len(tests)-n)
			break
		}
		why := t.Short()
		if t.Operator+t.Cause != "" && t.How != "met" {
			why = cause(t)
		}
		fmt.Fprintf(b, "- %s: %s\n", text.Markdown(t.ID, 300), text.Markdown(why, 150))
	}
	b.WriteString("\n</details>\n")
}

func (j *Judgement) summary(b *strings.Builder) {
	fmt.Fprintf(b, "\n### Against the manifest\n\n%s as it expects, %d not.\n", count(j.Expected, "failure"),
		len(j.Departures))
	for n, d := range j.Departures {
		if n == 0 {
			b.WriteString("\n")
		}
		if n == summaryRows {
			fmt.Fprintf(b, "- and %d more\n", len(j.Departures)-n)
			break
		}
		fmt.Fprintf(b, "- %s: %s", d.Kind, text.Markdown(d.ID, 300))
		if d.Run != nil {
			fmt.Fprintf(b, " on %s", text.Markdown(d.Run.Label(), 100))
		}
		fmt.Fprintf(b, ": %s\n", text.Markdown(d.Text, 150))
	}
}

func (d *Difference) summary(b *strings.Builder) {
	b.WriteString("\n### Since the base\n\n")
	for i := range d.Runs {
		run := &d.Runs[i]
		fmt.Fprintf(b, "- %s: %s\n", text.Markdown(run.Run.Label(), 100), run.Tally())
	}
	for _, remark := range d.Remarks {
		fmt.Fprintf(b, "- %s\n", text.Markdown(remark, 800))
	}
	for i := range d.Runs {
		run := &d.Runs[i]
		for _, l := range run.Lists() {
			if len(l.Tests) > 0 && !l.Still { // those that still fail stand below
				title := fmt.Sprintf("%d %s on %s", len(l.Tests), l.Name, text.Markdown(run.Run.Label(), 100))
				details(b, title, l.Tests)
			}
		}
	}
}
