package rules

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/atlas"
	"assay/internal/audit"
)

func target(t *testing.T, release string) audit.Target {
	t.Helper()
	a := &atlas.Atlas{}
	r, err := a.Release("torch", release)
	if err != nil {
		t.Fatal(err)
	}
	return audit.Target{Device: "mps", Torch: r, Atlas: a}
}

// check looks at a source and says what was found, rule by rule.
func check(t *testing.T, name, source string, fix audit.Safety) (*audit.Report, string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	o := audit.Options{Base: dir, Files: []string{name}, Rules: All, Known: All, Target: target(t, "2.8"), All: true,
		Fix: fix}
	var report *audit.Report
	for range 5 {
		var err error
		if report, err = audit.Check(&o); err != nil {
			t.Fatal(err)
		}
		if report.Counts.Fixed == 0 {
			break
		}
	}
	return report, string(o.Changed[path])
}

// header makes the examples of the pages programs: what they take for granted.
func header(r *audit.Rule) string {
	switch r.Name {
	case "fallback-switched-on", "variable-set-too-late", "variable-value", "unread-variable":
		return "import os\n"
	case "requirement", "channels-first", "tensorflow-v1-graph", "tensorflow-complex", "mlx-without-eval",
		"mlx-channels-first", "unused-allow":
		return ""
	case "allow-without-reason":
		return "import torch\nx = torch.zeros(3, device=\"mps\")\n"
	}
	return "import contextlib\nimport numpy as np\nimport torch\nfrom torch.utils.data import DataLoader\nmodel = " +
		"torch.nn.Linear(4, 4).to(\"mps\")\nx = torch.zeros(2, 4, device=\"mps\")\n" +
		"class Net(torch.nn.Module):\n    pass\noptimizer = torch.optim.SGD(model.parameters())\n"
}

// TestPages: what a rule's page calls bad earns the finding, and what it calls good does not. Fixes leave sources that
// parse and earn it no more.
func TestPages(t *testing.T) {
	for _, r := range All {
		t.Run(r.Name, func(t *testing.T) {
			name := "train.py"
			if r.Text != nil {
				name = "requirements.txt"
			}
			found := func(report *audit.Report) []audit.Item {
				var list []audit.Item
				for _, i := range report.Items {
					if i.Rule == r.Name {
						list = append(list, i)
					}
				}
				return list
			}
			report, _ := check(t, name, header(r)+r.Doc.Bad, "")
			if len(report.Troubles) > 0 {
				t.Fatalf("not checked: %v", report.Troubles)
			}
			if len(found(report)) == 0 {
				t.Errorf("nothing found in\n%s", r.Doc.Bad)
			}
			report, _ = check(t, name, header(r)+r.Doc.Good, "")
			if list := found(report); len(list) > 0 {
				t.Errorf("found %q in\n%s", list[0].Text, r.Doc.Good)
			}
			for _, i := range found(report) {
				if i.Text == "" || strings.HasSuffix(i.Text, ".") {
					t.Errorf("a finding's text is a clause without a full stop: %q", i.Text)
				}
			}
			report, fixed := check(t, name, header(r)+r.Doc.Bad, audit.Unsafe)
			if fixed == "" {
				return
			}
			if again, _ := check(t, name, fixed, audit.Unsafe); again.Counts.Fixed > 0 {
				t.Errorf("a second pass fixes again:\n%s", fixed)
			}
			for _, i := range found(report) {
				if i.Fix != nil && i.Fix.Safety != audit.Manual {
					t.Errorf("still found after its fix:\n%s", fixed)
				}
			}
		})
	}
}

// TestNames: a rule's name is what a comment may say, and no two are one.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range All {
		if seen[r.Name] || r.Name != strings.ToLower(r.Name) || strings.ContainsAny(r.Name, " _,") {
			t.Errorf("the name %q is taken or no name", r.Name)
		}
		seen[r.Name] = true
		if r.Title == "" || r.Doc.Why == "" || r.Doc.Bad == "" || r.Doc.Good == "" {
			t.Errorf("%s: the page lacks a part", r.Name)
		}
	}
}

