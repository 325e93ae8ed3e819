package logbook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/secret"
	clean "assay/internal/text"
)

// MLflow is a tracking server, spoken to by its REST interface (mlflow.org/docs/latest/rest-api.html).
type MLflow struct {
	URI        string // http://localhost:5000
	Experiment string
	Token      string // bearer token, or
	User, Pass string // basic authentication
	Client     *http.Client
}

// Exported counts what an export sent.
type Exported struct {
	Runs, Known, Points int
	Artifacts           int
	Remarks             []string
}

// Bounds of a request (mlflow.org/docs/latest/rest-api.html, "Log Batch").
const (
	mlflowMetrics = 1000
	mlflowParams  = 100
	mlflowTags    = 100
	mlflowValue   = 5000 // bytes of a tag, as most stores allow; a parameter may have 6000
)

const (
	tagID   = "assay.id"   // of the record: by it an export finds what it sent before
	tagDone = "assay.done" // set last: a run without it was cut off
)

// Export sends the records that are runs. One that the server has already is not sent again; one that was cut off is
// sent again into the same run.
func (m *MLflow) Export(ctx context.Context, b *Book, entries []Entry) (*Exported, error) {
	base, err := url.Parse(m.URI)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fault.Exit(fault.Hint(fmt.Errorf("export to MLflow: %q is no address of a server", m.URI),
			"as http://localhost:5000, which `mlflow server` prints"), fault.Usage)
	}
	if m.Client == nil {
		m.Client = &http.Client{Timeout: time.Minute}
	}
	experiment, err := m.experiment(ctx)
	if err != nil {
		return nil, fmt.Errorf("export to MLflow at %s: %w", base.Redacted(), err)
	}
	out := &Exported{}
	for i := len(entries) - 1; i >= 0; i-- {
		if e := entries[i]; e.Kind == KindRun || e.Kind == KindRehearsal {
			if err := m.send(ctx, b, experiment, e, out); err != nil {
				return out, fmt.Errorf("export %s to MLflow at %s: %w", short(e.ID), base.Redacted(), err)
			}
		}
	}
	return out, nil
}

func (m *MLflow) experiment(ctx context.Context) (string, error) {
	var got struct {
		Experiment struct {
			ID string `json:"experiment_id"`
		} `json:"experiment"`
	}
	err := m.call(ctx, "GET", "experiments/get-by-name?experiment_name="+url.QueryEscape(m.Experiment), nil, &got)
	if err == nil {
		return got.Experiment.ID, nil
	}
	var status *mlflowError
	if !errors.As(err, &status) || status.Code != "RESOURCE_DOES_NOT_EXIST" {
		return "", err
	}
	var made struct {
		ID string `json:"experiment_id"`
	}
	err = m.call(ctx, "POST", "experiments/create", map[string]any{"name": m.Experiment}, &made)
	return made.ID, err
}

type mlflowPair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type mlflowMetric struct {
	Key       string  `json:"key"`
	Value     float64 `json:"value"`
	Timestamp int64   `json:"timestamp"`
	Step      int64   `json:"step"`
}

type mlflowRun struct {
	Info struct {
		ID       string `json:"run_id"`
		Artifact string `json:"artifact_uri"`
	} `json:"info"`
	Data struct {
		Tags []mlflowPair `json:"tags"`
	} `json:"data"`
}

func (m *MLflow) send(ctx context.Context, b *Book, experiment string, e Entry, out *Exported) error {
	run, err := b.Run(ctx, e.ID)
	if err != nil {
		return err
	}
	var found struct {
		Runs []mlflowRun `json:"runs"`
	}
	if err := m.call(ctx, "POST", "runs/search", map[string]any{"experiment_ids": []string{experiment},
		"filter": "tags.`" + tagID + "` = '" + e.ID +
			"'", "max_results": 1}, &found); err != nil {
		return err
	}
	var into mlflowRun
	if len(found.Runs) > 0 {
		into = found.Runs[0]
		for _, t := range into.Data.Tags {
			if t.Key == tagDone {
				out.Known++
				return nil
			}
		}
	} else {
		var made struct {
			Run mlflowRun `json:"run"`
		}
		if err := m.call(ctx, "POST", "runs/create", map[string]any{"experiment_id": experiment,
			"start_time": run.Started.UnixMilli(), "run_name": run.ID,
			"tags": []mlflowPair{{tagID, e.ID}}}, &made); err != nil {
			return err
		}
		into = made.Run
	}

	metrics := []mlflowMetric{}
	for _, f := range run.Figures {
		if f.Known() && !math.IsInf(*f.Value, 0) && !math.IsNaN(*f.Value) {
			metrics = append(metrics, mlflowMetric{mlflowName("figure." + f.Key()), *f.Value, run.Ended.UnixMilli(), 0})
		}
	}
	points, err := b.Points(ctx, e.ID, "")
	if err != nil {
		return err
	}
	for _, p := range points {
		at := p.Time
		if at == 0 {
			at = run.Started.UnixMilli()
		}
		if !math.IsInf(p.Value, 0) && !math.IsNaN(p.Value) { // JSON has no word for them
			metrics = append(metrics, mlflowMetric{mlflowName(p.Name), p.Value, at, p.Step})
		}
	}
	for rest := metrics; len(rest) > 0; {
		part := rest[:min(len(rest), mlflowMetrics)]
		rest = rest[len(part):]
		if err := m.call(ctx, "POST", "runs/log-batch", map[string]any{"run_id": into.Info.ID, "metrics": part},
			nil); err != nil {
			return err
		}
	}
	params, tags := mlflowDescribe(e, run)
	for len(params) > 0 || len(tags) > 0 {
		p, t := params[:min(len(params), mlflowParams)], tags[:min(len(tags), mlflowTags)]
		params, tags = params[len(p):], tags[len(t):]
		if err := m.call(ctx, "POST", "runs/log-batch", map[string]any{"run_id": into.Info.ID, "params": p, "tags": t},
			nil); err != nil {
			return err
		}
	}
	doc, err := b.Document(ctx, e.ID)
	if err != nil {
		return err
	}
	switch path, ok := strings.CutPrefix(into.Info.Artifact, "mlflow-artifacts:/"); {
	case !ok:
		out.Remarks = append(out.Remarks,
			fmt.Sprintf("%s: evidence.json was not sent: the server does not take artifacts itself", short(e.ID)))
	default:
		if err := m.do(ctx, "PUT", "/api/2.0/mlflow-artifacts/artifacts/"+strings.TrimLeft(path, "/")+"/evidence.json",
			"application/json",
			secret.JSON(doc), nil); err != nil {
			return fmt.Errorf("the artifact evidence.json: %w", err)
		}
		out.Artifacts++
	}
	status := "FINISHED"
	switch {
	case run.Outcome.Signal != "" || run.Outcome.Exit < 0:
		status = "KILLED"
	case run.Outcome.Exit != 0 || !run.Outcome.Started:
		status = "FAILED"
	}
	if err := m.call(ctx, "POST", "runs/update", map[string]any{"run_id": into.Info.ID, "status": status,
		"end_time": run.Ended.UnixMilli()},
		nil); err != nil {
		return err
	}
	if err := m.call(ctx, "POST", "runs/set-tag", map[string]any{"run_id": into.Info.ID, "key": tagDone, "value": "1"},
		nil); err != nil {
		return err
	}
	out.Runs++
	out.Points += len(metrics)
	return nil
}

