package rules

import (
	"slices"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/evidence"
	"assay/internal/python"
)

// Watermark finds values that PyTorch refuses or misreads.
var Watermark = &audit.Rule{Name: "variable-value",
	Title:  "an environment variable has a value that does not do what it says",
	Claims: []string{"9"}, Severity: audit.Error, Doc: audit.Doc{
		Why: "PyTorch reads its variables strictly: a watermark ratio beyond 2, or a low one above the high one, raises " +
			"when the first tensor is made on MPS; a fallback flag " +
			"that is no number breaks the import; 0 as the high watermark removes the limit, and the system may run out " +
			"of memory.",
		Bad:    "os.environ[\"PYTORCH_MPS_HIGH_WATERMARK_RATIO\"] = \"2.5\"\n",
		Good:   "os.environ[\"PYTORCH_MPS_HIGH_WATERMARK_RATIO\"] = \"1.5\"\n",
		Source: "aten/src/ATen/mps/MPSAllocator.mm; the same table as `assay doctor`",
	}, Calls: []audit.Ask{
		on(named(settings...), eachSetting(variableValue)),
		on(named("torch.mps.set_per_process_memory_fraction"), func(p *audit.Pass, c *abstract.Call) {
			n, ok := number(c.Arg(0, "fraction"))
			switch {
			case ok && (n < 0 || n > 2):
				p.Report(c.At, audit.Finding{Sure: true, Text: "the fraction must be 0 to 2: ValueError",
					Source: "torch/mps/__init__.py"})
			case ok && c.Arg(0, "fraction").Type == "int":
				p.Report(c.At, audit.Finding{Sure: true, Text: "the fraction must be a float: TypeError for an int",
					Hint:   "write 1.0 for 1",
					Source: "torch/mps/__init__.py"})
			}
		}),
	}}

func variableValue(p *audit.Pass, c *abstract.Call, name, value string) {
	if value == "" || p.Target.Device == "cuda" {
		return
	}
	set := audit.Note(p, func() *[]string { return new([]string) })
	before := map[string]bool{} // what was wrong already
	if strings.Contains(name, "WATERMARK") {
		for _, f := range python.CheckEnviron(*set, p.Target.Torch.Version, "darwin") {
			before[f.Text] = true
		}
	}
	*set = append(slices.DeleteFunc(*set, func(s string) bool { return strings.HasPrefix(s, name+"=") }),
		name+"="+value)
	environ := []string{name + "=" + value}
	if strings.Contains(name, "WATERMARK") {
		environ = *set
	}
	for _, f := range python.CheckEnviron(environ, p.Target.Torch.Version, "darwin") {
		if f.Severity == evidence.Note || f.Name == "env-unread" || f.Name == "env-no-effect" || before[f.Text] ||
			strings.HasSuffix(name, "_THREADS") || !strings.Contains(f.Text, name) &&
			!(strings.Contains(name, "WATERMARK") && strings.Contains(f.Text, "WATERMARK")) ||
			strings.Contains(name, "FALLBACK") && value == "1" {
			continue
		}
		severity := audit.Warning
		if f.Severity == evidence.Error {
			severity = audit.Error
		}
		p.Report(c.At, audit.Finding{Sure: true, Severity: severity, Text: f.Text, Hint: f.Hint,
			Source: "the table of `assay doctor`"})
	}
}
