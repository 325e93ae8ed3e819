package bundle

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// MadeCondaLock is what conda had installed, for the same system: it takes the file as it is.
const MadeCondaLock = "lock/conda-explicit.txt"

const mostConda = 20_000 // packages of an environment

// condaRecord is what conda notes of a package that it installed (conda-meta/NAME-VERSION-BUILD.json).
type condaRecord struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	URL     string `json:"url"`
	MD5     string `json:"md5"`
	Subdir  string `json:"subdir"` // linux-64, osx-arm64, noarch
}

// condaToken is how a channel of anaconda.org's has its token in the address.
var condaToken = regexp.MustCompile(`/t/[^/]+/`)

// condaInstalled reads what conda installed into an environment.
func condaInstalled(prefix string) []condaRecord {
	names, _ := filepath.Glob(filepath.Join(globbed(prefix), "conda-meta", "*.json"))
	slices.Sort(names)
	var all []condaRecord
	for _, name := range names[:min(len(names), mostConda)] {
		text, err := readPlain(name, 32<<20) // it lists every file of the package
		var r condaRecord
		if err != nil || json.Unmarshal(text, &r) != nil || r.Name == "" || r.URL == "" {
			continue
		}
		u, err := url.Parse(r.URL)
		if err != nil || u.Host == "" || strings.ContainsAny(r.URL+r.MD5, "\r\n") {
			continue
		}
		u.User = nil
		u.Path = condaToken.ReplaceAllString(u.Path, "/")
		r.URL = u.String()
		all = append(all, r)
	}
	return all
}

// makeCondaLock makes conda's own form of a lock of what lies in the environment now, and says how it stands to what
// the run had. ok is false where there is none.
func makeCondaLock(prefix string, had []pin, own map[string]bool) (lock Lock, text []byte, ok bool) {
	all := condaInstalled(prefix)
	if len(all) == 0 {
		return lock, nil, false
	}
	subdir := ""
	l := foundLock{kind: Conda}
	var lines []string
	for _, r := range all {
		if r.Subdir != "" && r.Subdir != "noarch" {
			subdir = r.Subdir
		}
		line := r.URL
		if r.MD5 != "" {
			line += "#" + r.MD5
		}
		lines = append(lines, line)
		l.pins = append(l.pins, pin{r.Name, r.Version})
	}
	head := "# What conda had installed, for %s alone. Made by assay handoff pack; conda create --file takes it.\n@EXPLICIT\n"
	lock = l.compare(had, own)
	lock.Path, lock.Kind = MadeCondaLock, CondaExplicit
	return lock, []byte(fmt.Sprintf(head, subdir) + strings.Join(lines, "\n") + "\n"), true
}
