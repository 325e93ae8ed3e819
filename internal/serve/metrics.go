package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/events"
	"assay/internal/evidence"
	"assay/internal/logbook"
)

// mostSeries bounds the runs under way that the metrics name: a label is a series for ever in what collects them.
const mostSeries = 20

// metrics are for Prometheus, in its text format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats).
func (s *Site) metrics(w http.ResponseWriter, r *http.Request) error {
	var m metrics
	err := s.read(r.Context(), func(book *logbook.Book) error {
		tallies, err := s.tallies.of(r.Context(), book, book.Tallies)
		if err != nil {
			return err
		}
		m.head("assay_runs", "gauge", "Runs and rehearsals in the logbook, by how they ended.")
		of, labels := map[logbook.Tally]int{}, []logbook.Tally{}
		for _, t := range tallies {
			if t.Outcome == "" {
				continue
			}
			l := logbook.Tally{Kind: t.Kind, Device: t.Device, Outcome: t.Outcome}
			if l.Device != "" && !slices.Contains(evidence.Devices(), l.Device) {
				l.Device = "other" // a logbook that was merged into this one may say anything
			}
			if _, seen := of[l]; !seen {
				labels = append(labels, l)
			}
			of[l] += t.N
		}
		for _, l := range labels {
			m.sample("assay_runs", float64(of[l]), "kind", l.Kind, "device", l.Device, "outcome", l.Outcome)
		}
		m.head("assay_records", "gauge", "Records in the logbook, by kind.")
		sums, order := map[string]int{}, []string{}
		for _, t := range tallies {
			if _, seen := sums[t.Kind]; !seen {
				order = append(order, t.Kind)
			}
			sums[t.Kind] += t.N
		}
		for _, kind := range order {
			m.sample("assay_records", float64(sums[kind]), "kind", kind)
		}
		return nil
	})
	var none *status
	if err != nil && !errors.As(err, &none) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.head("assay_logbook_bytes", "gauge", "Size of the logbook's file and its write-ahead log.")
	var size int64
	for _, end := range []string{"", "-wal"} {
		if info, err := os.Stat(s.o.Logbook + end); err == nil {
			size += info.Size()
		}
	}
	m.sample("assay_logbook_bytes", float64(size))
	s.liveMetrics(&m)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodHead {
		_, _ = w.Write(m.out.Bytes())
	}
	return nil
}

func (s *Site) liveMetrics(m *metrics) {
	names := s.underWay()
	m.head("assay_live_runs", "gauge", "Runs under way.")
	m.sample("assay_live_runs", float64(len(names)))
	type state struct {
		name           string
		steps          int
		step, loss     *float64
		memory         *float64
		sinceLastEvent float64
	}
	var all []state
	for _, name := range names[:min(len(names), mostSeries)] {
		run, err := s.follow(name)
		if err != nil {
			continue
		}
		if _, err := run.More(); err == nil {
			e := run.Run()
			x := state{name: name, steps: len(e.Steps.Total)}
			if n := len(e.Steps.Total); n > 0 {
				x.step = &e.Steps.Total[n-1]
			}
			for i := len(e.Loss.Value) - 1; i >= 0 && x.loss == nil; i-- {
				x.loss = e.Loss.Value[i]
			}
			for i := len(e.Steps.Pool) - 1; i >= 0 && x.memory == nil; i-- {
				if e.Steps.Pool[i] >= 0 {
					x.memory = &e.Steps.Pool[i]
				}
			}
			if info, err := os.Stat(filepath.Join(s.o.Runs, name, events.FileName)); err == nil {
				x.sinceLastEvent = max(0, s.o.Now().Sub(info.ModTime()).Seconds())
			}
			all = append(all, x)
		}
		run.Close()
	}
	each := func(name, help string, value func(state) *float64) {
		m.head(name, "gauge", help)
		for _, x := range all {
			if v := value(x); v != nil {
				m.sample(name, *v, "run", x.name)
			}
		}
	}
	each("assay_live_steps", "Training steps by now.", func(x state) *float64 { v := float64(x.steps); return &v })
	each("assay_live_step_seconds", "Time of the last training step.", func(x state) *float64 { return x.step })
	each("assay_live_loss", "The last loss.", func(x state) *float64 { return x.loss })
	each("assay_live_pool_bytes", "What the device's allocator holds.", func(x state) *float64 { return x.memory })
	each("assay_live_silence_seconds", "Time since the last event came.",
		func(x state) *float64 { return &x.sinceLastEvent })
}

type metrics struct{ out bytes.Buffer }

func (m *metrics) head(name, kind, help string) {
	fmt.Fprintf(&m.out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (m *metrics) sample(name string, v float64, labels ...string) {
	m.out.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		m.out.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		fmt.Fprintf(&m.out, `%s="%s"`, labels[i], escaped.Replace(strings.ToValidUTF8(labels[i+1], "\uFFFD")))
	}
	if len(labels) > 0 {
		m.out.WriteByte('}')
	}
	m.out.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
}
