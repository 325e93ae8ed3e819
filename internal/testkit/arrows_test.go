package testkit

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root of the repository, as seen from this package's tests.
const root = "../.."

// arrows says which rooms a room may import. Nothing imports internal/cli but the command itself.
var arrows = map[string][]string{
	"agent":           {},
	"examples":        {},
	"python":          {},
	"cmd/assay":       {"internal/cli"},
	"internal/atlas":  {"internal/text"},
	"internal/ci":     {},
	"internal/claims": {"internal/atlas", "internal/facts", "internal/text"},
	"internal/audit": {"internal/abstract", "internal/atlas", "internal/ci", "internal/claims", "internal/facts",
		"internal/file",
		"internal/pyast", "internal/target",
		"internal/text"},
	"internal/audit/rules": {"internal/abstract", "internal/atlas", "internal/audit", "internal/evidence",
		"internal/facts", "internal/pyast", "internal/python", "internal/target"},
	"internal/cli": {"agent", "examples", "internal/atlas", "internal/attempt", "internal/audit",
		"internal/audit/rules", "internal/bundle", "internal/claims", "internal/convert", "internal/evidence",
		"internal/facts",
		"internal/fault", "internal/file", "internal/fit", "internal/fleet", "internal/fold", "internal/layout",
		"internal/gate", "internal/golden", "internal/handoff", "internal/host", "internal/launch",
		"internal/logbook", "internal/lsp",
		"internal/models", "internal/node",
		"internal/pace", "internal/probe", "internal/python", "internal/remote", "internal/replay", "internal/report",
		"internal/secret", "internal/serve", "internal/signature", "internal/stats",
		"internal/steps", "internal/suite", "internal/sweep", "internal/symptom", "internal/target", "internal/text",
		"internal/trajectory", "internal/unit",
		"internal/verdict", "internal/weights"},
	"internal/bundle": {"internal/evidence", "internal/fault", "internal/file", "internal/secret", "internal/text",
		"internal/unit"},
	"internal/node": {"internal/bundle", "internal/fault", "internal/file", "internal/launch", "internal/secret",
		"internal/unit"},
	"internal/remote": {"internal/fault", "internal/file", "internal/node", "internal/text", "internal/unit"},
	"internal/fleet": {"agent", "internal/bundle", "internal/events", "internal/evidence", "internal/fault",
		"internal/file", "internal/node", "internal/remote", "internal/secret", "internal/text", "internal/unit"},
	"internal/handoff": {"internal/bundle", "internal/catalogue", "internal/evidence", "internal/fault",
		"internal/file", "internal/stats", "internal/text", "internal/unit"},
	"internal/serve": {"internal/catalogue", "internal/events", "internal/evidence", "internal/fault", "internal/file",
		"internal/gate", "internal/logbook", "internal/probe", "internal/report", "internal/text", "internal/unit"},
	"internal/abstract": {"internal/pyast"},
	"internal/attempt": {"internal/catalogue", "agent", "internal/atlas", "internal/evidence", "internal/facts",
		"internal/fault",
		"internal/file", "internal/target", "internal/text", "internal/unit"},
	"internal/cli/guest": {"internal/evidence", "internal/target"},
	"internal/evidence":  {},
	"internal/facts":     {"internal/atlas", "internal/evidence"},
	"internal/fault":     {},
	"internal/fit":       {"internal/evidence", "internal/fault", "internal/text", "internal/unit"},
	"internal/secret":    {},
	"internal/file":      {},
	"internal/stats":     {},
	"internal/text":      {},
	"internal/unit":      {},
	"internal/catalogue": {},
	"internal/gate": {"internal/catalogue", "internal/evidence", "internal/fault", "internal/stats",
		"internal/text", "internal/trajectory", "internal/unit"},
	"internal/trajectory": {"internal/evidence", "internal/fault", "internal/stats", "internal/text", "internal/unit"},
	"internal/verdict":    {"internal/evidence", "internal/facts", "internal/gate", "internal/text", "internal/unit"},
	"internal/symptom": {"internal/atlas", "internal/claims", "internal/evidence", "internal/facts", "internal/stats",
		"internal/target",
		"internal/text", "internal/unit"},
	"internal/golden": {"agent", "internal/evidence", "internal/fault", "internal/text", "internal/unit",
		"internal/weights"},
	"internal/host": {"internal/catalogue", "internal/evidence", "internal/fault", "internal/secret",
		"internal/stats", "internal/unit"},
	"internal/logbook": {"internal/catalogue", "internal/evidence", "internal/fault", "internal/secret",
		"internal/stats", "internal/text", "internal/unit"},
	"internal/lsp": {"internal/abstract", "internal/atlas", "internal/audit", "internal/facts", "internal/pyast",
		"internal/text"},
	"internal/models": {"internal/atlas", "internal/facts", "internal/text", "internal/unit"},
	"internal/events": {"internal/file"},
	"internal/fold": {"internal/atlas", "internal/catalogue", "internal/evidence", "internal/facts", "internal/stats",
		"internal/target", "internal/unit"},
	"internal/launch": {"internal/fault"},
	"internal/probe": {"agent", "internal/events", "internal/evidence", "internal/fault", "internal/file",
		"internal/fold", "internal/launch", "internal/secret", "internal/target"},
	"internal/pickle": {"internal/fault"},
	"internal/pyast":  {},
	"internal/pace":   {"internal/atlas", "internal/evidence", "internal/fault", "internal/target"},
	"internal/python": {"internal/evidence", "internal/fault", "internal/file", "internal/text", "internal/unit"},
	"internal/replay": {"agent", "internal/atlas", "internal/evidence", "internal/facts", "internal/fault",
		"internal/file", "internal/secret", "internal/signature", "internal/target", "internal/text",
		"internal/unit"},
	"internal/report": {"internal/catalogue", "internal/evidence", "internal/fault", "internal/stats",
		"internal/suite", "internal/target", "internal/text", "internal/unit"},
	"internal/steps": {"internal/evidence", "internal/fault", "internal/golden", "internal/text",
		"internal/weights"},
	"internal/suite": {"internal/atlas", "internal/ci", "internal/events", "internal/facts", "internal/fault",
		"internal/file", "internal/launch", "internal/target", "internal/text"},
	"internal/sweep": {"internal/evidence", "internal/fault", "internal/file", "internal/secret", "internal/stats",
		"internal/symptom", "internal/text", "internal/unit"},
	"internal/target":    {"internal/atlas", "internal/evidence", "internal/fault"},
	"internal/testkit":   {"internal/evidence", "internal/python", "internal/testset"},
	"internal/testset":   {},
	"internal/convert":   {"internal/fault", "internal/layout", "internal/text", "internal/weights"},
	"internal/layout":    {"internal/weights"},
	"internal/hdf5":      {"internal/fault"},
	"internal/signature": {"internal/events", "internal/fault", "internal/file"},
	"internal/weights": {"internal/fault", "internal/file", "internal/hdf5", "internal/pickle", "internal/text",
		"internal/unit"},
}

