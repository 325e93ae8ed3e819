package golden

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func part(t *testing.T, r *Result, what string) Part {
	t.Helper()
	for _, p := range r.Parts {
		if p.What == what {
			return p
		}
	}
	t.Fatalf("no part %q of %v", what, r.Parts)
	return Part{}
}

func TestTheSame(t *testing.T) {
	r := compared(t, net().open(t), net().open(t))
	if r.Answer != Same || r.Departs != nil || len(r.Settings) > 0 || len(r.Modules) != 9 {
		t.Errorf("%+v", r.Compared)
	}
}

// What cannot be told is not the same.
func TestNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		do  func(m *made)
		why string
	}{
		"other inputs":  {func(m *made) { m.off("input/0"); m.offFrom(0) }, "the inputs are not the same"},
		"an input more": {func(m *made) { m.put("input/1", random("more", 2)) }, "the inputs are not the same"},
		"a target": {func(m *made) { m.put("target/0", random("wanted", 2)) },
			"the targets of the loss are not the same"},
		"dropout": {func(m *made) {
			m.Modules = append(m.Modules, Module{"drop", "Dropout", map[string]any{"rate": 0.5}, true})
			m.offFrom(3)
		}, "drop drops at random"},
		"a weight more": {func(m *made) {
			m.put("weight/extra.weight", random("extra", 3, 3))
		}, "some weights have no partner"},
		"other weights": {func(m *made) {
			for i, name := range m.names {
				if strings.HasPrefix(name, "weight/") {
					m.names[i] = name + ".moved"
					m.tensors[m.names[i]] = array{[]int64{7}, make([]float64, 7)}
				}
			}
		}, "no weight of A has a partner in B"},
	} {
		t.Run(name, func(t *testing.T) {
			m := net()
			c.do(m)
			for _, sides := range [][2]*Golden{{net().open(t), m.open(t)}, {m.open(t), net().open(t)}} {
				r := compared(t, sides[0], sides[1])
				if r.Answer != NotKnown || !strings.Contains(r.Why, c.why) {
					t.Errorf("%s: %s", r.Answer, r.Why)
				}
			}
		})
	}
}

// A weight whose gradient is next to nothing and differs is left out of updates, and named; one that agrees stays.
func TestRoundingAlone(t *testing.T) {
	small := func(m *made, by float64) *made {
		for i := range m.tensors["gradient/conv1.bias"].values {
			m.tensors["gradient/conv1.bias"].values[i] *= by
		}
		return m
	}
	noisy := net()
	noisy.off("gradient/conv1.bias", "update/1/conv1.bias")
	noise := noisy.tensors["update/1/conv1.bias"]
	for i, v := range noisy.tensors["weight/conv1.bias"].values {
		noise.values[i] = v + 0.001*noise.values[i]
	}
	r := compared(t, small(net(), 1e-6).open(t), small(noisy, 1e-6).open(t))
	p := part(t, r, "update 1")
	if r.Answer != Same || !slices.Equal(p.Left, []string{"conv1.bias"}) {
		t.Errorf("%s, %+v", r.Answer, p)
	}
	var text bytes.Buffer
	if r.Text(&text, 200); !strings.Contains(text.String(), "left out, since its gradient is rounding alone: conv1.bias") {
		t.Error(text.String())
	}
	r = compared(t, small(net(), 1e-6).open(t), small(net(), 1e-6).open(t))
	if p := part(t, r, "update 1"); len(p.Left) > 0 {
		t.Errorf("%+v", p)
	}
}

// title is a name with a large letter, "" for the model itself.
func title(name string) string {
	return strings.ToUpper(name[:min(1, len(name))]) + name[min(1, len(name)):]
}

