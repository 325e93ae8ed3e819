// Package secret takes secrets out of a stranger's text before it is kept: by the names that stand before them
// (--api-key, HF_TOKEN, Authorization), by their shapes (URLs with a password, keys of known vendors, private keys),
// and, within one run, by their values: what a telling flag or variable held is taken out wherever it turns up again.
//
// Randomness alone tells nothing: hashes of commits and of data stay. Nothing here fails: what is not recognised stays
// as it was.
package secret

import (
	"net/url"
	"sort"
	"strings"
	"sync"
)

// Mark stands where a secret stood. Its characters are allowed in a URL's user information (RFC 3986, sub-delims), mean
// nothing to JSON, HTML, CSV and Markdown, and are an error in a shell: a command that lacks its secret is not run by
// mistake.
const Mark = "(redacted)"

// Set holds the values that are known to be secret in one run. The zero value knows none. It is safe for use by several
// goroutines at once.
type Set struct {
	mu     sync.RWMutex
	values []string // the longest first
}

// Bounds of what is looked for elsewhere in a run.
const (
	leastCarried = 6    // characters: a shorter value stands in ordinary text by chance
	leastWord    = 8    // the same of a value of letters alone, which may be a word
	sureCarried  = 12   // a value of so many characters is looked for inside words too
	mostValues   = 1000 // values; a command line has a handful
)

// none knows no values: for the functions of the package.
var none Set

// Text takes out of s what its shape, or the name before it, shows to be secret.
func Text(s string) string { return none.Text(s) }

// Words does so for a command line, whose words are seen together: the value of a flag stands in the word after it.
func Words(argv []string) []string { return none.redactWords(argv, nil) }

// JSON does so for every text in a JSON document or a line of one. A list of texts is read as a command line. What does
// not change keeps its bytes.
func JSON(doc []byte) []byte { return none.JSON(doc) }

// Text takes out of s what the functions of the package do, and the values that the set knows.
func (set *Set) Text(s string) string {
	if len(s) < leastCarried {
		return s
	}
	return apply(s, set.known(s, find(s, nil)))
}

// Words does so for a command line, and remembers what was secret in it.
func (set *Set) Words(argv []string) []string {
	var learnt []string
	set.redactWords(argv, &learnt)
	for _, v := range learnt {
		set.Learn(v)
	}
	return set.redactWords(argv, nil)
}

// Learn remembers a value, so that it is taken out wherever it stands. Values too short or too common are not: they
// would blot out what is none.
func (set *Set) Learn(value string) {
	value = strings.TrimSpace(value)
	if lines := strings.ReplaceAll(value, `\n`, "\n"); lines != value { // as JSON and .env files write it
		set.Learn(lines)
	}
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	if decoded, err := url.PathUnescape(value); err == nil {
		forms = append(forms, decoded)
	}
	if strings.Contains(value, "\n") { // a message may quote one line of it, or write its ends as \n
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= 2*leastCarried && !strings.HasPrefix(line, "-----") {
				forms = append(forms, line)
			}
		}
		forms = append(forms, strings.ReplaceAll(value, "\n", `\n`))
	}
	if _, word, ok := strings.Cut(value, ":"); ok && !strings.Contains(value, "\n") {
		forms = append(forms, word) // user:password
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	for _, v := range forms {
		if !carried(v) || len(set.values) >= mostValues {
			continue
		}
		at := sort.Search(len(set.values), func(i int) bool {
			return len(set.values[i]) < len(v) || len(set.values[i]) == len(v) && set.values[i] >= v
		})
		if at < len(set.values) && set.values[at] == v {
			continue
		}
		set.values = append(set.values, "")
		copy(set.values[at+1:], set.values[at:])
		set.values[at] = v
	}
}

// Known is how many values are remembered. It only grows.
func (set *Set) Known() int {
	set.mu.RLock()
	defer set.mu.RUnlock()
	return len(set.values)
}

// Environ remembers the secrets of an environment, NAME=value each: those behind telling names, and those whose shape
// tells.
func (set *Set) Environ(environ []string) {
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		var learnt []string
		if isSecret(value, tellsVariable(name)) {
			learnt = append(learnt, value)
		}
		find(value, &learnt)
		bareUserinfo(value, &learnt)
		for _, v := range learnt {
			set.Learn(v)
		}
	}
}

// Variable gives what may be kept of an environment variable's value.
func (set *Set) Variable(name, value string) string {
	if isSecret(value, tellsVariable(name)) {
		return Mark
	}
	if spans := bareUserinfo(value, nil); spans != nil {
		value = apply(value, spans)
	}
	return set.Text(value)
}

// carried says whether a value is looked for elsewhere: it is neither short nor a word or a path that stands there for
// another reason.
func carried(v string) bool {
	letters, digits := 0, 0
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case isLetter(c):
			letters++
		case isDigit(c):
			digits++
		}
	}
	switch {
	case len(v) < leastCarried || strings.Contains(v, Mark) || isSwitch(v) || commonValues[strings.ToLower(v)]:
		return false
	case letters == len(v):
		return len(v) >= leastWord
	case digits == len(v):
		return len(v) >= leastWord
	}
	return letters+digits > 0 && !isPath(v)
}

// commonValues are passwords that people leave as they were delivered, and words of our own records: looked for
// everywhere they would spoil a text.
var commonValues = map[string]bool{"password": true, "postgres": true, "minioadmin": true, "changeme": true,
	"username": true, "example": true,
	"anonymous": true, "localhost": true, "administrator": true, "development": true, "production": true,
	"measured": true, "rehearsed": true,
	"predicted": true, "declared": true, "backward": true, "optimizer": true, "notebook": true, "complete": true,
	"installed": true, "fallback": true,
	"training": true, "redacted": true, "framework": true, "pytorch": true, "tensorflow": true, "huggingface": true}

type span struct{ from, to int }

// known adds to the spans those of the set's values.
func (set *Set) known(s string, spans []span) []span {
	set.mu.RLock()
	defer set.mu.RUnlock()
	for _, v := range set.values {
		for from := 0; ; {
			at := strings.Index(s[from:], v)
			if at < 0 {
				break
			}
			at += from
			if len(v) >= sureCarried || alone(s, at, at+len(v)) {
				spans = append(spans, span{at, at + len(v)})
			}
			from = at + len(v)
		}
		// A text that was cut off may end within it.
		for n := min(len(v)-1, len(s)); len(s) > 100 && n >= leastWord; n-- {
			if s[len(s)-n:] == v[:n] {
				spans = append(spans, span{len(s) - n, len(s)})
				break
			}
		}
	}
	return spans
}

// alone says that no letter or digit touches s[from:to].
func alone(s string, from, to int) bool {
	return (from == 0 || !isWord(s[from-1])) && (to == len(s) || !isWord(s[to]))
}

// apply puts the mark in the place of the spans. Spans that touch become one.
func apply(s string, spans []span) string {
	if len(spans) == 0 {
		return s
	}
	sort.Slice(spans, func(i, j int) bool { return spans[i].from < spans[j].from })
	var out strings.Builder
	last := 0
	for i := 0; i < len(spans); {
		from, to := spans[i].from, spans[i].to
		for i++; i < len(spans) && spans[i].from <= to; i++ {
			to = max(to, spans[i].to)
		}
		out.WriteString(s[last:from])
		out.WriteString(Mark)
		last = to
	}
	out.WriteString(s[last:])
	return out.String()
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isWord(c byte) bool   { return isLetter(c) || isDigit(c) || c == '_' || c >= 0x80 }
func isSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isQuote(c byte) bool  { return c == '"' || c == '\'' || c == '`' }
