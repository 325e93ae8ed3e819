// Package atlas knows which operators run on MPS in which release of PyTorch, torchvision, torchaudio and
// tensorflow-metal, and which operators a Python API comes down to.
//
// All of it stands in tables/, texts that can be read without this package; tools/atlas derives them from released
// wheels and from PyTorch's own databases. Each file says at its top what it holds and how it is known.
package atlas

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
)

//go:embed tables
var files embed.FS

// Atlas reads tables when they are first asked for. The zero value reads what is built in.
type Atlas struct {
	mu     sync.Mutex
	tables map[string]*Table
	lists  map[string]map[string][]Call
	read   sync.Once
	all    []Release

	ways map[string][]detour

	typed sync.Once
	types map[string][]callsOf

	aged    sync.Once
	earlier map[string][]callsOf // api-earlier.txt

	parameters map[string][]Parameter
	overloads  map[string][]string
	spaces     sync.Once
	namespaces []string
	python     sync.Once
	names      map[string][]Call // api.txt and api-libraries.txt
	others     []string          // namespaces of operators of libraries that have no table
}

func text(name string) []byte {
	b, err := files.ReadFile(path.Join("tables", name))
	if err != nil {
		panic(err) // built in, and each is read by a test
	}
	return b
}

// Table returns a table by name: torch, autocast, sparse, torchvision, torchaudio or tensorflow-metal.
func (a *Atlas) Table(name string) *Table {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.tables[name]; t != nil {
		return t
	}
	t, err := ParseTable(text(name + ".txt"))
	if err != nil {
		panic(fmt.Sprintf("atlas: built-in table %s: %v", name, err))
	}
	if a.tables == nil {
		a.tables = map[string]*Table{}
	}
	a.tables[name] = t
	return t
}

// Packages are those that have a table of operators, in the order in which answers list them.
var Packages = []string{"torch", "torchvision", "torchaudio", "tensorflow-metal"}

// Releases lists the releases of a package that were read, oldest first.
func (a *Atlas) Releases(pkg string) []Release {
	a.read.Do(func() {
		var err error
		if a.all, err = ParseReleases(text("releases.txt")); err != nil {
			panic(err)
		}
	})
	return slices.DeleteFunc(slices.Clone(a.all), func(r Release) bool { return r.Package != pkg })
}

// Release finds a release by its number: 2.8.0, or 2.8 for the last patch release of a series. A build label,
// 2.8.0+cpu, is left out. The error lists the known releases and the nearest.
func (a *Atlas) Release(pkg, version string) (Release, error) {
	wanted, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "+")
	known := a.Releases(pkg)
	for _, r := range slices.Backward(known) {
		if r.Version == wanted || Series(r.Version) == wanted {
			return r, nil
		}
	}
	return Release{}, &UnknownRelease{Package: pkg, Version: version, Known: known}
}

// Beside is the newest release of another package that goes with a release of torch; false when none of those read
// does. What needs no torch, as tensorflow-metal, goes with any.
func (a *Atlas) Beside(pkg, torch string) (Release, bool) {
	best, found := Release{}, false
	for _, r := range a.Releases(pkg) {
		if pkg == "torch" {
			if r.Version == torch {
				return r, true
			}
			continue
		}
		// One that asks for just this release is better than one that asks for some, and that than one that does not
		// say.
		if r.fits(torch) && (!found || r.closeness() >= best.closeness()) {
			best, found = r, true
		}
	}
	return best, found
}

// UnknownRelease says that the atlas has not read a release.
type UnknownRelease struct {
	Package, Version string
	Known            []Release
}

func (e *UnknownRelease) Error() string {
	return fmt.Sprintf("%s %s is not in the atlas", e.Package, e.Version)
}

// Nearest is the newest known release that is not after the wanted one, or else the oldest.
func (e *UnknownRelease) Nearest() string {
	nearest := e.Known[0].Version
	for _, r := range e.Known {
		if CompareReleases(r.Version, e.Version) <= 0 {
			nearest = r.Version
		}
	}
	return nearest
}

