package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// kept is a call that a rule keeps until the file's end.
type kept struct {
	at   pyast.Node
	fn   *abstract.Func
	name string
	sure bool
}

type log struct{ calls []kept }

func (l *log) add(p *audit.Pass, c *abstract.Call, sure bool) {
	for _, s := range l.calls {
		if s.at == c.At {
			return
		}
	}
	l.calls = append(l.calls, kept{c.At, p.Func(), last(c.Path), sure})
}

// in lists the calls of a name in a function.
func (l *log) in(fn *abstract.Func, names ...string) []kept {
	var list []kept
	for _, s := range l.calls {
		for _, n := range names {
			if s.fn == fn && s.name == n {
				list = append(list, s)
			}
		}
	}
	return list
}

// note keeps a call of the file that is checked until the file's end.
func note(p *audit.Pass, c *abstract.Call) {
	if p.AtHome() {
		audit.Note(p, newLog).add(p, c, true)
	}
}

func newLog() *log { return &log{} }

func isScaler(path string) bool { return strings.Contains(path, "GradScaler.") }
