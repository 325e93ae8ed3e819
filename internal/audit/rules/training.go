package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// seen is a call that a rule keeps until the file's end.
type seen struct {
	at   pyast.Node
	fn   *abstract.Func
	name string
	sure bool
}

type log struct{ calls []seen }

func (l *log) add(p *audit.Pass, c *abstract.Call, sure bool) {
	for _, s := range l.calls {
		if s.at == c.At {
			return
		}
	}
	l.calls = append(l.calls, seen{c.At, p.Func(), last(c.Path), sure})
}

// in lists the calls of a name in a function.
func (l *log) in(fn *abstract.Func, names ...string) []seen {
	var list []seen
	for _, s := range l.calls {
		for _, n := range names {
			if s.fn == fn && s.name == n {
				list = append(list, s)
			}
		}
	}
	return list
}

func newLog() *log { return &log{} }

func isScaler(path string) bool { return strings.Contains(path, "GradScaler.") }
