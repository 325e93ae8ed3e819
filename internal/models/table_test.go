package models

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"assay/internal/atlas"
	"assay/internal/facts"
	"assay/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// TestBuiltIn: the table that is built in is one, is written as it is read, speaks of the atlas's releases, and names
// facts and operators that there are.
func TestBuiltIn(t *testing.T) {
	table := Open()
	if len(table.Models) < 130 {
		t.Errorf("it has %d models", len(table.Models))
	}
	var written bytes.Buffer
	if err := table.Write(&written); err != nil || !bytes.Equal(written.Bytes(), built) {
		t.Errorf("written anew it is another (%v)", err)
	}
	a := &atlas.Atlas{}
	var releases []string
	for _, r := range a.Releases("torch") {
		releases = append(releases, r.Version)
	}
	if !slices.Equal(releases, table.Releases) {
		t.Errorf("it has the releases %v, and the atlas %v: make it anew", table.Releases, releases)
	}
	seen := map[string]bool{}
	for i := range table.Models {
		m := &table.Models[i]
		if seen[m.Name] {
			t.Errorf("%s stands in it twice", m.Name)
		}
		seen[m.Name] = true
		for _, x := range m.Met {
			if facts.Load().Fact(x.Fact) == nil {
				t.Errorf("%s: no fact is called %s: make it anew", m.Name, x.Fact)
			}
		}
		for _, op := range m.Operators() {
			if len(a.Find(op)) == 0 {
				t.Errorf("%s: assay ops %s finds nothing", m.Name, op)
			}
		}
		for _, release := range table.Releases {
			answer := table.At(m, release)
			if !slices.Contains(States, answer.State) {
				t.Errorf("%s on %s: %q", m.Name, release, answer.State)
			}
			for _, x := range m.Met { // a fact that was met speaks of the release
				at := slices.Index(releases, release)
				from, to := slices.Index(releases, x.From), slices.Index(releases, x.To)
				if from <= at && at <= to && !facts.Load().Fact(x.Fact).Holds(release) {
					t.Errorf("%s: %s does not hold in %s", m.Name, x.Fact, release)
				}
			}
		}
	}
	for _, l := range table.Limits {
		if l.Bytes <= 0 || l.Bytes > int64(l.GiB)<<30 {
			t.Errorf("limit %+v", l)
		}
	}
}

