package testkit

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"assay/agent"
)

var (
	sentByAgent = regexp.MustCompile(`"ev": "([a-z_]+)"`)
	sentByProbe = regexp.MustCompile(`\.own\("([a-z_]+)"`)
	capital     = regexp.MustCompile(`[A-Z]`)
	heading     = regexp.MustCompile(`(?m)^### ([a-z_]+)$`)
)

// page is docs/formats/events.md by sections: event → its text.
func page(t *testing.T) (whole string, sections map[string]string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs/formats/events.md"))
	if err != nil {
		t.Fatal(err)
	}
	whole, sections = string(data), map[string]string{}
	at := heading.FindAllStringSubmatchIndex(whole, -1)
	for i, m := range at {
		name, end := whole[m[2]:m[3]], len(whole)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		if next := strings.Index(whole[m[1]:end], "\n## "); next >= 0 {
			end = m[1] + next
		}
		if _, twice := sections[name]; twice {
			t.Errorf("events.md describes %s twice", name)
		}
		sections[name] = whole[m[1]:end]
	}
	return whole, sections
}

// TestEventsAreDescribed: every event that is sent has its section in docs/formats/events.md, and every section its
// event.
func TestEventsAreDescribed(t *testing.T) {
	_, sections := page(t)
	sent := map[string]string{}
	for name, source := range agentSources(t) {
		for _, m := range sentByAgent.FindAllStringSubmatch(source, -1) {
			sent[m[1]] = name
		}
	}
	for name, source := range goSources(t, "probe") {
		for _, m := range sentByProbe.FindAllStringSubmatch(source, -1) {
			sent[m[1]] = name
		}
	}
	for ev, where := range sent {
		if _, ok := sections[ev]; !ok {
			t.Errorf("%s sends %q, and events.md has no section ### %s", where, ev, ev)
		}
	}
	for ev := range sections {
		if _, ok := sent[ev]; !ok {
			t.Errorf("events.md describes %q, which nobody sends", ev)
		}
	}
}

// TestEventFieldsAreDescribed: what the supervisor reads of an event stands in its section. The struct that reads event
// loss_unread is called lossUnreadEvent; events without one of their own share textEvent.
func TestEventFieldsAreDescribed(t *testing.T) {
	_, sections := page(t)
	structs := 0
	for name, source := range goSources(t, "fold") {
		file, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			ev, named := strings.CutSuffix(spec.Name.Name, "Event")
			body, isStruct := spec.Type.(*ast.StructType)
			if !named || !isStruct || ev == "text" || ev == "trace" {
				// a line of the profiler's trace is no event of the stream
				return true
			}
			structs++
			ev = strings.TrimPrefix(capital.ReplaceAllStringFunc(ev, func(c string) string {
				return "_" +
					strings.ToLower(c)
			}), "_")
			text, ok := sections[ev]
			if !ok {
				t.Errorf("%s: %s reads an event that events.md does not describe", name, spec.Name.Name)
				return true
			}
			for _, field := range body.Fields.List {
				if field.Tag == nil {
					continue
				}
				tag, err := strconv.Unquote(field.Tag.Value)
				if err != nil {
					t.Fatal(err)
				}
				key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
				if !strings.Contains(text, "`"+key+"`") {
					t.Errorf("events.md, ### %s: `%s` is read by %s and not described", ev, key, spec.Name.Name)
				}
			}
			return true
		})
	}
	if structs < 10 {
		t.Errorf("only %d event structs found in internal/fold", structs)
	}
}

// TestProtocolVersion: the agent, the supervisor and the page say the same.
func TestProtocolVersion(t *testing.T) {
	whole, _ := page(t)
	if want := fmt.Sprintf("version is %d", agent.Protocol); !strings.Contains(whole, want) {
		t.Errorf("events.md does not say %q", want)
	}
	if want := fmt.Sprintf("\nPROTOCOL = %d\n",
		agent.Protocol); !strings.Contains(agentSources(t)["agent/assay_agent/__init__.py"], want) {
		t.Errorf("assay_agent/__init__.py does not say %q", strings.TrimSpace(want))
	}
}

// TestStepColumns: the columns that the agent sends are those that the page names.
func TestStepColumns(t *testing.T) {
	_, sections := page(t)
	source := agentSources(t)["agent/assay_agent/timeline.py"]
	var columns []string
	_, rest, ok := strings.Cut(source, "COLUMNS = (")
	if !ok {
		t.Fatal("timeline.py has no COLUMNS")
	}
	list, _, _ := strings.Cut(rest, ")")
	for _, m := range regexp.MustCompile(`"([a-z0-9_]+)"`).FindAllStringSubmatch(list, -1) {
		columns = append(columns, m[1])
	}
	if len(columns) != 13 {
		t.Errorf("%d columns found: %v", len(columns), columns)
	}
	for _, c := range columns {
		if !strings.Contains(sections["steps"], "`"+c+"`") {
			t.Errorf("events.md, ### steps: column `%s` is not described", c)
		}
	}
}

// goSources are the files of a room, without its tests.
func goSources(t *testing.T, room string) map[string]string {
	t.Helper()
	sources := map[string]string{}
	names, _ := filepath.Glob(filepath.Join(root, "internal", room, "*.go"))
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources[strings.TrimPrefix(filepath.ToSlash(name), root+"/")] = string(data)
	}
	if len(sources) == 0 {
		t.Fatalf("no source of internal/%s found", room)
	}
	return sources
}
