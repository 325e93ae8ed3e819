package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/events"
	"assay/internal/evidence"
	"assay/internal/gate"
	"assay/internal/logbook"
	"assay/internal/report"
)

const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(2)><a href="javascript:alert(3)">`

// runOf is the evidence of a run, with a stranger's words in it.
func runOf(n int, title string) *evidence.Run {
	step, loss := 0.01*float64(n), 2.5/float64(n)
	run := &evidence.Run{Envelope: evidence.NewEnvelope(evidence.KindRun)}
	run.ID = fmt.Sprintf("2026-run-%d", n)
	run.Started = time.Date(2026, 11, 1, 10, n, 0, 0, time.UTC)
	run.Ended = run.Started.Add(time.Minute)
	run.Subject = evidence.Subject{Kind: "script", Script: title, Command: []string{"python", title, hostile}}
	run.Target = evidence.Target{Device: "cpu", Framework: "torch", Release: "2.8.0"}
	run.Outcome = evidence.Outcome{Complete: true}
	run.Figures = []evidence.Figure{{Name: "step.time", Value: &step, Unit: "s", Basis: evidence.Measured},
		{Name: "loss.last", Value: &loss, Unit: "1", Basis: evidence.Measured}}
	run.Findings = []evidence.Finding{{Name: "x", Severity: evidence.Warning, Text: hostile, Hint: hostile,
		Where: hostile}}
	return run
}

func logbookOf(t *testing.T, runs ...*evidence.Run) (path string, ids []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "logbook.db")
	book, err := logbook.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	for _, run := range runs {
		doc, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		id, _, err := book.Add(t.Context(), doc)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return path, ids
}

func options(path string) Options {
	policy := gate.Default()
	return Options{Logbook: path, Version: "test", Now: time.Now, Policy: hostile,
		Page:  func(_, _ *evidence.Run) (report.HTML, error) { return report.HTML{}, nil },
		Sweep: func([]byte) string { return "" },
		Gates: func(run *evidence.Run) *gate.Report {
			return gate.Judge(policy, &gate.Set{Runs: []*evidence.Run{run}})
		},
		Ops:    func(_ context.Context, p string) (string, error) { return "of " + p, nil },
		Models: func(_ context.Context, p string) (string, error) { return "of " + p, nil }}
}

func ask(h http.Handler, method, target string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:7788/", nil)
	r.URL = &url.URL{Path: target}
	if path, query, ok := strings.Cut(target, "?"); ok {
		r.URL = &url.URL{Path: path, RawQuery: query}
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestStrangers: what a page of another site, another name for this address, somebody without the token, or a path that
// climbs, get to see.
func TestStrangers(t *testing.T) {
	path, _ := logbookOf(t, runOf(1, "train.py"))
	const token = "a token of some length"
	open, closed := options(path), options(path)
	open.Guard = Guard{Port: "7788"}
	closed.Guard = Guard{Port: "7788", Token: token, TLS: true, Hosts: []string{"studio.local"}}
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) {
			if name == "Host" {
				r.Host = value
			} else {
				r.Header.Set(name, value)
			}
		}
	}
	for _, c := range []struct {
		what   string
		o      Options
		method string
		path   string
		change func(*http.Request)
		want   int
	}{
		{"oneself", open, "GET", "/", nil, 200},
		{"localhost", open, "GET", "/", set("Host", "localhost:7788"), 200},
		{"IPv6", open, "GET", "/", set("Host", "[::1]:7788"), 200},
		{"a name that was bound to this address", open, "GET", "/", set("Host", "evil.example:7788"), 421},
		{"the same as localhost's child", open, "GET", "/", set("Host", "localhost.evil.example:7788"), 421},
		{"another port", open, "GET", "/", set("Host", "127.0.0.1:80"), 421},
		{"no name", open, "GET", "/", set("Host", ""), 421},
		{"a page elsewhere that fetches", open, "GET", "/metrics", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "no-cors")
		}, 403},
		{"a link elsewhere that is followed", open, "GET", "/", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
		}, 200},
		{"a form elsewhere", open, "POST", "/", set("Origin", "https://evil.example"), 403},
		{"a form from nowhere", open, "POST", "/", set("Origin", "null"), 403},
		{"writing at all", open, "POST", "/", nil, 405},
		{"deleting", open, "DELETE", "/record/abcd", nil, 405},
		{"a path that climbs", open, "GET", "/../../etc/passwd", nil, 307},
		{"a run that climbs", open, "GET", "/live/..", nil, 307},
		{"a record that climbs", open, "GET", "/record/..%2f..%2fx", nil, 404},
		{"a record of a megabyte", open, "GET", "/record/" + strings.Repeat("a", 1<<20), nil, 404},
		{"a place in the list that is none", open, "GET", "/?before=x'--", nil, 404},
		{"nobody", closed, "GET", "/", nil, 401},
		{"nobody, to the metrics", closed, "GET", "/metrics", nil, 401},
		{"the token in the address", closed, "GET", "/?token=" + token, nil, 401},
		{"the token", closed, "GET", "/", set("Authorization", "Bearer "+token), 200},
		{"another token", closed, "GET", "/", set("Authorization", "Bearer "+token+"x"), 401},
		{"its beginning", closed, "GET", "/", set("Authorization", "Bearer "+token[:10]), 401},
		{"a cookie made up", closed, "GET", "/", set("Cookie", "assay=2099-01-01T00:00:00Z.00"), 401},
		{"the token under its own name", closed, "GET", "/", func(r *http.Request) {
			r.Host = "studio.local:7788"
			r.Header.Set("Authorization", "Bearer "+token)
		}, 200},
	} {
		w := ask(New(c.o), c.method, c.path, c.change)
		if w.Code != c.want {
			t.Errorf("%s: %d, not %d", c.what, w.Code, c.want)
		}
		if h := w.Header(); !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") ||
			!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: without its policy: %v", c.what, h)
		}
		if c.want != 200 && strings.Contains(w.Body.String(), "train.py") {
			t.Errorf("%s: the answer shows a run", c.what)
		}
		if c.want == 401 || c.want == 403 || c.want == 421 {
			for _, word := range []string{"logbook.db", "Under way", "assay test"} {
				if strings.Contains(w.Body.String(), word) {
					t.Errorf("%s: the answer says %q", c.what, word)
				}
			}
		}
	}
}

// TestLogin: a form takes the token once, and gives a cookie that no script and no other site has; wrong ones are
// counted.
func TestLogin(t *testing.T) {
	path, _ := logbookOf(t)
	o := options(path)
	o.Guard = Guard{Token: "0123456789abcdef", TLS: true}
	site := New(o)
	send := func(token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "https://127.0.0.1/login",
			strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "https://127.0.0.1")
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		return w
	}
	w := send("0123456789abcdef")
	if w.Code != http.StatusSeeOther || len(w.Result().Cookies()) != 1 {
		t.Fatalf("the token gives %d and %v", w.Code, w.Result().Cookies())
	}
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || strings.Contains(c.Value,
		"0123456789abcdef") {
		t.Errorf("the cookie: %+v", c)
	}
	with := func(value string) int {
		return ask(site, "GET", "/notes", func(r *http.Request) {
			r.Host = "127.0.0.1:443"
			r.AddCookie(&http.Cookie{Name: c.Name, Value: value})
		}).Code
	}
	if with(c.Value) != 404 { // an empty logbook is one, and the page says so
		if code := with(c.Value); code != 200 {
			t.Errorf("with the cookie: %d", code)
		}
	}
	later := strings.Replace(c.Value, c.Value[:4], "2999", 1)
	if code := with(later); code != 401 {
		t.Errorf("with a cookie that was made to last: %d", code)
	}
	for range mostTries {
		if code := send("wrong token, long").Code; code != 401 {
			t.Fatalf("a wrong token: %d", code)
		}
	}
	if code := send("0123456789abcdef").Code; code != http.StatusTooManyRequests {
		t.Errorf("after %d wrong ones: %d", mostTries, code)
	}
	bearer := func(from string) int {
		return ask(site, "GET", "/metrics", func(r *http.Request) {
			r.Host, r.RemoteAddr = "127.0.0.1:443", from
			r.Header.Set("Authorization", "Bearer 0123456789abcdef")
		}).Code
	}
	if code := bearer("192.0.2.1:5"); code != http.StatusTooManyRequests { // httptest's address
		t.Errorf("the right token in a header, after %d wrong ones: %d", mostTries, code)
	}
	if code := bearer("192.0.2.2:5"); code != 200 {
		t.Errorf("somebody else, meanwhile: %d", code)
	}
	if code := with(c.Value); code != 200 {
		t.Errorf("who is in already, meanwhile: %d", code)
	}
}

// TestTries: addresses that are counted apart are bounded, one network of IPv6 counts as one, and a minute lets them
// go.
func TestTries(t *testing.T) {
	var bad tries
	now := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	for i := range 3 * mostFrom {
		bad.add(fmt.Sprint(i), now)
	}
	if len(bad.at) > mostFrom+1 {
		t.Errorf("%d addresses are counted", len(bad.at))
	}
	if bad.left("a new one", now) || !bad.left("5", now) {
		t.Error("a new address is counted with those beyond the bound, and a known one by itself")
	}
	if !bad.left("a new one", now.Add(2*triesIn)) {
		t.Error("a minute later it is still shut out")
	}
	one, other := &http.Request{RemoteAddr: "[2001:db8::1]:1"}, &http.Request{RemoteAddr: "[2001:db8::ffff]:2"}
	if from(one) != from(other) || from(one) == from(&http.Request{RemoteAddr: "[2001:db8:0:1::1]:1"}) {
		t.Errorf("%s, %s", from(one), from(other))
	}
}

// pagesOf are all pages of a logbook with these records.
func pagesOf(ids []string) []string {
	pages := []string{"/", "/?text=" + url.QueryEscape(hostile), "/sweeps", "/notes", "/gates", "/gates?of=" +
		url.QueryEscape(hostile),
		"/atlas?text=" + url.QueryEscape(hostile), "/models?text=" + url.QueryEscape(hostile), "/live", "/nothing"}
	for _, id := range ids {
		pages = append(pages, "/record/"+id, "/record/"+id+"/report", "/beside/"+ids[0]+"/"+id)
	}
	return pages
}

// own is what of a page may be script: the report's own, which its policy names by hash, and the file of the others'.
var own = regexp.MustCompile(`(?s)<script defer src="[^"]*assay\.js"></script>|<script>\s*"use strict";.*?</script>`)