// TestForms: every form can be written, whatever was found.
func TestForms(t *testing.T) {
	report, _ := check(t, "train.py", "import torch\nx = torch.zeros(3).cuda()  # \"quoted\" <é>\n", "")
	if len(report.Items) == 0 {
		t.Fatal("nothing found")
	}
	for _, f := range audit.Forms {
		var b bytes.Buffer
		if err := f.Write(&b, report); err != nil || !strings.Contains(b.String(), "cuda-call") {
			t.Errorf("%s: %v\n%s", f.Name, err, b.String())
		}
	}
}

// TestRequirementPairs: only pairs that the tables speak of are judged.
func TestRequirementPairs(t *testing.T) {
	for source, want := range map[string]int{
		"torch==1.7.1\ntorchaudio==0.7.2\n":                                      0,
		"torch==2.8.0\ntorchvision==0.23.0\n":                                    0,
		"torch==2.8.0\ntorchvision==0.20.0\n":                                    1,
		"tensorflow==2.18.0\ntensorflow-metal==1.2.0\n":                          0,
		"tensorflow==2.18.0\ntensorflow-metal==1.1.0\n":                          1,
		"tensorflow==2.12.0\ntensorflow-metal==1.1.0\n":                          1,
		"bitsandbytes==0.45.0\n":                                                 1,
		"bitsandbytes==0.49.0\nbitsandbytes>=0.43\n":                             0,
		"triton==3.0.0\nmamba-ssm\n":                                             2,
		"triton==3.0.0 ; sys_platform == 'linux'\n":                              0,
		"triton ; 'linux' in sys_platform\n":                                     0,
		"triton ; sys_platform == 'linux' or sys_platform == 'darwin'\n":         1,
		"triton ; platform_machine == 'x86_64' or platform_machine == 'arm64'\n": 1,
	} {
		if report, _ := check(t, "requirements.txt", source, ""); len(report.Items) != want {
			t.Errorf("%q: %d findings, not %d", source, len(report.Items), want)
		}
	}
}

// TestRequirementElsewhere: a file that is named for another system, an extra and a group are asked for by those who
// can meet them.
func TestRequirementElsewhere(t *testing.T) {
	for name, source := range map[string]string{
		"requirements-linux.txt":       "triton==3.0.0\n",
		"requirements_cu128.txt":       "torch==2.8.0+cu128\n",
		"requirements_macos_arm64.txt": "# sure\ntriton==3.0.0\n",
		"requirements.txt":             "# sure\ntriton==3.0.0\n",
		"pyproject.toml":               "[project.optional-dependencies]\nkernels = [\"triton==3.0.0\"]\n",
	} {
		report, _ := check(t, name, source, "")
		if len(report.Items) != 1 {
			t.Errorf("%s: %d findings, not 1", name, len(report.Items))
			continue
		}
		if sure := report.Items[0].Certainty == "sure"; sure != strings.HasPrefix(source, "# sure") {
			t.Errorf("%s: sure is %v", name, sure)
		}
	}
}

// TestFolderName: the name of the folder that holds a project says nothing of the program in it.
func TestFolderName(t *testing.T) {
	source := []byte("import torch\n\ndef move(x):\n    return torch.zeros(3).cuda()\n")
	for _, folder := range []string{"plain", "cuda-course", "triton", "tests/of/mine/somewhere"} {
		dir := filepath.Join(t.TempDir(), folder)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "train.py")
		if err := os.WriteFile(path, source, 0o644); err != nil {
			t.Fatal(err)
		}
		report, err := audit.Check(&audit.Options{Base: t.TempDir(), Files: []string{path}, Rules: All, Known: All,
			Target: target(t, "2.8")})
		if err != nil || len(report.Items) != 1 || report.Items[0].Certainty != "sure" {
			t.Errorf("%s: %+v, %v", folder, report, err)
		}
	}
}

