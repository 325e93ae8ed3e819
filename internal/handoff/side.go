package handoff

import (
	"strconv"
	"strings"

	"assay/internal/evidence"
)

// Side is one machine's half of a comparison: runs of one kind that were made there, the first of which stands for
// their setting, and what is known of the machine beyond their evidence.
type Side struct {
	Runs  []*evidence.Run
	Facts []evidence.Fact // route, mounts of caches, clock, checksums: what no run's evidence says itself
}

func (s Side) run() *evidence.Run { return s.Runs[0] }

// fact of the machine: what was looked up for the comparison, else what the run's evidence has. known is false where
// nobody looked, or nobody could tell.
func (s Side) fact(name string) (value string, known bool) {
	for _, list := range [][]evidence.Fact{s.Facts, s.run().Host.Facts} {
		for _, f := range list {
			if f.Name == name && f.Missing == "" {
				return f.Value, true
			}
		}
	}
	return "", false
}

// number is a fact's leading number.
func (s Side) number(name string) (float64, bool) {
	value, known := s.fact(name)
	if !known {
		return 0, false
	}
	word, _, _ := strings.Cut(value, " ")
	v, err := strconv.ParseFloat(word, 64)
	return v, err == nil
}

// facts whose names begin so, by the rest of their names.
func (s Side) facts(prefix string) map[string]string {
	all := map[string]string{}
	for _, list := range [][]evidence.Fact{s.run().Host.Facts, s.Facts} {
		for _, f := range list {
			if rest, ok := strings.CutPrefix(f.Name, prefix); ok && f.Missing == "" {
				all[rest] = f.Value
			}
		}
	}
	return all
}

// finding that the run's evidence has by itself: what disturbed it.
func (s Side) finding(name string) (text string, found bool) {
	for _, run := range s.Runs {
		for _, f := range run.Findings {
			if f.Name == name {
				return f.Text, true
			}
		}
	}
	return "", false
}

// figure is the value of the first run that knows it.
func (s Side) figure(name string) (float64, bool) {
	for _, run := range s.Runs {
		if f := run.Figure(name); f.Known() {
			return *f.Value, true
		}
	}
	return 0, false
}

func (s Side) variable(name string) string { return s.run().Provenance.Environment[name] }

// packages by name. Of two of one name the first counts, as it does on the path.
func (s Side) packages() map[string]string {
	all := map[string]string{}
	for _, line := range s.run().Provenance.Packages {
		name, version, _ := strings.Cut(line, "==")
		if name = strings.ToLower(strings.ReplaceAll(name, "_", "-")); all[name] == "" {
			all[name] = version
		}
	}
	return all
}
