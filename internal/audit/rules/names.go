package rules

import (
	"assay/internal/audit"
	"slices"
	"strings"
)

// asks are the calls of a rule that looks at all of them alike.
func asks(names func(string) bool, at audit.Look) []audit.Ask { return []audit.Ask{on(names, at)} }

// on is the calls of some names, and what looks at them.
func on(names func(string) bool, at audit.Look) audit.Ask { return audit.Ask{Names: names, Look: at} }

func named(names ...string) func(string) bool {
	return func(path string) bool { return slices.Contains(names, path) }
}

func under(prefixes ...string) func(string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(path, p) })
	}
}

func ending(names ...string) func(string) bool {
	return func(path string) bool { return slices.Contains(names, last(path)) }
}

func either(of ...func(string) bool) func(string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(of, func(f func(string) bool) bool { return f(path) })
	}
}

func both(a, b func(string) bool) func(string) bool {
	return func(path string) bool { return a(path) && b(path) }
}

func not(a func(string) bool) func(string) bool {
	return func(path string) bool { return !a(path) }
}

// set is a list of names apart, to look them up in.
func set(list string) map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(list) {
		m[n] = true
	}
	return m
}

const dataLoader = "torch.utils.data.DataLoader"

// last is the part of a dotted name behind its last dot.
func last(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
