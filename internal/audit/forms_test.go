package audit

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// everything is a report with a finding of each kind, in files with names and texts that have to be escaped.
func everything(t *testing.T) *Report {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a b,c:é%", "x.py"), "import torch\nx = '<&\"\x01'; BAD\nUGLY\n")
	put(t, filepath.Join(dir, "n.ipynb"), "{\"metadata\": {}, \"cells\": [\n {\"cell_type\": \"code\",\n  "+
		"\"source\": [\n   \"import torch\\n\",\n   \"BAD\"]}]}")
	put(t, filepath.Join(dir, "broken.py"), "import torch\ndef (:\nBAD  # assay: allow bad-word\n")
	r, _ := checked(t, dir, "", "a b,c:é%/x.py", "broken.py", "n.ipynb", "none.py")
	return r
}

func form(t *testing.T, name string, r *Report) string {
	t.Helper()
	for _, f := range Forms {
		if f.Name == name {
			var b bytes.Buffer
			if err := f.Write(&b, r); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}
	}
	t.Fatalf("no form %s", name)
	return ""
}

// TestSARIF: OASIS's own schema accepts it, with findings and without.
func TestSARIF(t *testing.T) {
	raw, err := os.ReadFile("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("sarif.json", schema); err != nil {
		t.Fatal(err)
	}
	sarif, err := c.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Report{everything(t), {Version: "test", rules: []*Rule{wanted}}} {
		text := form(t, "sarif", r)
		log, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := sarif.Validate(log); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	var log struct {
		Runs []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID    string
				RuleIndex *int
				Level     string
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine, StartColumn int }
					}
				}
			}
			Invocations []struct{ ToolExecutionNotifications []any }
		}
	}
	if err := json.Unmarshal([]byte(form(t, "sarif", everything(t))), &log); err != nil {
		t.Fatal(err)
	}
	run := log.Runs[0]
	var got []string
	for _, r := range run.Results {
		at := r.Locations[0].PhysicalLocation
		got = append(got, strings.Join([]string{r.RuleID, r.Level, at.ArtifactLocation.URI, jsonText(t, at.Region)},
			" "))
		if r.RuleIndex == nil || run.Tool.Driver.Rules[*r.RuleIndex].ID != r.RuleID {
			t.Errorf("%s has the index %v", r.RuleID, r.RuleIndex)
		}
	}
	want := `bad-word error a%20b%2Cc%3A%C3%A9%25/x.py {"StartLine":2,"StartColumn":13}
bad-word warning a%20b%2Cc%3A%C3%A9%25/x.py {"StartLine":3,"StartColumn":1}
allow-without-reason note broken.py {"StartLine":3,"StartColumn":6}
bad-word error n.ipynb {"StartLine":5,"StartColumn":0}`
	if strings.Join(got, "\n") != want {
		t.Errorf("results:\n%s", strings.Join(got, "\n"))
	}
	if n := len(run.Invocations[0].ToolExecutionNotifications); n != 3 {
		t.Errorf("%d notifications of files not checked", n)
	}
}

