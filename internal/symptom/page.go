package symptom

import (
	"fmt"
	"strings"
)

// likely says of a rule what its report says.
func likely(r *Rule) string {
	if r.Likely {
		return " (likely)"
	}
	return ""
}

// Page is docs/symptoms.md.
func Page() string {
	var b strings.Builder
	b.WriteString(`# Symptoms

What ` + "`assay explain`" + ` knows. Made from internal/symptom/symptoms.toml and the facts:
` + "`go test ./internal/symptom -run TestPage -update`" + ` writes this page. {name} stands for what was read from the line. Likely is what a rule says
where others print the same words.
`)
	topic := ""
	var atlas []*Rule
	for _, r := range Rules() {
		if strings.HasPrefix(r.Name, "atlas/") {
			atlas = append(atlas, r)
			continue
		}
		if r.Topic != topic {
			topic = r.Topic
			fmt.Fprintf(&b, "\n## %s\n", strings.ToUpper(topic[:1])+topic[1:])
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s: %s.\n\n%s\n\n", r.Name,
			strings.ToUpper(r.Severity[:1])+r.Severity[1:]+likely(r), strings.TrimSuffix(r.Title, "."), r.Cause)
		for _, line := range r.Remedy {
			b.WriteString("- " + line + "\n")
		}
		if r.Code != "" {
			b.WriteString("\n```python\n" + strings.Trim(r.Code, "\n") + "\n```\n")
		}
		b.WriteByte('\n')
		if r.Releases != "" {
			b.WriteString("Releases: " + strings.TrimSuffix(r.Releases, ".") + ". ")
		}
		b.WriteString("Source: " + r.Source + ".\n\n")
		for _, m := range r.Match {
			b.WriteString("    " + m + "\n")
		}
	}
	fmt.Fprintf(&b, "\n## Conditions of the atlas\n\nTexts with which an operator refuses, warns or is wrong; %d more rules. `assay ops` says the rest of each.\n\n", len(atlas))
	for _, r := range atlas {
		fmt.Fprintf(&b, "- `%s`\n", strings.ReplaceAll(r.Title, "`", "'"))
	}
	return b.String()
}
