package logbook

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
	"assay/internal/fault"
)

// tracking is a server that holds to what mlflow.org/docs/latest/rest-api.html says of the calls that an export makes,
// the bounds of "Log Batch" and the names of keys among it.
type tracking struct {
	t                 *testing.T
	experiments       map[string]string
	runs              []*trackedRun
	artifacts         string // where it says that artifacts go
	fails             string // the end of the path of a call that it refuses
	calls             []string
	auth              []string
	status            int
	answer            string
	evidence          string
	metricsPerRequest []int
}

type trackedRun struct {
	ID, Name, Status string
	Start, End       int64
	Tags, Params     map[string]string
	Metrics          []mlflowMetric
}

var trackingKey = regexp.MustCompile(`^[A-Za-z0-9_\-. /]{1,250}$`)

func (s *tracking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls, s.auth = append(s.calls, r.Method+" "+r.URL.Path), append(s.auth, r.Header.Get("Authorization"))
	if s.fails != "" && strings.HasSuffix(r.URL.Path, s.fails) {
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.answer)
		return
	}
	data, _ := io.ReadAll(r.Body)
	var in struct {
		Name    string   `json:"name"`
		IDs     []string `json:"experiment_ids"`
		ID      string   `json:"run_id"`
		RunName string   `json:"run_name"`
		Filter  string   `json:"filter"`
		Status  string   `json:"status"`
		Key     string   `json:"key"`
		Value   string   `json:"value"`
		Start   int64    `json:"start_time"`
		End     int64    `json:"end_time"`
		Tags    []mlflowPair
		Params  []mlflowPair
		Metrics []mlflowMetric
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/api/2.0/mlflow/")
	if ok && r.Method == "POST" {
		if err := json.Unmarshal(data, &in); err != nil {
			s.t.Errorf("%s: %v", path, err)
		}
	}
	say := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	shown := func(run *trackedRun) map[string]any {
		tags := []mlflowPair{}
		for k, v := range run.Tags {
			tags = append(tags, mlflowPair{k, v})
		}
		return map[string]any{"info": map[string]any{"run_id": run.ID, "artifact_uri": s.artifacts + run.ID},
			"data": map[string]any{"tags": tags}}
	}
	var run *trackedRun
	if i := slices.IndexFunc(s.runs, func(r *trackedRun) bool { return r.ID == in.ID }); i >= 0 {
		run = s.runs[i]
	}
	switch {
	case path == "experiments/get-by-name":
		id := s.experiments[r.URL.Query().Get("experiment_name")]
		if id == "" {
			w.WriteHeader(404)
			say(map[string]string{"error_code": "RESOURCE_DOES_NOT_EXIST"})
			return
		}
		say(map[string]any{"experiment": map[string]string{"experiment_id": id}})
	case path == "experiments/create":
		s.experiments[in.Name] = "7"
		say(map[string]string{"experiment_id": "7"})
	case path == "runs/search":
		found := []any{}
		for _, run := range s.runs {
			if in.Filter == "tags.`assay.id` = '"+run.Tags["assay.id"]+"'" && slices.Equal(in.IDs, []string{"7"}) {
				found = append(found, shown(run))
			}
		}
		say(map[string]any{"runs": found})
	case path == "runs/create":
		run := &trackedRun{ID: fmt.Sprint("r", len(s.runs)), Name: in.RunName, Start: in.Start,
			Tags: map[string]string{}, Params: map[string]string{}}
		for _, t := range in.Tags {
			run.Tags[t.Key] = t.Value
		}
		s.runs = append(s.runs, run)
		say(map[string]any{"run": shown(run)})
	case path == "runs/log-batch" && run != nil:
		if len(in.Metrics) > 1000 || len(in.Params) > 100 || len(in.Tags) > 100 ||
			len(in.Metrics)+len(in.Params)+len(in.Tags) == 0 {
			s.t.Errorf("a batch of %d, %d, %d", len(in.Metrics), len(in.Params), len(in.Tags))
		}
		if len(in.Metrics) > 0 {
			s.metricsPerRequest = append(s.metricsPerRequest, len(in.Metrics))
		}
		for _, m := range in.Metrics {
			if !trackingKey.MatchString(m.Key) {
				s.t.Errorf("the key %q", m.Key)
			}
		}
		run.Metrics = append(run.Metrics, in.Metrics...)
		for to, list := range map[*map[string]string][]mlflowPair{&run.Params: in.Params, &run.Tags: in.Tags} {
			for _, p := range list {
				if !trackingKey.MatchString(p.Key) || p.Value == "" || len(p.Value) > 5000 {
					s.t.Errorf("%q: %d bytes", p.Key, len(p.Value))
				}
				(*to)[p.Key] = p.Value
			}
		}
	case path == "runs/update" && run != nil:
		run.Status, run.End = in.Status, in.End
	case path == "runs/set-tag" && run != nil:
		run.Tags[in.Key] = in.Value
	case r.Method == "PUT" && strings.HasSuffix(r.URL.Path, "/evidence.json"):
		s.evidence = string(data)
	default:
		s.t.Errorf("%s %s", r.Method, r.URL)
		w.WriteHeader(400)
	}
}

