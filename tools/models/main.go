// Models makes the table behind `assay models`: which architectures run on MPS, release by release.
//
//	go run ./tools/models --python PYTHON [--table PATH] [NAME …]
//
// PYTHON has torch, torchvision and the packages that zoo.py builds models of; one that is missing is left out, and
// said so. The models are rehearsed by rehearse.py on doubles of all releases that the atlas has. The table is written
// after each model, whole: what was stopped goes on where it was, and a model that stands in it is not tried again
// unless it is named. Where the versions of packages differ from those that the table names, nothing is done.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"assay/agent"
	"assay/internal/atlas"
	"assay/internal/attempt"
	"assay/internal/evidence"
	"assay/internal/facts"
	"assay/internal/file"
	"assay/internal/models"
	"assay/internal/python"
	"assay/internal/target"
)

type options struct {
	python, table string
	limit         float64
	names         []string
}

func main() {
	var opts options
	flag.StringVar(&opts.python, "python", "python3", "`path` of a Python with the packages")
	flag.StringVar(&opts.table, "table", "internal/models/models.tsv", "`path` of the table")
	flag.Float64Var(&opts.limit, "limit", 3600, "`seconds` that one attempt or model may take")
	flag.Parse()
	opts.names = flag.Args()
	if err := run(opts); err != nil {
		fmt.Fprintln(os.Stderr, "models:", err)
		os.Exit(1)
	}
}

// request is what rehearse.py reads.
type request struct {
	Doubles []target.Settings `json:"doubles"`
	Values  []target.Settings `json:"values"`
	Models  []string          `json:"models"`
	Done    []string          `json:"done"`
	Limit   float64           `json:"limit"`
	Sizes   []int             `json:"sizes"` // GiB of memory that Macs were sold with
}

// hello is rehearse.py's first line.
type hello struct {
	Versions map[string]string `json:"versions"`
	Limits   []limit           `json:"limits"`
}

// limit is Metal's recommended working set, as the double's allocator.py has it.
type limit struct {
	GiB   int    `json:"gib"`
	MacOS int    `json:"macos"`
	Bytes int64  `json:"bytes"`
	Known string `json:"known"`
}

// told is its line for a model.
type told struct {
	Name       string                     `json:"name"`
	Task       string                     `json:"task"`
	Family     string                     `json:"family"`
	Package    string                     `json:"package"`
	Input      string                     `json:"input"`
	Parameters int64                      `json:"parameters"`
	Carried    string                     `json:"carried"`
	Peaks      map[int]int64              `json:"peaks"`
	WhyNot     map[int]string             `json:"whynot"`
	Answers    map[string]json.RawMessage `json:"answers"`
	CPU        json.RawMessage            `json:"cpu"`
	Failed     string                     `json:"failed"`
	Seconds    float64                    `json:"seconds"`
}

