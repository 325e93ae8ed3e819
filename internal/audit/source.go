package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxSource bounds what is read as one source: larger files are data, not programs.
const maxSource = 16 << 20

// Edit replaces the bytes [From, To) of a source.
type Edit struct {
	From, To int
	Text     string
}

// Source is a file's Python: the file itself, or the code cells of a notebook one after the other.
type Source struct {
	Path  string
	Text  []byte // what is parsed
	Raw   []byte // the file
	Cells []Cell // of a notebook
	once  sync.Once
	lines []int // offset of each line of Text: offsets
	fixed bool  // Text was decoded from another encoding: nothing can be written back
}

// Cell is a code cell. Numbers count code cells from 1, as no other number is stored in a notebook that was not run.
type Cell struct {
	Number   int
	From, To int // bytes of Text, without the line end that was added
	Line     int // of Text, from 0: its first
	skipped  bool
	pieces   []piece
	array    bool
}

// piece is one JSON string of a cell's source.
type piece struct {
	from, to int // bytes of Raw, quotes included
	text     string
}

// Place is a position as people say it: line and column from 1, the column in characters; Cell is 0 outside notebooks.
type Place struct {
	Cell, Line, Column int
}

func (p Place) String() string {
	if p.Cell > 0 {
		return fmt.Sprintf("cell %d:%d:%d", p.Cell, p.Line, p.Column)
	}
	return fmt.Sprintf("%d:%d", p.Line, p.Column)
}

// ErrNotPython is a notebook of another language.
var ErrNotPython = errors.New("a notebook of another language than Python")

// NewSource makes a source of a file's content. Notebooks are told by their name.
func NewSource(path string, raw []byte) (*Source, error) {
	s := &Source{Path: path, Raw: raw, Text: raw}
	if len(raw) > maxSource {
		return nil, fmt.Errorf("%d MB is more than a program has: at most %d MB are read", len(raw)>>20, maxSource>>20)
	}
	if strings.HasSuffix(path, ".ipynb") {
		if err := s.readNotebook(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// offsets are computed when a place is asked for; a source may be asked by several checks at once.
func (s *Source) offsets() []int {
	s.once.Do(func() {
		s.lines = append(make([]int, 0, len(s.Text)/32+1), 0)
		for i := 0; i < len(s.Text); i++ {
			switch s.Text[i] {
			case '\r':
				if i+1 < len(s.Text) && s.Text[i+1] == '\n' {
					i++
				}
				s.lines = append(s.lines, i+1)
			case '\n':
				s.lines = append(s.lines, i+1)
			}
		}
	})
	return s.lines
}

// line is the index of the line that holds a byte.
func (s *Source) line(offset int) int {
	i, found := slices.BinarySearch(s.offsets(), offset)
	if !found {
		i--
	}
	return i
}

// Place says where a byte is.
func (s *Source) Place(offset int) Place {
	n := s.line(offset)
	p := Place{Line: n + 1, Column: utf8.RuneCount(s.Text[s.lines[n]:min(offset, len(s.Text))]) + 1}
	if n == 0 && bytes.HasPrefix(s.Text, []byte("\uFEFF")) && offset > 0 {
		p.Column--
	}
	if c := s.cell(offset); c != nil {
		p.Cell, p.Line = c.Number, n-c.Line+1
	}
	return p
}

func (s *Source) cell(offset int) *Cell {
	i, found := slices.BinarySearchFunc(s.Cells, offset, func(c Cell, at int) int { return c.From - at })
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	return &s.Cells[i]
}

// Line is the text of the line that holds a byte, without its end, and where it starts.
func (s *Source) Line(offset int) (text string, start int) {
	n := s.line(offset)
	start = s.lines[n]
	end := len(s.Text)
	if n+1 < len(s.lines) {
		end = s.lines[n+1]
	}
	return strings.TrimRight(string(s.Text[start:end]), "\r\n"), start
}

// coding is the comment that names a source's encoding.
var coding = regexp.MustCompile(`\A(?:[ \t\f]*(?:#[^\r\n]*)?\r?\n)?[ \t\f]*#[^\r\n]*?(coding)[:=]`)

// HideCoding makes a comment that names an encoding say nothing, by one byte: for texts that are UTF-8 whatever it
// says.
func HideCoding(text []byte) []byte {
	if m := coding.FindSubmatchIndex(text[:min(len(text), 1<<12)]); m != nil {
		text = bytes.Clone(text)
		text[m[2]] = 'k'
	}
	return text
}

// rawLine is the line of the file, from 1, that holds a byte of Text: of a notebook, the line of its JSON.
func (s *Source) rawLine(offset int) int {
	c := s.cell(offset)
	if c == nil {
		return s.line(offset) + 1
	}
	at, raw := c.From, 0
	for _, p := range c.pieces {
		raw = p.from
		if at += len(p.text); offset < at {
			break
		}
	}
	return bytes.Count(s.Raw[:raw], []byte("\n")) + 1
}

// CellText is the text of a code cell, counted from 0, as it stands in the notebook: with its magics.
func (s *Source) CellText(n int) []byte {
	var text []byte
	for _, p := range s.Cells[n].pieces {
		text = append(text, p.text...)
	}
	return text
}

// Apply makes the file's new content of edits that do not overlap. Bytes that no edit names stay as they are.
func (s *Source) Apply(edits []Edit) ([]byte, error) {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.From - b.From })
	for i, e := range edits {
		if e.From > e.To || e.From < 0 || e.To > len(s.Text) || i > 0 && edits[i-1].To > e.From {
			return nil, fmt.Errorf("edit of bytes %d to %d overlaps another or lies outside the file", e.From, e.To)
		}
	}
	if s.Cells == nil {
		return splice(s.Raw, 0, edits), nil
	}
	return s.applyToNotebook(edits)
}

// splice applies sorted edits to text whose first byte has the offset base.
func splice(text []byte, base int, edits []Edit) []byte {
	out := make([]byte, 0, len(text)+64)
	at := 0
	for _, e := range edits {
		out = append(out, text[at:e.From-base]...)
		out = append(out, e.Text...)
		at = e.To - base
	}
	return append(out, text[at:]...)
}

// Notebooks
// --------------------------------------------------------------------------------------------------------------------

// jsonReader walks a notebook's JSON and knows where its strings stand.
type jsonReader struct {
	*json.Decoder
	raw []byte
}

// start is where the next token begins.
func (r *jsonReader) start() int {
	at := int(r.InputOffset())
	for at < len(r.raw) && strings.IndexByte(" \t\r\n,:", r.raw[at]) >= 0 {
		at++
	}
	return at
}

func (r *jsonReader) skip() error {
	var v json.RawMessage
	return r.Decode(&v)
}

// object calls each with the keys of the object that comes next; each consumes the value.
func (r *jsonReader) object(each func(key string) error) error {
	if t, err := r.Token(); err != nil || t != json.Delim('{') {
		return notebookError(err)
	}
	for r.More() {
		key, err := r.Token()
		if err != nil {
			return notebookError(err)
		}
		if err := each(key.(string)); err != nil {
			return err
		}
	}
	_, err := r.Token()
	return err
}

func notebookError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return errors.New("no notebook: its JSON has another form than nbformat 4")
	}
	return fmt.Errorf("no notebook: %w", err)
}

