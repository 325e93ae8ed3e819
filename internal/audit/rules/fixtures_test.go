package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/internal/audit"
)

var wanted = regexp.MustCompile(`# (sure|suspect): ([a-z0-9-]+(?:, [a-z0-9-]+)*)`)

// TestFixtures: each folder of testdata is a project. A line's comment says what is found there, and how sure that is;
// nothing else is found.
// A first line `# torch: 2.3` aims at that release.
func TestFixtures(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*")
	if err != nil || len(dirs) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var files, want, got []string
			release := "2.8"
			err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() || audit.KindOf(path) == "" {
					return err
				}
				raw, err := os.ReadFile(path)
				name, _ := filepath.Rel(dir, path)
				files = append(files, name)
				if first, ok := strings.CutPrefix(string(raw), "# torch: "); ok {
					release, _, _ = strings.Cut(first, "\n")
				}
				if strings.HasSuffix(path, ".ipynb") {
					return err // its lines are strings
				}
				for i, line := range strings.Split(string(raw), "\n") {
					for _, m := range wanted.FindAllStringSubmatch(line, -1) {
						for _, rule := range strings.Split(m[2], ", ") {
							want = append(want, fmt.Sprintf("%s:%d %s %s", name, i+1, m[1], rule))
						}
					}
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			report, err := audit.Check(&audit.Options{Base: dir, Files: files, Rules: All, Known: All,
				Target: target(t, release)})
			if err != nil {
				t.Fatal(err)
			}
			for _, trouble := range report.Troubles {
				t.Errorf("not checked: %s: %s", trouble.File, trouble.Text)
			}
			for _, i := range report.Items {
				got = append(got, fmt.Sprintf("%s:%d %s %s", i.File, i.Line,
					strings.TrimSuffix(string(i.Certainty), "ed"), i.Rule))
			}
			slices.Sort(want)
			slices.Sort(got)
			got = slices.Compact(got)
			for _, w := range want {
				if !slices.Contains(got, w) {
					t.Errorf("not found: %s", w)
				}
			}
			for _, g := range got {
				if !slices.Contains(want, g) {
					t.Errorf("found, and not wanted: %s", g)
				}
			}
		})
	}
}

// TestChangedImport: what an editor holds of a file that another imports counts, not what lies on the disk.
func TestChangedImport(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"helper.py": "import torch\n\ndef make():\n    return torch.zeros(3)\n",
		"train.py": "from helper import make\nmake().to(\"mps\")\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := audit.Options{Base: dir, Files: []string{"train.py"}, Rules: All, Known: All, Target: target(t, "2.8")}
	report, err := audit.Check(&o)
	if err != nil || len(report.Items) > 0 {
		t.Fatal(err, report.Items)
	}
	o.Changed = map[string][]byte{filepath.Join(dir,
		"helper.py"): []byte("import torch\n\ndef make():\n    return torch.zeros(3, dtype=torch.float64)\n")}
	if report, err = audit.Check(&o); err != nil || len(report.Items) != 1 || report.Items[0].Rule != "float64-on-mps" {
		t.Fatal(err, report.Items)
	}
}
