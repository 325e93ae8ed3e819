// Package lsp is `assay lsp`: a language server that shows an editor what the audit finds, with hovers from the atlas
// and fixes to apply.
//
// Messages are taken one after the other. What changed is checked when no message waits, so that typing is not slowed
// down by checks of texts that are gone already; an answer to a request is always of the texts as they stand.
package lsp

import (
	"assay/internal/facts"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/abstract"
	"assay/internal/atlas"
	"assay/internal/audit"
	"assay/internal/pyast"
	"assay/internal/text"
)

// Config is how the files of a folder are checked.
type Config struct {
	Base     string // the folder
	Rules    []*audit.Rule
	Known    []*audit.Rule
	Target   audit.Target
	Sure     bool
	Exclude  []audit.Exclude
	Baseline string // file, or ""
}

// Server talks to one client.
type Server struct {
	Version string
	// from the settings of a folder; asked before each check, as settings change
	Configure func(folder string) (Config, error)

	out      io.Writer
	folders  []string
	versions bool // the client takes edits of versions of documents
	state    state
	docs     map[string]*document
	files    map[string]*file // by URI: of the document, or of the notebook
	order    []*file          // in the order in which they were opened
	troubled string           // the last complaint about settings
}

type state int

const (
	fresh state = iota
	ready
	shutDown
)

