package audit

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Suppressions
// -----------------------------------------------------------------------------------------------------------------
//
//	x = x.double()  # assay: allow float64-on-mps -- summed on the CPU
//	# assay: allow synchronisation-in-loop -- once an epoch        (for the line below)
//	# assay: allow-file hard-coded-device -- a benchmark of CUDA    (anywhere in the file)

var allowing = regexp.MustCompile(`#\s*assay:\s*(allow-file|allow)\b[ \t]*([^-\s#][^#]*?)?(?:\s+--\s*(.*?))?\s*$`)

// allow is a comment that allows findings.
type allow struct {
	rules    []string
	reason   string
	file     bool
	from, to int // bytes of the comment
	line     int // of the source, from 0: the line it speaks of
	used     map[string]bool
}

// allows reads the comments that begin at the given bytes.
func allows(src *Source, comments [][2]int) []*allow {
	var list []*allow
	for _, c := range comments {
		comment := src.Text[c[0]:c[1]]
		if !bytes.Contains(comment, []byte("assay:")) {
			continue
		}
		m := allowing.FindSubmatch(comment)
		if m == nil {
			continue
		}
		a := &allow{file: string(m[1]) == "allow-file", reason: strings.TrimSpace(string(m[3])), from: c[0], to: c[1],
			line: src.line(c[0]), used: map[string]bool{}}
		a.rules = strings.FieldsFunc(string(m[2]), func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
		start := src.lines[a.line]
		// a comment of its own: it speaks of the next line that is no comment
		if len(bytes.TrimSpace(src.Text[start:c[0]])) == 0 {
			for a.line+1 < len(src.lines) {
				a.line++
				text, _ := src.Line(src.lines[a.line])
				if line := strings.TrimSpace(text); line != "" && line[0] != '#' {
					break
				}
			}
		}
		list = append(list, a)
	}
	return list
}

// allowed reports whether a comment allows the finding, and notes that it was of use.
func allowed(src *Source, list []*allow, f Finding) bool {
	for _, a := range list {
		if !slices.Contains(a.rules, f.Rule.Name) {
			continue
		}
		if first, last := src.line(f.From), src.line(max(f.From, f.To-1)); a.file || a.line >= first && a.line <= last {
			a.used[f.Rule.Name] = true
			return true
		}
	}
	return false
}

// UnusedAllow and BareAllow are about suppressions themselves; the driver reports them.
var (
	UnusedAllow = &Rule{Name: "unused-allow", Title: "a comment allows what is not found", Severity: Notice,
		Fixable: true, Doc: Doc{
			Why: "The comment allows a finding that is not there (any more), or names a rule that does not exist. It " +
				"would hide the next one.",
			Bad:  "x = x.float()  # assay: allow float64-on-mps -- was double once\n",
			Good: "x = x.float()\n",
		}}
	BareAllow = &Rule{Name: "allow-without-reason", Title: "a comment allows a finding without a reason",
		Severity: Notice, Doc: Doc{
			Why:  "Whoever reviews the code must know why the finding does not matter here.",
			Bad:  "x = x.double()  # assay: allow float64-on-mps\n",
			Good: "x = x.double()  # assay: allow float64-on-mps -- x stays on the CPU\n",
		}}
)

// left are the findings about the suppressions of a file. ran tells which rules were looked for.
func left(src *Source, list []*allow, ran func(name string) (known, looked bool), near func(string) string) []Finding {
	var found []Finding
	for _, a := range list {
		if len(a.rules) == 0 {
			found = append(found, Finding{Rule: UnusedAllow, Severity: Warning, Sure: true, From: a.from, To: a.to,
				Text: "the comment names no rule, and allows nothing",
				Hint: "write `# assay: allow RULE -- reason`; `assay rule` lists the rules"})
			continue
		}
		unused := 0
		for _, name := range a.rules {
			known, looked := ran(name)
			switch {
			case !known:
				f := Finding{Rule: UnusedAllow, Severity: Warning, Sure: true, From: a.from, To: a.to,
					Text: fmt.Sprintf("there is no rule %q", name)}
				if n := near(name); n != "" {
					f.Hint = fmt.Sprintf("did you mean %s?", n)
				}
				found = append(found, f)
			case looked && !a.used[name]:
				unused++
				f := Finding{Rule: UnusedAllow, Severity: Notice, Sure: true, From: a.from, To: a.to,
					Text: fmt.Sprintf("%s is not found here: the comment allows nothing", name)}
				if unused == len(a.rules) {
					f.Fix = &Fix{Safety: Safe, Title: "remove the comment", Edits: []Edit{removeComment(src, a)}}
				}
				found = append(found, f)
			}
		}
		if a.reason == "" && len(a.used) > 0 {
			found = append(found, Finding{Rule: BareAllow, Severity: Notice, Sure: true, From: a.from, To: a.to,
				Text: "the comment gives no reason",
				Hint: "write it behind two hyphens: # assay: allow " + strings.Join(a.rules, ", ") + " -- why"})
		}
	}
	return found
}

// removeComment takes the comment away, with its line where it has one of its own, else with the spaces before it.
func removeComment(src *Source, a *allow) Edit {
	n := src.line(a.from)
	from := a.from
	for from > src.lines[n] && (src.Text[from-1] == ' ' || src.Text[from-1] == '\t') {
		from--
	}
	if from == src.lines[n] && n+1 < len(src.lines) && src.Cells == nil {
		return Edit{From: from, To: src.lines[n+1]}
	}
	return Edit{From: from, To: a.to}
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
