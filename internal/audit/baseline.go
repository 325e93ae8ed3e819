package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"assay/internal/file"
)

// Baselines
// --------------------------------------------------------------------------------------------------------------------

// Baseline holds findings of old code that are known. A finding is known again by rule, file and the text of its line,
// wherever that stands now.
type Baseline struct {
	Schema string         `json:"schema"` // assay.baseline/1
	Known  []BaselineItem `json:"known"`
	counts map[BaselineItem]int
	path   string
	base   string // what a report's files are relative to
}

// BaselineItem is a finding, Count times.
type BaselineItem struct {
	Rule  string `json:"rule"`
	File  string `json:"file"`        // from the baseline's folder
	Line  string `json:"line_sha256"` // first half of the hash of the line without surrounding spaces
	Count int    `json:"count"`
}

const baselineSchema = "assay.baseline/1"

func lineHash(line string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(line)))
	return hex.EncodeToString(sum[:16])
}

// known is the finding as a baseline at path holds it; base is what the report's files are relative to.
func (i Item) known(path, base string) BaselineItem {
	file := i.File
	if !filepath.IsAbs(file) {
		file = filepath.Join(base, file)
	}
	if rel, err := filepath.Rel(filepath.Dir(path), file); err == nil {
		file = rel
	}
	return BaselineItem{Rule: i.Rule, File: filepath.ToSlash(file), Line: lineHash(i.excerpt[0])}
}

// LoadBaseline reads a baseline for a check whose files are relative to base.
func LoadBaseline(path, base string) (*Baseline, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the baseline: %w", err)
	}
	b := &Baseline{counts: map[BaselineItem]int{}, path: path, base: base}
	if err := json.Unmarshal(raw, b); err != nil || b.Schema != baselineSchema {
		if err == nil {
			err = fmt.Errorf("its schema is %q, not %q", b.Schema, baselineSchema)
		}
		return nil, fmt.Errorf("read the baseline %s: %w", path, err)
	}
	for _, k := range b.Known {
		n := k.Count
		k.Count = 0
		b.counts[k] += n
	}
	return b, nil
}

// has takes a finding from the baseline, if it is there.
func (b *Baseline) has(i Item) bool {
	if b == nil {
		return false
	}
	k := i.known(b.path, b.base)
	if b.counts[k] == 0 {
		return false
	}
	b.counts[k]--
	return true
}

// WriteBaseline writes what a report found, whose files are relative to base, as the new baseline.
func WriteBaseline(path, base string, r *Report) error {
	counts := map[BaselineItem]int{}
	for _, i := range r.Items {
		counts[i.known(path, base)]++
	}
	b := Baseline{Schema: baselineSchema, Known: []BaselineItem{}}
	for k, n := range counts {
		k.Count = n
		b.Known = append(b.Known, k)
	}
	sort.Slice(b.Known, func(i, j int) bool {
		x, y := b.Known[i], b.Known[j]
		if x.File != y.File {
			return x.File < y.File
		}
		if x.Rule != y.Rule {
			return x.Rule < y.Rule
		}
		return x.Line < y.Line
	})
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return file.Rewrite(path, append(text, '\n'))
}