func (s *Source) readNotebook() error {
	if !utf8.Valid(s.Raw) {
		return errors.New("no notebook: not UTF-8")
	}
	r := &jsonReader{json.NewDecoder(bytes.NewReader(s.Raw)), s.Raw}
	language, found := "", false
	err := r.object(func(key string) error {
		switch key {
		case "cells":
			found = true
			return s.readCells(r)
		case "metadata":
			var m struct {
				Kernel struct {
					Language string `json:"language"`
				} `json:"kernelspec"`
				Info struct {
					Name string `json:"name"`
				} `json:"language_info"`
			}
			var raw json.RawMessage
			if err := r.Decode(&raw); err != nil {
				return notebookError(err)
			}
			_ = json.Unmarshal(raw, &m) // what has another form says nothing about the language
			language = strings.ToLower(m.Info.Name)
			if language == "" {
				language = strings.ToLower(m.Kernel.Language)
			}
			return nil
		}
		return r.skip()
	})
	if err != nil {
		return notebookError(err)
	}
	if !found {
		return notebookError(nil)
	}
	if language != "" && language != "python" && language != "ipython" {
		return ErrNotPython
	}
	s.Text = nil
	for i := range s.Cells {
		c := &s.Cells[i]
		c.From, c.Number = len(s.Text), i+1
		var text []byte
		for _, p := range c.pieces {
			text = append(text, p.text...)
			// Half of a pair of surrogates is no text, and would be lost when written back.
			s.fixed = s.fixed || strings.Contains(p.text, "\uFFFD") &&
				bytes.Contains(bytes.ToLower(s.Raw[p.from:p.to]), []byte(`\ud`))
		}
		c.To = c.From + len(text)
		c.skipped = hideMagics(text)
		s.Text = append(append(s.Text, text...), '\n')
	}
	s.Text = HideCoding(s.Text)
	for i := range s.Cells {
		s.Cells[i].Line = s.line(s.Cells[i].From)
	}
	if s.Cells == nil {
		s.Cells = []Cell{}
	}
	return nil
}

