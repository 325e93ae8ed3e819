package target

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

var (
	// torch[opt]>=2.1,<2.4 ; marker
	requirementForm = regexp.MustCompile(`^(?i:torch)(?:\s*\[[^\]]*\])?\s*(?:\(([^)]*)\)|([=<>!~][^;]*))?\s*(?:;(.*))?$`)
	// torch @ https://…/torch-2.1.0-cp311-….whl ; marker, or the address alone
	addressForm = regexp.MustCompile(`^(?:(?i:torch)(?:\s*\[[^\]]*\])?\s*@\s*)?(\S*)\s*(?:;(.*))?$`)
	wheelForm   = regexp.MustCompile(`(?:^|/)torch-([0-9][^-/]*)-[^/]*?([a-z]+[a-z0-9]*_[^/]*|any)\.whl(?:[#?]|$)`)
	tagForm     = regexp.MustCompile(`(?i)github\.com/pytorch/pytorch(?:\.git)?@v(\d[^#\s]*)`)
	options     = regexp.MustCompile(`\s--?[a-z].*$`) // of a line: --hash=…
)

// requirement reads a line of pip's; others are passed over. nightly: the file asks for an index of nightly builds.
func (f *fileReader) requirement(line string, optional, nightly bool) {
	line = strings.TrimSpace(options.ReplaceAllString(line, ""))
	if m := requirementForm.FindStringSubmatch(line); m != nil {
		s := said{text: line, asks: m[1] + m[2], marker: m[3], optional: optional}
		if nightly && strings.TrimSpace(s.asks) == "" {
			s.text, s.asks = line+" (a nightly build)", ">=9999" // newer than any that is known
		}
		f.add(s)
		return
	}
	m := addressForm.FindStringSubmatch(line)
	if m == nil {
		return
	}
	if wheel := wheelForm.FindStringSubmatch(strings.ReplaceAll(m[1], "%2B", "+")); wheel != nil {
		mac := strings.HasPrefix(wheel[2], "macosx")
		f.add(said{text: "torch " + wheel[1], asks: "==" + wheel[1], marker: m[2], optional: optional, mac: mac,
			other: !mac && wheel[2] != "any"})
	} else if tag := tagForm.FindStringSubmatch(m[1]); tag != nil {
		f.add(said{text: "torch " + tag[1], asks: "==" + tag[1], marker: m[2], optional: optional})
	}
}

// readRequirements reads a file of pip's, and those below the project's folder that it includes.
func readRequirements(f *fileReader, data []byte) error {
	text := strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\\\n", " ")
	nightly := strings.Contains(text, "/whl/nightly")
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(" "+strings.TrimRight(line, "\n"), " #")
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if m := includeForm.FindStringSubmatch(line); m != nil {
			name := filepath.ToSlash(filepath.Join(filepath.Dir(f.name), m[1]))
			if filepath.IsLocal(name) && !strings.Contains(m[1], "://") {
				f.folder.file(name, f.kind)
			}
			continue
		}
		f.requirement(line, false, nightly)
	}
	return nil
}

var includeForm = regexp.MustCompile(`^(?:-r|-c|--requirement|--constraint)[ =]?\s*(\S+)$`)

// tomlTable reads a file that people write.
func tomlTable(data []byte) (map[string]any, error) {
	var all map[string]any
	err := toml.Unmarshal(data, &all)
	var at *toml.DecodeError
	if errors.As(err, &at) {
		row, column := at.Position()
		err = fmt.Errorf("line %d, column %d: %w", row, column, err)
	}
	return all, err
}

// below is what stands in tables within tables; nil where it does not.
func below(v any, names ...string) any {
	for _, name := range names {
		table, _ := v.(map[string]any)
		v = table[name]
	}
	return v
}

// tables are those of a table by their names, in order.
func tables(v any) (names []string, all map[string]any) {
	all, _ = v.(map[string]any)
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, all
}

