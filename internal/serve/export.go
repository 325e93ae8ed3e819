package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/logbook"
)

// mark is a file that stands in each folder that Export made.
const mark = ".assay-pages"

// MostExported is how many runs Export writes: the newest. Each is two files.
const MostExported = 2000

// Exported is what Export wrote.
type Exported struct {
	Runs, Files int
	Left        int // runs that are older than those
}

// Export writes the pages as files that need no server, into a folder that is not there yet, is empty, or is an earlier
// export, which is replaced. It is whole or not there at all. only: the records to write; nil: all.
func Export(ctx context.Context, o Options, only map[string]bool, dir string) (sum Exported, err error) {
	dir = filepath.Clean(dir)
	failed := func(err error) (Exported, error) {
		return Exported{}, fault.Hint(fmt.Errorf("write the pages to %s: %w", dir, err), fault.HintOf(err))
	}
	was, err := exportable(dir)
	if err != nil {
		return failed(err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return failed(err)
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), ".assay-pages-")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(made)
	e := &exporter{site: New(o), dir: made, sum: &sum}
	e.site.files, e.site.only = true, only
	if err := e.all(ctx); err != nil {
		return failed(err)
	}
	if err := os.Chmod(made, 0o755); err != nil { // they are for others to read
		return failed(err)
	}
	if was {
		old := made + "-former"
		if err := os.Rename(dir, old); err != nil {
			return failed(err)
		}
		defer os.RemoveAll(old)
		if err := os.Rename(made, dir); err != nil {
			_ = os.Rename(old, dir)
			return failed(err)
		}
		return sum, nil
	}
	if err := os.Rename(made, dir); err != nil { // over an empty folder as well
		return failed(err)
	}
	return sum, nil
}

// exportable reports whether an earlier export lies there.
func exportable(dir string) (was bool, err error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return false, nil
	case err != nil:
		return false, err
	}
	if _, err := os.Stat(filepath.Join(dir, mark)); err != nil {
		return false, fault.Hint(errors.New("there is something else in it"), "name a folder that is not there yet")
	}
	return true, nil
}

type exporter struct {
	site *Site
	dir  string
	sum  *Exported
}

func (e *exporter) all(ctx context.Context) error {
	if err := e.put(mark, []byte("made by assay log export --html\n")); err != nil {
		return err
	}
	for name, text := range map[string]func(http.ResponseWriter, *http.Request) error{"assay.css": e.site.style,
		"assay.js": e.site.script, "index.html": e.site.runs, "sweeps.html": e.site.sweeps, "notes.html": e.site.notes,
		"models.html": e.site.models} {
		if err := e.page(ctx, name, text, "", nil); err != nil {
			return err
		}
	}
	return e.site.read(ctx, func(book *logbook.Book) error {
		subjects, err := e.site.subjects(ctx, book)
		if err != nil {
			return err
		}
		for i, x := range subjects {
			if err := e.page(ctx, gatesFile(i), e.site.overTime, subjectWords(x), nil); err != nil {
				return err
			}
		}
		if len(subjects) == 0 {
			if err := e.page(ctx, gatesFile(0), e.site.overTime, "", nil); err != nil {
				return err
			}
		}
		for _, kind := range []string{"", "sweep", logbook.KindNote, logbook.KindRejection} {
			if err := e.records(ctx, book, kind); err != nil {
				return err
			}
		}
		return nil
	})
}

func gatesFile(i int) string {
	if i == 0 {
		return "gates.html"
	}
	return fmt.Sprintf("gates-%d.html", i+1)
}

func (e *exporter) records(ctx context.Context, book *logbook.Book, kind string) error {
	ask := logbook.Browse{Kind: kind, Limit: perBatch}
	for n := 0; ; {
		list, err := book.Browse(ctx, ask)
		if err != nil {
			return err
		}
		for _, x := range list.Rows {
			if e.site.leaves(x.ID) {
				continue
			}
			if n++; n > MostExported {
				e.sum.Left++
				continue
			}
			if err := e.page(ctx, "record/"+x.ID+".html", e.site.record, "", &x); err != nil {
				return err
			}
			if kind != "" {
				continue
			}
			e.sum.Runs++
			if err := e.page(ctx, "report/"+x.ID+".html", e.site.report, "", &x); err != nil {
				return err
			}
		}
		if ask.Before = list.Next; ask.Before == "" {
			return nil
		}
	}
}

// page has a page made as for a browser, and keeps it.
func (e *exporter) page(ctx context.Context, name string, make func(http.ResponseWriter, *http.Request) error,
	of string, row *logbook.Row) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/",
		RawQuery: url.Values{"of": {of}}.Encode()}}).WithContext(ctx)
	if row != nil {
		r.SetPathValue("id", row.ID)
	}
	w := &answer{header: http.Header{}}
	if err := make(w, r); err != nil {
		return err
	}
	return e.put(name, w.body.Bytes())
}

func (e *exporter) put(name string, text []byte) error {
	path := filepath.Join(e.dir, filepath.FromSlash(name))
	if strings.Contains(name, "/") {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
	}
	e.sum.Files++
	return file.Write(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// answer is what a page answers, kept.
type answer struct {
	header http.Header
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(int)             {}
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