// Call is an operator that a composed operator, or a Python API, calls.
type Call struct {
	Operator  string
	Sometimes bool // for some inputs only
}

// calls reads a file of lists: a key of so many words, then operators, those with ? behind them called for some inputs
// only.
func (a *Atlas) calls(name string, words int) map[string][]Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m := a.lists[name]; m != nil {
		return m
	}
	m := map[string][]Call{}
	for line := range bytes.Lines(text(name)) {
		line, _, _ := strings.Cut(string(line), " # ")
		f := strings.Fields(line)
		if len(f) < words || strings.HasPrefix(f[0], "#") {
			continue
		}
		list := make([]Call, 0, len(f)-words)
		for _, op := range f[words:] {
			op, sometimes := strings.CutSuffix(op, "?")
			if op != "-" {
				list = append(list, Call{op, sometimes})
			}
		}
		m[strings.Join(f[:words], " ")] = list
	}
	if a.lists == nil {
		a.lists = map[string]map[string][]Call{}
	}
	a.lists[name] = m
	return m
}

// Calls lists what a composed operator calls: as it was traced, or as its kernel was generated; nil when neither is
// known.
func (a *Atlas) Calls(operator string) []Call {
	if traced, ok := a.calls("calls.txt", 1)[operator]; ok {
		return traced
	}
	if how, around := a.Generated(operator); how == "autogen" {
		return []Call{{Operator: around}}
	}
	return nil
}

// Generated says how PyTorch's code generator makes an operator's kernel, structured or autogen, and around which
// other; "" when it does not.
func (a *Atlas) Generated(operator string) (how, around string) {
	made := a.calls("generated.txt", 2)
	for _, how := range []string{"structured", "autogen"} {
		if c := made[operator+" "+how]; len(c) > 0 {
			return how, c[0].Operator
		}
	}
	return "", ""
}

// Types lists the element types for which a release has a kernel of an operator: of tensorflow-metal those that it
// registers, of torch those that pass the double's checks (types.txt), ? behind one of which it is not known whether
// MPS takes it; nil where nothing is known.
func (a *Atlas) Types(operator, column string) []string {
	var list []string
	if strings.HasPrefix(operator, "tf::") {
		for _, c := range a.calls("tensorflow-metal-types.txt", 2)[operator+" "+column] {
			list = append(list, c.Operator)
		}
		return list
	}
	a.typed.Do(func() {
		a.types = map[string][]callsOf{}
		for key, calls := range a.calls("types.txt", 2) {
			name, span, _ := strings.Cut(key, " ")
			from, to, _ := strings.Cut(span, "-")
			a.types[name] = append(a.types[name], callsOf{from, to, calls})
		}
	})
	for _, t := range a.types[plain(operator)] {
		if t.holds(column) {
			for _, c := range t.calls {
				if c.Sometimes {
					c.Operator += "?"
				}
				list = append(list, c.Operator)
			}
		}
	}
	return list
}

// callsOf is a list that holds in a run of releases: operators, or element types.
type callsOf struct {
	from, to string // columns
	calls    []Call
}

func (c callsOf) holds(column string) bool {
	return CompareReleases(c.from, column) <= 0 && CompareReleases(column, c.to) <= 0
}

// plain is an operator's name without what says that it works in place or writes to out=: aten::add.Tensor of
// aten::add_.Tensor, aten::sgn of aten::sgn.out.
func plain(operator string) string {
	base, overload, _ := strings.Cut(operator, ".")
	if !strings.HasSuffix(base, "__") {
		base = strings.TrimSuffix(base, "_")
	}
	if overload = strings.TrimSuffix(strings.TrimSuffix(overload, "out"), "_"); overload == "" {
		return base
	}
	return base + "." + overload
}
