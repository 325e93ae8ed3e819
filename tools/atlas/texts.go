package main

import (
	"assay/internal/facts"
	"bytes"
	"regexp"
	"strings"
)

// messages are the texts of facts, by the name of the fact.
type messages map[string]string

// loadMessages takes them from the facts.
func loadMessages() messages {
	m := messages{}
	for _, f := range facts.Load().All {
		if piece := constantPart(f.Text); len(piece) >= 8 { // shorter pieces are found anywhere
			m[f.Name] = piece
		}
	}
	return m
}

// variablePart is what varies in a message, and where sources like to break a literal in two: after a sentence or a
// clause.
var variablePart = regexp.MustCompile(`\{[^}]*\}|\n|[.:;,](?: |$)|^[\w.]+: `)

// constantPart is the longest piece of a message that does not vary.
func constantPart(message string) string {
	longest := ""
	for _, piece := range variablePart.Split(message, -1) {
		if piece = strings.TrimSpace(piece); len(piece) > len(longest) {
			longest = piece
		}
	}
	return longest
}

// occurring says which messages stand in a torch wheel: in its libraries' constants or in its Python files.
func (m messages) occurring(w *wheel, im *image) (map[string]byte, error) {
	found := map[string]byte{}
	search := func(text []byte, has func(text []byte, piece string) bool) {
		for name, piece := range m {
			if found[name] == 0 && has(text, piece) {
				found[name] = 'T'
			}
		}
	}
	whole := func(text []byte, piece string) bool { return bytes.Contains(text, []byte(piece)) }
	search(im.text, whole)
	search(im.text, inTwo)
	search(im.constants, whole)
	for _, library := range []string{"torch/lib/libtorch_python.dylib", "torch/lib/libc10.dylib"} {
		other, err := w.image(library)
		if err != nil {
			return nil, err
		}
		search(other.text, whole)
	}
	var python bytes.Buffer
	for _, f := range w.zip.File {
		if len(found) == len(m) {
			break
		}
		if !strings.HasSuffix(f.Name, ".py") || strings.HasPrefix(f.Name, "torch/testing/") {
			continue
		}
		text, err := w.read(f.Name)
		if err != nil {
			return nil, err
		}
		python.Write(joinedLiterals.ReplaceAll(text, nil))
	}
	search(python.Bytes(), whole)
	return found, nil
}

// inTwo says whether text has a piece as two literals, each of at least 8 letters.
func inTwo(text []byte, piece string) bool {
	for at := 8; at <= len(piece)-8; at++ {
		if piece[at-1] == ' ' && bytes.Contains(text, []byte(piece[:at])) && bytes.Contains(text, []byte(piece[at:])) {
			return true
		}
	}
	return false
}

// joinedLiterals is where a Python literal goes on in the next line: "…not " \n f"supported".
var joinedLiterals = regexp.MustCompile(`["']\s*\n\s*f?["']`)
