// Package serve shows the logbook as pages: over HTTP, and as files. It reads, and nothing that it is sent changes
// anything.
package serve

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/gate"
	"assay/internal/logbook"
	"assay/internal/report"
)

//go:embed pages/*.tmpl
var sources embed.FS

//go:embed serve.css
var ownCSS string

//go:embed serve.js
var ownJS string

// Options say what is shown.
type Options struct {
	Logbook string // file of the logbook; where there is none yet, the pages say so
	Runs    string // folder in which runs under way have their folders; "": none are looked for
	Version string // of assay
	Guard   Guard
	Now     func() time.Time

	// Page is the page of a run, beside another one where that is not nil, with what gates and verdict say of it.
	Page func(run, beside *evidence.Run) (report.HTML, error)
	// Gates holds a run against the gates that are in force here. policy names them, "" where there are none.
	Gates  func(run *evidence.Run) *gate.Report
	Policy string
	// Sweep prints a document that is the record of a sweep; "" of any other.
	Sweep func(doc []byte) string
	// Ops and Models answer a search in the atlas and among the models, in the words of `assay ops` and `assay models`.
	Ops, Models func(ctx context.Context, pattern string) (string, error)
}

// Site answers requests. Its methods may be called from several goroutines.
type Site struct {
	o       Options
	pages   *template.Template
	handler http.Handler
	live    followers
	folders folders
	gates   gatesKept
	tallies kept[[]logbook.Tally]
	titles  kept[[]logbook.Subject]
	files   bool            // pages are files that lie beside each other: Export
	only    map[string]bool // of files: the records that are written; nil: all
}

// leaves reports whether a record is left out of the files.
func (s *Site) leaves(id string) bool { return s.only != nil && !s.only[id] }

// New makes a site.
func New(o Options) *Site {
	s := &Site{o: o, live: followers{most: mostFollowers}}
	s.pages = template.Must(template.New("").Funcs(template.FuncMap{"css": func() template.CSS {
		return template.CSS(report.Style() + ownCSS)
	}}).ParseFS(sources, "pages/*.tmpl"))
	mux := http.NewServeMux()
	for pattern, page := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /{$}":                 s.runs,
		"GET /record/{id}":         s.record,
		"GET /record/{id}/report":  s.report,
		"GET /beside/{id}/{other}": s.beside,
		"GET /sweeps":              s.sweeps,
		"GET /notes":               s.notes,
		"GET /gates":               s.overTime,
		"GET /atlas":               s.atlas,
		"GET /models":              s.models,
		"GET /live":                s.liveRuns,
		"GET /live/{name}":         s.liveRun,
		"GET /live/{name}/events":  s.liveEvents,
		"GET /metrics":             s.metrics,
		"GET /assay.css":           s.style,
		"GET /assay.js":            s.script,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := page(w, r); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			s.fail(w, r, &status{http.StatusMethodNotAllowed, "These pages are only read: " + r.Method +
				" does nothing."})
			return
		}
		s.fail(w, r, errNoPage)
	})
	s.handler = s.o.Guard.around(s, mux)
	return s
}

// ServeHTTP answers a request.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// status is an answer that is no page of the logbook.
type status struct {
	code int
	text string
}

func (e *status) Error() string { return e.text }

var errNoPage = &status{http.StatusNotFound, "There is no such page."}

// fail answers with an error: in a page, without anything of the request in it.
func (s *Site) fail(w http.ResponseWriter, r *http.Request, err error) {
	code := http.StatusInternalServerError
	var as *status
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, http.ErrAbortHandler):
		return // nobody waits for it
	case errors.As(err, &as):
		code = as.code
	case errors.Is(err, fs.ErrNotExist):
		code = http.StatusNotFound
	case fault.CodeOf(err) == fault.Usage:
		code = http.StatusNotFound // a record that is not there, or several
	}
	page := &frame{Title: http.StatusText(code)}
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMisdirectedRequest, http.StatusTooManyRequests:
		page.Closed = true
	}
	s.write(w, r, code, "error", struct {
		*frame
		Text, Hint string
	}{page, sentence(err.Error()), fault.HintOf(err)})
}

// frame is what every page has around what it shows.
type frame struct {
	Title   string
	Here    string // the page of the navigation that this one belongs to
	Root    string // leads to the first page: "/", or of files "" or "../"
	End     string // of the names of pages: "", or of files ".html"
	Files   bool   // no server answers: no search, nothing under way
	Version string
	Logbook string
	Live    int  // runs under way
	Closed  bool // for whoever has not shown a token, or asked by another name: nothing of what is here
}

