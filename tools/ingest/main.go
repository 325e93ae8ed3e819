// Ingest measures how fast points of series go into a logbook, and how large they are there, beside others in the same
// run.
//
//	go run ./tools/ingest [--python PATH] [--points N] [--batch N] [--rounds N] [--folder PATH] [--json FILE]
//
// Each variant is given the same points (ten figures a step, values with noise in every digit of their mantissas, times
// that jitter) in batches of the same size, and a batch counts when it has been acknowledged:
//
//	logbook   logbook.Append: on the disk when it returns
//	sqlite    plain SQLite, a row a point, one transaction a batch, write-ahead log, synchronous=FULL, through the same driver
//	mlflow    MlflowClient.log_batch into a SQLite store, without a server between (peers.py; needs mlflow in --python)
//	mlflow-1  MlflowClient.log_metric, a point at a time
//	trackio   trackio.log, a dictionary a step, until finish() returns and the points are in its file (peers.py; needs trackio)
//
// Rounds go forwards and backwards in turn; the figure is the median. Bytes are those of all files when the writer has
// closed them. A peer that is slow is given fewer points; the table says how many.
package main

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"assay/internal/logbook"
	"assay/internal/stats"
)

//go:embed peers.py
var peers string

type options struct {
	python, folder, json  string
	points, batch, rounds int
}

// result is one variant in one round.
type result struct {
	Variant string  `json:"variant"`
	Version string  `json:"version,omitempty"`
	Points  int     `json:"points"`
	Seconds float64 `json:"seconds"`
	Bytes   int64   `json:"bytes"`
	Missing string  `json:"missing,omitempty"`
}

type variant struct {
	name  string
	share int // one point in so many
	run   func(ctx context.Context, o options, folder string, points []logbook.Point) result
}

var variants = []variant{
	{"logbook", 1, runLogbook},
	{"sqlite", 1, runSQLite},
	{"mlflow", 50, peer("mlflow")},
	{"mlflow-1", 1000, peer("mlflow-1")},
	{"trackio", 10, peer("trackio")},
}

func main() {
	var o options
	flag.StringVar(&o.python, "python", "", "`path` of a Python with mlflow and trackio; without it they are left out")
	flag.StringVar(&o.folder, "folder", "", "`folder` on the disk to measure; default the system's for temporary files")
	flag.StringVar(&o.json, "json", "", "`file` for every round's figures")
	flag.IntVar(&o.points, "points", 1_000_000, "`points` a round")
	flag.IntVar(&o.batch, "batch", 1000, "`points` that are acknowledged together; MLflow takes 1000 at most")
	flag.IntVar(&o.rounds, "rounds", 5, "`rounds`")
	flag.Parse()
	if o.points < 1000 || o.batch < 1 || o.rounds < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "ingest: --points is 1000 at least, --batch and --rounds 1")
		os.Exit(2)
	}
	if o.python != "" {
		path, err := filepath.Abs(o.python)
		if err != nil {
			fmt.Fprintln(os.Stderr, "ingest:", err)
			os.Exit(1)
		}
		o.python = path // the peers run in a folder of their own
	}
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "ingest:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	all := made(o.points)
	var results []result
	for round := range o.rounds {
		order := slices.Clone(variants)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, v := range order {
			folder, err := os.MkdirTemp(o.folder, "assay-ingest-")
			if err != nil {
				return err
			}
			r := v.run(ctx, o, folder, all[:max(1000, len(all)/v.share)])
			r.Variant = v.name
			os.RemoveAll(folder)
			results = append(results, r)
			if r.Missing == "" {
				fmt.Fprintf(os.Stderr, "round %d  %-9s %8.0f points/s\n", round+1, v.name, float64(r.Points)/r.Seconds)
			}
		}
	}
	fmt.Printf("%s/%s, %d CPUs, a 4 KiB write with fsync %.2f ms, batches of %d, %d rounds\n\n", runtime.GOOS,
		runtime.GOARCH, runtime.NumCPU(),
		1000*syncTime(o.folder), o.batch, o.rounds)
	fmt.Printf("%-22s %12s %22s %14s %10s\n", "variant", "points/s", "least to most", "bytes/point", "points")
	for _, v := range variants {
		var rates, sizes []float64
		var last result
		for _, r := range results {
			if r.Variant == v.name {
				last = r
				rates, sizes = append(rates, float64(r.Points)/r.Seconds),
					append(sizes, float64(r.Bytes)/float64(r.Points))
			}
		}
		if last.Missing != "" {
			fmt.Printf("%-22s not measured: %s\n", v.name, last.Missing)
			continue
		}
		fmt.Printf("%-22s %12.0f %22s %14.1f %10d\n", strings.TrimSpace(v.name+" "+last.Version), stats.Median(rates),
			fmt.Sprintf("%.0f to %.0f",
				slices.Min(rates), slices.Max(rates)),
			stats.Median(sizes), last.Points)
	}
	if o.json != "" {
		data, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(o.json, append(data, '\n'), 0o644)
	}
	return nil
}

