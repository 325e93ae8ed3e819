package facts

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/atlas"
)

// TestUpgrade: the releases are those of the wheels and of the rows of the rows, read by hand.
func TestUpgrade(t *testing.T) {
	a := &atlas.Atlas{}
	for _, c := range []struct {
		operator, runs, sound string
		wrong                 string // one of those that stand between, or in the newest
	}{
		{"torchvision::roi_align", "0.16.0", "0.29.0", "roi-backward-accumulates"},
		{"torchvision::nms", "0.16.0", "0.16.0", ""},
		{"aten::grid_sampler_2d_backward", "2.13.0", "2.13.0", ""},
		{"aten::grid_sampler_3d", "2.9.0", "2.11.0", "grid-sampler-3d-grid-layout"}, // nobody has seen it right before
		{"aten::linalg_eig", "", "", ""},
	} {
		u, ok := Load().Upgrade(a, c.operator)
		if !ok || !strings.HasPrefix(u.Runs, c.runs) || (u.Runs == "") != (c.runs == "") || u.Sound != c.sound {
			t.Errorf("%s: %+v, want %s and %s", c.operator, u, c.runs, c.sound)
		}
		is := func(w *Fact) bool { return w.Name == c.wrong }
		if got := slices.ContainsFunc(u.Wrong, is); got != (c.wrong != "") {
			t.Errorf("%s: known to be wrong: %v, want %s", c.operator, u.Wrong, c.wrong)
		}
	}
	if _, ok := Load().Upgrade(a, "mine::frob"); ok {
		t.Error("an operator that nobody knows has an upgrade")
	}
}

// TestNoUpgradeLeadsIntoAWrongResult: over all operators, what is advised as sound is so in that release and in each
// later one, by the rows themselves; and where nothing is, what is wrong in the newest is named.
func TestNoUpgradeLeadsIntoAWrongResult(t *testing.T) {
	a := &atlas.Atlas{}
	names := func(op string) []string { // as the rows may write them
		base, _, _ := strings.Cut(op, ".")
		space, short, _ := strings.Cut(base, "::")
		return []string{op, base, space + "::_" + short + "_backward", base + "_backward", base + "_dense_backward"}
	}
	rows := slices.DeleteFunc(slices.Clone(Load().All), func(f *Fact) bool { return f.Outcome != Wrong })
	n := 0
	for _, table := range []string{"torch", "torchvision", "torchaudio"} {
		for _, row := range a.Table(table).Rows {
			if !slices.ContainsFunc(rows, func(b *Fact) bool {
				return slices.ContainsFunc(names(row.Name), func(s string) bool {
					return slices.Contains(b.Meets, s)
				})
			}) {
				continue
			}
			u, ok := Load().Upgrade(a, row.Name)
			if !ok || u.Runs == "" {
				continue
			}
			n++
			at := u.Torch
			for _, r := range a.Releases("torch") {
				if atlas.CompareReleases(r.Version, at) < 0 {
					continue
				}
				for _, bug := range rows {
					if !bug.Holds(r.Version) || !bug.Certain(r.Version) || !slices.ContainsFunc(names(row.Name), func(s string) bool {
						return slices.Contains(bug.Meets, s)
					}) {
						continue
					}
					if u.Sound != "" {
						t.Errorf("%s: %s %s is advised, and %s holds in torch %s", row.Name, u.Package, u.Sound,
							bug.Name, r.Version)
					} else if !slices.Contains(u.Wrong, bug) {
						t.Errorf("%s: %s is not named", row.Name, bug.Name)
					}
				}
			}
		}
	}
	if n < 150 {
		t.Errorf("%d operators that the rows names run in the newest release", n)
	}
}

// TestNoRemedyLeadsIntoAWrongResult: over all rows: where what is to be done names a release, each wrong result that is
// certain there, or in the newest, of what the row is about or of its gradient, is named beside it or counted.
func TestNoRemedyLeadsIntoAWrongResult(t *testing.T) {
	release := regexp.MustCompile(`(2\.\d+\.\d+)(?:, | )?(or later|on)\b`)
	more := regexp.MustCompile(`and (\d+) more`)
	all := (&atlas.Atlas{}).Releases("torch")
	newest := all[len(all)-1].Version
	named, warned := 0, 0
	for _, f := range Load().All {
		text := f.ToDo()
		m := release.FindStringSubmatch(text)
		if m == nil || f.Everywhere() {
			continue
		}
		named++
		said, wrong := 0, 0
		for _, bug := range Load().All {
			if bug.Outcome != Wrong || bug == f || bug.Everywhere() || !slices.ContainsFunc(f.Meets, bug.About) ||
				!(bug.Holds(m[1]) && bug.Certain(m[1])) && !(bug.Holds(newest) && bug.Certain(newest)) {
				continue
			}
			wrong++
			if strings.Contains(text, bug.Wrong) && strings.Contains(text, strings.TrimPrefix(bug.When, "when ")) {
				said++
			}
		}
		if c := more.FindStringSubmatch(text); c != nil {
			n, _ := strconv.Atoi(c[1])
			said += n
		}
		if wrong > 0 {
			warned++
		}
		if said < wrong {
			t.Errorf("%s: %d wrong results of %s are known, %d are said: %s", f.Name, wrong, m[1], said, text)
		}
	}
	if named < 30 || warned < 10 {
		t.Errorf("%d rows name a release, %d of them with a wrong result there", named, warned)
	}
}

// TestWarned: a remedy that names a release says what is known to be wrong there, and one that names none, or a sound
// one, is left as it is.
func TestWarned(t *testing.T) {
	a := &atlas.Atlas{}
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
		got := Load().Warned(a, c.remedy, c.of)
		if c.wrong == "" && got != c.remedy || !strings.Contains(got, c.wrong) || !strings.HasPrefix(got, c.remedy) {
			t.Errorf("%s of %v: %q", c.remedy, c.of, got)
		}
	}
}