// mlflowDescribe is what MLflow keeps as parameters (what was chosen) and as tags (what it was).
func mlflowDescribe(e Entry, run *evidence.Run) (params, tags []mlflowPair) {
	batch, resolution := Work(run)
	add := func(to *[]mlflowPair, key, value string) {
		if value != "" {
			*to = append(*to, mlflowPair{mlflowName(key), clean.Short(value, mlflowValue/4)})
		}
	}
	if batch > 0 {
		add(&params, "batch", strconv.Itoa(batch))
	}
	add(&params, "resolution", resolution)
	add(&params, "command", strings.Join(run.Subject.Command, " "))
	add(&params, "asked", run.Target.Asked)
	add(&params, "device", run.Target.Device)
	add(&params, run.Target.Framework, run.Target.Release)
	add(&params, run.Target.Backend, run.Target.BackendRelease)
	add(&params, "python", run.Target.Python)
	if d := run.Target.Double; d != nil {
		add(&params, "double.torch", d.Release)
		add(&params, "double.macos", d.MacOS)
		add(&params, "double.chip", d.Chip)
	}
	add(&params, "PYTORCH_ENABLE_MPS_FALLBACK", run.Provenance.Environment["PYTORCH_ENABLE_MPS_FALLBACK"])
	add(&tags, "assay.kind", e.Kind)
	add(&tags, "mlflow.source.name", run.Subject.Script)
	add(&tags, "mlflow.source.git.commit", run.Provenance.Commit)
	add(&tags, "assay.dirty", run.Provenance.Dirty)
	add(&tags, "assay.error", run.Outcome.Error)
	add(&tags, "assay.disturbed", run.Figure("step.time").Disturbed)
	for _, f := range run.Host.Facts {
		add(&tags, "host."+f.Name, f.Value)
	}
	for i, d := range run.Provenance.Datasets {
		add(&tags, fmt.Sprintf("data.%d.fingerprint", i), d.Fingerprint)
	}
	for _, f := range run.Figures {
		if f.Known() {
			add(&tags, "basis."+f.Key(), string(f.Basis)) // a rehearsed figure must not be read as a measured one
		}
	}
	return params, tags
}

var notMLflow = regexp.MustCompile(`[^A-Za-z0-9_\-. /]+`)

// mlflowName keeps to the characters that every store takes in a key.
func mlflowName(s string) string {
	s = strings.Trim(notMLflow.ReplaceAllString(s, "_"), "/. ")
	return s[:min(len(s), 250)]
}

type mlflowError struct {
	Status  int
	Code    string `json:"error_code"`
	Message string `json:"message"`
}

func (e *mlflowError) Error() string {
	return strings.Join(strings.Fields(fmt.Sprintf("the server answered %d %s %s", e.Status, e.Code,
		clean.Short(e.Message, 300))), " ")
}

func (m *MLflow) call(ctx context.Context, method, path string, body, into any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	return m.do(ctx, method, "/api/2.0/mlflow/"+path, "application/json", data, into)
}

func (m *MLflow) do(ctx context.Context, method, path, kind string, data []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(m.URI, "/")+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	switch {
	case m.Token != "":
		req.Header.Set("Authorization", "Bearer "+m.Token)
	case m.User != "":
		req.SetBasicAuth(m.User, m.Pass)
	}
	resp, err := m.Client.Do(req)
	if err != nil {
		return fault.Hint(err, "is the server running, and is that its address?")
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		e := &mlflowError{}
		if json.Unmarshal(answer, e) != nil {
			e.Message = string(answer)
		}
		e.Status = resp.StatusCode
		return e
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the server's answer is no JSON of MLflow's: %w", err)
	}
	return nil
}