func texts(v any) []string {
	list, _ := v.([]any)
	var all []string
	for _, item := range list {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

func readPyproject(f *fileReader, data []byte) error {
	all, err := tomlTable(data)
	if err != nil {
		return err
	}
	requirements := func(v any, optional bool) {
		for _, line := range texts(v) {
			f.requirement(line, optional, false)
		}
	}
	requirements(below(all, "project", "dependencies"), false)
	tool := below(all, "tool")
	for _, name := range []string{"override-dependencies", "constraint-dependencies"} {
		requirements(below(tool, "uv", name), false)
	}
	requirements(below(tool, "uv", "dev-dependencies"), true)
	for _, groups := range []any{below(all, "project", "optional-dependencies"), below(all, "dependency-groups"),
		below(tool, "pdm", "dev-dependencies")} {
		names, lists := tables(groups)
		for _, name := range names {
			requirements(lists[name], true)
		}
	}
	f.table(below(tool, "poetry", "dependencies"), "torch", poetry, said{})
	f.table(below(tool, "poetry", "dev-dependencies"), "torch", poetry, said{optional: true})
	names, groups := tables(below(tool, "poetry", "group"))
	for _, name := range names {
		f.table(below(groups[name], "dependencies"), "torch", poetry, said{optional: true})
	}
	f.pixi(below(tool, "pixi"))
	return nil
}

// table takes a dependency from a table: torch = "^2.1", { version = …, markers = … } or a list of those. as says what
// holds for all of them.
func (f *fileReader) table(v any, name string, by dialect, as said) {
	table, _ := v.(map[string]any)
	v, there := table[name]
	if !there {
		return
	}
	list, many := v.([]any)
	if !many {
		list = []any{v}
	}
	for _, one := range list {
		s := as
		s.by = by
		switch one := one.(type) {
		case string:
			s.asks = one
		case map[string]any:
			s.asks, _ = one["version"].(string)
			s.marker, _ = one["markers"].(string)
			if platform, _ := one["platform"].(string); platform != "" {
				s.mac, s.other = platform == "darwin", platform != "darwin"
			}
			if optional, _ := one["optional"].(bool); optional {
				s.optional = true
			}
			if url, _ := one["url"].(string); url != "" {
				f.requirement("torch @ "+url, s.optional, false)
				continue
			}
		}
		s.text = strings.TrimSpace(fmt.Sprintf("%s = %q", name, s.asks))
		f.add(s)
	}
}

func readPixi(f *fileReader, data []byte) error {
	all, err := tomlTable(data)
	if err == nil {
		f.pixi(all)
	}
	return err
}

// pixi takes the dependencies of a table of pixi's: those for all systems, those for a Mac, and those of features.
func (f *fileReader) pixi(v any) {
	both := func(v any, as said) {
		f.table(below(v, "dependencies"), "pytorch", conda, as)
		f.table(below(v, "pypi-dependencies"), "torch", conda, as)
		names, targets := tables(below(v, "target"))
		for _, name := range names {
			on := as
			on.mac = name == "osx-arm64" || name == "osx" || name == "unix" && as.mac
			on.other = !on.mac && name != "unix"
			f.table(below(targets[name], "dependencies"), "pytorch", conda, on)
			f.table(below(targets[name], "pypi-dependencies"), "torch", conda, on)
		}
	}
	both(v, said{})
	names, features := tables(below(v, "feature"))
	for _, name := range names {
		both(features[name], said{optional: true})
	}
}

func readPipfile(f *fileReader, data []byte) error {
	all, err := tomlTable(data)
	if err == nil {
		f.table(below(all, "packages"), "torch", poetry, said{})
		f.table(below(all, "dev-packages"), "torch", poetry, said{optional: true})
	}
	return err
}

// readSetupCfg reads the lists install_requires and those of extras.
func readSetupCfg(f *fileReader, data []byte) error {
	section, key := "", ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || trimmed[0] == '#':
		case trimmed[0] == '[' && line[0] == '[':
			section, key = strings.Trim(trimmed, "[] "), ""
		default:
			if line[0] != ' ' && line[0] != '\t' {
				key, trimmed, _ = strings.Cut(trimmed, "=")
				key, trimmed = strings.TrimSpace(key), strings.TrimSpace(trimmed)
			}
			if section == "options" && key == "install_requires" || section == "options.extras_require" {
				trimmed, _, _ = strings.Cut(trimmed, " #")
				for item := range strings.SplitSeq(trimmed, "\n") {
					f.requirement(item, section != "options", false)
				}
			}
		}
	}
	return nil
}