// Run answers messages until the client says exit; the status is that of the protocol: 0 after a shutdown, 1 without.
func (s *Server) Run(ctx context.Context, in io.Reader, out io.Writer) (status int, err error) {
	s.out, s.docs, s.files = out, map[string]*document{}, map[string]*file{}
	type received struct {
		text []byte
		err  error
	}
	messages := make(chan received, 64)
	done := make(chan struct{})
	defer close(done)
	go func() {
		r := bufio.NewReaderSize(in, maxHeader)
		for {
			text, err := read(r)
			select {
			case messages <- received{text, err}:
			case <-done:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		var m received
		select {
		case m = <-messages:
		default:
			if f := s.next(); f != nil {
				if err := s.publish(f); err != nil {
					return 1, err
				}
				continue
			}
			select {
			case m = <-messages:
			case <-ctx.Done():
				return 1, nil
			}
		}
		if m.err != nil {
			if errors.Is(m.err, io.EOF) {
				m.err = nil // the client is gone
			}
			return 1, m.err
		}
		var r request
		if err := json.Unmarshal(m.text, &r); err != nil {
			if err := s.answer(nil, nil, &rpcError{parseError, "the message is no JSON: " + err.Error()}); err != nil {
				return 1, err
			}
			continue
		}
		if r.Method == "exit" {
			if s.state == shutDown {
				return 0, nil
			}
			return 1, nil
		}
		if r.Method == "" && r.ID != nil && len(r.Params) == 0 {
			continue // an answer to what was never asked
		}
		result, err := s.handle(&r)
		if r.ID != nil {
			err = s.answer(r.ID, result, err)
		} else if err != nil {
			err = s.notify("window/logMessage", map[string]any{"type": 2, "message": "assay: " +
				text.Lines(r.Method+": "+err.Error())})
		}
		if err != nil {
			return 1, err
		}
	}
}

func (s *Server) answer(id json.RawMessage, result any, err error) error {
	if id == nil {
		id = json.RawMessage("null")
	}
	if err != nil {
		var e *rpcError
		if !errors.As(err, &e) {
			e = &rpcError{internalError, err.Error()}
		}
		return write(s.out, map[string]any{"jsonrpc": "2.0", "id": id, "error": e})
	}
	return write(s.out, map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

func (s *Server) notify(method string, params any) error {
	return write(s.out, map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

// handle takes one message. A mistake of ours in one must not end the session.
func (s *Server) handle(r *request) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, &rpcError{internalError, fmt.Sprintf("a mistake in assay: %v", p)}
		}
	}()
	switch {
	case s.state == fresh && r.Method != "initialize" && r.ID != nil:
		return nil, &rpcError{notInitialized, "initialize comes first"}
	case s.state == fresh && r.Method != "initialize":
		return nil, nil // dropped, as the protocol says
	case s.state == shutDown || s.state == ready && r.Method == "initialize":
		return nil, &rpcError{invalidRequest, r.Method + " does not belong here"}
	}
	switch r.Method {
	case "initialize":
		return with(r, s.initialize)
	case "shutdown":
		s.state = shutDown
		return nil, nil
	case "textDocument/hover":
		return with(r, s.hover)
	case "textDocument/codeAction":
		return with(r, s.actions)
	case "textDocument/didOpen":
		return with(r, func(p openParams) (any, error) {
			d := s.open(p.TextDocument)
			d.file = s.track(&file{uri: d.uri, path: pathOf(d.uri, s.root("")), parts: []*document{d}})
			return nil, nil
		})
	case "textDocument/didChange":
		return with(r, func(p changeParams) (any, error) { return nil, s.changed(p.TextDocument, p.Changes) })
	case "textDocument/didClose":
		return with(r, func(p closeParams) (any, error) { return nil, s.closed(p.TextDocument.URI) })
	case "notebookDocument/didOpen":
		return with(r, s.openNotebook)
	case "notebookDocument/didChange":
		return with(r, s.changeNotebook)
	case "notebookDocument/didClose":
		return with(r, func(p notebookCloseParams) (any, error) { return nil, s.closed(p.Notebook.URI) })
	case "textDocument/didSave", "notebookDocument/didSave", "workspace/didChangeConfiguration",
		"workspace/didChangeWatchedFiles":
		for _, f := range s.order { // what one file says depends on those that it imports
			f.dirty = true
		}
		return nil, nil
	case "workspace/didChangeWorkspaceFolders":
		return with(r, func(p struct {
			Event struct{ Added, Removed []struct{ URI string } }
		}) (any, error) {
			for _, f := range p.Event.Removed {
				s.folders = slices.DeleteFunc(s.folders, func(have string) bool { return have == pathOf(f.URI, "/") })
			}
			for _, f := range p.Event.Added {
				s.folders = append(s.folders, pathOf(f.URI, "/"))
			}
			return nil, nil
		})
	}
	if r.ID != nil {
		return nil, &rpcError{methodNotFound, r.Method + " is not offered"}
	}
	return nil, nil
}

// with decodes the parameters.
func with[P any](r *request, do func(P) (any, error)) (any, error) {
	var p P
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return nil, &rpcError{invalidParams, err.Error()}
	}
	return do(p)
}

func (s *Server) initialize(p initializeParams) (any, error) {
	for _, f := range p.Folders {
		s.folders = append(s.folders, pathOf(f.URI, "/"))
	}
	if len(s.folders) == 0 && p.RootURI != "" {
		s.folders = []string{pathOf(p.RootURI, "/")}
	}
	if len(s.folders) == 0 && filepath.IsAbs(p.RootPath) {
		s.folders = []string{filepath.Clean(p.RootPath)}
	}
	s.versions = p.Capabilities.Workspace.WorkspaceEdit.DocumentChanges
	s.state = ready
	return map[string]any{"capabilities": capabilities, "serverInfo": map[string]string{"name": "assay",
		"version": s.Version}}, nil
}

// root is the innermost folder of the workspace that holds a file; its own where none does.
func (s *Server) root(path string) string {
	best := ""
	for _, f := range s.folders {
		if rel, err := filepath.Rel(f, path); err == nil && filepath.IsLocal(rel) && len(f) > len(best) {
			best = f
		}
	}
	switch {
	case best != "":
		return best
	case path != "":
		return filepath.Dir(path)
	case len(s.folders) > 0:
		return s.folders[0]
	}
	return string(filepath.Separator)
}

// Documents
// --------------------------------------------------------------------------------------------------------------

func (s *Server) open(i documentItem) *document {
	d := &document{uri: i.URI, version: i.Version, text: []byte(i.Text), python: i.Language == "python"}
	s.docs[d.uri] = d
	return d
}

func (s *Server) track(f *file) *file {
	s.forget(f.uri) // opened twice: the last one counts
	s.files[f.uri] = f
	s.order = append(s.order, f)
	f.dirty = true
	return f
}

func (s *Server) forget(uri string) {
	if f := s.files[uri]; f != nil {
		delete(s.files, uri)
		s.order = slices.DeleteFunc(s.order, func(g *file) bool { return g == f })
	}
}

var errNotOpen = &rpcError{invalidParams, "the document is not open"}

func (s *Server) changed(id documentID, changes []contentChange) error {
	d := s.docs[id.URI]
	if d == nil {
		return errNotOpen
	}
	d.change(id.Version, changes)
	if d.file != nil {
		d.file.dirty = true
	}
	return nil
}

// closed forgets a file, and takes what was said of it back.
func (s *Server) closed(uri string) error {
	f := s.files[uri]
	if f == nil {
		return errNotOpen
	}
	s.forget(uri)
	for _, d := range f.parts {
		delete(s.docs, d.uri)
		if err := s.notify("textDocument/publishDiagnostics", publishDiagnostics{URI: d.uri,
			Diagnostics: []diagnostic{}}); err != nil {
			return err
		}
	}
	for _, c := range f.cells {
		delete(s.docs, c.Document)
	}
	return nil
}

func (s *Server) openNotebook(p notebookOpenParams) (any, error) {
	for _, i := range p.Documents {
		s.open(i)
	}
	f := &file{uri: p.Notebook.URI, path: pathOf(p.Notebook.URI, s.root("")),
		cells: append([]notebookCell{}, p.Notebook.Cells...)}
	s.gather(f)
	s.track(f)
	return nil, nil
}

// gather lists the cells that are Python.
func (s *Server) gather(f *file) {
	f.parts = nil
	for _, c := range f.cells {
		if d := s.docs[c.Document]; d != nil && c.Kind == 2 && d.python {
			d.file = f
			f.parts = append(f.parts, d)
		}
	}
}

func (s *Server) changeNotebook(p notebookChangeParams) (any, error) {
	f := s.files[p.Notebook.URI]
	if f == nil || f.cells == nil {
		return nil, errNotOpen
	}
	cells := p.Change.Cells
	if c := cells.Structure; c != nil {
		if c.Array.Start < 0 || c.Array.Delete < 0 || c.Array.Start+c.Array.Delete > len(f.cells) {
			return nil, &rpcError{invalidParams, "cells that are not there change"}
		}
		f.cells = slices.Replace(f.cells, c.Array.Start, c.Array.Start+c.Array.Delete, c.Array.Cells...)
		for _, i := range c.Open {
			s.open(i)
		}
		for _, id := range c.Close {
			delete(s.docs, id.URI)
			if err := s.notify("textDocument/publishDiagnostics", publishDiagnostics{URI: id.URI,
				Diagnostics: []diagnostic{}}); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range cells.Data {
		for i := range f.cells {
			if f.cells[i].Document == c.Document {
				f.cells[i].Kind = c.Kind
			}
		}
	}
	for _, c := range cells.Content {
		if err := s.changed(c.Document, c.Changes); err != nil {
			return nil, err
		}
	}
	s.gather(f)
	f.dirty = true
	return nil, nil
}

// Checks
// --------------------------------------------------------------------------------------------------------------

func (s *Server) next() *file {
	for _, f := range s.order {
		if f.dirty {
			return f
		}
	}
	return nil
}

// publish checks a file and tells the client. A mistake of ours in one file must not end the session.
func (s *Server) publish(f *file) (err error) {
	defer func() {
		if p := recover(); p != nil {
			f.report, f.calls = nil, nil
			err = s.notify("window/logMessage", map[string]any{"type": 1, "message": "assay: " +
				text.Lines(fmt.Sprintf("a mistake in assay: %v, in %s", p, f.path))})
		}
	}()
	if err := s.check(f); err != nil {
		f.report, f.calls = nil, nil
		if err.Error() != s.troubled { // settings that are being written are wrong for a while: it is said once
			s.troubled = err.Error()
			if err := s.notify("window/showMessage", map[string]any{"type": 1, "message": "assay: " +
				text.Lines(err.Error())}); err != nil {
				return err
			}
		}
	} else {
		s.troubled = ""
	}
	lists := map[*document][]diagnostic{}
	if f.report != nil {
		for _, i := range f.report.Items {
			d, at := f.place(i)
			lists[d] = append(lists[d], asDiagnostic(i, at))
		}
		for _, t := range f.report.Troubles {
			i := audit.Item{Cell: t.Cell(), Line: max(1, t.Line), Column: 1, EndLine: max(1, t.Line) + 1, EndColumn: 1}
			d, at := f.place(i)
			lists[d] = append(lists[d], diagnostic{Range: at, Severity: 2, Source: "assay", Message: "not checked: " +
				text.Lines(t.Text)})
		}
	}
	for _, d := range f.parts {
		list := lists[d]
		if list == nil {
			list = []diagnostic{}
		}
		version := d.version
		if err := s.notify("textDocument/publishDiagnostics", publishDiagnostics{d.uri, &version, list}); err != nil {
			return err
		}
	}
	return nil
}

func asDiagnostic(i audit.Item, at span) diagnostic {
	d := diagnostic{Range: at, Code: i.Rule, Source: "assay", Message: i.Text,
		Severity: map[audit.Severity]int{audit.Error: 1, audit.Warning: 2, audit.Notice: 3}[i.Severity]}
	if i.Certainty == "suspected" {
		d.Severity = min(d.Severity+1, 3)
		d.Message = "suspected: " + d.Message
	}
	if i.Hint != "" {
		d.Message += "\n" + i.Hint
	}
	d.Message = text.Lines(d.Message) // a source quoted in it is a stranger's
	return d
}

// listener is no rule: it notes where Python names are called, for hovers.
func listener(f *file) *audit.Rule {
	dottedName := func(path string) bool { return strings.Contains(path, ".") && !strings.ContainsAny(path, " ?") }
	return &audit.Rule{Name: "assay-lsp", Calls: []audit.Ask{{Names: dottedName,
		Look: func(p *audit.Pass, c *abstract.Call) {
			if c.Node == nil || !p.AtHome() || !p.Owns(c) {
				return
			}
			fn := c.Node.Func
			from, to := fn.Pos(), fn.End()
			if a, ok := fn.(*pyast.Attribute); ok { // the name itself, not the object of a method
				if _, plain := dotted(a); !plain {
					from = to - len(a.Attr)
				}
			}
			f.calls = append(f.calls, call{strings.TrimSuffix(c.Path, ".__call__"), from, to})
		}}}}
}

func dotted(e pyast.Expr) (string, bool) {
	switch e := e.(type) {
	case *pyast.Name:
		return e.ID, true
	case *pyast.Attribute:
		before, ok := dotted(e.Value)
		return before + "." + e.Attr, ok
	}
	return "", false
}

// check looks at a file as it stands in the editor.
func (s *Server) check(f *file) (err error) {
	f.dirty = false
	f.report, f.calls = nil, nil
	if len(f.parts) == 0 {
		return nil
	}
	kind := audit.KindOf(f.path)
	if f.cells == nil && (kind == "notebook" || kind == "" && !f.parts[0].python) || f.cells != nil &&
		kind != "notebook" {
		return nil
	}
	if f.config, err = s.Configure(s.root(f.path)); err != nil {
		return err
	}
	if audit.Excluded(f.config.Base, f.path, f.config.Exclude) {
		return nil
	}
	f.report, err = s.look(f, f.content(), f.config.Rules, listener(f))
	return err
}

// look checks the file as if it had this content, with the rules and more beside.
func (s *Server) look(f *file, content []byte, rules []*audit.Rule, more ...*audit.Rule) (*audit.Report, error) {
	o := s.options(f, content)
	o.Rules = append(slices.Clone(rules), more...)
	if f.config.Baseline != "" {
		b, err := audit.LoadBaseline(f.config.Baseline, f.config.Base)
		if err != nil {
			return nil, err
		}
		o.Baseline = b
	}
	return audit.Check(o)
}

func (s *Server) options(f *file, content []byte) *audit.Options {
	name := f.path
	if rel, err := filepath.Rel(f.config.Base, f.path); err == nil && filepath.IsLocal(rel) {
		name = rel
	}
	o := &audit.Options{Base: f.config.Base, Files: []string{name}, Known: f.config.Known, Target: f.config.Target,
		Sure: f.config.Sure, Version: s.Version,
		Changed: map[string][]byte{}}
	for _, g := range s.order {
		if len(g.parts) > 0 {
			o.Changed[g.path] = g.content()
		}
	}
	o.Changed[f.path] = content
	return o
}

// Hovers
// --------------------------------------------------------------------------------------------------------------

func (s *Server) current(uri string) (*document, *file, error) {
	d := s.docs[uri]
	if d == nil || d.file == nil {
		return nil, nil, errNotOpen
	}
	if d.file.dirty {
		if err := s.publish(d.file); err != nil {
			return nil, nil, err
		}
	}
	return d, d.file, nil
}

func (s *Server) hover(p positionParams) (any, error) {
	d, f, err := s.current(p.TextDocument.URI)
	if err != nil || f.report == nil {
		return nil, err
	}
	var b strings.Builder
	var at *span
	here := d.offset(p.Position)
	offset := f.base(d) + here
	for i := len(f.calls) - 1; i >= 0; i-- {
		if c := f.calls[i]; offset >= c.from && offset <= c.to {
			if text := About(f.config.Target, c.path); text != "" {
				b.WriteString(text)
				at = &span{d.position(c.from - f.base(d)), d.position(c.to - f.base(d))}
				break
			}
		}
	}
	for _, i := range f.report.Items {
		of, where := f.place(i)
		if of != d || here < d.offset(where.Start) || here > d.offset(where.End) {
			continue
		}
		if at == nil {
			at = &where
		}
		if b.Len() > 0 {
			b.WriteString("\n\n---\n\n")
		}
		b.WriteString(s.explain(f, i))
	}
	if at == nil {
		return nil, nil
	}
	if aim := f.config.Target.Aim; aim.Torch != "" {
		fmt.Fprintf(&b, "\n\njudged for `%s`", strings.ReplaceAll(aim.String(), "`", "'"))
		for _, beside := range aim.Besides {
			fmt.Fprintf(&b, "; `%s`", strings.ReplaceAll(beside, "`", "'"))
		}
	}
	h := hover{Range: *at}
	h.Contents.Kind, h.Contents.Value = "markdown", b.String()
	return h, nil
}

// explain is what a rule's page says, short.
func (s *Server) explain(f *file, i audit.Item) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**assay %s**: %s", i.Rule, i.Text)
	for _, r := range f.config.Known {
		if r.Name == i.Rule && r.Doc.Why != "" {
			fmt.Fprintf(&b, "\n\n%s", r.Doc.Why)
		}
	}
	if i.Hint != "" {
		fmt.Fprintf(&b, "\n\n%s%s.", strings.ToUpper(i.Hint[:1]), i.Hint[1:])
	}
	if i.Source != "" {
		fmt.Fprintf(&b, "\n\nSource: %s.", i.Source)
	}
	fmt.Fprintf(&b, "\n\n%s, %s; `assay rule %s` says more.", i.Certainty, i.Basis, i.Rule)
	return b.String()
}

// aboutMost bounds the operators that a hover lists.
const aboutMost = 8

// About says what the atlas knows of a Python name in the release aimed at, in Markdown; "" where it knows nothing.
func About(t audit.Target, path string) string {
	if t.Device != "mps" || t.Atlas == nil {
		return ""
	}
	api, ok := t.Atlas.API(path)
	if !ok || api.Name != path {
		return ""
	}
	api = t.Atlas.In(t.Torch, api)
	forward, untraced := t.Atlas.Needs(t.Torch, api.Forward)
	backward, _ := t.Atlas.Needs(t.Torch, api.Backward)
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** on MPS in torch %s (derived, from the atlas)\n", path, t.Torch.Version)
	lists := 0
	for _, part := range []struct {
		name  string
		needs []atlas.Need
	}{{"Forward", forward}, {"Backward", backward}} {
		if len(part.needs) == 0 {
			continue
		}
		lists++
		missing := slices.DeleteFunc(slices.Clone(part.needs),
			func(n atlas.Need) bool { return n.State != atlas.Missing && n.State != atlas.NoStub })
		if len(missing) == 0 {
			fmt.Fprintf(&b, "\n%s: native, %s.\n", part.name, operators(len(part.needs)))
		} else {
			fmt.Fprintf(&b, "\n%s: %d of %s missing.\n", part.name, len(missing), operators(len(part.needs)))
		}
		b.WriteByte('\n')
		slices.SortStableFunc(part.needs, func(x, y atlas.Need) int { return rank(x) - rank(y) })
		for i, n := range part.needs {
			if i == aboutMost {
				fmt.Fprintf(&b, "- and %d more\n", len(part.needs)-i)
				break
			}
			fmt.Fprintf(&b, "- `%s`: %s", n.Operator, n.State)
			if n.Sometimes {
				b.WriteString(", for some inputs only")
			}
			if op, known := t.Atlas.Operator(n.Operator); known {
				beside, _ := t.Atlas.Beside(op.Package, t.Torch.Version)
				if since := op.NativeFrom(); n.State == atlas.Native && since != "" {
					b.WriteString("; native since " + since)
				} else if later := t.Atlas.Later(op, beside.Column); later != "" {
					b.WriteString("; " + later)
				}
			}
			b.WriteByte('\n')
		}
	}
	known := aboutFacts(t, path)
	if lists == 0 && known == "" {
		return ""
	}
	b.WriteString(known)
	if len(untraced) > 0 {
		fmt.Fprintf(&b, "\nNot known what these call: %s.\n", strings.Join(untraced, ", "))
	}
	fmt.Fprintf(&b, "\n`assay ops --api %s` says more.", path)
	return b.String()
}

// factWords are outcomes in a hover.
var factWords = map[facts.Outcome]string{facts.Wrong: "known wrong result", facts.Aborts: "ends the process",
	facts.Refused: "refused", facts.CPU: "goes to the CPU by itself", facts.Slow: "slow"}

// aboutFacts lists what is known of a Python name beyond its operators, the worst first: wrong results all, of the rest
// as many as a hover shows.
func aboutFacts(t audit.Target, path string) string {
	var b strings.Builder
	shown, more := 0, 0
	for _, s := range facts.Load().Ask(t.Atlas, facts.Question{Torch: t.Torch.Version, MacOS: t.MacOS, Python: path,
		Outcomes: []facts.Outcome{facts.Wrong, facts.Aborts, facts.Refused, facts.CPU, facts.Slow}}) {
		if s.Outcome != facts.Wrong {
			if shown == aboutMost {
				more++
				continue
			}
			shown++
		}
		backward := ""
		if s.Backward {
			backward = " in the backward pass"
		}
		fmt.Fprintf(&b, "- %s%s: ", factWords[s.Outcome], backward)
		if s.Wrong != "" {
			fmt.Fprintf(&b, "%s, ", s.Wrong)
		}
		fmt.Fprintf(&b, "when %s (%s)\n", s.When, s.Source)
	}
	if b.Len() == 0 {
		return ""
	}
	if more > 0 {
		fmt.Fprintf(&b, "- and %d more\n", more)
	}
	return "\nKnown of it:\n\n" + b.String()
}

func operators(n int) string {
	if n == 1 {
		return "1 operator"
	}
	return fmt.Sprintf("%d operators", n)
}

// rank puts what is missing first.
func rank(n atlas.Need) int {
	switch {
	case n.State != atlas.Missing && n.State != atlas.NoStub:
		return 2
	case n.Sometimes:
		return 1
	}
	return 0
}
