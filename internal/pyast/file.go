package pyast

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Comment is the range of a comment, from its # to the end of the line.
type Comment struct{ From, To int32 }

// Error is a syntax error: where, and what is wrong.
type Error struct {
	Span
	Message string
}

func (e Error) Error() string { return e.Message }

// maxErrors bounds the list of errors: more of them say nothing new.
const maxErrors = 1000

// Options of Parse.
type Options struct {
	Tokens     bool // keep File.Tokens
	ErrorsOnly bool // and no Body: for errors and comments alone, in less memory
}

// File is a parsed source. Offsets of nodes, comments, errors and tokens count bytes of Text.
type File struct {
	Text     string // the source in UTF-8; differs from what was given only where Encoding is another
	Encoding string // as CPython normalises it: utf-8, iso-8859-1, cp1252, …
	BOM      bool
	Body     []Stmt
	Errors   []Error // in order of their positions
	Comments []Comment
	Tokens   []Token // where Options asked for them
	Lines    []int32 // offset of each line's first byte; of the first line behind the byte order mark
}

// Token is a token with its text's range. Kind 0 is the end of the file.
type Token struct {
	Kind     TokenKind
	From, To int32
}

// Position is where a byte is, as CPython counts: lines from 1, columns in bytes from 0.
func (f *File) Position(offset int) (line, column int) {
	i, found := slices.BinarySearch(f.Lines, int32(offset))
	if !found {
		i--
	}
	if i < 0 {
		return 1, 0
	}
	return i + 1, offset - int(f.Lines[i])
}

// Source is the text of a node.
func (f *File) Source(n Node) string { return f.Text[n.Pos():n.End()] }

// Err is nil where CPython would have parsed the source, otherwise the first error.
func (f *File) Err() error {
	if len(f.Errors) == 0 {
		return nil
	}
	e := f.Errors[0]
	line, column := f.Position(e.Pos())
	return fmt.Errorf("%d:%d: %s", line, column+1, e.Message)
}

// Parse reads Python source. It always returns a tree; File.Errors says where the source is broken. The tree refers to
// src, which must not be changed afterwards.
func Parse(src []byte, opts Options) *File {
	f := &File{}
	if len(src) > maxSource {
		f.Errors = []Error{{Span{}, "the file is too large"}}
		f.Lines = []int32{0}
		return f
	}
	start, errs := f.decode(src)
	pool := &parsers
	if opts.ErrorsOnly {
		pool = &scrap
	}
	p := pool.Get().(*parser)
	p.parse(f, start, opts)
	f.Errors = append(errs, f.Errors...)
	if opts.ErrorsOnly {
		f.Body = nil
		p.alloc.again()
	} else {
		p.alloc = alloc{} // its blocks are the file's
	}
	pool.Put(p)
	slices.SortStableFunc(f.Errors, func(a, b Error) int { return int(a.From) - int(b.From) })
	return f
}

// maxSource keeps offsets within 31 bits, and a mistake from filling the memory.
const maxSource = 1 << 30

// utf8Error is the offset of the first byte that is not UTF-8 by Python's rules, or -1.
func utf8Error(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return -1
}
