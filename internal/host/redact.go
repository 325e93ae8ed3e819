package host

import (
	"net/url"
	"os"
	"os/user"
	"regexp"
	"sort"
	"strings"
)

// identity is what a recording must not hold: words that name this machine and its user.
type identity struct{ users, hosts, homes []string }

// ownIdentity collects what this process can know about whom it runs for.
func ownIdentity() identity {
	var id identity
	if u, err := user.Current(); err == nil {
		id.users = append(id.users, u.Username, u.Name)
		id.homes = append(id.homes, u.HomeDir)
	}
	for _, key := range []string{"USER", "LOGNAME", "SUDO_USER"} {
		id.users = append(id.users, os.Getenv(key))
	}
	id.homes = append(id.homes, os.Getenv("HOME"))
	if h, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(h, ".")
		id.hosts = append(id.hosts, h, short)
	}
	return id
}

// commonWords name nobody, and stand in many outputs.
var commonWords = map[string]bool{"root": true, "user": true, "admin": true, "localhost": true, "local": true,
	"apple": true,
	"mac":   true, "macbook": true, "linux": true, "ubuntu": true, "system": true, "daemon": true, "runner": true,
	"python": true,
	"nobody": true, "power": true, "memory": true, "home": true, "host": true, "test": true, "dev": true}

type rule struct {
	find *regexp.Regexp
	with string
}

// rules are applied in this order; the first group of a match is kept. They know the outputs that Record writes.
var rules = []rule{
	// system_profiler and nvidia-smi, "Key: value"; the keys are in English, as LC_ALL=C is set.
	{regexp.MustCompile(`(?im)^(\s*(?:[^:\n]*serial number[^:\n]*|[^:\n]*\buuid\b[^:\n]*|[^:\n]*\budid\b[^:\n]*|computer name|local ?host ?name|host ?name|user name|boot volume|asset tag|chassis serial[^:\n]*)\s*:[ \t]*)\S[^\n]*`), "${1}<removed>"},
	// the same in JSON, in ioreg ("k"="v" or "k" = <hex>) and in the adapter's details
	{regexp.MustCompile(`(?i)("[^"\n]*(?:serial|uuid|udid|host_?name|user_?name|computer_?name)[^"\n]*"\s*[:=]\s*)(?:"[^"\n]*"|<[0-9a-f]*>|[0-9]+)`), `${1}"<removed>"`},
	{regexp.MustCompile(`()(?i)\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "<uuid>"},
	{regexp.MustCompile(`()(?i)\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b`), "<uuid>"},
	{regexp.MustCompile(`()(?i)\b[0-9a-f]{8}-[0-9a-f]{16}\b`), "<udid>"},
	{regexp.MustCompile(`()(?i)\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b`), "<mac>"},
	// names of containers and their layers
	{regexp.MustCompile(`(?i)([/=:,_-])[0-9a-f]{32,}\b`), "${1}<hex>"},
	// pmset -g batt: the battery's identifier
	{regexp.MustCompile(`(\(id=)[0-9]+`), "${1}<removed>"},
	// pmset -g: programs that hold the machine awake
	{regexp.MustCompile(`(sleep prevented by )[^)\n]*`), "${1}<programs>"},
	// mount: who mounted it, servers and shares, volumes
	{regexp.MustCompile(`(\bmounted by )[^,)\n]+`), "${1}<user>"},
	{regexp.MustCompile(`(?m)^((?:[a-z][a-z0-9+.-]*:)?)//[^\n]*?( on /)`), "${1}//<user>@<host>/<share>${2}"},
	{regexp.MustCompile(`((?:\b[a-z][a-z0-9+.-]*:)?//)[^/\s@]*@[^\s]*`), "${1}<user>@<host>/<share>"},
	{regexp.MustCompile(`(\s- (?:cifs|smb3) )//[^\s<]\S*`), "${1}//<host>/<share>"},
	{regexp.MustCompile(`(?m)^()(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.%]+\]):/(?:[^/\n][^\n]*?)?( on /)`),
		"<host>:/<path>${2}"},
	{regexp.MustCompile(`(\s- (?:nfs4?|ceph|lustre|beegfs|glusterfs|fuse\.sshfs) )[^\s<]\S*`), "${1}<host>:/<path>"},
	{regexp.MustCompile(`(\b(?:addr|clientaddr|mountaddr|username|user|domain)=)[^,\s)<]+`), "${1}<removed>"},
	{regexp.MustCompile(`((?:^|[\s"'=:(,])/Volumes/)[^\n<(]+?( \(|$|\n)`), "${1}<volume>${2}"},
	{regexp.MustCompile(`(/(?:Users|home)/)[^/\s:"')<,]+`), "${1}<user>"},
}

// redact removes from an output of this package's recordings what names the machine or its owner.
func redact(text []byte, id identity) []byte {
	s := string(text)
	for _, h := range words(id.homes, 4) {
		s = strings.ReplaceAll(s, h, "<home>")
	}
	for _, r := range rules {
		s = r.find.ReplaceAllString(s, r.with)
	}
	for _, h := range words(id.hosts, 3) {
		s = replaceWord(s, h, "<host>")
	}
	for _, u := range words(id.users, 3) {
		s = replaceWord(s, u, "<user>")
	}
	return []byte(s)
}

// words drops what is empty, short or common, and puts the longest first, so that a name inside a name is not left
// over.
func words(list []string, least int) []string {
	var kept []string
	for _, w := range list {
		if len(w) >= least && !commonWords[strings.ToLower(w)] && w != "/root" {
			kept = append(kept, w)
		}
	}
	sort.Slice(kept, func(i, j int) bool { return len(kept[i]) > len(kept[j]) })
	return kept
}

// replaceWord replaces a name where no letter or digit touches it, whatever its case.
func replaceWord(s, word, with string) string {
	edge := func(b byte) bool {
		return !(b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80)
	}
	find := regexp.MustCompile("(?i)" + regexp.QuoteMeta(word))
	var b strings.Builder
	last := 0
	for _, at := range find.FindAllStringIndex(s, -1) {
		if (at[0] == 0 || edge(s[at[0]-1])) && (at[1] == len(s) || edge(s[at[1]])) {
			b.WriteString(s[last:at[0]])
			b.WriteString(with)
			last = at[1]
		}
	}
	b.WriteString(s[last:])
	return b.String()
}

// anonymousSource strips user names and passwords from the device or URL of a mount; the server stays, as a run's
// record is the user's own.
func anonymousSource(from string) string {
	if u, err := url.Parse(from); err == nil && u.User != nil {
		u.User = nil
		return u.String()
	}
	if rest, ok := strings.CutPrefix(from, "//"); ok {
		if at := strings.LastIndex(strings.SplitN(rest, "/", 2)[0], "@"); at >= 0 {
			return "//" + rest[at+1:]
		}
	}
	if at := strings.Index(from, "@"); at > 0 && !strings.HasPrefix(from, "/") && strings.Contains(from[at:], ":") {
		return from[at+1:] // user@server:/path of sshfs
	}
	return from
}
