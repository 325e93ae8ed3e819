package golden

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"assay/internal/fault"
)

// wanted is what is to be said of a fault.
type wanted struct {
	module  string // that departs first; "": none
	input   string
	weights string // part of what is said of its weights
	setting string // WHERE.WHAT that is listed
	part    string // that departs
	back    string // module that is the first to differ on the way back from the loss
}

func (w wanted) check(t *testing.T, r *Result) {
	t.Helper()
	shown := func(format string, a ...any) {
		t.Helper()
		var text bytes.Buffer
		r.Text(&text, 100)
		t.Errorf("%s\n%s", fmt.Sprintf(format, a...), text.String())
	}
	if r.Answer != Departs || r.Status() != fault.GateFailed {
		shown("answer %q, %d", r.Answer, r.Status())
	}
	switch d := r.Departs; {
	case w.module == "" && d != nil:
		shown("%s departs", d.A)
	case w.module != "" && d == nil:
		shown("no module departs")
	case d != nil && (d.A != w.module || d.Input != w.input || !strings.Contains(d.Weights, w.weights)):
		shown("%s departs, its input %s, its weights %s", d.A, d.Input, d.Weights)
	}
	found := map[string]bool{}
	for _, s := range r.Settings {
		found[s.Where+"."+s.What] = true
	}
	if w.setting != "" && !found[w.setting] || w.setting == "" && len(found) > 0 {
		shown("settings %v", found)
	}
	for _, p := range r.Parts {
		if p.What == w.part && p.Agrees {
			shown("%s agree", p.What)
		}
	}
	if b := r.Backward; w.back != "" && (b == nil || b.Module != w.back) {
		shown("on the way back %+v", b)
	}
}

// faults are those that ports make. Of each: what it does to a recorded net, and what is to be said. faults.py makes
// them in real nets, under the same names.
var faults = map[string]struct {
	do func(m *made)
	wanted
}{
	"kernel with height and width exchanged": {func(m *made) {
		m.tensors["weight/branch2.weight"] = permuted(m.tensors["weight/branch2.weight"], []int{0, 1, 3, 2})
		m.offFrom(3)
	}, wanted{"branch2", "agrees", "[0 1 3 2]: transposed", "", "weights", ""}},
	"kernel transposed twice": {func(m *made) {
		m.tensors["weight/branch4.weight"] = permuted(m.tensors["weight/branch4.weight"], []int{1, 0, 2, 3})
		m.offFrom(4)
	}, wanted{"branch4", "agrees", "[1 0 2 3]: transposed", "", "weights", ""}},
	"flipped kernel": {func(m *made) {
		m.tensors["weight/conv1.weight"] = flipped(m.tensors["weight/conv1.weight"], 2)
		m.offFrom(0)
	}, wanted{"conv1", "agrees", "axis 2 reversed", "", "weights", ""}},
	"epsilon of a batch norm": {func(m *made) {
		m.Modules[1].Values["epsilon"] = 1e-3
		m.offFrom(1)
	}, wanted{"bn1", "agrees", "agree", "bn1.epsilon", "outputs", ""}},
	"momentum of a batch norm": {func(m *made) {
		m.Modules[1].Values["momentum"] = 0.01
		m.off("update/1/bn1.running_mean", "update/1/bn1.running_var")
	}, wanted{"", "", "", "bn1.momentum", "statistics 1", ""}},
	"dropped bias": {func(m *made) {
		m.drop("mix.bias")
		m.offFrom(5)
	}, wanted{"mix", "agrees", "mix.bias is in A alone", "", "outputs", ""}},
	"means in the order of BGR": {func(m *made) {
		m.off("fed/0")
		m.offFrom(0)
	}, wanted{"conv1", "departs", "agree", "", "outputs", ""}},
	"pool padded on the other side": {func(m *made) { m.offFrom(2) }, wanted{"pool", "agrees", "", "", "outputs", ""}},
	"align_corners": {func(m *made) {
		m.Modules[6].Values["align_corners"] = true
		m.offFrom(6)
	}, wanted{"up", "agrees", "", "up.align_corners", "outputs", ""}},
	"dilation of 2 for 4": {func(m *made) {
		m.Modules[4].Values["dilation"], m.Modules[4].Values["padding"] = []any{2.0, 2.0}, []any{2.0, 2.0}
		m.offFrom(4)
	}, wanted{"branch4", "agrees", "agree", "branch4.dilation", "outputs", ""}},
	"branches in another order": {func(m *made) {
		fed := m.tensors["fed/5"]
		half := len(fed.values) / 2
		other := append(append([]float64{}, fed.values[half:]...), fed.values[:half]...)
		m.offFrom(5)
		m.tensors["fed/5"] = array{fed.shape, other}
	}, wanted{"mix", "departs", "agree", "", "outputs", ""}},
	"Adam's epsilon": {func(m *made) {
		m.Optimizer["epsilon"] = 1e-2
		m.scale("update/1/", 0.7)
	}, wanted{"", "", "", "optimizer.epsilon", "update 1", ""}},
	"gradient of a function of one's own": {func(m *made) {
		m.scaleGradients(0.5, "conv1.weight", "conv1.bias", "bn1.weight", "bn1.bias", "branch2.weight", "branch2.bias")
	}, wanted{"", "", "", "", "gradients", "branch2"}},
	"Adam without bias correction": {func(m *made) {
		m.Optimizer["bias_correction"] = false
		m.scale("update/1/", 3.16)
	}, wanted{"", "", "", "optimizer.bias_correction", "update 1", ""}},
}

// scale makes each update so many times as large.
func (m *made) scale(prefix string, by float64) {
	for _, name := range m.names {
		weight, ok := strings.CutPrefix(name, prefix)
		if !ok || strings.Contains(weight, "running") {
			continue
		}
		before, after := m.tensors["weight/"+weight], m.tensors[name]
		for i, v := range before.values {
			after.values[i] = v + by*(after.values[i]-v)
		}
	}
}

func (m *made) scaleGradients(by float64, names ...string) {
	for _, name := range names {
		values := m.tensors["gradient/"+name].values
		for i := range values {
			values[i] *= by
		}
	}
}

func TestFaults(t *testing.T) {
	right := net().open(t)
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			m := net()
			f.do(m)
			f.check(t, compared(t, right, m.open(t)))
		})
	}
}

// The input of the module that mixes branches says how it departs.
func TestOrderOfBranches(t *testing.T) {
	m := net()
	faults["branches in another order"].do(m)
	r := compared(t, net().open(t), m.open(t))
	if !strings.Contains(r.Departs.InputHow, "in another order") {
		t.Errorf("of the input is said %q", r.Departs.InputHow)
	}
}
