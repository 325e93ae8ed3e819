package logbook

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// corpus varies recorded runs as runs vary: what was measured differs in every digit, names, ids and times of their
// own; packages, operators and most of the host are the same. They are of several projects, machines and releases.
// seeds are names of testdata/runs; digits is a run of 11 s.
type corpus struct {
	seeds [][]byte
	began time.Time
}

func newCorpus(t testing.TB, seeds ...string) *corpus {
	t.Helper()
	c := &corpus{began: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range seeds {
		packed, err := os.ReadFile(filepath.Join("testdata", "runs", name+".json.zst"))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := d.DecodeAll(packed, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.seeds = append(c.seeds, doc)
	}
	return c
}

var (
	corpusProjects = []string{"digits", "saliency", "segment", "whisper-small", "denoise", "vit-tiny", "pointnet",
		"unet"}
	corpusMachines = [][2]string{{"AMD EPYC", "2 logical"}, {"AMD EPYC 9354", "32 logical"}, {"Ryzen 9 7950X",
		"16 logical"}}
	corpusReleases = []string{"2.15.0+cu132", "2.14.0+cu131", "2.13.1+cu131"}
)

// run makes the run of a number; the same number gives the same bytes.
func (c *corpus) run(i int) []byte {
	r := rand.New(rand.NewPCG(uint64(i), 17))
	seed := c.seeds[r.IntN(len(c.seeds))]
	at := c.began.Add(time.Duration(i)*97*time.Second + time.Duration(r.IntN(int(time.Second))))
	id := fmt.Sprintf("%s-train-%06x", at.Format("20060102-150405"), i&0xffffff)
	project := corpusProjects[r.IntN(len(corpusProjects))]
	machine := r.IntN(len(corpusMachines))
	release := corpusReleases[r.IntN(len(corpusReleases))]

	out := make([]byte, 0, len(seed)+1024)
	f := &fields{seen: map[string]int{}, changed: true}
	pace := 0.8 + 0.4*r.Float64()
	was, is := "", "" // an operator's own time, of which many have no other
	for i := 0; i < len(seed); {
		switch b := seed[i]; {
		case b == '"':
			end := f.text(seed, i)
			word := string(seed[i:end])
			switch string(f.key) {
			case "id":
				word = strconv.Quote(id)
			case "started":
				word = strconv.Quote(at.Format(time.RFC3339Nano))
			case "ended":
				word = strconv.Quote(at.Add(time.Duration(pace * 11e9)).Format(time.RFC3339Nano))
			default:
				if strings.Contains(word, "/home/ada/digits") {
					word = strings.ReplaceAll(word, "/home/ada/digits", "/home/ada/"+project)
				}
				word = strings.ReplaceAll(word, "2.15.0+cu132", release)
				if string(f.name) == "chip" || string(f.name) == "cpu.cores" {
					word = strings.NewReplacer(corpusMachines[0][0], corpusMachines[machine][0], corpusMachines[0][1],
						corpusMachines[machine][1]).Replace(word)
				}
				if string(f.key) == "note" {
					word = noteNumber.ReplaceAllStringFunc(word, func(n string) string {
						if len(n) < 3 {
							return n
						}
						return strconv.Itoa(100 + r.IntN(900))
					})
				}
			}
			if end < len(seed) && seed[end] == ':' { // a field
				word = string(seed[i:end])
			}
			out = append(out, word...)
			i = end
		case isNumber(b):
			end := numberEnd(seed, i)
			text := string(seed[i:end])
			now := is
			if string(f.key) != "total_seconds" || text != was {
				now = varied(r, text, f, pace)
			}
			if string(f.key) == "self_seconds" {
				was, is = text, now
			}
			out = append(out, now...)
			i = end
		default:
			out = append(out, b)
			i++
		}
	}
	return out
}

// varied gives another number of the same kind: as many decimals, a float32 where it was one.
func varied(r *rand.Rand, text string, f *fields, pace float64) string {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || bytes.HasPrefix(f.name, []byte("lr ")) {
		return text // a schedule is the same in every run
	}
	_, decimals, _ := strings.Cut(text, ".")
	switch {
	case len(decimals) >= 5 && !strings.Contains(text, "e"):
		if v *= pace; string(f.key) != "start" { // those follow one another
			v *= 1 + 0.05*r.NormFloat64()
		} else {
			v += 0.0005 * r.Float64()
		}
		switch {
		case len(decimals) <= 9: // nanoseconds
			v = math.Round(v*1e9) / 1e9
		case float64(float32(v)) == v:
			v = float64(float32(v))
		}
		if s, err := strconv.ParseFloat(text, 64); err == nil && float64(float32(s)) == s {
			v = float64(float32(v))
		}
	case decimals == "" && math.Abs(v) > 1e6: // bytes, in pages
		v = math.Round(v*(1+0.03*r.NormFloat64())/4096) * 4096
	default:
		return text
	}
	return string(appendFloat(nil, v))
}

// BenchmarkAdd keeps varied runs, each in a transaction of its own, on the disk before the next begins. B/run is how
// much the file grows.
func BenchmarkAdd(b *testing.B) {
	c := newCorpus(b, "digits")
	book, err := Open(b.Context(), filepath.Join(b.TempDir(), "l.db"))
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		b.StopTimer()
		doc := c.run(i)
		i++
		b.StartTimer()
		if _, added, err := book.Add(b.Context(), doc); err != nil || !added {
			b.Fatal(added, err)
		}
	}
	b.StopTimer()
	if err := book.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(size(book.path))/float64(i), "B/run")
}

// BenchmarkVerify verifies a logbook of 300 runs; ms/run is of one of them.
func BenchmarkVerify(b *testing.B) {
	const runs = 300
	book := corpusBook(b, filepath.Join(b.TempDir(), "l.db"), runs, "digits")
	defer book.Close()
	for b.Loop() {
		if c, err := book.Verify(b.Context(), ""); err != nil || len(c.Problems) > 0 {
			b.Fatal(c, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N)/runs, "ms/run")
}

// corpusBook keeps so many varied runs, many in a transaction.
func corpusBook(t testing.TB, path string, runs int, seeds ...string) *Book {
	t.Helper()
	c := newCorpus(t, seeds...)
	book, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < runs; i += mostTogether {
		all := make([]*newcomer, min(mostTogether, runs-i))
		inParallel(len(all), func(n int) {
			if all[n], err = prepare(c.run(i + n)); err != nil {
				t.Error(err)
			}
		})
		if err := book.keep(context.Background(), all...); err != nil {
			t.Fatal(err)
		}
	}
	return book
}

// TestSizeOfARun: a run of 11 s like others takes at most 20 KB, with its rows, indexes and its share of a base.
func TestSizeOfARun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	book := corpusBook(t, path, 96, "digits")
	defer book.Close()
	var all, first int64
	if err := book.db.QueryRow(`SELECT sum(pgsize), (SELECT count(*) FROM base) FROM dbstat
		WHERE name NOT IN ('base', 'base_copy')`).Scan(&all, &first); err != nil {
		t.Fatal(err)
	}
	empty := mustOpen(t, filepath.Join(t.TempDir(), "empty.db"))
	var none int64
	if err := empty.db.QueryRow("SELECT sum(pgsize) FROM dbstat").Scan(&none); err != nil {
		t.Fatal(err)
	}
	if run := (all - none) / 96; run > 20_000-2*mostBase/8/mostLeaning || first < 1 {
		t.Errorf("%d bytes a run beside %d bases", run, first)
	}
	sound(t, book)
}
