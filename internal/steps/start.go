package steps

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/golden"
	"assay/internal/weights"
)

// Start is something in which the two recordings did not begin alike.
type Start struct {
	What   string `json:"what"` // release, device, policy, weight, batch, …
	Name   string `json:"name"`
	A      string `json:"a"`
	B      string `json:"b"`
	Why    string `json:"why"`
	Weighs string `json:"weighs"` // told; loosens; explains: what departs comes of it; spoils: nothing can be compared
	Begins bool   `json:"begins"` // it is of the weights or batches themselves
}

// How much a difference in the start says.
const (
	toldOnly = "told"
	loosens  = "loosens" // TF32: what computes with it is let more, and what departs beside is named before it
	explains = "explains"
	spoils   = "spoils"
)

// policies are what numbers are computed with, and whether it is a finding where numbers depart.
var policies = map[string]struct {
	what   string
	weighs string
}{
	"matmul_tf32":     {"TF32 in matrix products", explains},
	"cudnn_tf32":      {"TF32 in convolutions", explains},
	"rnn_tf32":        {"TF32 in recurrent layers", explains},
	"cudnn_benchmark": {"cuDNN's benchmark, by which it chooses other kernels from run to run,", toldOnly},
	"deterministic":   {"the use of deterministic algorithms", toldOnly},
	"default_dtype":   {"the default type", explains},
	"autocast":        {"autocast", explains},
	"mps_fast_math":   {"MPS' fast math", explains},
}

