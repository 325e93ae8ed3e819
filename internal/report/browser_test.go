package report

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"assay/internal/evidence"
)

// tab is one page in a headless Chromium, with everything that it complained about or asked for.
type tab struct {
	context.Context
	url string

	mu        sync.Mutex
	complaint []string
	requests  []string
}

// browse opens the page of a run. Without a Chromium the test is skipped, and says so.
func browse(t *testing.T, html string) *tab {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser is slow, and -short was given")
	}
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
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, html)
	}))
	t.Cleanup(server.Close)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(bin), chromedp.NoSandbox,
		chromedp.DisableGPU)
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(stop)
	ctx, stopTab := chromedp.NewContext(alloc)
	t.Cleanup(stopTab)

	b := &tab{Context: ctx, url: server.URL + "/report.html"}
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
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(ev.Request.URL, "data:") {
				b.requests = append(b.requests, ev.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(t, b, network.Enable, network.EnableParams{})
	call(t, b, log.Enable, cdp.Empty{})
	call(t, b, cdpruntime.Enable, cdp.Empty{})
	b.do(t, chromedp.EmulateViewport(1100, 900), chromedp.Navigate(b.url))
	return b
}

// patience is how long one action may take: a loaded machine is slow to start a browser.
const patience = 60 * time.Second

func (b *tab) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, stop := context.WithTimeout(b, patience)
	defer stop()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// call sends a command of the browser's protocol.
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

func (b *tab) media(t *testing.T, m emulation.SetEmulatedMediaParams) {
	t.Helper()
	call(t, b, emulation.SetEmulatedMedia, m)
}

// eval runs an expression in the page.
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

const firstColumn = `[...document.querySelectorAll("#t-operators tbody tr")].map(r => r.cells[%d].textContent).join("|")`

func TestBrowser(t *testing.T) {
	b := browse(t, pageOfRun(t, cudaRun()))

	t.Run("tables sort", func(t *testing.T) {
		before := eval[string](t, b, fmt.Sprintf(firstColumn, 1))
		b.do(t, chromedp.Click(chromedp.CSS(`#t-operators th:nth-child(2) button`)))
		if got := eval[string](t, b, `document.querySelector("#t-operators th:nth-child(2)").getAttribute("aria-sort")`); got != "descending" {
			t.Errorf("a first click on a column of numbers sorts %s", got)
		}
		if got := eval[string](t, b, fmt.Sprintf(firstColumn, 1)); !strings.HasPrefix(got, "530|490|") {
			t.Errorf("largest first: %s", got)
		}
		// A heading is a button: it has the focus now, and Enter presses it.
		b.do(t, chromedp.KeyEvent("\r"))
		if got := eval[string](t, b, fmt.Sprintf(firstColumn, 1)); got == before ||
			!strings.HasPrefix(got, "170|210|") {
			t.Errorf("smallest first: %s", got)
		}
		b.do(t, chromedp.Click(chromedp.CSS(`#t-operators th:nth-child(1) button`)))
		if got := eval[string](t, b, fmt.Sprintf(firstColumn, 0)); !strings.HasPrefix(got,
			"aten::_foreach_mul_|aten::add_|") {
			t.Errorf("by name: %s", got)
		}
		if n := eval[int](t, b, `document.querySelectorAll('#t-operators th:not([aria-sort="none"])').length`); n != 1 {
			t.Errorf("%d columns say that they are sorted", n)
		}
	})

	t.Run("unknown sorts last", func(t *testing.T) {
		for range 2 {
			b.do(t, chromedp.Click(chromedp.CSS(`#t-figures th:nth-child(2) button`)))
			if got := eval[string](t, b,
				`document.querySelector("#t-figures tbody tr:last-child td:nth-child(2)").textContent`); got != "–" {
				t.Errorf("last is %s", got)
			}
		}
	})

	t.Run("plot answers the pointer", func(t *testing.T) {
		b.do(t, chromedp.Evaluate[chromedp.Void](`{ const a = document.querySelector("#plot-steps .area"), r = a.getBoundingClientRect();
			a.dispatchEvent(new PointerEvent("pointermove", {clientX: r.left + r.width / 2, clientY: r.top + 5})) }`))
		if got := eval[string](t, b, `document.querySelector("#plot-steps .read").textContent`); !strings.HasPrefix(got,
			"step 40") || !strings.Contains(got, "step time 2") {
			t.Errorf("reads %q", got)
		}
	})

	t.Run("phone", func(t *testing.T) {
		for _, run := range samples() {
			p := browse(t, written(t, decided(run), run))
			for _, width := range []int64{390, 360, 320, 768} {
				p.do(t, chromedp.EmulateViewport(width, 740), chromedp.Sleep(50*time.Millisecond))
				if got := eval[int64](t, p, `document.documentElement.scrollWidth`); got > width {
					wide := eval[string](t, p, `[...document.querySelectorAll("body *")].filter(x => !x.parentElement.closest(".scroll, svg") && x.getBoundingClientRect().right > innerWidth)
						.map(x => x.tagName + "." + x.className + " " + x.textContent.slice(0, 30)).join("\n")`)
					t.Errorf("%s: the page is %d wide on a screen of %d:\n%s", run.ID, got, width, wide)
				}
			}
			p.quiet(t)
		}
	})

	t.Run("tables fold", func(t *testing.T) {
		run := cudaRun()
		for i := range 40 {
			run.Operators = append(run.Operators, evidence.Operator{Name: fmt.Sprint("op", i), Calls: 1})
		}
		p := browse(t, pageOfRun(t, run))
		open := func() int {
			return eval[int](t, p, `[...document.querySelectorAll("#t-operators tbody tr")].filter(r => r.offsetHeight > 0).length`)
		}
		if n := open(); n != foldAt {
			t.Errorf("%d rows stand open", n)
		}
		p.media(t, emulation.SetEmulatedMediaParams{Media: "print"})
		if n, all := open(), len(run.Operators); n != all {
			t.Errorf("%d of %d rows are on paper", n, all)
		}
		p.media(t, emulation.SetEmulatedMediaParams{Media: "screen"})
		p.do(t, chromedp.Click(chromedp.CSS(`.fold:has(#t-operators) .more`)))
		if n, all := open(), len(run.Operators); n != all {
			t.Errorf("unfolded: %d of %d rows", n, all)
		}
		p.quiet(t)
	})

	t.Run("nothing is cut on a phone", func(t *testing.T) {
		for name, run := range samples() {
			p := browse(t, written(t, decided(run), run))
			p.do(t, chromedp.EmulateViewport(390, 800), chromedp.Sleep(50*time.Millisecond))
			// What is wider than its box, and neither wraps nor scrolls there.
			cut := eval[string](t, p, `[...document.querySelectorAll("main *, header *")].filter(x => x.scrollWidth > x.clientWidth + 1 && x.clientWidth > 0 &&
				["hidden", "clip"].includes(getComputedStyle(x).overflowX) && !x.closest("svg, .hide")).map(x => x.tagName + "." + x.className + " " + x.textContent.slice(0, 40)).join("\n")`)
			if cut != "" {
				t.Errorf("%s:\n%s", name, cut)
			}
		}
	})

	t.Run("dark", func(t *testing.T) {
		scheme := func(v string) string {
			b.media(t, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v}}})
			return eval[string](t, b, `getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector("#plot-steps .line")).stroke`)
		}
		if light, dark := scheme("light"), scheme("dark"); light == dark {
			t.Errorf("light and dark are both %s", light)
		}
	})

	t.Run("paper", func(t *testing.T) {
		b.media(t, emulation.SetEmulatedMediaParams{Media: "print"})
		b.do(t, chromedp.EmulateViewport(700, 1000),
			chromedp.Evaluate[chromedp.Void](`dispatchEvent(new Event("beforeprint"))`))
		if eval[bool](t, b, `[...document.querySelectorAll("details")].some(d => !d.open)`) {
			t.Error("closed details on paper")
		}
		if got := eval[string](t, b, `[...document.querySelectorAll("table")].filter(x => x.getBoundingClientRect().right > innerWidth + 1).map(x => x.id).join()`); got != "" {
			t.Errorf("cut off on paper: %s", got)
		}
	})
	b.quiet(t)
}

// What a file or an operator is called runs nothing.
func TestBrowserHostile(t *testing.T) {
	run := fullRun()
	spoil(run, `</script><script>document.title="owned"</script><img src=http://192.0.2.1/x onerror=alert(1)>`)
	b := browse(t, pageOfRun(t, run))
	if got := eval[string](t, b, `document.title`); got == "owned" {
		t.Error("a name was run as a script")
	}
	if n := eval[int](t, b, `document.querySelectorAll("img, script").length`); n != 1 {
		t.Errorf("%d scripts and images", n)
	}
	b.quiet(t)
}

// quiet checks that the page complained about nothing and asked for nothing but itself.
func (b *tab) quiet(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaint {
		t.Errorf("the browser says: %s", c)
	}
	for _, r := range b.requests {
		if r != b.url {
			t.Errorf("the page asks for %s", r)
		}
	}
	if len(b.requests) != 1 {
		t.Errorf("%d requests", len(b.requests))
	}
}
