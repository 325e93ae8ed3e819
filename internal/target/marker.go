package target

import (
	"regexp"
	"strings"
)

// truth of a marker: some of what it asks for is not known here.
type truth int

const (
	unknown truth = iota
	yes
	no
)

// macMarkers are the values of PEP 508's variables on a Mac with an Apple chip. Those of Python are added where they
// are known; what is left out here, an extra among it, is unknown.
var macMarkers = map[string]string{"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix",
	"platform_machine": "arm64", "platform_python_implementation": "CPython", "implementation_name": "cpython"}

var markerToken = regexp.MustCompile(`^\s*("[^"]*"|'[^']*'|\(|\)|===|==|~=|!=|>=|<=|>|<|[A-Za-z_][A-Za-z0-9_.]*)`)

// KeptFromMac says whether a marker of PEP 508 surely keeps a requirement from Macs with an Apple chip.
func KeptFromMac(marker string) bool { return onMac(marker, "") == no }

// onMac says whether a marker of PEP 508 holds on a Mac with an Apple chip under a Python, "" where that one is not
// known. A marker that cannot be read is unknown, as is one nested deeper than any that a person writes.
func onMac(marker, python string) truth {
	m := &markerReader{rest: marker, python: python}
	m.next()
	t := m.any(0)
	if m.token != "" || strings.TrimSpace(m.rest) != "" {
		return unknown
	}
	return t
}

type markerReader struct {
	rest, token, python string
}

// maxMarkerDepth of brackets in a marker.
const maxMarkerDepth = 20

func (m *markerReader) next() {
	found := markerToken.FindStringSubmatchIndex(m.rest)
	if found == nil {
		m.token = ""
		return
	}
	m.token, m.rest = m.rest[found[2]:found[3]], m.rest[found[1]:]
}

func (m *markerReader) any(depth int) truth {
	t := m.all(depth)
	for m.token == "or" {
		m.next()
		switch u := m.all(depth); {
		case t == yes || u == yes:
			t = yes
		case t == unknown || u == unknown:
			t = unknown
		}
	}
	return t
}

func (m *markerReader) all(depth int) truth {
	t := m.one(depth)
	for m.token == "and" {
		m.next()
		switch u := m.one(depth); {
		case t == no || u == no:
			t = no
		case t == unknown || u == unknown:
			t = unknown
		}
	}
	return t
}

func (m *markerReader) one(depth int) truth {
	if m.token == "(" {
		if depth == maxMarkerDepth {
			m.token = ""
			return unknown
		}
		m.next()
		t := m.any(depth + 1)
		if m.token == ")" {
			m.next()
		}
		return t
	}
	left := m.token
	m.next()
	op := m.token
	m.next()
	if op == "not" && m.token == "in" {
		op = "not in"
		m.next()
	}
	right := m.token
	m.next()
	return m.compare(left, op, right)
}

func (m *markerReader) compare(left, op, right string) truth {
	a, nameA, knownA := m.value(left)
	b, nameB, knownB := m.value(right)
	if !knownA || !knownB {
		return unknown
	}
	holds := func(b bool) truth {
		if b {
			return yes
		}
		return no
	}
	switch name := nameA + nameB; {
	case op == "in":
		return holds(strings.Contains(b, a))
	case op == "not in":
		return holds(!strings.Contains(b, a))
	case name == "python_version" || name == "python_full_version" || name == "implementation_version":
		if nameA == "" { // "3.10" < python_version
			op = strings.NewReplacer("<", ">", ">", "<").Replace(op)
			a, b = b, a
		}
		s, err := parseSpecifier(op+b, pep440)
		if err != nil || op == "~=" && nameA == "" {
			return unknown
		}
		return holds(s.allows(a))
	case op == "==" || op == "===":
		return holds(a == b)
	case op == "!=":
		return holds(a != b)
	}
	return unknown
}

// value of a quoted text or a variable; name is the variable's.
func (m *markerReader) value(token string) (value, name string, known bool) {
	if len(token) >= 2 && (token[0] == '"' || token[0] == '\'') {
		return token[1 : len(token)-1], "", true
	}
	switch token {
	case "python_version":
		fields := strings.SplitN(m.python, ".", 3)
		return strings.Join(fields[:min(2, len(fields))], "."), token, m.python != ""
	case "python_full_version", "implementation_version":
		return m.python, token, m.python != ""
	}
	value, known = macMarkers[token]
	return value, token, known
}
