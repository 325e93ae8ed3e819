package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// fix applies the fixes that may be applied and do not overlap. The result must parse where the source did; it goes to Changed, and
// the findings that are left are returned.
func (o *Options) fix(path string, src *Source, list []Finding) (kept []Finding, fixed int, err error) {
	var edits []Edit
	var taken []Finding
	for _, f := range list {
		if f.Fix == nil || f.Fix.Safety == Manual || f.Fix.Safety == Unsafe && o.Fix != Unsafe || !apart(edits, f.Fix.Edits) {
			kept = append(kept, f)
			continue
		}
		for _, e := range f.Fix.Edits {
			if !slices.Contains(edits, e) { // two findings may need the same import
				edits = append(edits, e)
			}
		}
		taken = append(taken, f)
	}
	if len(taken) == 0 {
		return list, 0, nil
	}
	content, err := src.Apply(edits)
	if err != nil {
		return nil, 0, err
	}
	if KindOf(src.Path) == "python" || KindOf(src.Path) == "notebook" {
		before, after := parse(src.Path, src.Raw), parse(src.Path, content)
		if after.err != nil || len(after.file.Errors) > len(before.file.Errors) {
			return nil, 0, errors.New("its fixes, by a mistake in assay: the file would not parse any more, and is left as it is; please report it with the file")
		}
	}
	if o.Changed == nil {
		o.Changed = map[string][]byte{}
	}
	o.Changed[path] = content
	return kept, len(taken), nil
}

// apart reports whether edits can be made beside those that are there.
func apart(there, more []Edit) bool {
	for _, e := range more {
		for _, f := range there {
			if e != f && e.From < f.To && f.From < e.To || e != f && e.From == f.From && (e.To == e.From || f.To == f.From) {
				return false
			}
		}
	}
	return true
}

// oncePerPlace keeps one finding of a rule for a place: what is sure hides what is suspected there.
func oncePerPlace(list []Finding) []Finding {
	var kept []Finding
	for _, f := range list {
		if i := slices.IndexFunc(kept, func(k Finding) bool { return k.Rule == f.Rule && k.From == f.From && k.To == f.To }); i >= 0 {
			if f.Sure && !kept[i].Sure {
				kept[i] = f
			}
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// hashComments are the comments of a file whose comments begin with #.
func hashComments(text []byte) (list [][2]int) {
	at := 0
	for line := range strings.Lines(string(text)) {
		if i := strings.Index(line, "#"); i >= 0 && strings.Contains(line, "assay:") {
			list = append(list, [2]int{at + i, at + len(strings.TrimRight(line, "\r\n"))})
		}
		at += len(line)
	}
	return list
}

// plain is an error without the path that is said beside it.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// firstOwnFrame names where a panic came from.
func firstOwnFrame(stack []byte) string {
	for line := range strings.Lines(string(stack)) {
		if i := strings.Index(line, "internal/"); i >= 0 && strings.Contains(line, ".go:") && !strings.Contains(line, "check.go") {
			where, _, _ := strings.Cut(strings.TrimSpace(line[i:]), " ")
			return where
		}
	}
	return "unknown place"
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

// script is the shortest way from a to b, by the longest common subsequence; where that would be too large, all of a goes and all of b comes.
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