func newTracking(t *testing.T) (*tracking, *MLflow) {
	t.Helper()
	s := &tracking{t: t, experiments: map[string]string{}, artifacts: "mlflow-artifacts:/7/", status: 500,
		answer: "out of order"}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, &MLflow{URI: server.URL + "/", Experiment: "a & b"}
}

func export(t *testing.T, m *MLflow, b *Book) (*Exported, error) {
	t.Helper()
	list, err := b.List(ctx, Filter{All: true})
	if err != nil {
		t.Fatal(err)
	}
	return m.Export(ctx, b, list)
}

// TestExportToMLflow: what is known arrives, within the server's bounds, once; what is not known is no number there.
func TestExportToMLflow(t *testing.T) {
	s, m := newTracking(t)
	b := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	started := time.UnixMilli(1_700_000_000_000).UTC()
	id := keep(t, b, another(t, "one", func(r *evidence.Run) {
		r.Started, r.Ended = started, started.Add(time.Minute)
		r.Figures = append(r.Figures, evidence.Known("x.known", 2.5, "s", evidence.Rehearsed),
			evidence.Unknown("x.unknown", "s", "nobody looked"))
		r.Provenance.Datasets = []evidence.Dataset{{Batch: 64, Fingerprint: "sha256:1"}, {Fingerprint: "sha256:2"}}
		r.Host.Facts = nil
		for i := range 230 {
			r.Host.Facts = append(r.Host.Facts, evidence.Fact{Name: fmt.Sprint("f", i), Value: "v"})
		}
		r.Host.Facts = append(r.Host.Facts, evidence.Fact{Name: "empty"},
			evidence.Fact{Name: "long", Value: strings.Repeat("é", 6000)})
		r.Target.Double = &evidence.Double{Release: "2.8.0", MacOS: "15", Chip: "m4"}
		r.Outcome = evidence.Outcome{Started: true, Complete: true}
	}))
	inRun, err := b.Points(ctx, id, "")
	if err != nil {
		t.Fatal(err)
	}
	var points []Point
	for i := range 2500 {
		points = append(points, Point{"loss", int64(i), 1000 + int64(i), float64(i)})
	}
	points = append(points, Point{"loss", 2500, 0, 7}, Point{"loss", 2501, 1, math.NaN()},
		Point{"loss", 2502, 1, math.Inf(1)}, Point{"loss", 2503, 1, math.Inf(-1)})
	if err := b.Append(ctx, id, points); err != nil {
		t.Fatal(err)
	}
	keep(t, b, another(t, "two", func(r *evidence.Run) { r.Started = started.Add(time.Hour) }))
	if _, err := b.Note(ctx, time.Unix(1, 0), "no run", nil, id); err != nil {
		t.Fatal(err)
	}
	out, err := export(t, m, b)
	if err != nil || out.Runs != 2 || out.Known != 0 || out.Artifacts != 2 || len(out.Remarks) != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	if len(s.runs) != 2 || s.runs[0].Name != "one" || s.runs[1].Name != "two" || s.experiments["a & b"] != "7" {
		t.Fatalf("%+v", s.runs)
	}
	run := s.runs[0]
	if run.Tags["assay.id"] != id || run.Tags["assay.done"] != "1" || run.Status != "FINISHED" ||
		run.Start != started.UnixMilli() || run.End != started.Add(time.Minute).UnixMilli() {
		t.Errorf("%+v", run.Tags)
	}
	losses, figures := 0, map[string]float64{}
	for _, p := range run.Metrics {
		switch {
		case p.Key == "loss" && p.Timestamp == 1000+p.Step && p.Value == float64(p.Step),
			p.Key == "loss" && p.Step == 2500 && p.Timestamp == started.UnixMilli() && p.Value == 7:
			losses++
		case strings.HasPrefix(p.Key, "figure."):
			figures[p.Key] = p.Value
		}
	}
	if _, there := figures["figure.x.unknown"]; losses != 2501 || figures["figure.x.known"] != 2.5 || there {
		t.Errorf("%d losses, %v", losses, figures)
	}
	if len(run.Metrics) != len(inRun)+2501+len(figures) || out.Points != len(run.Metrics)+len(s.runs[1].Metrics) ||
		slices.Max(s.metricsPerRequest) != 1000 {
		t.Errorf("%d metrics, %d counted, %v", len(run.Metrics), out.Points, s.metricsPerRequest)
	}
	for key, want := range map[string]string{"batch": "64", "double.chip": "m4", "double.torch": "2.8.0"} {
		if run.Params[key] != want {
			t.Errorf("%s: %q", key, run.Params[key])
		}
	}
	for key, want := range map[string]string{"basis.x.known": "rehearsed", "basis.x.unknown": "", "host.f229": "v",
		"data.0.fingerprint": "sha256:1", "data.1.fingerprint": "sha256:2", "assay.kind": "run"} {
		if run.Tags[key] != want {
			t.Errorf("%s: %q", key, run.Tags[key])
		}
	}
	if _, there := run.Tags["host.empty"]; there || len(run.Tags["host.long"]) > 5000 {
		t.Errorf("%v, %d bytes", there, len(run.Tags["host.long"]))
	}
	if !strings.Contains(s.evidence, `"two"`) || !slices.Contains(s.calls,
		"PUT /api/2.0/mlflow-artifacts/artifacts/7/r0/evidence.json") {
		t.Errorf("%q", s.calls)
	}
	// Again: it is known, and nothing is sent.
	before := len(run.Metrics)
	if out, err = export(t, m, b); err != nil || out.Known != 2 || out.Runs != 0 || out.Points != 0 ||
		len(s.runs) != 2 || len(run.Metrics) != before {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestExportThatFails: whatever call is refused, that is said with the server's words, the run is not taken to be sent,
// and the same again goes into the same run.
func TestExportThatFails(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	keep(t, b, another(t, "one", nil))
	for _, call := range []string{"experiments/get-by-name", "experiments/create", "runs/search", "runs/create",
		"runs/log-batch", "/evidence.json", "runs/update", "runs/set-tag"} {
		s, m := newTracking(t)
		s.fails = call
		if out, err := export(t, m, b); err == nil || !strings.Contains(err.Error(), "500") ||
			!strings.Contains(err.Error(), "out of order") || out != nil && out.Runs != 0 {
			t.Errorf("%s: %+v, %v", call, out, err)
		}
		if call == "experiments/get-by-name" && slices.Contains(s.calls, "POST /api/2.0/mlflow/experiments/create") {
			t.Error("an experiment is made though nobody knows whether there is one")
		}
		s.fails = ""
		if out, err := export(t, m, b); err != nil || out.Runs != 1 || out.Known != 0 || len(s.runs) != 1 {
			t.Errorf("%s, again: %+v, %v", call, out, err)
		}
	}
	for _, c := range []struct {
		call, answer, says string
		status             int
	}{
		{"get-by-name", `{"error_code":"PERMISSION_DENIED","message":"not you"}`, "403 PERMISSION_DENIED not you", 403},
		{"get-by-name", "<html>", "no JSON of MLflow's", 200}, {"runs/search", "moved", "300 moved", 300},
		{"runs/search", "{", "no JSON of MLflow's", 299},
		{"log-batch", strings.Repeat("x", 400), strings.Repeat("x", 300) + "…", 400},
	} {
		s, m := newTracking(t)
		s.fails, s.status, s.answer = c.call, c.status, c.answer
		if _, err := export(t, m, b); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.call, err, c.says)
		}
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	if _, err := export(t, &MLflow{URI: gone.URL}, b); err == nil ||
		!strings.Contains(fault.HintOf(err), "is the server running") {
		t.Errorf("%v", err)
	}
	for _, uri := range []string{"", "localhost:5000", "ftp://h", "http://", "https:///x", "http://a b", "file:///x"} {
		if _, err := export(t, &MLflow{URI: uri}, b); fault.CodeOf(err) != fault.Usage {
			t.Errorf("%q: %v", uri, err)
		}
	}
}

// TestExportSaysWhatItDoes: who asks, how a run ended, where the server keeps no artifacts, and names that it takes.
func TestExportSaysWhatItDoes(t *testing.T) {
	for _, c := range []struct{ token, user, want string }{{"t1", "", "Bearer t1"}, {"", "u", "Basic dTpwMQ=="},
		{"t1", "u", "Bearer t1"}, {"", "", ""}} {
		s, m := newTracking(t)
		m.Token, m.User, m.Pass = c.token, c.user, "p1"
		b := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
		if _, err := export(t, m, b); err != nil || s.auth[0] != c.want {
			t.Errorf("%q, %v, want %q", s.auth, err, c.want)
		}
	}
	b := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	want := map[string]string{}
	for status, outcomes := range map[string][]evidence.Outcome{
		"FINISHED": {{Started: true}}, "FAILED": {{Started: true, Exit: 1}, {}},
		"KILLED": {{Started: true, Signal: "SIGKILL"}, {Started: true, Exit: -1}, {Signal: "SIGTERM", Exit: 1}}} {
		for i, o := range outcomes {
			name := fmt.Sprint(status, i)
			want[name] = status
			keep(t, b, another(t, name, func(r *evidence.Run) { r.Outcome = o }))
		}
	}
	s, m := newTracking(t)
	s.artifacts = "s3://bucket/"
	out, err := export(t, m, b)
	if err != nil || out.Artifacts != 0 || len(out.Remarks) != len(want) ||
		!strings.Contains(out.Remarks[0], "was not sent") || s.evidence != "" {
		t.Errorf("%+v, %v", out, err)
	}
	for _, run := range s.runs {
		if run.Status != want[run.Name] {
			t.Errorf("%s: %s", run.Name, run.Status)
		}
	}
	for name, want := range map[string]string{"a.b-c_d/e f9": "a.b-c_d/e f9", "a[0]:é": "a_0_", "/a/": "a",
		". a .":                  "a",
		strings.Repeat("x", 250): strings.Repeat("x", 250), strings.Repeat("x", 251): strings.Repeat("x", 250)} {
		if got := mlflowName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
