package bundle

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/secret"
)

// moved are folders of the machine that packs, and where what is in them lies below Root: the longest first.
type moved [][2]string

func (m *moved) add(here, there string) {
	if here == "" || here == "/" {
		return
	}
	*m = append(*m, [2]string{here, there})
	slices.SortStableFunc(*m, func(a, b [2]string) int { return len(b[0]) - len(a[0]) })
}

// path gives where a path of this machine lies below Root; ok is false where it does not.
func (m moved) path(p string) (string, bool) {
	for _, f := range m {
		if p == f[0] {
			return f[1], true
		}
		if rest, ok := strings.CutPrefix(p, strings.TrimSuffix(f[0], "/")+"/"); ok {
			return path.Join(f[1], rest), true
		}
	}
	return "", false
}

// absolute is a path that a word or a value is, or that stands behind its "=": --data=/x.
var absolute = regexp.MustCompile(`^(|-{1,2}[\w.-]+=|[\w.]+=)((?:/|~/).*)$`)

// harmlessPaths are there on every system that has units.
var harmlessPaths = []string{"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/shm", "/tmp", "/bin/sh",
	"/usr/bin/env"}

// word gives a word of a command as it is below Root; local is the path in it that exists on this machine alone.
func (m moved) word(w string) (there, local string) {
	at := absolute.FindStringSubmatch(w)
	if at == nil {
		return w, ""
	}
	if there, ok := m.path(path.Clean(at[2])); ok {
		return at[1] + there, ""
	}
	for _, p := range harmlessPaths {
		if at[2] == p || strings.HasPrefix(at[2], p+"/") {
			return w, ""
		}
	}
	return w, at[2]
}

var (
	pythonName = regexp.MustCompile(`^python(w|[0-9.]*)t?$`)
	// runners make an environment of the project and run a command in it: `uv run train.py`.
	runners = map[string]bool{"uv": true, "poetry": true, "pdm": true, "pipenv": true, "pixi": true, "rye": true,
		"hatch": true}
	// ofEnvironment are variables that name the environment of Python: the one made there is another.
	ofEnvironment = map[string]bool{"VIRTUAL_ENV": true, "CONDA_PREFIX": true, "PYTHONHOME": true,
		"PYTHONEXECUTABLE": true, "VIRTUAL_ENV_PROMPT": true, "UV_PROJECT_ENVIRONMENT": true}
)

// command gives what was run as it runs below Root. bin is the folder of the run's interpreter.
func command(run *evidence.Run, dir, bin string, places moved, secrets *secret.Set) Command {
	c := Command{Dir: path.Join(Root, CodePlace, dir), Variables: map[string]string{}, Needed: []string{},
		Dropped: []Missing{}, Local: []Missing{}}
	words := slices.Clone(run.Subject.Command)
	words = bare(words)
	for i, w := range words {
		if strings.Contains(w, secret.Mark) {
			c.Why = fmt.Sprintf("a secret was taken out of its word %d: %q", i+1, w)
		}
		if i == 0 {
			c.Words = append(c.Words, program(w, bin, c.Dir, places)...)
			if _, local := places.word(c.Words[0]); local != "" {
				c.Local = append(c.Local, Missing{What: local, Why: "the program is one of the machine that packed"})
			}
			continue
		}
		there, local := places.word(w)
		if local != "" {
			c.Local = append(c.Local, Missing{What: local, Why: fmt.Sprintf("word %d of the command is a path of the "+
				"machine that packed", i+1)})
		}
		c.Words = append(c.Words, there)
	}
	variables := run.Provenance.Environment
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		value := variables[name]
		drop := func(why string) { c.Dropped = append(c.Dropped, Missing{What: name, Why: why}) }
		if strings.Contains(value, secret.Mark) || secrets.Variable(name, value) != value {
			c.Needed = append(c.Needed, name)
			continue
		}
		if ofEnvironment[name] {
			drop("it names the environment of Python, and the one made there is another")
			continue
		}
		if strings.Contains(value, Root) {
			drop("its value holds " + Root + ", which stands for a folder here")
			continue
		}
		if !strings.HasSuffix(name, "PATH") {
			there, local := places.word(value)
			if local != "" {
				drop("its value is a path of the machine that packed: " + local)
				continue
			}
			c.Variables[name] = there
			continue
		}
		var kept []string
		for p := range strings.SplitSeq(value, ":") {
			there, local := places.word(p)
			if local != "" {
				drop("a folder in it is one of the machine that packed: " + local)
				continue
			}
			kept = append(kept, there)
		}
		if len(kept) > 0 {
			c.Variables[name] = strings.Join(kept, ":")
		}
	}
	return c
}

// bare takes off what makes an environment of the project and runs a command in it: here the environment is made
// before. With a flag that is not known to be alone the words stay as they are.
func bare(words []string) []string {
	if len(words) < 3 || !runners[path.Base(words[0])] || words[1] != "run" {
		return words
	}
	rest := words[2:]
	for len(rest) > 1 && aloneFlags[rest[0]] {
		rest = rest[1:]
	}
	switch {
	case rest[0] == "-m" && path.Base(words[0]) == "uv":
		return append([]string{"python"}, rest...)
	case strings.HasPrefix(rest[0], "-"):
		return words
	}
	return rest
}

// aloneFlags are flags of runners' run that take no value.
var aloneFlags = map[string]bool{"--frozen": true, "--locked": true, "--no-sync": true, "--offline": true,
	"--active": true, "--exact": true, "--all-extras": true, "--all-groups": true, "--no-dev": true, "--dev": true,
	"--no-project": true, "-q": true, "--quiet": true, "-v": true, "--verbose": true, "--": true}

// program gives the words with which the first word of a command is started: a path, since units look nothing up.
func program(word, bin, dir string, places moved) []string {
	python := path.Join(Root, EnvPlace, "bin/python")
	base := path.Base(word)
	switch {
	case pythonName.MatchString(base):
		return []string{python}
	case strings.HasSuffix(base, ".py") || strings.HasSuffix(base, ".pyz"):
		there, _ := places.word(word)
		return []string{python, there}
	case bin != "" && path.Dir(word) == bin:
		return []string{path.Join(Root, EnvPlace, "bin", base)}
	case strings.HasPrefix(word, "/"):
		there, _ := places.word(word)
		return []string{there}
	case strings.Contains(word, "/"):
		return []string{path.Join(dir, filepath.ToSlash(word))}
	case ofPython[base]:
		return []string{path.Join(Root, EnvPlace, "bin", base)}
	}
	return []string{"/usr/bin/env", word}
}

// ofPython are programs that packages bring into an environment's bin.
var ofPython = map[string]bool{"torchrun": true, "accelerate": true, "deepspeed": true, "pytest": true,
	"lightning": true, "fabric": true, "mlx.launch": true, "jupyter": true, "papermill": true, "ipython": true}