func jsonText(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestJUnit: an XML parser reads it, and the counts are those of the cases.
func TestJUnit(t *testing.T) {
	for _, r := range []*Report{everything(t), {Files: 3}} {
		var suites struct {
			Suites []struct {
				Tests    int `xml:"tests,attr"`
				Failures int `xml:"failures,attr"`
				Errors   int `xml:"errors,attr"`
				Cases    []struct {
					Name    string    `xml:"name,attr"`
					File    string    `xml:"file,attr"`
					Failure *struct{} `xml:"failure"`
					Error   *struct{} `xml:"error"`
				} `xml:"testcase"`
			} `xml:"testsuite"`
		}
		text := form(t, "junit", r)
		if err := xml.Unmarshal([]byte(text), &suites); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		s := suites.Suites[0]
		failures, errors := 0, 0
		for _, c := range s.Cases {
			if c.Failure != nil {
				failures++
			}
			if c.Error != nil {
				errors++
			}
		}
		if len(s.Cases) == 0 || s.Tests != len(s.Cases) || s.Failures != failures || s.Errors != errors ||
			errors != len(r.Troubles) || (failures > 0) != r.Bad() {
			t.Errorf("%d tests, %d failures, %d errors\n%s", s.Tests, s.Failures, s.Errors, text)
		}
	}
}

// command is a workflow command as GitHub's runner reads it: actions/runner, src/Runner.Common/ActionCommand.cs.
var command = regexp.MustCompile(`^::(error|warning|notice) ([^:]*)::(.*)$`)

// TestGitHub: a line each, and unescaped as the runner does it, names and texts are what they were.
func TestGitHub(t *testing.T) {
	r := everything(t)
	text := form(t, "github", r)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != len(r.Items)+len(r.Troubles) {
		t.Fatalf("%d lines for %d findings\n%s", len(lines), len(r.Items)+len(r.Troubles), text)
	}
	data := strings.NewReplacer("%0D", "\r", "%0A", "\n", "%25", "%")
	property := strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")
	for n, line := range lines {
		m := command.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("no command: %s", line)
			continue
		}
		properties := map[string]string{}
		for p := range strings.SplitSeq(m[2], ",") {
			name, value, _ := strings.Cut(p, "=")
			properties[name] = property.Replace(value)
		}
		if n >= len(r.Items) {
			continue
		}
		i := r.Items[n]
		if properties["file"] != i.File || !strings.Contains(data.Replace(m[3]), i.Text) ||
			!strings.HasSuffix(properties["title"], i.Rule) || properties["line"] == "" {
			t.Errorf("%s\nis %v", line, properties)
		}
		if i.Cell > 0 && properties["line"] != "5" { // of the file, which GitHub shows
			t.Errorf("the notebook's line: %v", properties)
		}
	}
}

// TestJSON: the same findings give the same bytes, with the names that are documented.
func TestJSON(t *testing.T) {
	first, second := form(t, "json", everything(t)), form(t, "json", everything(t))
	if first != second {
		t.Error("two runs gave two texts")
	}
	var r struct {
		Schema     string
		Findings   []map[string]any
		NotChecked []map[string]any `json:"not_checked"`
		Counts     map[string]int
	}
	if err := json.Unmarshal([]byte(first), &r); err != nil {
		t.Fatal(err)
	}
	if r.Schema != "assay.check/1" || len(r.Findings) != 4 || len(r.NotChecked) != 3 || r.Counts["errors"] != 3 ||
		r.Counts["suspected"] != 1 || r.Counts["suppressed"] != 1 ||
		r.Counts["fixable"] != 2 || r.Counts["unsafe_fixable"] != 1 || r.Findings[3]["cell"] != 1.0 ||
		r.Findings[0]["basis"] != "derived" {
		t.Errorf("%s", first)
	}
}

// TestText: a long line is shown around the finding, and nothing of a source reaches a terminal as a control character.
func TestText(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "x.py"), "import torch\n"+strings.Repeat("é", 500)+"; BAD; "+strings.Repeat("x",
		50000)+"\n# \x1b[31m\u202e\nx = '\x1b[31m\u202e'; BAD\n")
	r, _ := checked(t, dir, "", "x.py")
	for _, name := range []string{"text", "concise"} {
		text := form(t, name, r)
		if strings.ContainsAny(text, "\x1b\u202e") || len(text) > 3000 {
			t.Errorf("%s:\n%q", name, text)
		}
	}
	lines := strings.Split(form(t, "text", r), "\n")
	// the text is one line, whatever it holds
	if i := strings.Index(lines[1], "BAD"); i < 0 || !strings.Contains(lines[2], "^^^") {
		t.Errorf("the finding is not shown:\n%s", strings.Join(lines[:4], "\n"))
	}
}
