package golden

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/fault"
)

// What is no golden file, or not as it should be, is one error that names the file and says why.
func TestHostile(t *testing.T) {
	about := func(change func(m *Meta)) string {
		m := net().Meta
		m.Calls = slices.Clone(m.Calls)
		change(&m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, c := range map[string]struct{ text, said string }{
		"no JSON":           {"{", "what it says of itself"},
		"no object":         {"[]", "what it says of itself"},
		"another release's": {`{"version": 2, "calls": 7}`, "it is of version 2, and this assay reads 1"},
		"wrong types":       {`{"version": 1, "calls": 7}`, "what it says of itself"},
		"a loss in words":   {`{"version": 1, "losses": ["high"]}`, "is no number"},
		"a call from later": {about(func(m *Meta) { m.Calls[1].From = from(1) }),
			`call 1, of "bn1", has its input from call 1`},
		"from before all": {about(func(m *Meta) { m.Calls[1].From = from(-2) }), `has its input from call -2`},
		"a call too many": {about(func(m *Meta) { m.Calls = append(m.Calls, m.Calls[0]) }),
			`lacks the output of call 9, of "conv1"`},
		"too many modules": {about(func(m *Meta) { m.Modules = make([]Module, mostModules+1) }), "50000 is the most"},
		"too many words":   {`{"version": 1, "file": "` + strings.Repeat("x", mostText) + `"}`, "are the most"},
	} {
		t.Run(name, func(t *testing.T) {
			path := net().written(t, c.text)
			g, err := Open(path)
			if err == nil {
				g.Close()
				t.Fatal("it is opened")
			}
			said := err.Error()
			if !strings.Contains(said, c.said) || !strings.Contains(said, path) || strings.Contains(said, "\n") {
				t.Errorf("%v", err)
			}
			if hint := fault.HintOf(err); hint == "" {
				t.Error("it is not said what to do")
			}
		})
	}
	path := filepath.Join(t.TempDir(), "notes.safetensors")
	if err := os.WriteFile(path, []byte("not a golden file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if _, err := Open(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// A loss that is no number is one, on both sides as on one.
func TestLossOfNaN(t *testing.T) {
	a, b := net(), net()
	for _, m := range []*made{a, b} {
		m.Losses = nil
	}
	with := func(m *made) *Golden {
		text, _ := json.Marshal(m.Meta)
		g, err := Open(m.written(t, strings.Replace(string(text), `"losses":null`, `"losses":["nan", 1e400]`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.Close() })
		return g
	}
	one := with(a)
	if !math.IsNaN(float64(one.Losses[0])) || !math.IsInf(float64(one.Losses[1]), 1) {
		t.Fatalf("losses %v", one.Losses)
	}
	if r := compared(t, one, with(b)); r.Answer != Same {
		t.Errorf("%s: %s", r.Answer, r.Why)
	}
	r := compared(t, one, net().open(t))
	if r.Answer != Departs || r.Why != "loss: beyond the tolerance" {
		t.Errorf("%s: %s", r.Answer, r.Why)
	}
}

func FuzzOpen(f *testing.F) {
	seed, err := os.ReadFile(net().path(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:200])
	right := net().open(f)
	path := filepath.Join(f.TempDir(), "fuzzed.safetensors")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		g, err := Open(path)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
			return
		}
		defer g.Close()
		for _, pair := range [][2]*Golden{{right, g}, {g, right}} {
			r, err := Compare(pair[0], pair[1], Usual)
			if err == nil {
				err = r.Text(nowhere{}, 100)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
		}
	})
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
