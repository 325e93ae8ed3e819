package symptom

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"assay/internal/claims"
	clean "assay/internal/text"
)

// JSON writes the record.
func JSON(w io.Writer, rep *Report) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(rep)
}

// Text writes the report to be read.
func Text(w io.Writer, rep *Report, width int) error {
	var b strings.Builder
	var after []Symptom
	alone := !slices.ContainsFunc(rep.Symptoms, func(s Symptom) bool { return !s.After })
	for _, s := range rep.Symptoms {
		if s.After && !alone {
			after = append(after, s)
			continue
		}
		writeSymptom(&b, s, width)
	}
	if len(after) > 0 {
		names := make([]string, len(after))
		for i, s := range after {
			names[i] = lowered(s.Title) + " (" + place(s.Found[0]) + ")"
		}
		b.WriteString(clean.Wrapped(strings.Join(names, "; "), "also seen, as consequences: ", "  ", width))
		b.WriteByte('\n')
	}
	if len(rep.Unknown) > 0 {
		b.WriteString("not known\n")
		for _, u := range rep.Unknown {
			text := place(u.Found) + ": " + u.Text
			if u.Count > 1 {
				text += fmt.Sprintf(" (%d times)", u.Count)
			}
			if u.Where != "" {
				text += " [" + u.Where + "]"
			}
			b.WriteString(clean.Wrapped(text, "  ", "    ", width))
		}
		if rep.More > 0 {
			fmt.Fprintf(&b, "  and %d more\n", rep.More)
		}
		b.WriteString(clean.Wrapped("These look like errors, and no rule knows them. Nothing is guessed.", "  ", "  ",
			width))
	}
	if len(rep.Symptoms) == 0 && len(rep.Unknown) == 0 {
		b.WriteString("nothing found: no line that a rule knows, and none that looks like an error\n")
	}
	if rep.Aim != nil {
		b.WriteString(rep.Aim.Text())
	}
	_, err := io.WriteString(w, clean.Lines(b.String())) // what is quoted is a stranger's
	return err
}

// lowered begins a title within a sentence: "The process…", and MPSGraph as it is written.
func lowered(title string) string {
	if len(title) > 1 && title[1] >= 'A' && title[1] <= 'Z' {
		return title
	}
	return strings.ToLower(title[:1]) + title[1:]
}

func writeSymptom(b *strings.Builder, s Symptom, width int) {
	head := s.Severity + ": " + s.Title
	if s.Likely {
		head = s.Severity + " (likely): " + s.Title
	}
	if s.Count > 1 {
		head += fmt.Sprintf(" (%d times)", s.Count)
	}
	b.WriteString(clean.Wrapped(head, "", "  ", width))
	shown := ""
	for _, f := range s.Found {
		text := f.Text
		if text == shown || text == s.Cause { // the same line again
			text = ""
		} else {
			shown = text
		}
		if utf8.RuneCountInString(text) > 300 {
			text = string([]rune(text)[:299]) + "…"
		}
		line := place(f)
		if text != "" {
			line += ": " + text
		}
		if f.Where != "" {
			line += " [" + f.Where + "]"
		}
		b.WriteString(clean.Wrapped(line, "  | ", "  |   ", width))
	}
	if n := s.Count - len(s.Found); n > 0 {
		fmt.Fprintf(b, "  | and %d more\n", n)
	}
	b.WriteString(clean.Wrapped(s.Cause, "  cause     ", "            ", width))
	for i, r := range s.Remedy {
		lead := "            "
		if i == 0 {
			lead = "  remedy    "
		}
		b.WriteString(clean.Wrapped(r, lead+"- ", "              ", width))
	}
	if s.Code != "" {
		for line := range strings.Lines(strings.Trim(s.Code, "\n")) {
			b.WriteString("                " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	if len(s.Releases) > 0 {
		b.WriteString(clean.Wrapped(strings.TrimSuffix(strings.Join(s.Releases, "; "), "."), "  releases  ",
			"            ", width))
	}
	for _, line := range claims.Open().Lines(s.Claims) {
		b.WriteString(clean.Wrapped(strings.TrimPrefix(line, "claim "), "  claim     ", "            ", width))
	}
	b.WriteString(clean.Wrapped(s.Rule+" ["+s.Source+"]", "  rule      ", "            ", width))
	b.WriteByte('\n')
}

func place(f Found) string {
	switch {
	case f.Place != "" && f.Line > 0:
		return fmt.Sprintf("%s, line %d", f.Place, f.Line)
	case f.Place != "":
		return f.Place
	}
	return fmt.Sprintf("line %d", f.Line)
}