var quotedTorch = regexp.MustCompile(`"(torch(?:[\s\[=<>!~;@(][^"\n]*)?)"|'(torch(?:[\s\[=<>!~;@(][^'\n]*)?)'`)

// readSetupPy takes the texts that read as a requirement, behind install_requires: nothing of it is run. A release that
// is put together is not seen.
func readSetupPy(f *fileReader, data []byte) error {
	text := string(data)
	at := strings.Index(text, "requires")
	if at < 0 {
		return nil
	}
	extras := strings.Index(text, "extras_require")
	offset := 0
	for line := range strings.Lines(text) {
		from := offset
		offset += len(line)
		line, _, _ = strings.Cut(line, "#")
		for _, m := range quotedTorch.FindAllStringSubmatch(line, -1) {
			requirement := m[1] + m[2]
			// A bare "torch" may be anything: a name in a list of modules, a keyword.
			if strings.TrimSpace(requirement) != "torch" {
				f.requirement(requirement, extras >= 0 && from > extras, false)
			}
		}
	}
	return nil
}

var condaForm = regexp.MustCompile(`^(?:[\w./-]+::)?(pytorch|torch|pytorch-cpu)(?:\s*$|\s*([=<>!~].*)$|\s+(\d\S*).*$)`)

// readEnvironment reads the lists of conda's environment file, and the one of pip's within them.
func readEnvironment(f *fileReader, data []byte) error {
	pip := -1 // the indentation of "- pip:"
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(strings.TrimRight(line, "\r\n"), " #")
		indent := len(line) - len(strings.TrimLeft(line, " "))
		trimmed := strings.TrimSpace(line)
		if pip >= 0 && trimmed != "" && indent <= pip {
			pip = -1
		}
		list := []string{}
		if item, ok := strings.CutPrefix(trimmed, "- "); ok {
			list = append(list, item)
		} else if items, ok := strings.CutPrefix(trimmed, "dependencies:"); ok {
			list = strings.Split(strings.Trim(items, " []"), ",")
		}
		for _, item := range list {
			item = strings.Trim(strings.TrimSpace(item), `"'`)
			switch {
			case item == "pip:":
				pip = indent
			case pip >= 0:
				f.requirement(item, false, false)
			default:
				if m := condaForm.FindStringSubmatch(item); m != nil {
					f.add(said{text: item, asks: m[2] + m[3], by: conda})
				}
			}
		}
	}
	return nil
}

