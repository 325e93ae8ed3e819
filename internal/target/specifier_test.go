package target

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"assay/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// TestAgainstPackaging: releases that a specifier of PEP 440 allows, and markers of PEP 508 that hold on a Mac, are
// those of PyPA's packaging.
func TestAgainstPackaging(t *testing.T) {
	specifiers := []string{"==2.0.1", "== 2.1", "==2.1.*", "!=2.1.*", "!=2.1.0", ">=2.1,<2.4", ">=2.1, <2.4, !=2.3.0",
		"~=2.1", "~=2.1.1", ">2.1", ">2.1.0", "<2.1", "<=2.1.2", "===2.1.0", "==v2.1.0", ">=2", "<3", "==2.9.0rc1",
		">=2.9.0rc1", "<2.10", ">=2.16.0.dev20260801"}
	versions := []string{"2.0.0", "2.0.1", "2.1.0", "2.1.1", "2.1.2", "2.2.0", "2.3.0", "2.3.1", "2.4.0", "2.8.0",
		"2.9.0",
		"2.9.1", "2.10.0", "2.15.0"}
	markers := []string{`sys_platform == "darwin"`, `sys_platform != 'darwin'`, `sys_platform == "linux"`,
		`platform_system == "Darwin" and platform_machine == "arm64"`,
		`platform_machine == "x86_64" or platform_machine == "arm64"`,
		`sys_platform == "darwin" and platform_machine == "x86_64"`,
		`(sys_platform == "win32" or sys_platform == "linux") and python_version >= "3.9"`,
		`sys_platform == "win32" or sys_platform == "linux" and python_version >= "3.9" or os_name == "posix"`,
		`python_version >= "3.12"`, `python_version < "3.12"`, `python_version == "3.11"`, `"3.10" < python_version`,
		`python_full_version < "3.11.8"`, `platform_machine in "arm64 aarch64"`, `platform_machine not in "x86_64"`,
		`"arm" in platform_machine`, `implementation_name == "pypy"`}
	question, err := json.Marshal(map[string][]string{"specifiers": specifiers, "versions": versions,
		"markers": markers})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testkit.Python(t), "testdata/packaging_oracle.py")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(question), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Allows [][]bool
		Holds  []bool
	}
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	for i, text := range specifiers {
		s, err := parseSpecifier(text, pep440)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for j, v := range versions {
			if s.allows(v) != want.Allows[i][j] {
				t.Errorf("%s allows %s: %v", text, v, s.allows(v))
			}
		}
	}
	for i, text := range markers {
		if got := onMac(text, "3.11.7"); got != map[bool]truth{true: yes, false: no}[want.Holds[i]] {
			t.Errorf("%s: %v, want %v", text, got, want.Holds[i])
		}
	}
}

// TestDialects: what Poetry and conda write otherwise, by their documentation.
func TestDialects(t *testing.T) {
	for _, c := range []struct {
		text       string
		by         dialect
		in, notIn  string
		wantsExact string
	}{
		{"^2.1", poetry, "2.1.0 2.15.0", "2.0.1 3.0.0", ""},
		{"~2.1", poetry, "2.1.0 2.1.2", "2.0.1 2.2.0", ""},
		{"~2", poetry, "2.1.0 2.15.0", "3.0.0", ""},
		{">=2.1 <2.4", poetry, "2.1.0 2.3.1", "2.4.0", ""},
		{"2.1.*", poetry, "2.1.0 2.1.2", "2.2.0", ""},
		{"2.1.0", poetry, "2.1.0", "2.1.1", "2.1.0"},
		{"2.1.0 || 2.3.0", poetry, "2.1.0 2.3.0", "2.2.0", ""},
		{"*", poetry, "2.0.0 2.15.0", "", ""},
		{"=2.1", conda, "2.1.0 2.1.2", "2.0.1 2.2.0 2.10.0", ""},
		{"==2.1.0", conda, "2.1.0", "2.1.1", "2.1.0"},
		{"=2.1.0=py3.11_0", conda, "2.1.0", "2.1.1", ""},
		{"2.1.0=py3.11_0", conda, "2.1.0", "2.1.1", "2.1.0"},
		{"2.1.*", conda, "2.1.0 2.1.2", "2.2.0", ""},
		{">=2.1,<2.3", conda, "2.1.0 2.2.2", "2.3.0", ""},
		{"2.1|2.3.*", conda, "2.1.0 2.3.1", "2.2.0", ""},
	} {
		s, err := parseSpecifier(c.text, c.by)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		for v := range strings.FieldsSeq(c.in) {
			if !s.allows(v) {
				t.Errorf("%s does not allow %s", c.text, v)
			}
		}
		for v := range strings.FieldsSeq(c.notIn) {
			if s.allows(v) {
				t.Errorf("%s allows %s", c.text, v)
			}
		}
		if s.exact() != c.wantsExact {
			t.Errorf("%s is exactly %q", c.text, s.exact())
		}
	}
	for _, text := range []string{"banana", ">=x", "^2.1", "2.1", "==2.1==3", ">=" + strings.Repeat("9", 200), "=2.1",
		strings.Repeat(">=2.1,", 500)} {
		if s, err := parseSpecifier(text, pep440); err == nil {
			t.Errorf("%.40s is read as %v", text, s)
		}
	}
}

// TestMarkersThatAreNotKnown: what is asked of an extra, of a Python that is not known, or in words that are none of
// PEP 508's, is not known. That a Mac is out can be known all the same.
func TestMarkersThatAreNotKnown(t *testing.T) {
	for text, want := range map[string]truth{
		`extra == "gpu"`:                             unknown,
		`python_version >= "3.9"`:                    unknown,
		`extra == "gpu" and sys_platform == "linux"`: no,
		`extra == "gpu" or sys_platform == "darwin"`: yes,
		`banana`:                          unknown,
		`sys_platform == "darwin" banana`: unknown,
		``:                                unknown,
		`sys_platform ==`:                 unknown,
		strings.Repeat("(", 10_000):       unknown,
		strings.Repeat(`os_name=="x" or `, 5000) + `"a"`: unknown,
	} {
		if got := onMac(text, ""); got != want {
			t.Errorf("%.60s: %v, want %v", text, got, want)
		}
	}
}
