package lsp

import (
	"bytes"
	"slices"
	"strings"

	"assay/internal/audit"
)

const (
	quickFix = "quickfix"
	fixAll   = "source.fixAll.assay"
)

// wants reports whether a client that asks for some kinds of actions (all, where it names none) takes one.
func wants(only []string, kind string) bool {
	return len(only) == 0 && kind == quickFix || slices.ContainsFunc(only,
		func(k string) bool { return k == kind || strings.HasPrefix(kind, k+".") })
}

// actions are the fixes of what is found in a range, and for each finding a comment that allows it.
func (s *Server) actions(p actionParams) (any, error) {
	d, f, err := s.current(p.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	list := []codeAction{}
	if f.report == nil {
		return list, nil
	}
	from, to := d.offset(p.Range.Start), d.offset(p.Range.End)
	var allowing []codeAction
	for _, i := range f.report.Items {
		of, at := f.place(i)
		if of != d || d.offset(at.Start) > to || d.offset(at.End) < from || !wants(p.Context.Only, quickFix) {
			continue
		}
		about := []diagnostic{asDiagnostic(i, at)}
		if i.Fix != nil && i.Fix.Safety != audit.Manual && len(i.Fix.Edits) > 0 {
			title := "assay: " + i.Fix.Title
			if i.Fix.Safety == audit.Unsafe {
				title += " (may change what the program does)"
			}
			list = append(list, codeAction{title, quickFix, about, i.Fix.Safety == audit.Safe,
				s.edit(f.edits(i.Fix.Edits))})
		}
		if edit := s.allow(f, d, i, at); edit != nil {
			allowing = append(allowing, codeAction{"assay: allow " + i.Rule + " here with a comment", quickFix, about,
				false, s.edit(map[*document][]textEdit{d: {*edit}})})
		}
	}
	list = append(list, allowing...)
	if wants(p.Context.Only, fixAll) {
		if edits := s.fixAll(f); edits != nil {
			list = append(list, codeAction{"assay: apply all safe fixes", fixAll, nil, false, s.edit(edits)})
		}
	}
	return list, nil
}

func (s *Server) edit(of map[*document][]textEdit) *workspaceEdit {
	e := &workspaceEdit{}
	for d, edits := range of {
		slices.SortFunc(edits, func(a, b textEdit) int { return d.offset(a.Range.Start) - d.offset(b.Range.Start) })
		if s.versions {
			t := textDocumentEdit{Edits: edits}
			t.TextDocument.URI, t.TextDocument.Version = d.uri, d.version
			e.DocumentChanges = append(e.DocumentChanges, t)
			continue
		}
		if e.Changes == nil {
			e.Changes = map[string][]textEdit{}
		}
		e.Changes[d.uri] = edits
	}
	slices.SortFunc(e.DocumentChanges, func(a, b textDocumentEdit) int {
		return strings.Compare(a.TextDocument.URI,
			b.TextDocument.URI)
	})
	return e
}

// allow is the edit that adds a comment: behind the finding, or where that would stand in a string or behind a
// backslash, on a line before it. Each is tried, and the first taken that leaves a source without the finding. The
// reason is the user's to write: without one, the comment is itself noted.
func (s *Server) allow(f *file, d *document, i audit.Item, at span) *textEdit {
	if i.Rule == audit.UnusedAllow.Name || i.Rule == audit.BareAllow.Name {
		return nil
	}
	comment := "# assay: allow " + i.Rule + " --"
	var places []textEdit
	for _, n := range []int{at.End.Line, at.Start.Line} {
		text, start := d.line(n)
		end := d.position(start + len(bytes.TrimRight(text, " \t\r\n")))
		places = append(places, textEdit{span{end, d.position(start + len(bytes.TrimRight(text, "\r\n")))}, "  " +
			comment})
	}
	text, start := d.line(at.Start.Line)
	begin := d.position(start)
	ending := "\n"
	if bytes.HasSuffix(text, []byte("\r\n")) {
		ending = "\r\n"
	}
	indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
	places = append(places, textEdit{span{begin, begin}, string(indent) + comment + ending})
	before := d.text
	defer func() { d.text, d.lines = before, nil }()
	for _, e := range places {
		from, to := d.offset(e.Range.Start), d.offset(e.Range.End)
		d.text, d.lines = slices.Concat(before[:from], []byte(e.NewText), before[to:]), nil
		r, err := s.look(f, f.content(), f.config.Rules)
		d.text, d.lines = before, nil
		if err == nil && r.Counts.Suppressed > f.report.Counts.Suppressed && len(r.Troubles) <= len(f.report.Troubles) {
			return &e
		}
	}
	return nil
}

// fixAll is what all safe fixes together make of the file, as one edit of each document from the first to the last byte
// that changes.
func (s *Server) fixAll(f *file) map[*document][]textEdit {
	o := s.options(f, f.content())
	o.Rules, o.Fix = f.config.Rules, audit.Safe
	fixed := false
	for range 10 {
		r, err := audit.Check(o)
		if err != nil {
			return nil
		}
		if r.Counts.Fixed == 0 {
			break
		}
		fixed = true
	}
	if !fixed {
		return nil
	}
	after, err := audit.NewSource(f.path, o.Changed[f.path])
	if err != nil {
		return nil
	}
	edits := map[*document][]textEdit{}
	for n, d := range f.parts {
		text := unmask(after.Text)
		if f.cells != nil {
			text = after.CellText(n)
		}
		first, last := 0, 0
		for first < len(d.text) && first < len(text) && d.text[first] == text[first] {
			first++
		}
		for last < len(d.text)-first && last < len(text)-first && d.text[len(d.text)-1-last] == text[len(text)-1-last] {
			last++
		}
		for first > 0 && first < len(d.text) && d.text[first]&0xC0 == 0x80 { // not within a character
			first--
		}
		for last > 0 && d.text[len(d.text)-last]&0xC0 == 0x80 {
			last--
		}
		if string(d.text) != string(text) {
			edits[d] = []textEdit{{span{d.position(first), d.position(len(d.text) - last)},
				string(text[first : len(text)-last])}}
		}
	}
	if len(edits) == 0 {
		return nil
	}
	return edits
}