// A side with another framework's layout, names and an activation within its layers is the same model.
func TestAnotherFramework(t *testing.T) {
	last := func(a array) array { return permuted(a, []int{0, 2, 3, 1}) }
	a, b := net(), net()
	before := a.tensors["call/0"]
	relu := array{before.shape, slices.Clone(before.values)}
	for i, v := range before.values {
		relu.values[i] = max(v, 0)
	}
	a.put("fed/1", relu) // conv1's relu is a function in A, so that bn1 is fed by no call
	a.Calls[1].From = from(-1)
	b.Layout = "NHWC"
	b.tensors["call/0"] = relu // and within the layer in B
	b.Modules[0].Values["activation"] = "relu"
	for i, name := range b.names {
		switch head, rest, _ := strings.Cut(name, "/"); head {
		case "weight", "gradient", "update":
			b.names[i] = head + "/" + title(rest)
			if head == "update" {
				b.names[i] = "update/1/" + title(rest[2:])
			}
			b.tensors[b.names[i]] = b.tensors[name]
		case "call", "fed", "input", "output":
			b.tensors[name] = last(b.tensors[name])
		}
	}
	for i := range b.Modules {
		b.Modules[i].Module = title(b.Modules[i].Module)
	}
	for i := range b.Calls {
		b.Calls[i].Module = title(b.Calls[i].Module)
	}
	r := compared(t, a.open(t), b.open(t))
	if r.Answer != Same || r.Departs != nil || len(r.Modules) != 9 {
		t.Errorf("%s: %s, departs %+v", r.Answer, r.Why, r.Departs)
	}
	if len(r.Paired) != len(netWeights) || r.Paired[0].How != bySpell {
		t.Errorf("paired %v", r.Paired)
	}
	// Where such a pair departs, the input of either side is found.
	b.off("call/1")
	r = compared(t, a.open(t), b.open(t))
	if r.Departs == nil || r.Departs.A != "bn1" || r.Departs.Input != "agrees" {
		t.Errorf("departs %+v", r.Departs)
	}
}

func TestPairs(t *testing.T) {
	named := func(names ...string) []named {
		var all []named
		for i, n := range names {
			name, same, _ := strings.Cut(n, ":")
			all = append(all, struct {
				name, same string
				at         int
			}{name, same, i})
		}
		return all
	}
	for _, c := range []struct{ a, b, a1, want, how string }{
		{"x.weight:4", "x.weight:4", "x.weight", "x.weight", byName},
		{"conv1.conv1_1.weight:4", "conv1_conv1_1/weight:4", "conv1.conv1_1.weight", "conv1_conv1_1/weight", bySpell},
		{"head.weight:4", "model.head.weight:4", "head.weight", "model.head.weight", byEnd},
		{"a.weight:4", "z.weight:4", "a.weight", "z.weight", byOrder},
		{"a.weight:4", "z.weight:5", "a.weight", "", ""},
	} {
		p := pair(named(c.a), named(c.b))
		if p.to[c.a1] != c.want || p.how[c.a1] != c.how {
			t.Errorf("%s and %s: %q, %q", c.a, c.b, p.to[c.a1], p.how[c.a1])
		}
	}
	// Of what two could be, neither is taken by its end; the order tells.
	p := pair(named("block.0.w:4", "block.1.w:4"), named("w:4", "v:4"))
	if p.to["block.0.w"] != "w" || p.how["block.0.w"] != byOrder || p.to["block.1.w"] != "v" {
		t.Errorf("%v", p.to)
	}
}

// What a file says of itself reaches a terminal as harmless text.
func TestStrangersText(t *testing.T) {
	m := net()
	m.File, m.Release = "\x1b]0;owned\a.py", "1\n2"
	m.Modules[1].Module, m.Calls[1].Module, m.Calls[1].Kind = "bn\x1b[2J", "bn\x1b[2J", "\x1b[31m"
	m.Modules[1].Values["eps\x1b[1m"] = "\x1b[0m"
	m.Modules = append(m.Modules, Module{"drop\x1b[2J", "Dropout", map[string]any{"rate": 0.5}, true})
	other := net()
	other.Modules[1].Module, other.Calls[1].Module = "bn\x1b[2J", "bn\x1b[2J"
	other.Modules[1].Values["eps\x1b[1m"] = "other"
	m.offFrom(1)
	r := compared(t, m.open(t), other.open(t))
	var text bytes.Buffer
	if err := r.Text(&text, 100); err != nil {
		t.Fatal(err)
	}
	told := len(r.Settings) > 0 && r.Departs != nil && r.Answer == NotKnown
	if !told || strings.ContainsAny(text.String(), "\x1b\a") {
		t.Errorf("%q", text.String())
	}
}