// readPackageBlocks reads lock files that have a table for each package: uv's, Poetry's, PDM's, and pylock.toml. Only
// torch's own tables are parsed: the others are many.
func readPackageBlocks(f *fileReader, data []byte) error {
	rest := slices.Concat([]byte("\n"), data)
	for found := 0; found < maxFiles; {
		at := bytes.Index(rest, []byte("\n[[package"))
		if at < 0 {
			return nil
		}
		rest = rest[at+1:]
		block := rest
		if end := bytes.Index(rest[1:], []byte("\n[[package")); end >= 0 {
			block = rest[:end+2]
		}
		if !torchBlock.Match(block) {
			continue
		}
		found++
		var file struct {
			Package, Packages []struct {
				Name    string
				Version string
				Markers any      // Poetry: a text, or a table by group
				Marker  string   // pylock
				Forks   []string `toml:"resolution-markers"` // uv: of which one holds
				Groups  []string // Poetry
				Source  any
			}
		}
		if err := toml.Unmarshal(block, &file); err != nil {
			return fmt.Errorf("the table of torch: %w", err)
		}
		for _, p := range append(file.Package, file.Packages...) {
			if p.Name != "torch" || p.Version == "" {
				continue
			}
			s := said{text: "torch " + p.Version, asks: "==" + p.Version, marker: p.Marker}
			s.optional = len(p.Groups) > 0 && !slices.Contains(p.Groups, "main") &&
				!slices.Contains(p.Groups, "default")
			if text, ok := p.Markers.(string); ok {
				s.marker = text
			}
			if len(p.Forks) > 0 {
				s.marker = "(" + strings.Join(p.Forks, ") or (") + ")"
			}
			if strings.Contains(p.Version, "+cu") || strings.Contains(p.Version, "+rocm") {
				s.other = true
			}
			f.add(s)
		}
	}
	return nil
}

var torchBlock = regexp.MustCompile(`(?m)^name\s*=\s*["']torch["']`)

func readPipfileLock(f *fileReader, data []byte) error {
	type entry struct{ Version, Markers string }
	var file struct {
		Default, Develop map[string]json.RawMessage
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return err
	}
	for i, group := range []map[string]json.RawMessage{file.Default, file.Develop} {
		var e entry
		if raw := group["torch"]; raw != nil && json.Unmarshal(raw, &e) == nil && e.Version != "" {
			f.add(said{text: "torch" + e.Version, asks: e.Version, marker: e.Markers, optional: i == 1})
		}
	}
	return nil
}

var (
	condaURL     = regexp.MustCompile(`/([a-z]+-[a-z0-9_]+|noarch)/pytorch-(\d[^-/]*)-[^/]*\.(?:conda|tar\.bz2)`)
	condaName    = regexp.MustCompile(`^name:\s*["']?(pytorch|torch)["']?$`)
	condaVersion = regexp.MustCompile(`^version:\s*["']?([^"'\s]+)["']?$`)
	condaSystem  = regexp.MustCompile(`^(?:platform|subdir):\s*["']?([^"'\s]+)["']?$`)
)

// readCondaBlocks reads conda-lock's and pixi's lock files: addresses of packages, and items of a list with a name and
// a version.
func readCondaBlocks(f *fileReader, data []byte) error {
	seen := map[string]bool{}
	add := func(version, system string) {
		if version == "" || seen[version+" "+system] || len(seen) > maxFiles {
			return
		}
		seen[version+" "+system] = true
		f.add(said{text: "torch " + version, asks: "==" + version, mac: system == "osx-arm64",
			other: system != "osx-arm64" && system != "noarch" && system != ""})
	}
	name, version, system := false, "", ""
	flush := func() {
		if name {
			add(version, system)
		}
		name, version, system = false, "", ""
	}
	for line := range strings.Lines(string(data)) {
		trimmed := strings.TrimSpace(line)
		if item, ok := strings.CutPrefix(trimmed, "- "); ok {
			if line[0] == '-' || strings.HasPrefix(line, "  - ") || strings.Contains(item, "://") {
				flush()
			}
			trimmed = strings.TrimSpace(item)
		}
		if m := condaURL.FindStringSubmatch(trimmed); m != nil {
			add(m[2], m[1])
		} else if m := wheelForm.FindStringSubmatch(trimmed); m != nil {
			wheel := ""
			if strings.HasPrefix(m[2], "macosx") {
				wheel = "osx-arm64"
			} else if m[2] != "any" {
				wheel = m[2]
			}
			add(m[1], wheel)
		} else if condaName.MatchString(trimmed) {
			name = true
		} else if m := condaVersion.FindStringSubmatch(trimmed); m != nil {
			version = m[1]
		} else if m := condaSystem.FindStringSubmatch(trimmed); m != nil {
			system = m[1]
		}
	}
	flush()
	return nil
}
