package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"assay/internal/testkit"
	"assay/internal/testset"
)

const scripts = "testdata/script"

// transcripts runs the scripts of a folder: each in a folder of its own that is its user's home as well, without a
// variable of ours. Beside testscript's commands they have
//
//	recorded ROOM/NAME FOLDER   FOLDER/evidence.json becomes internal/ROOM/testdata/NAME.json, a recorded run
//	weights NAME…               files and folders of internal/weights/testdata, copied
//	golden NAME…                golden files of internal/golden/testdata, copied
//	status N                    the assay before ended with the exit status N
//	oneError                    what it said on standard error is one error, with a hint at most
func transcripts(t *testing.T, folder string, variables ...string) {
	testscript.Run(t, testscript.Params{
		Dir:                 folder,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv(statusFile, filepath.Join(env.WorkDir, ".tmp", "status"))
			for i := 0; i+1 < len(variables); i += 2 {
				env.Setenv(variables[i], variables[i+1])
			}
			return os.Mkdir(env.Getenv("HOME"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"recorded": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: recorded ROOM/NAME FOLDER")
				}
				room, name, _ := strings.Cut(args[0], "/")
				data, err := os.ReadFile(filepath.Join("..", room, "testdata", name+".json"))
				ts.Check(err)
				folder := ts.MkAbs(args[1])
				ts.Check(os.MkdirAll(folder, 0o755))
				ts.Check(os.WriteFile(filepath.Join(folder, "evidence.json"), data, 0o644))
			},
			"weights": copied("weights"),
			"golden":  copied("golden"),
			"status": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 1 {
					ts.Fatalf("usage: status N")
				}
				got, err := os.ReadFile(ts.Getenv(statusFile))
				ts.Check(err)
				if string(got) != args[0] {
					ts.Fatalf("assay ended with %s, want %s", got, args[0])
				}
				ts.Check(os.Remove(ts.Getenv(statusFile)))
			},
			"oneError": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 0 {
					ts.Fatalf("usage: oneError")
				}
				if said := ts.ReadFile("stderr"); !oneError.MatchString(said) {
					ts.Fatalf("not one error, and a hint at most:\n%s", said)
				}
			},
		},
	})
}

var oneError = regexp.MustCompile(`^assay: [^\n]+\n(  [^\n]+\n)?$`)

// TestScripts: each command's good and bad ways, as a user would type them.
func TestScripts(t *testing.T) { transcripts(t, scripts) }

// TestScriptsWithTorch: those that need a Python with PyTorch, which is $PYTHON.
func TestScriptsWithTorch(t *testing.T) {
	transcripts(t, filepath.Join(scripts, "torch"), "PYTHON", testkit.Python(t), "OMP_NUM_THREADS", "1")
}

// TestScriptsInFull: those that take minutes. $ASSAY_CACHE is where the environments of the tests are.
func TestScriptsInFull(t *testing.T) {
	testset.FullOnly(t)
	cache := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(testkit.Python(t))))) // CACHE/python/NAME/bin/python
	transcripts(t, filepath.Join(scripts, "full"), "ASSAY_CACHE", cache, "PYTHON", testkit.Python(t), "OMP_NUM_THREADS",
		"1")
}

var execAssay = regexp.MustCompile(`(?m)^(! )?exec assay(?: (.*))?$`)

// TestEveryCommandHasATranscript: a good way and a bad one of every command, those below log as well.
func TestEveryCommandHasATranscript(t *testing.T) {
	root := newRootCommand(&Env{})
	typed := map[string]bool{} // "! assay log show", "assay log show"
	for _, pattern := range []string{"*.txtar", "*/*.txtar"} {
		names, err := filepath.Glob(filepath.Join(scripts, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range execAssay.FindAllStringSubmatch(string(data), -1) {
				cmd, _, err := root.Find(strings.Fields(m[2]))
				if err == nil {
					typed[m[1]+cmd.CommandPath()] = true
				}
			}
		}
	}
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		for _, way := range []string{"", "! "} {
			if path := way + cmd.CommandPath(); cmd.Runnable() && !typed[path] {
				t.Errorf("no transcript in internal/cli/%s has: %sexec %s", scripts, way, strings.TrimPrefix(path, way))
			}
		}
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(root)
	if len(typed) < 20 {
		t.Error(fmt.Sprint("only these were found: ", typed))
	}
}

// copied is a command that copies files and folders of a room's testdata.
func copied(room string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) == 0 {
			ts.Fatalf("usage: %s NAME…", room)
		}
		for _, name := range args {
			from, to := filepath.Join("..", room, "testdata", name), ts.MkAbs(name)
			if info, err := os.Stat(from); err == nil && info.IsDir() {
				ts.Check(os.CopyFS(to, os.DirFS(from)))
				continue
			}
			data, err := os.ReadFile(from)
			ts.Check(err)
			ts.Check(os.WriteFile(to, data, 0o644))
		}
	}
}