// write prints a page. Nothing of it is sent before the whole has been made.
func (s *Site) write(w http.ResponseWriter, r *http.Request, code int, name string, data any) {
	var b bytes.Buffer
	if f, ok := data.(interface{ fill(*Site) }); ok {
		f.fill(s)
	}
	if err := s.pages.ExecuteTemplate(&b, name+".tmpl", data); err != nil {
		http.Error(w, "assay could not make this page", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store") // what is forgotten is gone, here too
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes())
	}
}

func (f *frame) fill(s *Site) {
	if f.Closed {
		f.Root = "/"
		return
	}
	f.Version, f.Logbook, f.Files = s.o.Version, filepath.Base(s.o.Logbook), s.files
	if s.files {
		f.End = ".html"
	} else {
		f.Root = "/"
		f.Live = len(s.underWay())
	}
}

// read calls f with the logbook as it is now. It is opened for each request: what another program has forgotten
// meanwhile, or put in the file's place, is seen.
func (s *Site) read(ctx context.Context, f func(*logbook.Book) error) error {
	book, err := logbook.OpenRead(ctx, s.o.Logbook)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Hint(&status{http.StatusNotFound, "There is no logbook yet."},
			"assay run makes it; assay log import takes earlier runs in")
	}
	if err != nil {
		return err
	}
	defer book.Close()
	return f(book)
}

func (s *Site) style(w http.ResponseWriter, r *http.Request) error {
	return s.asset(w, r, "text/css; charset=utf-8", report.Style()+ownCSS)
}

func (s *Site) script(w http.ResponseWriter, r *http.Request) error {
	return s.asset(w, r, "text/javascript; charset=utf-8", report.Script()+ownJS)
}

func (s *Site) asset(w http.ResponseWriter, r *http.Request, kind, text string) error {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(text))
	}
	return nil
}

var fullID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// gatesKept remembers how gates came out, so that a page of many runs does not judge each again. It knows runs by their
// hash, and is asked only for those that the logbook has.
type gatesKept struct {
	mu   sync.Mutex
	kept map[string]*gate.Report
}

const mostKept = 1000

func (k *gatesKept) get(id string) (rep *gate.Report, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	rep, known = k.kept[id]
	return rep, known
}

func (k *gatesKept) of(id string, judge func() *gate.Report) *gate.Report {
	if rep, known := k.get(id); known {
		return rep
	}
	rep := judge()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil || len(k.kept) >= mostKept {
		k.kept = map[string]*gate.Report{}
	}
	k.kept[id] = rep
	return rep
}

// kept is what was asked of the logbook as it stood: these questions look through all records.
type kept[T any] struct {
	mu     sync.Mutex
	stand  string
	answer T
}

func (k *kept[T]) of(ctx context.Context, book *logbook.Book, ask func(context.Context) (T, error)) (T, error) {
	stand, err := book.Stand(ctx)
	if err != nil {
		var none T
		return none, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stand == stand {
		return k.answer, nil
	}
	answer, err := ask(ctx)
	if err == nil {
		k.stand, k.answer = stand, answer
	}
	return answer, err
}

// sentence makes one of an error's text.
func sentence(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[n:]
}

// place is a page of the navigation.
type place struct{ Name, Text, Link string }

// Places are the pages of the navigation.
func (f *frame) Places() []place {
	if f.Closed {
		return nil
	}
	if f.Files {
		return []place{{"runs", "Runs", f.Root + "index.html"}, {"sweeps", "Sweeps", f.Root + "sweeps.html"},
			{"gates", "Gates over time", f.Root + "gates.html"}, {"notes", "Notes", f.Root + "notes.html"},
			{"models", "Models", f.Root + "models.html"}}
	}
	live := "Under way"
	if f.Live > 0 {
		live = fmt.Sprintf("Under way (%d)", f.Live)
	}
	return []place{{"runs", "Runs", "/"}, {"live", live, "/live"}, {"sweeps", "Sweeps", "/sweeps"},
		{"gates", "Gates over time", "/gates"}, {"notes", "Notes", "/notes"}, {"atlas", "Atlas", "/atlas"},
		{"models", "Models", "/models"}}
}

// Record leads to a record's page, Report to a run's report, and Beside to that of two.
func (f *frame) Record(id string) string { return f.Root + "record/" + id + f.End }

// Report leads to the report of a run.
func (f *frame) Report(id string) string {
	if f.Files {
		return f.Root + "report/" + id + f.End
	}
	return f.Root + "record/" + id + "/report"
}

// Beside leads to the report of a run beside another one.
func (f *frame) Beside(id, other string) string { return f.Root + "beside/" + id + "/" + other }