// TestIDs: each of the hundred ids has a model of the table or a reason why not, and stands there once.
func TestIDs(t *testing.T) {
	table, seen := Open(), map[string]bool{}
	for _, a := range ids() {
		if seen[a.ID] {
			t.Errorf("%s stands there twice", a.ID)
		}
		seen[a.ID] = true
		stands := func(m Model) bool { return m.Name == a.Model }
		if a.About == "" || a.Model != "" && !slices.ContainsFunc(table.Models, stands) {
			t.Errorf("%+v: the table has no such model", a)
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d ids", len(seen))
	}
	for id, want := range map[string]string{"sentence-transformers/all-MiniLM-L6-v2": "all-MiniLM-L6-v2",
		"baai/bge-M3": "xlm-roberta-base", "bge-m3": "xlm-roberta-base", "facebook/detr-resnet-50": "detr-resnet-50",
		"timm/resnet50.a1_in1k": "timm/resnet50"} {
		if got, known := table.Stands(id); !known || got.Model != want {
			t.Errorf("%s: %+v", id, got)
		}
	}
	for _, id := range []string{"nobody/nothing", "gpt", "openai-community/", ""} {
		if got, known := table.Stands(id); known {
			t.Errorf("%s: %+v", id, got)
		}
	}
	if got, known := table.Stands("amazon/chronos-2"); !known || got.Model != "" || got.About == "" {
		t.Errorf("a known id without a model: %+v", got)
	}
}

// sample is a table of one model for each state, in two or three releases.
const sample = "made\ttorch\t2.15.0\nmade\tMac\tm1-16gb\nreleases\t2.4.1 2.5.1 2.6.0\n" +
	"limit\t8\t15\t5000000000\tobserved\nlimit\t16\t15\t11000000000\tobserved\n" +
	"model\tgood\tdetection\tGood\tnet\t3,8,8\t1000000\tshapes\t-\npeak\t1\t1000000000\t-\npeak\t8\t4000000000\t-\n" +
	"span\t2.4.1\t2.6.0\tok\tdone\t-\t-\t-\t-\n" +
	"model\tlarge\tdetection\tLarge\tnet\t3,8,8\t1000000\tshapes\t-\npeak\t1\t6000000000\t-\npeak\t8\t60000000000\t-\n" +
	"span\t2.4.1\t2.6.0\tok\tdone\t-\t-\t-\t-\n" +
	"model\tlacks\tdetection\tLacks\tnet\t3,8,8\t1000000\tshapes\tok\npeak\t1\t-\tno reason\npeak\t8\t1000\t-\n" +
	"span\t2.4.1\t2.5.1\tmissing operator\tforward\taten::isneginf\tok\taten::isneginf\tError: no\n" +
	"span\t2.6.0\t2.6.0\tok\tdone\t-\t-\t-\t-\n" +
	"model\twrong\ttext\tWrong\tnet\t3,8,8\t1000000\tvalues\tok\npeak\t1\t1000\t-\npeak\t8\t1000\t-\n" +
	"span\t2.4.1\t2.4.1\targument\tbackward\taten::mm\t-\t-\tRuntimeError: no\n" +
	"span\t2.5.1\t2.6.0\twrong\tdone\taten::mm\t-\t-\t-\n" +
	"met\tmatmul-large-output\tsure\t2.5.1\t2.6.0\taten::mm\n" +
	"met\tcat-over-2-31\tperhaps\t2.6.0\t2.6.0\taten::cat\n"

func TestStates(t *testing.T) {
	table, err := Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ model, release, state, why, since, later string }{
		{"good", "2.6.0", Runs, "", "2.4.1", ""},
		{"lacks", "2.5.1", FallsBack, "only with PYTORCH_ENABLE_MPS_FALLBACK=1: aten::isneginf", "2.4.1", "2.6.0"},
		{"lacks", "2.6.0", Runs, "", "2.6.0", ""},
		{"wrong", "2.4.1", Stops, "aten::mm in backward: RuntimeError: no", "2.4.1", ""},
		{"wrong", "2.6.0", Wrong, "aten::mm: matmul-large-output", "2.5.1", ""},
	} {
		a := table.At(table.Find(c.model)[0], c.release)
		if a.State != c.state || a.Why != c.why || a.Since != c.since || a.Later != c.later {
			t.Errorf("%s on %s: %+v", c.model, c.release, a)
		}
	}
	want := []string{"2.4.1 to 2.5.1: falls back, only with PYTORCH_ENABLE_MPS_FALLBACK=1: aten::isneginf",
		"since 2.6.0: runs"}
	if got := table.History(table.Find("lacks")[0]); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestAdvise(t *testing.T) {
	table, err := Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	small, _ := table.Limit(8, 15)
	advice := table.Advise("detection", "2.5.1", small)
	var names []string
	for _, m := range advice.List {
		names = append(names, m.Name)
	}
	if !slices.Equal(names, []string{"good", "lacks"}) {
		t.Errorf("what runs goes before what falls back: %v", names)
	}
	if len(advice.LeftOut) != 1 || !strings.Contains(advice.LeftOut[0].Why, "batch 1 takes 5.59 GiB") {
		t.Errorf("left out %+v", advice.LeftOut)
	}
	larger, _ := table.Limit(16, 15)
	if advice := table.Advise("detection", "2.5.1", larger); len(advice.List) != 3 || advice.List[1].Batch != 1 {
		t.Errorf("with more memory: %+v", advice.List)
	}
	if advice := table.Advise("text", "2.6.0", larger); len(advice.List) != 0 ||
		!strings.HasPrefix(advice.LeftOut[0].Why, "wrong numbers: aten::mm") {
		t.Errorf("what comes out wrong is left out: %+v", advice)
	}
	part := *table.Find("good")[0]
	part.Name = "net/good/2-layers"
	table.Models = []Model{part}
	if advice := table.Advise("detection", "2.6.0", larger); len(advice.List) != 0 ||
		!strings.Contains(advice.LeftOut[0].Why, "the whole takes is not known: 2 layers of it") {
		t.Errorf("a part of a model fits, and nothing is known of the whole: %+v", advice)
	}
	if _, known := table.Limit(7, 15); known {
		t.Error("a limit that the table has not")
	}
}

func TestTask(t *testing.T) {
	table, _ := Parse([]byte(sample))
	for word, want := range map[string]string{"Detection": "detection", "object-detection": "detection",
		"NLP": "text", "text": "text"} {
		if got, known := table.Task(word); got != want || !known {
			t.Errorf("%s: %q %v", word, got, known)
		}
	}
	if _, known := table.Task("juggling"); known {
		t.Error("a task that the table has not")
	}
}

// TestRefused: a line that is not well formed is an error with its number, and no panic.
func TestRefused(t *testing.T) {
	for _, text := range []string{"nonsense", "model\tx", "peak\t1\t2\t-",
		"releases\t2.4.1\nspan\t2.4.1\t2.4.1\tok\t-\t-\t-\t-\t-",
		strings.Replace(sample, "1000000\tshapes", "many\tshapes", 1),
		strings.Replace(sample, "\tsure\t", "\tsurely\t", 1),
		strings.Replace(sample, "span\t2.6.0\t2.6.0\tok\tdone\t-\t-\t-\t-\n", "", 1), // a release without a span
		strings.Replace(sample, "peak\t8\t1000\t-\n", "", 1), strings.Replace(sample, "limit\t8", "limit\teight", 1),
		strings.Replace(sample, "2.5.1\t2.6.0\taten::mm", "2.5.1\t9.9\taten::mm", 1)} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("accepted: %.60q", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := Parse(text)
		if err != nil {
			return
		}
		for i := range table.Models {
			for _, r := range table.Releases {
				table.At(&table.Models[i], r)
			}
			table.History(&table.Models[i])
		}
	})
}