func (s *Source) readCells(r *jsonReader) error {
	if t, err := r.Token(); err != nil || t != json.Delim('[') {
		return notebookError(err)
	}
	for r.More() {
		var c Cell
		kind := ""
		err := r.object(func(key string) error {
			switch key {
			case "cell_type":
				return r.Decode(&kind)
			case "source":
				from := r.start()
				if from < len(r.raw) && r.raw[from] == '"' {
					p := piece{from: from}
					err := r.Decode(&p.text)
					p.to = int(r.InputOffset())
					c.pieces = append(c.pieces, p)
					return err
				}
				c.array = true
				if t, err := r.Token(); err != nil || t != json.Delim('[') {
					return notebookError(err)
				}
				if at := int(r.InputOffset()); !r.More() {
					c.pieces = append(c.pieces, piece{from: at, to: at})
				}
				for r.More() {
					p := piece{from: r.start()}
					if err := r.Decode(&p.text); err != nil {
						return err
					}
					p.to = int(r.InputOffset())
					c.pieces = append(c.pieces, p)
				}
				_, err := r.Token()
				return err
			}
			return r.skip()
		})
		if err != nil {
			return err
		}
		if kind == "code" {
			s.Cells = append(s.Cells, c)
		}
	}
	_, err := r.Token()
	return err
}