// TestNothingBecomesScript: whatever stands in a record stays text.
func TestNothingBecomesScript(t *testing.T) {
	run := runOf(1, hostile+".py")
	run.Provenance.Commit = hostile
	path, ids := logbookOf(t, run, runOf(2, "train.py"))
	book, err := logbook.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	note, err := book.Note(t.Context(), time.Now(), hostile, map[string]string{"task": hostile}, ids[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := book.Reject(t.Context(), time.Now(), hostile, hostile, ids[0]); err != nil {
		t.Fatal(err)
	}
	book.Close()
	site := New(options(path))
	for _, page := range append(pagesOf(ids), "/record/"+note) {
		w := ask(site, "GET", page, nil)
		body := own.ReplaceAllString(w.Body.String(), "")
		for _, bad := range []string{"<script", "<img", `href="javascript`, "<a href=javascript"} {
			if strings.Contains(strings.ToLower(body), bad) {
				i := strings.Index(strings.ToLower(body), bad)
				t.Errorf("%s: %s", page, body[max(0, i-80):min(len(body), i+80)])
			}
		}
		if w.Code == 500 {
			t.Errorf("%s: %s", page, body)
		}
	}
}

// TestForgottenIsGone: a page that was shown before what it shows was forgotten shows it no more.
func TestForgottenIsGone(t *testing.T) {
	path, ids := logbookOf(t, runOf(1, "secret-project.py"), runOf(2, "train.py"))
	site := New(options(path))
	for _, page := range pagesOf(ids) {
		ask(site, "GET", page, nil)
	}
	book, err := logbook.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := book.Forget(t.Context(), logbook.Forgetting{Records: ids[:1], At: time.Now(),
		Because: "a test"}); err != nil {
		t.Fatal(err)
	}
	book.Close()
	for _, page := range pagesOf(ids) {
		if strings.Contains(ask(site, "GET", page, nil).Body.String(), "secret-project") {
			t.Errorf("%s still shows it", page)
		}
	}
}

// TestPagesOfRuns: a list is read page by page, each run once, whatever comes meanwhile.
func TestPagesOfRuns(t *testing.T) {
	var runs []*evidence.Run
	for i := range perPage*2 + 7 {
		run := runOf(i+1, "train.py")
		run.Started = time.Date(2026, 11, 1, 10, 0, i/3, 0, time.UTC) // several at one time
		runs = append(runs, run)
	}
	path, ids := logbookOf(t, runs...)
	site := New(options(path))
	link := regexp.MustCompile(`href="/record/([0-9a-f]{64})"`)
	next := regexp.MustCompile(`rel="next" href="\?([^"]*)"`)
	seen, query := map[string]int{}, ""
	for range 4 {
		body := ask(site, "GET", "/?"+query, nil).Body.String()
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			seen[m[1]]++
		}
		m := next.FindStringSubmatch(body)
		if m == nil {
			break
		}
		query = strings.ReplaceAll(m[1], "&amp;", "&")
		query = strings.ReplaceAll(query, "&#43;", "+")
	}
	if len(seen) != len(ids) {
		t.Errorf("%d of %d runs are on the pages", len(seen), len(ids))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is there %d times", id[:8], n)
		}
	}
	site.files, site.only = true, map[string]bool{ids[0]: true}
	if body := ask(site, "GET", "/", nil).Body.String(); !strings.Contains(body, "record/"+ids[0]) {
		t.Error("of files, the oldest run alone was chosen, and the list lacks it")
	}
}

