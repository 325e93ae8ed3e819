package lsp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// TestRead: a message is what its header promises, within bounds; a stream that ends between messages is no error.
func TestRead(t *testing.T) {
	for _, c := range []struct{ stream, text, err string }{
		{"", "", "EOF"}, {"Content-Length: 2\r\n\r\n{}", "{}", ""}, {"x: y\nCONTENT-LENGTH:2\n\n{}", "{}", ""},
		{"Content-Length: 0\r\n\r\n", "", ""}, {"Content-Length: 3\r\n\r\n{}", "", "2 of 3 bytes"},
		{"Content-Length", "", "header: EOF"}, {"x: y\r\n", "", "header: EOF"}, {"\r\n", "", "no Content-Length"},
		{"Content-Length: -1\r\n\r\n", "", "at most"}, {"Content-Length: x\r\n\r\n", "", "at most"},
		{fmt.Sprintf("Content-Length: %d\r\n\r\n", maxMessage), "", "0 of"},
		{fmt.Sprintf("Content-Length: %d\r\n\r\n", maxMessage+1), "", "at most"}, {"nonsense\r\n\r\n", "",
			"is no field"},
		{strings.Repeat("a: b\r\n", maxHeader/6+1) + "\r\n", "", "longer than"},
		{strings.Repeat("a", maxHeader+1), "", "buffer full"},
	} {
		text, err := read(bufio.NewReaderSize(strings.NewReader(c.stream), maxHeader))
		if string(text) != c.text || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(),
			c.err) {
			t.Errorf("%.40q: %q %v", c.stream, text, err)
		}
		if (c.stream == "") != (err == io.EOF) {
			t.Errorf("%.40q: the end is told as %v", c.stream, err)
		}
	}
	if err := write(io.Discard, func() {}); err == nil {
		t.Error("what cannot be encoded was written")
	}
	if err := write(full{}, 1); !errors.Is(err, errFull) {
		t.Errorf("a client that is gone goes unnoticed: %v", err)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestPlaces: the places of a text, at and beyond its ends, as the protocol counts them.
func TestPlaces(t *testing.T) {
	d := &document{text: []byte("\uFEFFab\r\n𝔘c\n")}
	for p, want := range map[position]int{{-1, 5}: 0, {0, 1}: 3, {0, 99}: 5, {1, 0}: 7, {1, 2}: 11, {1, 3}: 12, {1,
		9}: 12,
		{2, 0}: 13, {9, 0}: 13} {
		if got := d.offset(p); got != want {
			t.Errorf("%v: byte %d, want %d", p, got, want)
		}
	}
	for offset, want := range map[int]position{-1: {0, 0}, 3: {0, 1}, 7: {1, 0}, 11: {1, 2}, 13: {2, 0}, 99: {2, 0}} {
		if got := d.position(offset); got != want {
			t.Errorf("byte %d: %v, want %v", offset, got, want)
		}
	}
	// Lines and columns of a finding, from 1; a byte order mark is none of the columns.
	for at, want := range map[[2]int]position{{1, 1}: {0, 1}, {1, 3}: {0, 3}, {2, 1}: {1, 0}, {2, 2}: {1, 2}, {9,
		1}: {2, 0}} {
		if got := d.at(at[0], at[1]); got != want {
			t.Errorf("%v: %v, want %v", at, got, want)
		}
	}
	d = &document{text: []byte("one\ntwo\n")}
	d.change(7, []contentChange{{Range: &span{position{1, 3}, position{1, 0}}, Text: "2"},
		{Range: &span{position{0, 0}, position{0, 3}}, Text: "1"}})
	if string(d.text) != "1\n2\n" || d.version != 7 {
		t.Errorf("%q %d", d.text, d.version)
	}
	if d.change(8, []contentChange{{Text: "new"}}); string(d.text) != "new" || d.position(3) != (position{0, 3}) {
		t.Errorf("%q", d.text)
	}
	// A byte of the source belongs to the cell that holds it; the end of a cell is still its own.
	a, b := &document{text: []byte("abc")}, &document{text: []byte("de")}
	f := &file{parts: []*document{a, b}}
	for offset, want := range map[int]*document{0: a, 3: a, 4: b, 6: b, 99: b} {
		d, base := f.part(offset)
		if d != want || base != f.base(want) {
			t.Errorf("byte %d: in %q from %d", offset, d.text, base)
		}
	}
	if d, _ := (&file{}).part(0); d != nil {
		t.Error("a file of no parts has one")
	}
	for text, want := range map[string]string{"# -*- koding: utf-8": "# -*- coding: utf-8",
		"x\n# koding=u\n":   "x\n# coding=u\n",
		"x\ny\n# koding: u": "x\ny\n# koding: u", "koding: x": "koding: x"} {
		if got := string(unmask([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestRoots: a file is checked by the settings of the innermost folder that holds it, and by its own where none does.
func TestRoots(t *testing.T) {
	s := &Server{folders: []string{"/a", "/a/b", "/c"}}
	for path, want := range map[string]string{"/a/x.py": "/a", "/a/b/x.py": "/a/b", "/ab/x.py": "/ab",
		"/z/x.py": "/z", "": "/a"} {
		if got := s.root(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got := (&Server{}).root(""); got != "/" {
		t.Error(got)
	}
	for uri, want := range map[string]string{"file:///a/b%20c.py": "/a/b c.py", "file:///a/../x.py": "/x.py",
		"untitled:Untitled-1": "/r/Untitled-1", "vscode-vfs://h/p/q.py": "/r/q.py", "%zz/x": "/r/x"} {
		if got := pathOf(uri, "/r"); got != filepath.FromSlash(want) {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
	for _, c := range []struct {
		params string
		want   string
	}{
		{`{"rootUri": "file:///u", "rootPath": "/p"}`, "/u"}, {`{"rootPath": "/p/"}`, "/p"}, {`{"rootPath": "p"}`, ""},
		{`{"workspaceFolders": [{"uri": "file:///f"}, {"uri": "file:///g"}], "rootUri": "file:///u"}`, "/f /g"},
		{`{}`, ""},
	} {
		s := &Server{}
		r := &request{Method: "initialize", ID: json.RawMessage("1"), Params: json.RawMessage(c.params)}
		if _, err := s.handle(r); err != nil || strings.Join(s.folders, " ") != c.want {
			t.Errorf("%s: %q %v", c.params, s.folders, err)
		}
	}
}

// TestOrder: what comes before initialize, after shutdown, or is not open is refused with the protocol's own code.
func TestOrder(t *testing.T) {
	code := func(s *Server, method, params string, id bool) int {
		r := &request{Method: method, Params: json.RawMessage(params)}
		if id {
			r.ID = json.RawMessage("1")
		}
		_, err := s.handle(r)
		var e *rpcError
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%s: %v", method, err)
		}
		if e == nil {
			return 0
		}
		return e.Code
	}
	doc := `{"textDocument": {"uri": "file:///none.py"}, "contentChanges": []}`
	s := &Server{out: io.Discard, docs: map[string]*document{}, files: map[string]*file{}}
	for _, c := range []struct {
		method, params string
		id             bool
		want           int
	}{
		{"textDocument/hover", doc, true, notInitialized}, {"textDocument/didChange", doc, false, 0},
		{"initialize", "[]", true, invalidParams}, {"initialize", "{}", true, 0}, {"initialize", "{}", true,
			invalidRequest},
		{"textDocument/didChange", doc, false, invalidParams}, {"textDocument/didClose", doc, false, invalidParams},
		{"textDocument/hover", doc, true, invalidParams}, {"textDocument/codeAction", doc, true, invalidParams},
		{"notebookDocument/didChange", `{"notebookDocument": {"uri": "n"}}`, false, invalidParams},
		{"textDocument/didOpen", `{"textDocument": {"uri": "file:///n.py", "text": "x"}}`, false, 0},
		{"notebookDocument/didChange", `{"notebookDocument": {"uri": "file:///n.py"}}`, false, invalidParams},
		{"notebookDocument/didOpen", `{"notebookDocument": {"uri": "n", "cells": [{"kind": 2, "document": "c"}]},
			"cellTextDocuments": [{"uri": "c", "languageId": "python", "text": "x"}]}`, false, 0},
		{"notebookDocument/didChange", `{"notebookDocument": {"uri": "n"}, "change": {"cells": {"structure": {"array":
			{"start": 1, "deleteCount": 1}}}}}`, false, invalidParams},
		{"notebookDocument/didChange", `{"notebookDocument": {"uri": "n"}, "change": {"cells": {"structure": {"array":
			{"start": -1, "deleteCount": 0}}}}}`, false, invalidParams},
		{"notebookDocument/didChange", `{"notebookDocument": {"uri": "n"}, "change": {"cells": {"structure": {"array":
			{"start": 0, "deleteCount": 1}}}}}`, false, 0},
		{"nothing/known", "{}", true, methodNotFound}, {"nothing/known", "{}", false, 0}, {"shutdown", "", true, 0},
		{"textDocument/hover", doc, true, invalidRequest}, {"initialize", "{}", true, invalidRequest},
	} {
		if got := code(s, c.method, c.params, c.id); got != c.want {
			t.Errorf("%s %.60s: code %d, want %d", c.method, c.params, got, c.want)
		}
	}
}