// found lists the rules that find something in a source on a target, each once, in order.
func found(t *testing.T, on audit.Target, source string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.py"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	report, err := audit.Check(&audit.Options{Base: dir, Files: []string{"x.py"}, Rules: All, Known: All, Target: on,
		All: true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range report.Items {
		names = append(names, i.Rule)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// TestTargets: what is wrong on one target is right on another, and in another release.
func TestTargets(t *testing.T) {
	const move = "import torch\nx = torch.zeros(3, dtype=torch.float64).to(\"mps\")\n"
	const cuda = "import torch\nx = torch.zeros(3).cuda()\n"
	const load = "import torch\nx = torch.load(\"a.pt\", map_location=\"cpu\")\n"
	const spread = "import torch\nx = torch.load(*names)\n"
	const within = "import torch\nwith torch.device(\"cpu\"):\n    x = torch.load(\"a.pt\", weights_only=True)\n"
	const bare = "import torch\nx = torch.load(\"a.pt\", weights_only=True)\n"
	const half = "import torch\nx = torch.cuda.is_bf16_supported()\n"
	const pinned = "import torch\nfrom torch.utils.data import DataLoader\nDataLoader(data, pin_memory=True)\n"
	const step = "import torch\nfrom torch.utils.data import DataLoader\nfor x in DataLoader(data):\n" +
		"    torch.zeros(3, device=\"mps\").sum().item()\n"
	for _, c := range []struct{ device, release, source, want string }{
		{"mps", "2.8", step, "synchronisation-in-loop"}, {"cpu", "2.8", step, ""},
		{"mps", "2.8", move, "float64-on-mps"}, {"cpu", "2.8", move, ""}, {"cuda", "2.8", move, ""},
		{"mps", "2.8", cuda, "cuda-call"}, {"cpu", "2.8", cuda, "cuda-call"}, {"cuda", "2.8", cuda, ""},
		{"mps", "2.8", load, ""}, {"mps", "2.3", load, "unsafe-pickle"}, {"mps", "2.3", spread, ""},
		{"mps", "2.8", within, ""}, {"mps", "2.8", bare, "checkpoint-without-map-location"}, {"cuda", "2.8", bare, ""},
		{"mps", "2.8", half, ""}, {"mps", "2.3", half, "cuda-function"}, {"cuda", "2.3", half, ""},
		{"mps", "2.8", pinned, "pinned-memory"}, {"cpu", "2.8", pinned, ""}, {"cuda", "2.8", pinned, ""},
	} {
		on := target(t, c.release)
		on.Device = c.device
		if got := found(t, on, c.source); got != c.want {
			t.Errorf("for %s, torch %s: %q, want %q in\n%s", c.device, c.release, got, c.want, c.source)
		}
	}
}

// TestAmpHints: GradScaler takes MPS from 2.3 on, autocast from 2.5 on.
func TestAmpHints(t *testing.T) {
	for _, c := range []struct{ release, name, want string }{
		{"2.4", "GradScaler", "device's own type"}, {"2.4", "autocast", "from torch 2.5 on"},
		{"2.5", "autocast", "device's own type"},
	} {
		dir := t.TempDir()
		source := "import torch\nx = torch.amp." + c.name + "(\"cuda\")\n"
		if err := os.WriteFile(filepath.Join(dir, "x.py"), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		o := audit.Options{Base: dir, Files: []string{"x.py"}, Rules: All, Known: All, Target: target(t, c.release)}
		report, err := audit.Check(&o)
		if err != nil || len(report.Items) != 1 || !strings.Contains(report.Items[0].Hint, c.want) {
			t.Errorf("%s in %s: %v %+v", c.name, c.release, err, report.Items)
		}
	}
}
