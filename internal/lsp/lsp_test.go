package lsp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"assay/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// client speaks to the binary as an editor does. It shares no code with the server.
type client struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *textproto.Reader
	id    int
	shown map[string]diagnostics // by URI: the last that were published
	said  []string               // window/showMessage and logMessage
}

type object = map[string]any

type diagnostics struct {
	URI         string
	Version     int
	Diagnostics []struct {
		Range    rng
		Severity int
		Code     string
		Message  string
	}
}

type rng struct{ Start, End struct{ Line, Character int } }

func (r rng) String() string {
	return fmt.Sprintf("%d:%d-%d:%d", r.Start.Line, r.Start.Character, r.End.Line, r.End.Character)
}

func start(t *testing.T) *client {
	t.Helper()
	c := &client{t: t, cmd: exec.Command(testkit.Assay(t), "lsp"), shown: map[string]diagnostics{}}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = textproto.NewReader(bufio.NewReader(out))
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.in.Close(); c.cmd.Process.Kill(); c.cmd.Wait() })
	return c
}

func (c *client) send(message object) {
	c.t.Helper()
	message["jsonrpc"] = "2.0"
	text, err := json.Marshal(message)
	if err != nil {
		c.t.Fatal(err)
	}
	c.raw(fmt.Sprintf("Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n%s",
		len(text), text))
}

func (c *client) raw(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) notify(method string, params any) {
	c.t.Helper()
	c.send(object{"method": method, "params": params})
}