// outside says which modules a room may import. Tests may use any that go.mod names.
var outside = map[string][]string{
	"internal/claims": {"github.com/pelletier/go-toml/v2"},
	"internal/audit":  {"github.com/pelletier/go-toml/v2"},
	"internal/bundle": {"github.com/klauspost/compress", "github.com/pelletier/go-toml/v2",
		"go.yaml.in/yaml/v3"}, // locks of others are TOML and YAML
	"internal/cli":     {"github.com/spf13/cobra", "github.com/spf13/pflag"},
	"internal/fleet":   {"github.com/pelletier/go-toml/v2"},
	"internal/node":    {"golang.org/x/sys"},
	"internal/convert": {"github.com/pelletier/go-toml/v2"},
	"internal/facts":   {"github.com/pelletier/go-toml/v2"},
	"internal/gate":    {"github.com/pelletier/go-toml/v2"},
	"internal/symptom": {"github.com/pelletier/go-toml/v2"},
	"internal/target":  {"github.com/pelletier/go-toml/v2"},
	"internal/host":    {"github.com/ebitengine/purego", "golang.org/x/sys"},
	"internal/logbook": {"github.com/klauspost/compress", "github.com/parquet-go/parquet-go", "modernc.org/sqlite"},
	"internal/launch":  {"golang.org/x/sys"},
	"internal/pyast":   {"golang.org/x/text"},
	"internal/testkit": {"golang.org/x/sys"},
}