// TestFoundTwice: a run whose name is what its title has a part of is in the list once, and nothing else is.
func TestFoundTwice(t *testing.T) {
	run := runOf(1, "train.py")
	run.ID = "train"
	path, _ := logbookOf(t, run)
	body := ask(New(options(path)), "GET", "/?text=train", nil).Body.String()
	if n := strings.Count(body, `data-l="run"`); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// TestLive: a run that somebody writes is there, is followed as it goes on, and is over when they let go of it.
func TestLive(t *testing.T) {
	path, _ := logbookOf(t)
	runs := t.TempDir()
	dir := filepath.Join(runs, "2026-train")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(runs, "out")); err != nil {
		t.Fatal(err)
	}
	log, err := events.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	log.Append(0, []byte(`{"ev":"start","id":"2026-train","wall":"2026-11-01T10:00:00Z","subject":{"kind":"script","script":"train.py","command":["python","train.py"]}}`))
	for i := range 2 * newest { // a fleet's, long over, with names behind that of a run of today
		over := filepath.Join(runs, fmt.Sprintf("queue-train-%d-a1", i))
		if err := os.Mkdir(over, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(over, events.FileName)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	o := options(path)
	o.Runs = runs
	server := httptest.NewServer(New(o))
	defer server.Close()
	get := func(path string) (int, string) {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	if _, body := get("/live"); !strings.Contains(body, "/live/2026-train") || strings.Contains(body, "/live/out") {
		t.Errorf("the list of runs under way: %s", body)
	}
	if code, _ := get("/live/out"); code != 404 {
		t.Errorf("a link is followed: %d", code)
	}
	resp, err := http.Get(server.URL + "/live/2026-train/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	closed := false
	var told []string
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "event: ") {
			told = append(told, line[7:])
		}
		if strings.Contains(line, "train.py") && !closed {
			closed = true
			log.Close()
		}
		if line == "event: over" {
			break
		}
	}
	if len(told) < 2 || told[0] != "part" || told[len(told)-1] != "over" {
		t.Errorf("told: %v", told)
	}
	if _, body := get("/live"); strings.Contains(body, "/live/2026-train") {
		t.Error("a run that is over is listed as under way")
	}
}

// TestExport: the files need no server, an earlier export is replaced whole, and what was not chosen is nowhere in
// them.
func TestExport(t *testing.T) {
	path, ids := logbookOf(t, runOf(1, "train.py"), runOf(2, "train.py"), runOf(3, "not-for-others.py"))
	dir := filepath.Join(t.TempDir(), "pages")
	only := map[string]bool{ids[0]: true, ids[1]: true}
	for range 2 {
		if sum, err := Export(t.Context(), options(path), only, dir); err != nil || sum.Runs != 2 || sum.Left != 0 {
			t.Fatalf("%+v, %v", sum, err)
		}
	}
	local := regexp.MustCompile(`(?:href|src)="([^"#]*)"`)
	err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if strings.Contains(string(data), "not-for-others") || strings.Contains(string(data), ids[2]) {
			t.Errorf("%s shows a run that was not chosen", file)
		}
		if filepath.Ext(file) != ".html" {
			return nil
		}
		for _, m := range local.FindAllStringSubmatch(string(data), -1) {
			if m[1] == "data:," || m[1] == "" {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s leads to %s, which is not there", filepath.Base(file), m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.tex"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Export(t.Context(), options(path), nil, other); err == nil || !strings.Contains(err.Error(),
		"something else") {
		t.Errorf("a folder with something else in it: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".assay-pages-*"))
	if left != nil {
		t.Errorf("left behind: %v", left)
	}
}

var sampleLine = regexp.MustCompile(`^[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*\})? -?[0-9][0-9.e+-]*$`)

// TestMetrics: each line is one of the text format, and a device's name cannot break out of its label.
func TestMetrics(t *testing.T) {
	run := runOf(2, "train.py")
	run.Target.Device = "c\"p\\u\n"
	path, _ := logbookOf(t, runOf(1, "train.py"), run)
	body := ask(New(options(path)), "GET", "/metrics", nil).Body.String()
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "# HELP assay_") && !strings.HasPrefix(line, "# TYPE assay_") &&
			!sampleLine.MatchString(line) {
			t.Errorf("not of the format: %q", line)
		}
	}
	var m metrics
	if m.sample("x", 1, "run", "c\"p\\u\n"); m.out.String() != `x{run="c\"p\\u\n"} 1`+"\n" {
		t.Errorf("escaped: %s", m.out.String())
	}
	if !strings.Contains(body, `assay_runs{kind="run",device="cpu",outcome="finished"} 1`) ||
		!strings.Contains(body, `assay_runs{kind="run",device="other",outcome="finished"} 1`) ||
		!strings.Contains(body, `assay_records{kind="run"} 2`) {
		t.Error(body)
	}

	site := New(options(path))
	first := ask(site, "GET", "/metrics", nil).Body.String()
	book, err := logbook.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	doc, _ := json.Marshal(runOf(3, "train.py"))
	id, _, err := book.Add(t.Context(), doc)
	if err != nil {
		t.Fatal(err)
	}
	if body := ask(site, "GET", "/metrics", nil).Body.String(); !strings.Contains(body, `assay_records{kind="run"} 3`) {
		t.Errorf("after a run more: %s", body)
	}
	if _, err := book.Forget(t.Context(), logbook.Forgetting{Records: []string{id}, At: time.Now(),
		Because: "a test"}); err != nil {
		t.Fatal(err)
	}
	counts := regexp.MustCompile(`(?m)^assay_r.*$`) // not the bytes
	after := counts.FindAllString(ask(site, "GET", "/metrics", nil).Body.String(), -1)
	if !slices.Equal(after, counts.FindAllString(first, -1)) {
		t.Errorf("after it was forgotten: %q", after)
	}
}

// TestEarlierRuns: the page of a run of long ago shows the runs before it, not those of today.
func TestEarlierRuns(t *testing.T) {
	var runs []*evidence.Run
	for i := range mostOver + 5 {
		runs = append(runs, runOf(i+1, "train.py"))
	}
	path, ids := logbookOf(t, runs...)
	if body := ask(New(options(path)), "GET", "/record/"+ids[2], nil).Body.String(); !strings.Contains(body,
		"/beside/"+ids[2]+"/"+ids[1]) {
		t.Error("the third run is not held beside the second")
	}
}