// made are points as a training loop has them: ten figures a step.
func made(n int) []logbook.Point {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"loss", "accuracy", "lr", "step.time", "step.data", "step.forward", "step.backward",
		"memory.live", "memory.pool", "grad.norm"}
	points := make([]logbook.Point, 0, n)
	at := int64(1795244100000)
	for step := int64(1); len(points) < n; step++ {
		at += 25 + random.Int64N(12)
		for i, name := range names {
			if len(points) < n {
				points = append(points, logbook.Point{Name: name, Step: step, Time: at,
					Value: float64(i+1) * math.Exp(-float64(step)/1e5) * (1 +
						0.05*random.NormFloat64())})
			}
		}
	}
	return points
}

func failed(err error) result { return result{Missing: err.Error()} }

func runLogbook(ctx context.Context, o options, folder string, points []logbook.Point) result {
	b, err := logbook.Open(ctx, filepath.Join(folder, "logbook.db"))
	if err != nil {
		return failed(err)
	}
	id, err := b.Put(ctx, logbook.Record{Kind: logbook.KindSeries, At: time.Now(), Title: "ingest"})
	if err != nil {
		return failed(err)
	}
	begun := time.Now()
	for part := range slices.Chunk(points, o.batch) {
		if err := b.Append(ctx, id, part); err != nil {
			return failed(err)
		}
	}
	took := time.Since(begun).Seconds()
	kept, err := b.Points(ctx, id, "")
	if err != nil || len(kept) != len(points) {
		return failed(fmt.Errorf("%d of %d points are there: %v", len(kept), len(points), err))
	}
	if err := b.Close(); err != nil {
		return failed(err)
	}
	return result{Points: len(points), Seconds: took, Bytes: size(folder)}
}

func runSQLite(ctx context.Context, o options, folder string, points []logbook.Point) result {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder,
		"plain.db")+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return failed(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	// Names by number, as whoever cares for size would do it.
	if _, err := db.ExecContext(ctx,
		"CREATE TABLE name(name INTEGER PRIMARY KEY, text TEXT UNIQUE);"+
			"CREATE TABLE point(name INTEGER, step INTEGER, at INTEGER, value REAL)"); err != nil {
		return failed(err)
	}
	names := map[string]int{}
	begun := time.Now()
	for part := range slices.Chunk(points, o.batch) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return failed(err)
		}
		insert, err := tx.PrepareContext(ctx, "INSERT INTO point VALUES(?,?,?,?)")
		if err != nil {
			return failed(err)
		}
		for _, p := range part {
			n, ok := names[p.Name]
			if !ok {
				n = len(names) + 1
				names[p.Name] = n
				if _, err := tx.ExecContext(ctx, "INSERT INTO name VALUES(?,?)", n, p.Name); err != nil {
					return failed(err)
				}
			}
			if _, err := insert.ExecContext(ctx, n, p.Step, p.Time, p.Value); err != nil {
				return failed(err)
			}
		}
		insert.Close()
		if err := tx.Commit(); err != nil {
			return failed(err)
		}
	}
	took := time.Since(begun).Seconds()
	if err := db.Close(); err != nil {
		return failed(err)
	}
	return result{Points: len(points), Seconds: took, Bytes: size(folder)}
}

// peer runs peers.py, which times itself.
func peer(name string) func(ctx context.Context, o options, folder string, points []logbook.Point) result {
	return func(ctx context.Context, o options, folder string, points []logbook.Point) result {
		if o.python == "" {
			return result{Missing: "no --python was given"}
		}
		input := filepath.Join(folder, "points.json")
		data, err := json.Marshal(points)
		if err == nil {
			err = os.WriteFile(input, data, 0o644)
		}
		if err != nil {
			return failed(err)
		}
		store := filepath.Join(folder, "store")
		if err := os.Mkdir(store, 0o755); err != nil {
			return failed(err)
		}
		cmd := exec.CommandContext(ctx, o.python, "-c", peers, name, input, store, fmt.Sprint(min(o.batch, 1000)))
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "MLFLOW_DISABLE_TELEMETRY=true", "TRACKIO_DIR="+store, "HF_HUB_OFFLINE=1",
			"PYTHONWARNINGS=ignore",
			"HF_HUB_DISABLE_TELEMETRY=1", "GRADIO_ANALYTICS_ENABLED=False")
		var trouble strings.Builder
		cmd.Stderr = &trouble
		out, err := cmd.Output()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		var r result
		if err == nil {
			err = json.Unmarshal([]byte(lines[len(lines)-1]), &r)
		}
		if err != nil {
			said := strings.Split(strings.TrimSpace(trouble.String()), "\n")
			return failed(fmt.Errorf("%v: %s", err, said[len(said)-1]))
		}
		r.Bytes = size(store)
		return r
	}
}

func size(folder string) (n int64) {
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// syncTime is the median time of a small write that is on the disk.
func syncTime(folder string) float64 {
	f, err := os.CreateTemp(folder, "assay-ingest-")
	if err != nil {
		return math.NaN()
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var times []float64
	for range 50 {
		begun := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return math.NaN()
		}
		if err := f.Sync(); err != nil {
			return math.NaN()
		}
		times = append(times, time.Since(begun).Seconds())
	}
	return stats.Median(times)
}