// start says what differs before the first row.
func (c *comparer) start() error {
	a, b := c.a, c.b
	add := func(what, name string, x, y any, weighs, why string) {
		p, q := said(x), said(y)
		if p != q {
			c.r.Start = append(c.r.Start, Start{What: what, Name: name, A: p, B: q, Why: why, Weighs: weighs})
		}
	}
	add("release", "torch", a.Torch, b.Torch, toldOnly, "")
	add("release", "python", a.Python, b.Python, toldOnly, "")
	add("device", "device", c.r.A.Device, c.r.B.Device, toldOnly, "")
	add("system", "system", a.System, b.System, toldOnly, "")
	for _, side := range []struct {
		name string
		mac  string
	}{{"A", a.rehearsed()}, {"B", b.rehearsed()}} {
		if side.mac != "" {
			c.r.Start = append(c.r.Start, Start{What: "rehearsed", Name: side.name, Weighs: toldOnly,
				Why: side.name + " is a rehearsal: " + side.mac + " computes on the CPU, and its numbers are none of a Mac's"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(union(a.Policy, b.Policy))) {
		p, known := policies[name]
		if !known {
			p.what, p.weighs = name, toldOnly
		}
		if c.tf32.any() && strings.HasSuffix(name, "_tf32") {
			p.weighs = loosens
		}
		x, y := said(a.Policy[name]), said(b.Policy[name])
		add("policy", name, a.Policy[name], b.Policy[name], p.weighs, switched(p.what, x, y))
	}
	add("batch", "size", a.Batch, b.Batch, spoils, fmt.Sprintf("the batches have %s and %s examples: compare recordings of one "+
		"batch each, a pair for each size", said(a.Batch), said(b.Batch)))
	add("random", "seed", a.Seed, b.Seed, toldOnly, "")
	add("random", "drawn by", a.Random, b.Random, toldOnly, "")
	add("moved", "inputs", a.Moved, b.Moved, toldOnly, "")
	add("steps", "recorded", a.last, b.last, toldOnly, "")
	if a.Start != "" && a.Start == b.Start {
		return nil // the same weights and batches, byte by byte
	}
	return c.beginnings()
}

func switched(what, x, y string) string {
	switch {
	case x == "false" && y == "true":
		return what + " is on in B"
	case x == "true" && y == "false":
		return what + " is on in A"
	}
	return fmt.Sprintf("%s is %s in A and %s in B", what, x, y)
}

func union(a, b map[string]any) map[string]any {
	all := map[string]any{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// said is a value in few characters.
func said(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	s := strings.Trim(string(bytes.TrimSpace(b)), `"`)
	if s == "null" || s == "" {
		return "none"
	}
	if len(s) > 80 {
		s = s[:80]
	}
	return s
}

// mostStart bounds a tensor of the start that is read whole.
const mostStart = 256 << 20

// beginnings holds the batches of the two starts against each other.
func (c *comparer) beginnings() error {
	var files [2]*weights.File
	for k, r := range []*Recording{c.a, c.b} {
		f, err := weights.Open(filepath.Join(r.Path, startName))
		if err != nil {
			c.r.Start = append(c.r.Start, Start{What: "batch", Name: "start", Weighs: toldOnly,
				Why: fmt.Sprintf("the batches were not compared: %v", err)})
			return nil
		}
		defer f.Close()
		files[k] = f
	}
	c.batches = map[string]off{}
	others := map[string]weights.Tensor{}
	for _, t := range files[1].Tensors {
		others[t.Name] = t
	}
	for _, t := range files[0].Tensors {
		name, ok := strings.CutPrefix(t.Name, "batch/")
		o, has := others[t.Name]
		if !ok || !has {
			continue
		}
		x, err := sum(t)
		if err != nil {
			return err
		}
		y, err := sum(o)
		if err != nil {
			return err
		}
		d := off{equal: x == y && slices.Equal(t.Shape, o.Shape) && t.DType == o.DType}
		if !d.equal {
			d.relative = apartAll
			if near, err := golden.HowFar(t, o, mostStart); err == nil {
				d.relative = near
			}
			p := precisions["float32"]
			weighs, why := toldOnly, fmt.Sprintf("%s is %.1e off: moved by rounding", t.Name, d.relative)
			if d.relative > p[0] {
				weighs, why = spoils, t.Name+" is not the same: what comes of it cannot be compared"
			}
			c.r.Start = append(c.r.Start, Start{What: "batch", Name: name, Why: why, Weighs: weighs, Begins: true})
			if len(c.r.Start) > mostRowsKept {
				return nil
			}
		}
		c.batches[name] = d
	}
	return nil
}

// sum is the SHA-256 of a tensor's bytes.
func sum(t weights.Tensor) (s [sha256.Size]byte, err error) {
	from, err := t.Open()
	if err != nil {
		return s, err
	}
	defer from.Close()
	h := sha256.New()
	if _, err := io.Copy(h, from); err != nil {
		return s, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// startWeight tells of a weight that is not the same at the start.
func (c *comparer) startWeight(name string, d off, within float64) {
	s := Start{What: "weight", Name: name, Weighs: toldOnly,
		Why: fmt.Sprintf("%s is %.1e off at the start, within the tolerance", name, d.relative)}
	if d.relative > within {
		s.Weighs, s.Begins = explains, true
		s.Why = fmt.Sprintf("%s is %.1e off at the start", name, d.relative)
		if d.relative >= apartAll {
			s.Why = name + " is not the same at the start"
		}
		if note := c.ordered(name); note != "" {
			d.note = note
		}
		if d.note != "" {
			s.Why += ": " + d.note
		}
	}
	if n := len(c.r.Start); n < 2*mostRowsKept {
		c.r.Start = append(c.r.Start, s)
	}
}

// ordered says what makes B's weight of A's where its axes or values are in another order, or "".
func (c *comparer) ordered(name string) string {
	var two [2]weights.Tensor
	for k, r := range []*Recording{c.a, c.b} {
		f, err := weights.Open(filepath.Join(r.Path, startName))
		if err != nil {
			return ""
		}
		defer f.Close()
		i := slices.IndexFunc(f.Tensors, func(t weights.Tensor) bool { return t.Name == "weight/"+name })
		if i < 0 {
			return ""
		}
		two[k] = f.Tensors[i]
	}
	return golden.InAnotherOrder(two[0], two[1], mostStart, precisions["float32"][0])
}

// Setting is one of a module that is not the same.
type Setting struct {
	Module string `json:"module"`
	What   string `json:"what"`
	A      string `json:"a"`
	B      string `json:"b"`
}

// settings gathers those of modules, each of the first call.
type settings struct {
	seen   map[string]bool
	differ []Setting
}

func newSettings() *settings { return &settings{seen: map[string]bool{}} }

func (s *settings) add(x, y *line) {
	if x.Kind != kindModule || s.seen[x.Module] || len(s.differ) >= 2*mostRowsKept {
		return
	}
	s.seen[x.Module] = true
	if x.Class != y.Class {
		s.differ = append(s.differ, Setting{x.Module, "class", x.Class, y.Class})
	}
	for _, name := range slices.Sorted(maps.Keys(union(x.Settings, y.Settings))) {
		if p, q := said(x.Settings[name]), said(y.Settings[name]); p != q {
			s.differ = append(s.differ, Setting{x.Module, name, p, q})
		}
	}
}
