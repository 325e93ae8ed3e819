package cli

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/testkit"
)

// foreignFiles makes, each in a folder of its own, files that $ASSAY_LOGBOOK may name by mistake: a browser's, closed
// and in use, MLflow's, text.
func foreignFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	at := func(name string) string {
		files[name] = filepath.Join(t.TempDir(), name)
		return files[name]
	}
	database := func(path string, statements ...string) {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { db.Close() })
		for _, s := range statements {
			if _, err := db.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		if len(statements) < 3 {
			db.Close()
		}
	}
	database(at("places.sqlite"), "PRAGMA user_version=77", "CREATE TABLE moz_places(url)")
	database(at("mlflow.db"), "CREATE TABLE runs(run_uuid, name)", "CREATE TABLE alembic_version(version_num)")
	database(at("in-use.sqlite"), "PRAGMA journal_mode=WAL", "CREATE TABLE moz_cookies(value)",
		"INSERT INTO moz_cookies VALUES('x')")
	write(t, at("notes.txt"), "somebody wants to keep this\n")
	return files
}

// around is what lies in the file's folder: names, times, bytes.
func around(t *testing.T, path string) string {
	t.Helper()
	var out strings.Builder
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		data, readErr := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
		if err != nil || readErr != nil {
			t.Fatal(err, readErr)
		}
		fmt.Fprintf(&out, "%s %v %d %x\n", e.Name(), info.Mode(), info.ModTime().UnixNano(), data)
	}
	return out.String()
}

// TestForeignFilesUnderEveryCommand: whatever is done with another program's file for a logbook, it and its folder stay
// byte for byte, and the error says that it is no logbook.
func TestForeignFilesUnderEveryCommand(t *testing.T) {
	for name, file := range foreignFiles(t) {
		dir := t.TempDir()
		recordedRun(t, recordedRuns+"cpu.json", dir, "run")
		write(t, filepath.Join(dir, "baseline.toml"),
			"[[gate]]\nname = \"x\"\nrule = \"step.time within 5 % of baseline\"\n")
		environ := []string{"ASSAY_LOGBOOK=" + file}
		before := around(t, file)
		for _, args := range [][]string{
			{"log"}, {"log", "show", "3f2a91"}, {"log", "diff", "3f2a91", "77bc02"}, {"log", "note", "3f2a91", "text"},
			{"log", "reject", "hypothesis", "--because", "reason"}, {"log", "facts", "3f2a91", "--checksum", "run"},
			{"log", "query", "SELECT 1"},
			{"log", "export", "--csv"}, {"log", "import", "run"}, {"log", "verify"}, {"gate", "3f2a91"},
			{"verdict", "3f2a91"}, {"verdict"},
			{"gate", "run", "--policy", "baseline.toml"}, {"gate", "run", "--policy", "baseline.toml", "--against",
				file}, {"explain", "3f2a91"}, {"log", "--logbook", file},
			{"log", "import", file, "--logbook", filepath.Join(dir, "mine.db")},
		} {
			out, errs, code := command(t, dir, environ, args...)
			if code == 0 {
				t.Errorf("%s: assay %s ended with 0\n%s%s", name, strings.Join(args, " "), out, errs)
			}
			// a text is refused as evidence
			asked := args[0] == "log" && !(len(args) > 2 && args[2] == file && name == "notes.txt")
			if asked && !strings.Contains(errs, "not a logbook") {
				t.Errorf("%s: assay %s says not that it is no logbook\n%s%s", name, strings.Join(args, " "), out, errs)
			}
			if after := around(t, file); after != before {
				t.Fatalf("%s: assay %s changed it\n%.2000s\nto\n%.2000s", name, strings.Join(args, " "), before, after)
			}
		}
	}
}

// TestRunBesideAForeignFile: a training ends as it would, its evidence is there, and one line says that it was not
// recorded, why, and what to do.
func TestRunBesideAForeignFile(t *testing.T) {
	python := testkit.Python(t)
	for name, file := range foreignFiles(t) {
		dir, before := t.TempDir(), around(t, file)
		_, errs, code := command(t, dir, append(os.Environ(), "ASSAY_LOGBOOK="+file), "run", "-q", "--out", "out", "--",
			python, "-c", "raise SystemExit(3)")
		if code != 3 || strings.Count(errs, "not recorded") != 1 || !strings.Contains(errs, "assay log import out") ||
			!strings.Contains(errs, file) {
			t.Errorf("%s: status %d\n%s", name, code, errs)
		}
		if _, err := os.Stat(filepath.Join(dir, "out", "evidence.json")); err != nil {
			t.Error(err)
		}
		if after := around(t, file); after != before {
			t.Errorf("%s was changed", name)
		}
	}
}