// hideMagics overwrites what IPython alone understands, byte for byte, with Python that does nothing: `%matplotlib
// inline` becomes `0` and spaces.
// A cell magic whose cell is no Python (%%bash) hides the cell, which is reported.
func hideMagics(text []byte) (hidden bool) {
	first := bytes.TrimLeft(text, " \t\r\n")
	if bytes.HasPrefix(first, []byte("%%")) {
		name, _, _ := strings.Cut(strings.TrimLeft(firstLine(first), "%"), " ")
		at := len(text) - len(first)
		switch name {
		case "time", "timeit", "capture", "prun", "python", "python3", "mypy", "memit", "mprun", "lprun",
			"script python":
			head := at + len(firstLine(first))
			blank(text[at:head])
			hideMagics(text[head:]) // the rest is a cell like others
			return false
		}
		for i := range text {
			if text[i] != '\n' && text[i] != '\r' {
				text[i] = ' '
			}
		}
		return true
	}
	depth, quote, goesOn := 0, "", false
	for at := 0; at < len(text); {
		end := at + len(firstLine(text[at:]))
		line := text[at:end]
		if quote == "" && depth == 0 && !goesOn {
			body := bytes.TrimLeft(line, " \t")
			start := end - len(body)
			switch {
			case len(body) > 0 && (body[0] == '%' || body[0] == '!' || body[0] == '?'), isAutomagic(body):
				end = hide(text, start)
			case bytes.HasSuffix(bytes.TrimRight(body, " \t\r"), []byte("?")) && !bytes.ContainsAny(body, "#'\""):
				end = hide(text, start)
			default:
				if i := bytes.IndexByte(body, '='); i > 0 && isTarget(body[:i]) {
					value := bytes.TrimLeft(body[i+1:], " \t")
					if len(value) > 1 && (value[0] == '!' || value[0] == '%' && value[1] != '=') {
						end = hide(text, end-len(value))
						break
					}
				}
				depth, quote = scan(line, depth, quote)
			}
		} else {
			depth, quote = scan(line, depth, quote)
		}
		goesOn = quote == "" && bytes.HasSuffix(bytes.TrimRight(line, "\r"), []byte(`\`))
		at = end + 1
	}
	return false
}

// isAutomagic reports a line that IPython takes for a magic without its sign, and that people write so: pip install
// torch.
func isAutomagic(body []byte) bool {
	words := bytes.Fields(body)
	if len(words) < 2 {
		return false
	}
	switch string(words[0]) {
	case "pip", "pip3", "conda", "mamba", "uv":
		return string(words[1]) == "install" || string(words[1]) == "uninstall" || len(words) > 2 &&
			string(words[1]) == "pip" && string(words[2]) == "install"
	}
	return false
}

func isTarget(text []byte) bool {
	for _, c := range bytes.TrimSpace(text) {
		if c != '_' && c != ',' && c != ' ' && c != '.' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

// hide blanks from start to the end of the line, and of those that a backslash continues.
func hide(text []byte, start int) (end int) {
	end = start + len(firstLine(text[start:]))
	for first := true; ; first = false {
		goesOn := bytes.HasSuffix(bytes.TrimRight(text[start:end], "\r"), []byte(`\`))
		if first {
			blank(text[start:end])
		} else {
			for i := start; i < end; i++ {
				text[i] = ' '
			}
		}
		if !goesOn || end >= len(text) {
			return end
		}
		start = end + 1
		end = start + len(firstLine(text[start:]))
	}
}

func blank(line []byte) {
	for i := range line {
		if i == 0 {
			line[i] = '0'
		} else if line[i] != '\r' {
			line[i] = ' '
		}
	}
}

func firstLine(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	return string(text)
}

// scan follows brackets and quotes through a line, so that a line of a string or of a bracket is not taken for a magic.
func scan(line []byte, depth int, quote string) (int, string) {
	for i := 0; i < len(line); i++ {
		if quote != "" {
			if line[i] == '\\' {
				i++
			} else if bytes.HasPrefix(line[i:], []byte(quote)) {
				i += len(quote) - 1
				quote = ""
			}
			continue
		}
		switch c := line[i]; c {
		case '#':
			return depth, ""
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(0, depth-1)
		case '\'', '"':
			quote = string(c)
			if bytes.HasPrefix(line[i:], bytes.Repeat([]byte{c}, 3)) {
				quote = strings.Repeat(quote, 3)
				i += 2
			}
		}
	}
	if len(quote) == 1 && !bytes.HasSuffix(bytes.TrimRight(line, "\r"), []byte(`\`)) {
		quote = ""
	}
	return depth, quote
}

func (s *Source) applyToNotebook(edits []Edit) ([]byte, error) {
	var raw []Edit // of Raw
	for i := range s.Cells {
		c := &s.Cells[i]
		at := c.From
		for j := 0; j < len(c.pieces); {
			from, to := at, at+len(c.pieces[j].text)
			last := j
			var mine []Edit
			for len(edits) > 0 && (edits[0].From < to || edits[0].From == to && j == len(c.pieces)-1 && to == c.To) {
				e := edits[0]
				for e.To > to && last+1 < len(c.pieces) {
					last++
					to += len(c.pieces[last].text)
				}
				if e.To > to {
					return nil, fmt.Errorf("edit of bytes %d to %d crosses cells", e.From, e.To)
				}
				mine = append(mine, e)
				edits = edits[1:]
			}
			if mine != nil {
				var old strings.Builder
				for _, p := range c.pieces[j : last+1] {
					old.WriteString(p.text)
				}
				span := s.Raw[c.pieces[j].from:c.pieces[last].to]
				raw = append(raw, Edit{c.pieces[j].from, c.pieces[last].to,
					s.literals(string(splice([]byte(old.String()), from, mine)), c.array, c.pieces[j].from,
						isASCII(span))})
			}
			at, j = to, last+1
		}
	}
	if len(edits) > 0 {
		return nil, fmt.Errorf("edit of bytes %d to %d lies between cells", edits[0].From, edits[0].To)
	}
	return splice(s.Raw, 0, raw), nil
}

// literals writes text as a cell's source: a string a line in an array, indented like the one at from.
func (s *Source) literals(text string, array bool, from int, ascii bool) string {
	if !array {
		return quoteJSON(text, ascii)
	}
	start := bytes.LastIndexByte(s.Raw[:from], '\n') + 1
	between := ", "
	if indent := s.Raw[start:from]; start > 0 && len(bytes.TrimSpace(indent)) == 0 {
		between = ",\n" + string(indent)
	}
	var list []string
	for line := range strings.Lines(text) {
		list = append(list, quoteJSON(line, ascii))
	}
	if list == nil {
		return `""`
	}
	return strings.Join(list, between)
}

func quoteJSON(text string, ascii bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string can always be encoded
	quoted := strings.TrimSuffix(b.String(), "\n")
	quoted = strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(quoted)
	if !ascii || isASCII([]byte(quoted)) {
		return quoted
	}
	var out strings.Builder
	for _, r := range quoted {
		switch {
		case r < utf8.RuneSelf:
			out.WriteRune(r)
		case r > 0xFFFF:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xD800+(r>>10), 0xDC00+(r&0x3FF))
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
