package lsp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"assay/internal/audit"
)

// document is a text that the client has open: a file, or a cell of a notebook.
type document struct {
	uri     string
	version int
	text    []byte
	lines   []int // offset of each line; nil: not known yet
	file    *file
	python  bool
}

// file is what is checked as one: a document, or the code cells of a notebook.
type file struct {
	uri   string
	path  string
	cells []notebookCell // of a notebook, nil else
	parts []*document    // in order; one for a file
	dirty bool

	report *audit.Report // of the last check; nil: none, or the file is none of ours
	calls  []call
	config Config
}

// call is a place where a Python name with a known path is called: what a hover asks for.
type call struct {
	path     string
	from, to int // bytes of the file's source
}

func (d *document) starts() []int {
	if d.lines == nil {
		d.lines = []int{0}
		for i := 0; i < len(d.text); i++ {
			if d.text[i] == '\n' || d.text[i] == '\r' && (i+1 == len(d.text) || d.text[i+1] != '\n') {
				d.lines = append(d.lines, i+1)
			}
		}
	}
	return d.lines
}

// line is a line's text with its end.
func (d *document) line(n int) (text []byte, start int) {
	lines := d.starts()
	if n >= len(lines) {
		return nil, len(d.text)
	}
	end := len(d.text)
	if n+1 < len(lines) {
		end = lines[n+1]
	}
	return d.text[lines[n]:end], lines[n]
}

// offset is the byte at a position. What lies behind a line's end is taken for the end, as the protocol says.
func (d *document) offset(p position) int {
	if p.Line < 0 {
		return 0
	}
	text, start := d.line(p.Line)
	text = bytes.TrimRight(text, "\r\n")
	at, units := 0, 0
	for at < len(text) && units < p.Character {
		r, n := utf8.DecodeRune(text[at:])
		at += n
		units += width(r)
	}
	return start + at
}

// position of a byte.
func (d *document) position(offset int) position {
	offset = max(0, min(offset, len(d.text)))
	lines := d.starts()
	n := sort.SearchInts(lines, offset+1) - 1
	p := position{Line: n}
	for _, r := range string(d.text[lines[n]:offset]) {
		p.Character += width(r)
	}
	return p
}

// at is the position of a line and a column in characters, both from 1.
func (d *document) at(line, column int) position {
	text, start := d.line(line - 1)
	if line == 1 && bytes.HasPrefix(text, []byte("\uFEFF")) {
		column++
	}
	at := 0
	for ; column > 1 && at < len(text); column-- {
		_, n := utf8.DecodeRune(text[at:])
		at += n
	}
	return d.position(start + at)
}

// width is what a character counts in UTF-16.
func width(r rune) int {
	if r > 0xFFFF {
		return 2
	}
	return 1
}

// change applies a client's changes, one after the other.
func (d *document) change(version int, changes []contentChange) {
	d.version = version
	for _, c := range changes {
		if c.Range == nil {
			d.text = []byte(c.Text)
		} else {
			from, to := d.offset(c.Range.Start), d.offset(c.Range.End)
			if to < from {
				from, to = to, from
			}
			d.text = slices.Concat(d.text[:from], []byte(c.Text), d.text[to:])
		}
		d.lines = nil
	}
}

// masked is what audit.HideCoding leaves.
var masked = regexp.MustCompile(`\A(?:[^\r\n]*\r?\n)?[ \t\f]*#[^\r\n]*?(koding)[:=]`)

// unmask undoes what content does to a comment that names an encoding: what a client sends is decoded already.
func unmask(text []byte) []byte {
	if m := masked.FindSubmatchIndex(text[:min(len(text), 1<<12)]); m != nil {
		text = bytes.Clone(text)
		text[m[2]] = 'c'
	}
	return text
}

// content is what is checked; offsets in it are those of the parts, one after the other with a line end between.
func (f *file) content() []byte {
	if f.cells == nil {
		return audit.HideCoding(f.parts[0].text)
	}
	type cell struct {
		Kind   string `json:"cell_type"`
		Source string `json:"source"`
	}
	list := []cell{}
	for _, d := range f.parts {
		list = append(list, cell{"code", string(d.text)})
	}
	raw, err := json.Marshal(map[string]any{"cells": list, "metadata": map[string]any{}, "nbformat": 4,
		"nbformat_minor": 5})
	if err != nil {
		panic(fmt.Sprintf("lsp: a notebook of texts: %v", err)) // texts can always be encoded
	}
	return raw
}

// part is the document that holds a byte of the file's source, and the byte of the source that it begins with.
func (f *file) part(offset int) (d *document, base int) {
	for i, d := range f.parts {
		if offset <= base+len(d.text) || i == len(f.parts)-1 {
			return d, base
		}
		base += len(d.text) + 1
	}
	return nil, 0
}

// base is the byte of the file's source that a part begins with.
func (f *file) base(of *document) (base int) {
	for _, d := range f.parts {
		if d == of {
			return base
		}
		base += len(d.text) + 1
	}
	return base
}

// place is where a finding stands.
func (f *file) place(i audit.Item) (*document, span) {
	d := f.parts[0]
	if i.Cell > 0 && i.Cell <= len(f.parts) {
		d = f.parts[i.Cell-1]
	}
	return d, span{d.at(i.Line, i.Column), d.at(i.EndLine, i.EndColumn)}
}

// edits are those of a fix, by document.
func (f *file) edits(list []audit.ItemEdit) map[*document][]textEdit {
	found := map[*document][]textEdit{}
	for _, e := range list {
		d, base := f.part(e.From)
		found[d] = append(found[d], textEdit{span{d.position(e.From - base), d.position(e.To - base)}, e.Text})
	}
	return found
}

// pathOf is the file that a URI names; what is not saved yet has a name below root.
func pathOf(uri, root string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		name := uri
		if err == nil {
			name = first(u.Opaque, u.Path)
		}
		return filepath.Join(root, filepath.Base(strings.TrimSuffix(name, "/")))
	}
	return filepath.FromSlash(filepath.Clean(u.Path))
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
