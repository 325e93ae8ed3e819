package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// applyFixes applies the fixes that may be applied (Safe: those alone) and do not overlap. It gives the file's new
// content, which parses where the source did, and the findings that are left; nil where there is nothing to apply.
func applyFixes(src *Source, list []Finding, trust Safety) (content []byte, left []Finding, err error) {
	var edits []Edit
	for _, f := range list {
		if f.Fix == nil || f.Fix.Safety == Manual || f.Fix.Safety == Unsafe && trust != Unsafe ||
			!apart(edits, f.Fix.Edits) {
			left = append(left, f)
			continue
		}
		for _, e := range f.Fix.Edits {
			if !slices.Contains(edits, e) { // two findings may need the same import
				edits = append(edits, e)
			}
		}
	}
	if len(left) == len(list) {
		return nil, list, nil
	}
	if content, err = src.Apply(edits); err != nil {
		return nil, nil, err
	}
	if KindOf(src.Path) == "python" || KindOf(src.Path) == "notebook" {
		before, after := parse(src.Path, src.Raw), parse(src.Path, content)
		if after.err != nil || len(after.file.Tree.Errors) > len(before.file.Tree.Errors) {
			return nil, nil, errors.New("its fixes, by a mistake in assay: the file would not parse any more, and is " +
				"left as it is; please report it with the file")
		}
	}
	return content, left, nil
}

// apart reports whether edits can be made beside those that are there.
func apart(there, more []Edit) bool {
	for _, e := range more {
		for _, f := range there {
			if e != f && e.From < f.To && f.From < e.To || e != f && e.From == f.From &&
				(e.To == e.From || f.To == f.From) {
				return false
			}
		}
	}
	return true
}

// Diff is a unified diff between two texts, with three lines of context.
func Diff(name string, before, after []byte) string {
	a, b := slices.Collect(strings.Lines(string(before))), slices.Collect(strings.Lines(string(after)))
	var out strings.Builder
	first, last := 0, 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	for last < len(a)-first && last < len(b)-first && a[len(a)-1-last] == b[len(b)-1-last] {
		last++
	}
	ops := script(a[first:len(a)-last], b[first:len(b)-last])
	type line struct {
		op   byte
		text string
	}
	var lines []line
	for _, t := range a[:first] {
		lines = append(lines, line{' ', t})
	}
	for _, op := range ops {
		lines = append(lines, line(op))
	}
	for _, t := range a[len(a)-last:] {
		lines = append(lines, line{' ', t})
	}
	const context = 3
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", name, name)
	for i := 0; i < len(lines); {
		for i < len(lines) && lines[i].op == ' ' {
			i++
		}
		if i == len(lines) {
			break
		}
		from := max(0, i-context)
		to, quiet := i, 0
		for j := i; j < len(lines) && quiet <= 2*context; j++ {
			if lines[j].op == ' ' {
				quiet++
			} else {
				quiet, to = 0, j+1
			}
		}
		to = min(len(lines), to+context)
		oldAt, newAt, oldN, newN := 1, 1, 0, 0
		for j, l := range lines[:to] {
			if l.op != '+' {
				if j < from {
					oldAt++
				} else {
					oldN++
				}
			}
			if l.op != '-' {
				if j < from {
					newAt++
				} else {
					newN++
				}
			}
		}
		if oldN == 0 { // as diff says: the line before
			oldAt--
		}
		if newN == 0 {
			newAt--
		}
		fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n", oldAt, oldN, newAt, newN)
		for _, l := range lines[from:to] {
			out.WriteByte(l.op)
			out.WriteString(l.text)
			if !strings.HasSuffix(l.text, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
		i = to
	}
	return out.String()
}

type diffOp struct {
	op   byte
	text string
}

// script is the shortest way from a to b, by the longest common subsequence; where that would be too large, all of a
// goes and all of b comes.
func script(a, b []string) []diffOp {
	var ops []diffOp
	if len(a)*len(b) > 1<<24 {
		for _, t := range a {
			ops = append(ops, diffOp{'-', t})
		}
		for _, t := range b {
			ops = append(ops, diffOp{'+', t})
		}
		return ops
	}
	width := len(b) + 1
	common := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			ops = append(ops, diffOp{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[(i+1)*width+j] >= common[i*width+j+1]:
			ops = append(ops, diffOp{'-', a[i]})
			i++
		default:
			ops = append(ops, diffOp{'+', b[j]})
			j++
		}
	}
	return ops
}
