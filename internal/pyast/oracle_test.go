package pyast

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/testkit"
)

// TestOracle compares our trees with those of CPython's ast over its standard library, node by node with positions. Its
// tests are left out but for those of the grammar; tools/pyast reads everything.
func TestOracle(t *testing.T) {
	python := testkit.Python(t)
	found, err := exec.Command(python, "-c", "import ast; print(ast.__file__)").Output()
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Dir(strings.TrimSpace(string(found)))
	var files []string
	err = filepath.WalkDir(lib, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case d.IsDir() && (name == "test" || name == "tests" || name == "site-packages" || name == "dist-packages" ||
			name == "idlelib" || name == "ensurepip"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".py"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"test_grammar", "test_fstring", "test_patma", "test_unpack_ex", "test_except_star",
		"test_coroutines", "test_string_literals"} {
		if path := filepath.Join(lib, "test", name+".py"); exists(path) {
			files = append(files, path)
		}
	}
	if len(files) < 300 {
		t.Fatalf("%d files of the standard library in %s", len(files), lib)
	}

	cmd := exec.Command(python, "-X", "utf8", "testdata/oracle.py")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	// All paths are written ahead, so that both sides work at once.
	go io.WriteString(in, strings.Join(files, "\n")+"\n")
	out := bufio.NewReaderSize(stdout, 1<<20)
	var major, minor int
	if _, err := fmt.Fscanf(out, "%d.%d\n", &major, &minor); err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file := Parse(src, Options{})
		var status string
		var n int
		if _, err := fmt.Fscanf(out, "%s %d\n", &status, &n); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		want := make([]byte, n)
		if _, err := io.ReadFull(out, want); err != nil {
			t.Fatal(err)
		}
		switch got := file.Dump(nil, DumpOptions{LooseFStrings: minor < 12}); {
		case status == "skip":
		case (status == "error") != (file.Err() != nil):
			// What an older Python rejects may have become right since.
			if status != "error" || minor >= 14 {
				t.Errorf("%s: CPython: %s %.100s; we: %v", path, status, want, file.Err())
			}
		case status == "ok" && !bytes.Equal(got, want):
			i := 0
			for i < min(len(got), len(want)) && got[i] == want[i] {
				i++
			}
			t.Errorf("%s: the trees differ\n got  %.300s\n want %.300s", path, got[max(0, i-150):],
				want[max(0, i-150):])
		}
	}
	t.Logf("%d files, Python %d.%d", len(files), major, minor)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