// TestArrows holds the direction of imports, on every system at once: files are read whatever they are built for.
func TestArrows(t *testing.T) {
	for file, imports := range goImports(t) {
		room := filepath.ToSlash(filepath.Dir(file))
		if room == "tools" || strings.HasPrefix(room, "tools/") { // commands of their own, which nothing imports
			continue
		}
		allowed, known := arrows[room]
		if !known {
			t.Errorf("%s: the room %s is not in the table of arrows: say there what it may import", file, room)
			continue
		}
		test := strings.HasSuffix(file, "_test.go")
		for _, path := range imports {
			name, ours := strings.CutPrefix(path, "assay/")
			switch {
			case ours && (name == room || slices.Contains(allowed, name)):
			case ours && test && (name == "internal/testkit" || name == "internal/testset" ||
				room == "internal/testkit" && name == "agent"):
			case ours:
				t.Errorf("%s imports %s: %s may import %v", file, path, room, allowed)
			case !strings.Contains(strings.Split(path, "/")[0], "."): // the standard library
			case test:
			case !slices.ContainsFunc(outside[room], func(m string) bool {
				return path == m ||
					strings.HasPrefix(path, m+"/")
			}):
				t.Errorf("%s imports %s: %s may import %v", file, path, room, outside[room])
			}
		}
	}
}

// TestRoomsExist: a room that is gone leaves the table, too.
func TestRoomsExist(t *testing.T) {
	for room := range arrows {
		if found, _ := filepath.Glob(filepath.Join(root, room, "*.go")); len(found) == 0 {
			t.Errorf("the table of arrows names %s, which has no Go file", room)
		}
	}
}

func goImports(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		found[name] = []string{}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			found[name] = append(found[name], imported)
		}
		return nil
	})
	if err != nil || len(found) < 20 {
		t.Fatalf("read the imports: %d files, %v", len(found), err)
	}
	return found
}

var pythonImport = regexp.MustCompile(`(?m)^[ \t]*(?:import[ \t]+([A-Za-z_][A-Za-z0-9_.]*)|from[ \t]+([A-Za-z_][A-Za-z0-9_.]*)[ \t]+import)`)

// agentModules are the modules that the agent imports in somebody else's process: the standard library's, and torch,
// jax, optax, keras and tensorflow, which the script has imported before. difflib, select and signal are attempt.py's,
// whose process is assay's own; dis, opcode (which dis is made of), inspect and random are imported where the framework
// has done so long before.
var agentModules = []string{"_signal", "_thread", "assay_agent", "ast", "atexit", "bisect", "collections", "contextlib",
	"ctypes", "difflib", "dis", "functools", "gc",
	"importlib", "inspect", "itertools", "jax", "json", "keras", "linecache", "math", "multiprocessing", "opcode",
	"optax", "os",
	"platform", "random", "re", "resource", "select", "signal", "sitecustomize",
	"socket", "struct", "sys", "tensorflow", "threading", "time", "torch", "tracemalloc", "types", "warnings",
	"weakref"}

// TestAgentImports: the agent needs nothing that the script does not have. A new module in the list costs every watched
// process its import. golden/ is no part of that, nor are replay/ and fleet/: they are programs, of whose files a
// watched process loads none (agent/tests/test_frameworks.py holds it). Nor is steps/, which records where a command
// asked for it, with numpy.
func TestAgentImports(t *testing.T) {
	used := map[string]bool{}
	for name, source := range agentSources(t) {
		folder := filepath.Base(filepath.Dir(name))
		if slices.Contains([]string{"fleet", "golden", "replay", "steps"}, folder) {
			continue
		}
		for _, m := range pythonImport.FindAllStringSubmatch(source, -1) {
			module, _, _ := strings.Cut(m[1]+m[2], ".")
			used[module] = true
			if !slices.Contains(agentModules, module) {
				t.Errorf("%s imports %s, which is not in the list", name, module)
			}
		}
	}
	for _, module := range agentModules {
		if !used[module] {
			t.Errorf("the list names %s, which the agent no longer imports", module)
		}
	}
}

// agentSources are the agent's Python files by name.
func agentSources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	for _, pattern := range []string{"agent/boot/*.py", "agent/assay_agent/*.py", "agent/assay_agent/*/*.py",
		"agent/assay_agent/*/*/*.py"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sources[strings.TrimPrefix(filepath.ToSlash(name), root+"/")] = string(data)
		}
	}
	if len(sources) < 10 {
		t.Fatalf("%d files of the agent found", len(sources))
	}
	return sources
}
