package rules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/atlas"
	"assay/internal/audit"
	"assay/internal/facts"
)

// asked are the macOS releases on which a row may speak, the likeliest first.
var asked = [][2]int{{15, 5}, {15, 0}, {14, 4}, {14, 0}, {13, 2}, {13, 1}, {13, 0}, {12, 3}, {26, 0}, {27, 0}}

// speaks is the newest release and a macOS of which a row speaks; ok is false where there is none.
func speaks(a *atlas.Atlas, f *facts.Fact) (aim audit.Target, ok bool) {
	releases := a.Releases("torch")
	for i := len(releases) - 1; i >= 0; i-- {
		for _, macos := range asked {
			if f.Holds(releases[i].Version) && f.On(macos) {
				return audit.Target{Device: "mps", Torch: releases[i], MacOS: macos, Atlas: a}, true
			}
		}
	}
	return aim, false
}

// checks says whether a check reports a row by its name, and lists the rules of sure errors, and all that it reports.
func checks(t *testing.T, aim audit.Target, source, row string) (found bool, others []string, all []string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "call.py"), []byte("import torch\n"+source+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := audit.Check(&audit.Options{Base: dir, Files: []string{"call.py"}, Rules: All, Known: All, Target: aim,
		All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, trouble := range r.Troubles {
		t.Errorf("%s: %s", row, trouble.Text)
	}
	for _, i := range r.Items {
		if i.Fact == row {
			found = true
		}
		if i.Certainty == "sure" && i.Severity == audit.Error {
			others = append(others, i.Rule)
		}
		all = append(all, i.Certainty+" "+i.Rule+" "+i.Fact+": "+i.Text)
	}
	return found, others, all
}

// TestFactsCalls: of each row that check speaks of, its smallest call is found under the row's own name, and the call
// beside it is not. Rows that check cannot show say why (holes.check). That the double refuses the same call with the
// row's text is tools/double/calls.py's test, so that the two agree by it. Rows whose condition one call does not show
// (no `if`) are held by no call.
func TestFactsCalls(t *testing.T) {
	a := &atlas.Atlas{}
	held := 0
	for _, f := range facts.Load().All {
		if f.Call == "" || f.Outcome == facts.Warns || f.Outcome == facts.Ignored || f.If == nil && len(f.Always) == 0 {
			continue
		}
		aim, ok := speaks(a, f)
		if !ok {
			continue
		}
		found, rules, all := checks(t, aim, f.Call, f.Name)
		beside, same, more := checks(t, aim, f.Beside, f.Name)
		// an operator that is missing, a device or a type that is another: rules that find these by other means
		found = found || slices.ContainsFunc(rules, func(r string) bool { return !slices.Contains(same, r) })
		if beside {
			t.Errorf("%s: reported in the call beside it, torch %s: %s\n%s", f.Name, aim.Torch.Version, f.Beside,
				strings.Join(more, "\n"))
		}
		stand, hole := f.At("check")
		if found == (stand == facts.Hole) && !(found && f.Holes["check"] == "") {
			t.Errorf("%s: found %v, hole %q, torch %s, macOS %v: %s\n%s", f.Name, found, hole, aim.Torch.Version,
				aim.MacOS, f.Call, strings.Join(all, "\n"))
		} else if found {
			held++
		}
	}
	if held < 200 {
		t.Errorf("only %d rows are found by their calls", held)
	}
}
