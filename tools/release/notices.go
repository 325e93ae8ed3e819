package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// noticesName is the file of the licences of what is linked in: most of them ask to go along with binaries.
const noticesName = "THIRD_PARTY_LICENSES.txt"

// licenceFile is how modules call the files that hold their terms.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-.].*)?$`)

// linked are the modules that the binaries have in them, and the files that hold their terms.
type linked struct {
	modules map[string]map[string]string // module@version → the file's name, with its folder in the module → path
	goRoot  string
}

// add takes those of the binary for one platform: of each package the terms in its folder and in those above it.
func (l *linked) add(ctx context.Context, s *source, p platform) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", "./cmd/assay")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := runGo(cmd, s, p); err != nil {
		return err
	}
	if l.modules == nil {
		l.modules = map[string]map[string]string{}
	}
	for line := range strings.Lines(out.String()) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 { // Go's own, or ours
			continue
		}
		module, top, folder := fields[0], fields[1], fields[2]
		if l.modules[module] == nil {
			l.modules[module] = map[string]string{}
		}
		for ; strings.HasPrefix(folder, top); folder = filepath.Dir(folder) {
			if err := l.take(module, top, folder); err != nil {
				return err
			}
		}
	}
	out.Reset()
	cmd = exec.CommandContext(ctx, "go", "env", "GOROOT")
	cmd.Stdout = &out
	err := runGo(cmd, s, p)
	l.goRoot = strings.TrimSpace(out.String())
	return err
}

func (l *linked) take(module, top, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && licenceFile.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
			path := filepath.Join(folder, e.Name())
			name, err := filepath.Rel(top, path)
			if err != nil {
				return err
			}
			l.modules[module][filepath.ToSlash(name)] = path
		}
	}
	return nil
}

// notices are the texts, module by module. A module without one is an error: nobody knows whether it may go along.
func (l *linked) notices(s *source) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("assay is under the Apache License 2.0 (LICENSE). Linked into its binary are:\n")
	text := func(title, path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), title, bytes.TrimSpace(data))
		return nil
	}
	if err := text("Go's standard library: LICENSE", filepath.Join(l.goRoot, "LICENSE")); err != nil {
		return nil, err
	}
	for _, module := range slices.Sorted(maps.Keys(l.modules)) {
		files := l.modules[module]
		if len(files) == 0 {
			return nil, fmt.Errorf("licences of %s: the module %s has no file of that name", s.version, module)
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if err := text(module+": "+name, files[name]); err != nil {
				return nil, err
			}
		}
	}
	return b.Bytes(), nil
}