type answer struct {
	ID     any
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// next reads one message, and keeps what a notification says.
func (c *client) next() answer {
	c.t.Helper()
	header, err := c.out.ReadMIMEHeader()
	if err != nil {
		c.t.Fatalf("read the header: %v", err)
	}
	n, err := strconv.Atoi(header.Get("Content-Length"))
	if err != nil {
		c.t.Fatal(err)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(c.out.R, text); err != nil {
		c.t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		c.t.Fatalf("%v in %s", err, text)
	}
	switch a.Method {
	case "textDocument/publishDiagnostics":
		var d diagnostics
		if err := json.Unmarshal(a.Params, &d); err != nil {
			c.t.Fatal(err)
		}
		c.shown[d.URI] = d
	case "window/showMessage", "window/logMessage":
		c.said = append(c.said, string(a.Params))
	}
	return a
}

func (c *client) ask(method string, params any) answer {
	c.t.Helper()
	c.id++
	c.send(object{"id": c.id, "method": method, "params": params})
	for {
		if a := c.next(); a.Method == "" {
			if a.ID != float64(c.id) {
				c.t.Fatalf("an answer to %v, asked was %d", a.ID, c.id)
			}
			return a
		}
	}
}

// found waits for the diagnostics of a version, and gives them as range and code.
func (c *client) found(uri string, version int) []string {
	c.t.Helper()
	for c.shown[uri].Version < version {
		c.next()
	}
	list := []string{}
	for _, d := range c.shown[uri].Diagnostics {
		list = append(list, fmt.Sprintf("%s %d %s", d.Range, d.Severity, d.Code))
	}
	return list
}

func (c *client) initialize(dir string) {
	c.t.Helper()
	able := object{"workspace": object{"workspaceEdit": object{"documentChanges": true}}}
	if a := c.ask("initialize", object{"processId": nil, "rootUri": uriOf(dir), "capabilities": able}); a.Error != nil {
		c.t.Fatal(a.Error)
	}
	c.notify("initialized", object{})
}

func (c *client) open(uri, text string) {
	c.t.Helper()
	c.notify("textDocument/didOpen", object{"textDocument": object{"uri": uri, "languageId": "python", "version": 1,
		"text": text}})
}

// end ends the session in order, and gives the exit status.
func (c *client) end() int {
	c.t.Helper()
	if a := c.ask("shutdown", nil); a.Error != nil || string(a.Result) != "null" {
		c.t.Errorf("shutdown: %s %v", a.Result, a.Error)
	}
	c.send(object{"method": "exit"})
	return c.wait()
}

func (c *client) wait() int {
	io.Copy(io.Discard, c.out.R)
	c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

func uriOf(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

type edit struct {
	Range   rng
	NewText string
}

type action struct {
	Title       string
	Kind        string
	IsPreferred bool
	Edit        struct {
		DocumentChanges []struct {
			TextDocument struct {
				URI     string
				Version int
			}
			Edits []edit
		}
	}
}

func (c *client) actions(uri string, line int, only ...string) []action {
	c.t.Helper()
	context := object{"diagnostics": []any{}}
	if only != nil {
		context["only"] = only
	}
	a := c.ask("textDocument/codeAction", object{"textDocument": object{"uri": uri}, "context": context,
		"range": object{"start": object{"line": line, "character": 0}, "end": object{"line": line, "character": 999}}})
	var list []action
	if err := json.Unmarshal(a.Result, &list); err != nil {
		c.t.Fatalf("%v: %s %v", err, a.Result, a.Error)
	}
	return list
}

// apply makes the edits in a text, counting in UTF-16 as the protocol says, by the standard library.
func apply(text string, edits []edit) string {
	units := func(line, character int) int {
		at := 0
		for range line {
			at += strings.IndexByte(text[at:], '\n') + 1
		}
		rest, _, _ := strings.Cut(text[at:], "\n")
		return at + len(string(utf16.Decode(utf16.Encode([]rune(rest))[:character])))
	}
	for _, e := range slices.Backward(edits) {
		text = text[:units(e.Range.Start.Line, e.Range.Start.Character)] + e.NewText +
			text[units(e.Range.End.Line, e.Range.End.Character):]
	}
	return text
}

const training = "import torch\ns = '𝔘é'; x = torch.zeros(3, device='mps').double()\ny = torch.linalg.eigvals(torch.zeros(2, 2, device='mps'))\n" +
	"m = torch.nn.Linear(2, 2).cuda()\n"

// TestAim: what is open is judged for the release that its project pins, and the hover says which and why.
func TestAim(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"requirements.txt": "torch==2.0.1\n",
		"assay.toml": "[target]\nmacos = \"14\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	uri := uriOf(filepath.Join(dir, "train.py"))
	c := start(t)
	c.initialize(dir)
	c.open(uri, "import torch\ny = torch.sgn(torch.zeros(2, device='mps'))\n")
	h := c.ask("textDocument/hover", object{"textDocument": object{"uri": uri},
		"position": object{"line": 1, "character": 8}})
	for _, says := range []string{"on MPS in torch 2.0.1", "judged for `torch 2.0.1 (torch==2.0.1 in requirements.txt)`"} {
		if !strings.Contains(string(h.Result), says) {
			t.Errorf("the hover lacks %q: %s", says, h.Result)
		}
	}
}

// TestSession: diagnostics with UTF-16 places, a hover with the atlas's answer, actions whose edits take the finding
// away, changes in part, an end in order.
func TestSession(t *testing.T) {
	dir := t.TempDir()
	uri := uriOf(filepath.Join(dir, "a b", "train.py"))
	c := start(t)
	c.initialize(dir)
	c.open(uri, training)
	want := []string{"1:15-1:50 1 float64-on-mps", "2:4-2:24 1 missing-operator", "3:25-3:32 1 cuda-call"}
	if got := c.found(uri, 1); !slices.Equal(got, want) {
		t.Fatalf("found %q", got)
	}

	h := c.ask("textDocument/hover", object{"textDocument": object{"uri": uri},
		"position": object{"line": 2, "character": 18}})
	for _, says := range []string{"torch.linalg.eigvals", "aten::linalg_eig`: missing", "no release up to torch",
		"assay missing-operator", "assay rule missing-operator"} {
		if !strings.Contains(string(h.Result), says) {
			t.Errorf("the hover lacks %q: %s", says, h.Result)
		}
	}
	h = c.ask("textDocument/hover", object{"textDocument": object{"uri": uri},
		"position": object{"line": 3, "character": 15}})
	if !strings.Contains(string(h.Result), "torch.nn.Linear") || !strings.Contains(string(h.Result),
		"native since 2.0") || strings.Contains(string(h.Result), "cuda-call") {
		t.Errorf("the hover on Linear: %s", h.Result)
	}
	if h = c.ask("textDocument/hover", object{"textDocument": object{"uri": uri},
		"position": object{"line": 0, "character": 0}}); string(h.Result) != "null" {
		t.Errorf("a hover on nothing: %s", h.Result)
	}

	for line := 1; line <= 3; line++ {
		for _, a := range c.actions(uri, line) {
			if len(a.Edit.DocumentChanges) != 1 || a.Edit.DocumentChanges[0].TextDocument.Version != 1 ||
				a.Kind != "quickfix" {
				t.Errorf("%s: %+v", a.Title, a)
				continue
			}
			after := apply(training, a.Edit.DocumentChanges[0].Edits)
			other := uriOf(filepath.Join(dir, fmt.Sprintf("%d-%s.py", line, a.Title[:12])))
			c.open(other, after)
			if got := c.found(other, 1); slices.ContainsFunc(got, func(f string) bool {
				return strings.HasSuffix(f,
					strings.Fields(want[line-1])[2])
			}) {
				t.Errorf("%s leaves the finding:\n%s\n%q", a.Title, after, got)
			}
			if strings.Contains(a.Title, "allow") != strings.Contains(after, "# assay: allow") {
				t.Errorf("%s:\n%s", a.Title, after)
			}
		}
	}

	// A part of a line is replaced, by its UTF-16 place; then all of it.
	c.notify("textDocument/didChange", object{"textDocument": object{"uri": uri, "version": 2}, "contentChanges": []any{
		object{"range": object{"start": object{"line": 1, "character": 4}, "end": object{"line": 1, "character": 9}},
			"text": "'é𝔘𝔘'"},
		object{"range": object{"start": object{"line": 3, "character": 0}, "end": object{"line": 4, "character": 0}},
			"text": ""}}})
	if got := c.found(uri, 2); !slices.Equal(got, []string{"1:17-1:52 1 float64-on-mps",
		"2:4-2:24 1 missing-operator"}) {
		t.Errorf("after a change: %q", got)
	}
	c.notify("textDocument/didChange", object{"textDocument": object{"uri": uri, "version": 3},
		"contentChanges": []any{object{"text": "import torch\n"}}})
	if got := c.found(uri, 3); len(got) > 0 {
		t.Errorf("found in nothing: %q", got)
	}
	c.notify("textDocument/didClose", object{"textDocument": object{"uri": uri}})
	if a := c.ask("textDocument/hover", object{"textDocument": object{"uri": uri},
		"position": object{"line": 0, "character": 0}}); a.Error == nil {
		t.Error("a hover in a closed document is answered")
	}
	if code := c.end(); code != 0 {
		t.Errorf("status %d", code)
	}
}

// TestSettings: those of the workspace hold; wrong ones are said, with their line, and take effect again once they are
// right.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	settings := filepath.Join(dir, "assay.toml")
	write := func(text string) {
		if err := os.WriteFile(settings, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("[check]\nignore = [\"cuda-call\"]\ntorch = \"2.8\"\nexclude = [\"vendored/\"]\n")
	uri, vendored := uriOf(filepath.Join(dir, "train.py")), uriOf(filepath.Join(dir, "vendored", "train.py"))
	c := start(t)
	c.initialize(dir)
	c.open(uri, training)
	if got := c.found(uri, 1); len(got) != 2 || !strings.Contains(c.shown[uri].Diagnostics[1].Message, "2.8.0") {
		t.Errorf("found %q", got)
	}
	c.open(vendored, training)
	if got := c.found(vendored, 1); len(got) > 0 {
		t.Errorf("found where nothing is looked for: %q", got)
	}
	write("[check]\n\nignored = []\n")
	change := func(version int) []string {
		c.notify("textDocument/didChange", object{"textDocument": object{"uri": uri, "version": version},
			"contentChanges": []any{object{"text": training}}})
		return c.found(uri, version)
	}
	if got := change(2); len(got) > 0 || len(c.said) != 1 || !strings.Contains(c.said[0], "line 3") ||
		!strings.Contains(c.said[0], "ignored") {
		t.Errorf("found %q, said %q", got, c.said)
	}
	write("[check]\n")
	if got := change(3); len(got) != 3 {
		t.Errorf("found %q", got)
	}
	if code := c.end(); code != 0 {
		t.Errorf("status %d", code)
	}
}

// TestNotebook: cells are checked together, each has its own diagnostics, and actions are of the cell.
func TestNotebook(t *testing.T) {
	dir := t.TempDir()
	notebook := uriOf(filepath.Join(dir, "n.ipynb"))
	cell := func(n int) string { return fmt.Sprintf("vscode-notebook-cell:/n.ipynb#%d", n) }
	text := func(n, version int, text string) object {
		return object{"uri": cell(n), "languageId": "python", "version": version, "text": text}
	}
	code := func(n int) object { return object{"kind": 2, "document": cell(n)} }
	c := start(t)
	c.initialize(dir)
	c.notify("notebookDocument/didOpen", object{"notebookDocument": object{"uri": notebook,
		"notebookType": "jupyter-notebook", "version": 1,
		"cells": []any{code(1), object{"kind": 1, "document": cell(9)}, code(2)}},
		"cellTextDocuments": []any{text(1, 1, "%matplotlib é\nimport torch"),
			text(2, 1, "x = '𝔘'\nm = torch.nn.Linear(2, 2).cuda()")}})
	if got := c.found(cell(2), 1); !slices.Equal(got, []string{"1:25-1:32 1 cuda-call"}) ||
		len(c.found(cell(1), 1)) > 0 {
		t.Errorf("found %q", got)
	}
	list := c.actions(cell(2), 1)
	if len(list) == 0 {
		t.Fatal("no action")
	}
	for _, a := range list {
		if d := a.Edit.DocumentChanges; len(d) != 1 || d[0].TextDocument.URI != cell(2) {
			t.Errorf("%s: %+v", a.Title, d)
		}
	}
	// A cell comes between, the first one loses its import; the last one is untouched.
	c.notify("notebookDocument/didChange", object{"notebookDocument": object{"uri": notebook, "version": 2},
		"change": object{"cells": object{
			"structure": object{"array": object{"start": 2, "deleteCount": 0, "cells": []any{code(3)}},
				"didOpen": []any{text(3, 1, "t = torch.zeros(3).cuda()")}}}}})
	if got := c.found(cell(3), 1); !slices.Equal(got, []string{"0:18-0:25 1 cuda-call"}) {
		t.Errorf("found %q", got)
	}
	c.notify("notebookDocument/didChange", object{"notebookDocument": object{"uri": notebook, "version": 3},
		"change": object{"cells": object{
			"textContent": []any{object{"document": object{"uri": cell(3), "version": 2},
				"changes": []any{object{"text": "t = 1"}}}}}}})
	if got := c.found(cell(3), 2); len(got) > 0 {
		t.Errorf("found %q", got)
	}
	c.notify("notebookDocument/didClose", object{"notebookDocument": object{"uri": notebook},
		"cellTextDocuments": []any{}})
	if code := c.end(); code != 0 {
		t.Errorf("status %d", code)
	}
}

// TestFixAll: the action that editors run on save makes of the text what `assay check --fix` makes of the file.
func TestFixAll(t *testing.T) {
	dir := t.TempDir()
	source := "# -*- coding: latin-1 -*-\nimport torch\né = 1\nx = torch.zeros(3)  # assay: allow cuda-call -- not any more\n" +
		"y = 2  # assay: allow nccl-backend -- nor here: é\n"
	uri := uriOf(filepath.Join(dir, "train.py"))
	c := start(t)
	c.initialize(dir)
	c.open(uri, source)
	list := c.actions(uri, 0, "source.fixAll")
	if len(list) != 1 || list[0].Kind != "source.fixAll.assay" {
		t.Fatalf("%+v", list)
	}
	want := "# -*- coding: latin-1 -*-\nimport torch\né = 1\nx = torch.zeros(3)\ny = 2\n"
	if got := apply(source, list[0].Edit.DocumentChanges[0].Edits); got != want {
		t.Errorf("got %q", got)
	}
	if code := c.end(); code != 0 {
		t.Errorf("status %d", code)
	}
}

// TestProtocol: what comes at the wrong time, or is damaged.
func TestProtocol(t *testing.T) {
	c := start(t)
	if a := c.ask("textDocument/hover", object{}); a.Error == nil || a.Error.Code != -32002 {
		t.Errorf("before initialize: %+v", a)
	}
	c.notify("textDocument/didOpen", object{}) // dropped
	c.initialize(t.TempDir())
	for _, m := range []struct {
		method string
		params any
		code   int
	}{{"textDocument/rename", object{}, -32601}, {"textDocument/hover", []int{1}, -32602},
		{"initialize", object{}, -32600},
		{"textDocument/codeAction", object{"textDocument": object{"uri": "file:///none.py"}}, -32602}} {
		if a := c.ask(m.method, m.params); a.Error == nil || a.Error.Code != m.code {
			t.Errorf("%s: %+v", m.method, a.Error)
		}
	}
	c.raw("Content-Length: 9\r\n\r\n{\"jsonrpc")
	if a := c.next(); a.Error == nil || a.Error.Code != -32700 || a.ID != nil {
		t.Errorf("no JSON: %+v", a)
	}
	c.notify("$/setTrace", object{"value": "off"})
	if a := c.ask("shutdown", nil); a.Error != nil {
		t.Error(a.Error)
	}
	if a := c.ask("textDocument/hover", object{}); a.Error == nil || a.Error.Code != -32600 {
		t.Errorf("after shutdown: %+v", a)
	}
	c.send(object{"method": "exit"})
	if code := c.wait(); code != 0 {
		t.Errorf("status %d", code)
	}
	for name, text := range map[string]string{
		"exit without shutdown": "Content-Length: 33\r\n\r\n{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}",
		"the client goes":       "",
		"a header without end":  strings.Repeat("x", 1<<16),
		"too long a message":    "Content-Length: 99999999999\r\n\r\n{}",
		"no length":             "Content-Type: x\r\n\r\n{}",
		"cut off":               "Content-Length: 100\r\n\r\n{}",
	} {
		c := start(t)
		io.WriteString(c.in, text)
		c.in.Close()
		if code := c.wait(); code != 1 {
			t.Errorf("%s: status %d", name, code)
		}
	}
}

// TestMessagesAreHarmless: what a source holds and a message quotes turns no direction of the editor that shows it, and
// moves no cursor of a terminal's.
func TestMessagesAreHarmless(t *testing.T) {
	c := start(t)
	c.initialize(t.TempDir())
	const evil = "\u202e\u2066\x1b[31m\a"
	c.open("file:///a.py", "import os\nos.environ['PYTORCH_MPS_"+evil+"X'] = '1'\nimport torch\nx = torch.ones(3)  # assay: allow no-"+evil+"rule -- y\n")
	c.open("file:///b.py", "x = (\n"+evil)
	for _, uri := range []string{"file:///a.py", "file:///b.py"} {
		c.found(uri, 1)
		quoted := false
		for _, d := range c.shown[uri].Diagnostics {
			quoted = quoted || strings.Contains(d.Message, "\uFFFD")
			if strings.ContainsAny(d.Message, "\u202e\u2066\x1b\a") {
				t.Errorf("%s: %q", uri, d.Message)
			}
		}
		if uri == "file:///a.py" && !quoted {
			t.Errorf("%s: no message quotes the source: %+v", uri, c.shown[uri].Diagnostics)
		}
	}
	c.end()
}
