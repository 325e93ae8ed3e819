package serve

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"assay/internal/events"
	"assay/internal/testset"
)

const patience = 60 * time.Second // a loaded machine is slow to start a browser

// tab is a page in a headless Chromium, with what it complained about.
type tab struct {
	context.Context
	mu        sync.Mutex
	complaint []string
}

func browse(t *testing.T) *tab {
	t.Helper()
	var bin string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil {
			bin = p
			break
		}
	}
	if bin == "" {
		t.Skip("no chromium in PATH")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(bin), chromedp.NoSandbox,
		chromedp.DisableGPU)
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(stop)
	ctx, stopTab := chromedp.NewContext(alloc)
	t.Cleanup(stopTab)
	b := &tab{Context: ctx}
	err := chromedp.Listen(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch ev := ev.(type) {
		case *cdpruntime.EventConsoleAPICalled:
			b.complaint = append(b.complaint, fmt.Sprintf("console.%s", ev.Type))
		case *cdpruntime.EventExceptionThrown:
			b.complaint = append(b.complaint, ev.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			b.complaint = append(b.complaint, string(ev.Entry.Level)+": "+ev.Entry.Text)
		case *page.EventJavascriptDialogOpening:
			b.complaint = append(b.complaint, "a dialog: "+ev.Message)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(t, b, log.Enable, cdp.Empty{})
	call(t, b, cdpruntime.Enable, cdp.Empty{})
	return b
}

func (b *tab) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, stop := context.WithTimeout(b, patience)
	defer stop()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

func call[P, R any](t *testing.T, b *tab, cmd cdp.Command[P, R], params P) R {
	t.Helper()
	ctx, stop := context.WithTimeout(b, patience)
	defer stop()
	out, err := chromedp.Call(ctx, cmd, params)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func eval[T any](t *testing.T, b *tab, js string) T {
	t.Helper()
	ctx, stop := context.WithTimeout(b, patience)
	defer stop()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](js))
	if err != nil {
		t.Fatalf("%s: %v", js, err)
	}
	return out
}

// until waits for an expression of the page to be true.
func (b *tab) until(t *testing.T, js string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if eval[bool](t, b, js) {
			return
		}
	}
	t.Fatalf("never: %s\n%s", js, eval[string](t, b, `document.body.innerText`))
}

// TestInBrowser goes through the pages as a person does: on a phone, in the dark, on paper, with the keyboard alone.
func TestInBrowser(t *testing.T) {
	testset.FullOnly(t)
	path, ids := logbookOf(t, runOf(1, "train.py"), runOf(2, "train.py"), runOf(3, hostile+".py"))
	runs := t.TempDir()
	dir := filepath.Join(runs, "2026-train")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	written, err := events.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	written.Append(0, []byte(`{"ev":"start","id":"2026-train","wall":"2026-11-01T10:00:00Z","subject":{"kind":"script","script":"train.py","command":["python","train.py"]}}`))
	o := options(path)
	o.Runs = runs
	server := httptest.NewServer(New(o))
	defer server.Close()
	b := browse(t)
	for _, width := range []int64{1100, 390, 320} {
		b.do(t, chromedp.EmulateViewport(width, 800))
		for _, p := range append(pagesOf(ids), "/live/2026-train") {
			if p == "/nothing" {
				continue // a 404 is a complaint
			}
			b.do(t, chromedp.Navigate(server.URL+p))
			if got := eval[int64](t, b, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("%s is %d wide on a screen of %d", p, got, width)
			}
			if unnamed := eval[string](t, b, `[...document.querySelectorAll("a,button,input,select,[role=region]")].filter(x => x.type !== "hidden" &&
				!(x.textContent.trim() || x.getAttribute("aria-label") || x.labels?.length)).map(x => x.outerHTML.slice(0, 80)).join("\n")`); unnamed != "" {
				t.Errorf("%s: without a name for who cannot see it:\n%s", p, unnamed)
			}
			if n := eval[int](t, b, `document.querySelectorAll("h1").length`); n != 1 {
				t.Errorf("%s has %d headings of the first order", p, n)
			}
		}
	}

	b.do(t, chromedp.EmulateViewport(1100, 800), chromedp.Navigate(server.URL+"/"))
	background := func(scheme string) string {
		call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return eval[string](t, b, `getComputedStyle(document.body).backgroundColor`)
	}
	if light, dark := background("light"), background("dark"); light == dark {
		t.Errorf("light and dark are both %s", light)
	}
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	if eval[bool](t, b, `document.querySelector(".search").offsetHeight > 0`) {
		t.Error("the search is on paper")
	}
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "screen"})

	// The keyboard alone: past the navigation, a word, Enter, and on to a run.
	b.do(t, chromedp.Navigate(server.URL+"/"), chromedp.KeyEvent("\t"))
	if got := eval[string](t, b, `document.activeElement.textContent`); got != "To the content" {
		t.Errorf("the first that Tab comes to is %q", got)
	}
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("input[name=text]").focus()`),
		chromedp.KeyEvent("train"), chromedp.KeyEvent("\r"))
	b.until(t, `location.search.includes("text=train") && document.querySelectorAll("tbody tr").length === 2`)
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("tbody a").focus()`), chromedp.KeyEvent("\r"))
	b.until(t, `location.pathname.startsWith("/record/") && !!document.querySelector("h1")?.textContent.includes("train.py")`)

	// A run under way changes its page, which is not loaded again.
	b.do(t, chromedp.Navigate(server.URL+"/live/2026-train"),
		chromedp.Evaluate[chromedp.Void](`window.same = true`))
	written.Append(1, []byte(`{"ev":"hello","version":1,"pid":7,"python":"3.12.1","wall":1000.0,"clock":0}`))
	b.until(t, `document.body.innerText.includes("no framework imported yet") && window.same`)
	written.Close()
	b.until(t, `document.querySelector("#link")?.textContent === "The run is over." && window.same`)

	b.mu.Lock()
	defer b.mu.Unlock()
	if b.complaint != nil {
		t.Errorf("the browser complains:\n%s", strings.Join(b.complaint, "\n"))
	}
}
