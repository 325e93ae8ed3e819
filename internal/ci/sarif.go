package ci

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// SARIFResults are shown of a run by GitHub's code scanning, those of the highest severity; it refuses a file with more
// than SARIFMost, of results as of rules (docs.github.com, "SARIF results exceed limits").
const (
	SARIFResults = 5000
	SARIFMost    = 25000
)

// SARIF is a log of one run of assay: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type SARIF struct {
	Version    string // of assay
	Rules      []SARIFRule
	Results    []SARIFResult
	Notes      []SARIFNote // of what assay could not look at
	Properties map[string]any
}

// SARIFRule is what results are of. Level, here as there: error, warning, note.
type SARIFRule struct {
	ID, Title, Level string
	Full             string // one paragraph; "": none
	Help, Markdown   string // the page of the rule, as text and as Markdown; "": none
}

// SARIFResult is one finding.
type SARIFResult struct {
	Rule, Level, Text string
	Place             SARIFPlace
	Properties        map[string]any
}

// SARIFNote is a warning about the run itself.
type SARIFNote struct {
	Text  string
	Place SARIFPlace
}

// SARIFPlace is a place in a file, which is named from the top of the repository. Lines and columns count from 1, in
// characters; 0 leaves one out. Without a File there is no place.
type SARIFPlace struct {
	File                             string
	Line, Column, EndLine, EndColumn int
}

type object = map[string]any

func (p SARIFPlace) locations() []object {
	if p.File == "" {
		return []object{}
	}
	place := object{"artifactLocation": object{"uri": SARIFURI(p.File)}}
	region := object{}
	for name, n := range map[string]int{"startLine": p.Line, "startColumn": p.Column, "endLine": p.EndLine,
		"endColumn": p.EndColumn} {
		if n > 0 {
			region[name] = n
		}
	}
	if p.Line > 0 {
		place["region"] = region
	}
	return []object{{"physicalLocation": place}}
}

// Write the log.
func (s SARIF) Write(w io.Writer) error {
	rules, index := []object{}, map[string]int{}
	for _, r := range s.Rules {
		index[r.ID] = len(rules)
		o := object{"id": r.ID, "name": camel(r.ID), "shortDescription": object{"text": r.Title},
			"defaultConfiguration": object{"level": r.Level}}
		if r.Full != "" {
			o["fullDescription"] = object{"text": r.Full}
		}
		if r.Help != "" {
			o["help"] = object{"text": r.Help, "markdown": r.Markdown}
		}
		rules = append(rules, o)
	}
	results := []object{}
	for _, r := range s.Results {
		o := object{"ruleId": r.Rule, "level": r.Level, "message": object{"text": r.Text},
			"locations": r.Place.locations(), "properties": r.Properties}
		if n, ok := index[r.Rule]; ok {
			o["ruleIndex"] = n
		}
		results = append(results, o)
	}
	notes := []object{}
	for _, n := range s.Notes {
		notes = append(notes, object{"level": "warning", "message": object{"text": n.Text},
			"locations": n.Place.locations()})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(object{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{
			"tool":        object{"driver": object{"name": "assay", "version": s.Version, "rules": rules}},
			"invocations": []object{{"executionSuccessful": true, "toolExecutionNotifications": notes}},
			"columnKind":  "unicodeCodePoints",
			"properties":  s.Properties,
			"results":     results,
		}}})
}

func camel(name string) string {
	b := &strings.Builder{}
	for word := range strings.SplitSeq(name, "-") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// SARIFURI is a file's place as SARIF wants it: relative with slashes, special characters escaped.
func SARIFURI(path string) string {
	var b strings.Builder
	for _, c := range []byte(filepath.ToSlash(path)) {
		if c == '/' || c == '-' || c == '_' || c == '.' || c == '~' || c >= '0' && c <= '9' || c|0x20 >= 'a' &&
			c|0x20 <= 'z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if filepath.IsAbs(path) {
		return "file://" + b.String()
	}
	return b.String()
}
