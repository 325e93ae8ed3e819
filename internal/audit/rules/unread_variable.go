package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/python"
)

// UnknownVariable finds variables that nothing reads.
var UnknownVariable = &audit.Rule{Name: "unread-variable", Title: "an environment variable that nothing reads",
	Claims: []string{"7"}, Severity: audit.Warning, Doc: audit.Doc{
		Why:    "Variables such as PYTORCH_MPS_LOG_LEVEL circulate; no release of PyTorch from 2.0 on reads them.",
		Bad:    "os.environ[\"PYTORCH_MPS_LOG_LEVEL\"] = \"2\"\n",
		Good:   "os.environ[\"PYTORCH_MPS_LOG_PROFILE_INFO\"] = \"4\"\n",
		Source: "text constants of the macOS binaries of every release since 2.0",
	}, Calls: asks(named(settings...), eachSetting(func(p *audit.Pass, c *abstract.Call, name, value string) {
		if !strings.HasPrefix(name, "PYTORCH_") {
			return
		}
		if value == "" {
			value = "1"
		}
		for _, f := range python.CheckEnviron([]string{name + "=" + value}, p.Target.Torch.Version, "darwin") {
			if f.Name == "env-unread" || strings.Contains(f.Name, "unknown") || strings.Contains(f.Name, "stranger") {
				p.Report(c.At, audit.Finding{Sure: f.Name == "env-unread", Text: f.Text, Hint: f.Hint})
			}
		}
	}))}
