package atlas

import (
	"slices"
	"strings"
	"testing"
)

// TestUpgrade: the releases are those of the wheels and of the rows of bugs.toml, read by hand.
func TestUpgrade(t *testing.T) {
	a := &Atlas{}
	for _, c := range []struct {
		operator, runs, sound string
		wrong                 string // one of those that stand between, or in the newest
	}{
		{"torchvision::roi_align", "0.16.0", "0.29.0", "roi-backward-accumulates"},
		{"torchvision::nms", "0.16.0", "0.16.0", ""},
		{"aten::grid_sampler_2d_backward", "2.13.0", "2.13.0", ""},
		{"aten::grid_sampler_3d", "2.9.0", "", "grid-sampler-3d-grid-layout"}, // the row has no end
		{"aten::linalg_eig", "", "", ""},
	} {
		u, ok := a.Upgrade(c.operator)
		if !ok || !strings.HasPrefix(u.Runs, c.runs) || (u.Runs == "") != (c.runs == "") || u.Sound != c.sound {
			t.Errorf("%s: %+v, want %s and %s", c.operator, u, c.runs, c.sound)
		}
		is := func(w Condition) bool { return w.Name == c.wrong }
		if got := slices.ContainsFunc(u.Wrong, is); got != (c.wrong != "") {
			t.Errorf("%s: known to be wrong: %v, want %s", c.operator, u.Wrong, c.wrong)
		}
	}
	if _, ok := a.Upgrade("mine::frob"); ok {
		t.Error("an operator that nobody knows has an upgrade")
	}
}

// TestNoUpgradeLeadsIntoAWrongResult: over all operators, what is advised as sound is so in that release and in each
// later one, by bugs.toml itself; and where nothing is, what is wrong in the newest is named.
func TestNoUpgradeLeadsIntoAWrongResult(t *testing.T) {
	a := &Atlas{}
	names := func(op string) []string { // as bugs.toml may write them
		base, _, _ := strings.Cut(op, ".")
		space, short, _ := strings.Cut(base, "::")
		return []string{op, base, space + "::_" + short + "_backward", base + "_backward", base + "_dense_backward"}
	}
	n := 0
	for _, table := range []string{"torch", "torchvision", "torchaudio"} {
		for _, row := range a.Table(table).Rows {
			if !slices.ContainsFunc(a.Bugs(), func(b Condition) bool {
				return slices.ContainsFunc(names(row.Name), func(s string) bool {
					return slices.Contains(b.Operators, s)
				})
			}) {
				continue
			}
			u, ok := a.Upgrade(row.Name)
			if !ok || u.Runs == "" {
				continue
			}
			n++
			at := u.Torch
			for _, r := range a.Releases("torch") {
				if CompareReleases(r.Version, at) < 0 {
					continue
				}
				for _, bug := range a.Bugs() {
					if !bug.Holds(r.Version) || !slices.ContainsFunc(names(row.Name), func(s string) bool {
						return slices.Contains(bug.Operators, s)
					}) {
						continue
					}
					if u.Sound != "" {
						t.Errorf("%s: %s %s is advised, and %s holds in torch %s", row.Name, u.Package, u.Sound,
							bug.Name, r.Version)
					} else if !slices.ContainsFunc(u.Wrong, func(w Condition) bool { return w.Name == bug.Name }) {
						t.Errorf("%s: %s is not named", row.Name, bug.Name)
					}
				}
			}
		}
	}
	if n < 150 {
		t.Errorf("%d operators that bugs.toml names run in the newest release", n)
	}
}

// TestWarned: a remedy that names a release says what is known to be wrong there, and one that names none, or a sound
// one, is left as it is.
func TestWarned(t *testing.T) {
	a := &Atlas{}
	for _, c := range []struct {
		remedy string
		of     []string
		wrong  string
	}{
		{"use release 2.8.0 or later", []string{"aten::native_layer_norm"}, "inaccurate normalisation"},
		{"Use release 2.8.0 or later.", []string{"aten::native_layer_norm"}, "inaccurate normalisation"},
		{"right from torch 2.8.0 on", []string{"aten::native_layer_norm"}, "inaccurate normalisation"},
		// of its gradient
		{"pip install 'torch>=2.13'", []string{"aten::native_batch_norm"}, "wrong gradients of input"},
		{"convert to float32", []string{"aten::native_layer_norm"}, ""},
		{"use release 2.8.0 or later", []string{"aten::sgn"}, ""},
		{"use release 2.15.0 or later", []string{"*"}, ""}, // what holds for every operator says nothing of this one
	} {
		got := a.Warned(c.remedy, c.of)
		if c.wrong == "" && got != c.remedy || !strings.Contains(got, c.wrong) || !strings.HasPrefix(got, c.remedy) {
			t.Errorf("%s of %v: %q", c.remedy, c.of, got)
		}
	}
}