func run(opts options) error {
	table, err := read(opts.table)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "assay-models-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	asked := request{Models: opts.names, Limit: opts.limit}
	for _, p := range target.Parts() {
		asked.Sizes = append(asked.Sizes, p.Memories...)
	}
	slices.Sort(asked.Sizes)
	asked.Sizes = slices.Compact(asked.Sizes)
	releases, err := doubles(folder, &asked)
	if err != nil {
		return err
	}
	if len(table.Models) > 0 && !slices.Equal(table.Releases, releases) {
		return fmt.Errorf("%s is of other releases than the atlas: remove it and make it anew", opts.table)
	}
	table.Releases = releases
	if len(opts.names) == 0 {
		for _, m := range table.Models {
			asked.Done = append(asked.Done, m.Name)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	installed, err := agent.Install(filepath.Join(cache, "assay"))
	if err != nil {
		return err
	}
	data, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	cmd := exec.Command(opts.python, filepath.Join("tools", "models", "rehearse.py"), installed.Attempt)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(data), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	err = take(out, table, opts.table)
	if err != nil {
		cmd.Process.Kill()
	}
	return errors.Join(err, cmd.Wait())
}

// read is the table as it stands, an empty one where there is none.
func read(path string) (*models.Table, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return &models.Table{}, nil
	}
	if err != nil {
		return nil, err
	}
	return models.Parse(data)
}

// doubles puts the settings of a double of each release into the request, shapes alone and with values.
func doubles(folder string, asked *request) (releases []string, err error) {
	a := &atlas.Atlas{}
	for _, r := range a.Releases("torch") {
		on := target.Target{Device: evidence.OnDouble, Release: r.Version, ShapeOnly: true}
		double, err := on.Double(a, target.Aim{Release: r}, "", func(release string) string {
			floor, _ := python.MacFloor(release)
			return floor.Backend
		})
		if err != nil {
			return nil, err
		}
		settings, err := double.Keep(filepath.Join(folder, r.Version+".json"))
		if err != nil {
			return nil, err
		}
		releases = append(releases, r.Version)
		if n := len(asked.Doubles); n > 0 && alike(asked.Doubles[n-1], settings) {
			asked.Doubles, asked.Values = asked.Doubles[:n-1], asked.Values[:n-1]
		}
		asked.Doubles = append(asked.Doubles, settings)
		settings.ShapeOnly = false
		asked.Values = append(asked.Values, settings)
	}
	if !slices.IsSortedFunc(releases, atlas.CompareReleases) {
		return nil, errors.New("the atlas's releases are not in order")
	}
	return releases, nil
}

// alike: nothing that the double knows tells the two releases apart: they are of one series, need the same macOS, and
// each fact speaks of both or of neither. The answer of the later one then goes for both.
func alike(x, y target.Settings) bool {
	if x.Series != y.Series || x.MacOS != y.MacOS {
		return false
	}
	for _, f := range facts.Load().All {
		if f.Holds(x.Release) != f.Holds(y.Release) || f.Certain(x.Release) != f.Certain(y.Release) {
			return false
		}
	}
	return true
}

// take adds the models to the table as they come, and writes it after each.
func take(from io.Reader, table *models.Table, path string) error {
	lines := bufio.NewReaderSize(from, 1<<20)
	first := true
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if first {
			first = false
			var h hello
			if err := json.Unmarshal(line, &h); err != nil {
				return err
			}
			if err := made(table, h); err != nil {
				return err
			}
			continue
		}
		var t told
		if err := json.Unmarshal(line, &t); err != nil {
			return err
		}
		if t.Failed != "" {
			fmt.Fprintf(os.Stderr, "%-45s left out: %s\n", t.Name, t.Failed)
			continue
		}
		m, err := model(table.Releases, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		fmt.Fprintf(os.Stderr, "%-45s %5.0f s  %s: %s\n", t.Name, t.Seconds, m.Carried, m.Spans[len(m.Spans)-1].Outcome)
		table.Models = slices.DeleteFunc(table.Models, func(x models.Model) bool { return x.Name == m.Name })
		table.Models = append(table.Models, m)
		slices.SortFunc(table.Models, func(x, y models.Model) int { return cmp.Compare(x.Name, y.Name) })
		if err := file.Write(path, 0o644, table.Write); err != nil {
			return err
		}
	}
}

// made puts the versions into the table; the error says which are not those that it was made with.
func made(table *models.Table, h hello) error {
	table.Limits = nil
	for _, l := range h.Limits {
		table.Limits = append(table.Limits, models.Limit(l))
	}
	names := make([]string, 0, len(h.Versions))
	for name := range h.Versions {
		names = append(names, name)
	}
	slices.Sort(names)
	known := map[string]string{}
	for _, m := range table.Made {
		known[m.What] = m.Is
	}
	for _, name := range append(names, "Mac") {
		is := h.Versions[name]
		if name == "Mac" {
			is = fmt.Sprintf("%s, macOS %s, or the macOS that a release needs", target.DefaultChip, target.DefaultMacOS)
		}
		if before, there := known[name]; there && before != is {
			return fmt.Errorf("the table was made with %s %s, and here it is %s: remove it and make it anew", name, before, is)
		} else if !there {
			table.Made = append(table.Made, models.Made{What: name, Is: is})
		}
	}
	return nil
}

// model judges the answers, and puts releases together in which the same came of it.
func model(releases []string, t told) (models.Model, error) {
	m := models.Model{Name: t.Name, Task: t.Task, Family: t.Family, Package: t.Package, Input: t.Input,
		Parameters: t.Parameters, Carried: t.Carried}
	for _, batch := range models.Batches {
		m.Peaks = append(m.Peaks, models.Peak{Batch: batch, Bytes: t.Peaks[batch], Why: t.WhyNot[batch]})
	}
	for i, release := range releases {
		var cpu json.RawMessage
		if string(t.CPU) != "null" {
			cpu = t.CPU
		}
		answer := t.Answers[release]
		for later := i; answer == nil && later < len(releases); later++ { // an alike one's
			answer = t.Answers[releases[later]]
		}
		a, err := attempt.Judge(answer, cpu, release)
		if err != nil {
			return m, fmt.Errorf("%s: %w", release, err)
		}
		s := span(a)
		s.From, s.To = release, release
		if last := len(m.Spans) - 1; last >= 0 && same(m.Spans[last], s) {
			m.Spans[last].To = release
		} else {
			m.Spans = append(m.Spans, s)
		}
		if i == len(releases)-1 {
			m.CPU = a.CPU
		}
		m.Met = met(m.Met, a.Met, releases, i)
	}
	slices.SortStableFunc(m.Met, func(x, y models.Met) int {
		return cmp.Or(-cmp.Compare(fmt.Sprint(x.Sure), fmt.Sprint(y.Sure)), cmp.Compare(x.Fact, y.Fact))
	})
	return m, nil
}

func span(a *attempt.Attempt) models.Span {
	s := models.Span{Outcome: a.Outcome, Phase: a.Phase, Operator: a.Operator}
	if a.Error != "" {
		first, _, _ := strings.Cut(a.Text, "\n")
		s.Text = a.Error + ": " + first
		if len(s.Text) > 200 {
			s.Text = strings.ToValidUTF8(s.Text[:200], "") + "…"
		}
	}
	if f := a.Fallback; f != nil {
		s.Fallback = f.Outcome
		for _, op := range f.Operators {
			if !slices.Contains(s.OnCPU, op.Operator) {
				s.OnCPU = append(s.OnCPU, op.Operator)
			}
		}
		slices.Sort(s.OnCPU)
	}
	return s
}

// same but for the releases; the text of an error differs by the release without meaning something else.
func same(x, y models.Span) bool {
	return x.Outcome == y.Outcome && x.Phase == y.Phase && x.Operator == y.Operator && x.Fallback == y.Fallback &&
		slices.Equal(x.OnCPU, y.OnCPU)
}

// met adds the facts of a release: one that was met in the release before goes on.
func met(list []models.Met, now []evidence.Met, releases []string, i int) []models.Met {
	for _, row := range now {
		if !row.Sure && row.Outcome != "wrong" {
			continue // what may be slow, or may run on the CPU, is said by `assay try`
		}
		at := slices.IndexFunc(list, func(x models.Met) bool {
			return x.Fact == row.Fact && x.Sure == row.Sure && (x.To == releases[i] || i > 0 && x.To == releases[i-1])
		})
		if at < 0 {
			list = append(list, models.Met{Fact: row.Fact, Sure: row.Sure, From: releases[i]})
			at = len(list) - 1
		}
		list[at].To = releases[i]
		if !slices.Contains(list[at].Operators, row.Operator) {
			list[at].Operators = append(list[at].Operators, row.Operator)
			slices.Sort(list[at].Operators)
		}
	}
	return list
}
