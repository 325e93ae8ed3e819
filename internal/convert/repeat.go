package convert

import (
	"maps"
	"strconv"
	"strings"
)

// repeat makes the modules of the match. A block that is open goes on up to the highest number with which the file has
// one of its names: what is missing below that is named. A number that the file has not tensors enough for is none.
func (m *match) repeat() {
	at := 0 // of the form's name in a row, behind the word
	for _, form := range m.recipe.Forms[:m.form+1] {
		if !form.Numbered {
			at++
		}
	}
	modules, err := m.recipe.modules(func(row []string, each map[string]values, letter string) int {
		last := 0
		others := maps.Clone(each)
		delete(others, letter)
		for chosen := range product(others) {
			for template := range strings.SplitSeq(row[at], " | ") {
				last = max(last, m.highest(template, chosen, letter))
			}
		}
		return last
	})
	if err != nil {
		panic(err) // parseRecipe has made them before
	}
	m.modules = modules
}

// highest is the largest number that stands in a name of the file where the letter stands in the template; 0: none.
func (m *match) highest(template string, chosen map[string]int, letter string) (last int) {
	start, rest, found := strings.Cut(template, "{"+letter)
	if !found {
		return 0
	}
	more, _, _ := strings.Cut(rest, "}")
	offset, _ := strconv.Atoi(more) // "+1", or ""
	start, err := fill(start, chosen)
	if err != nil {
		return 0 // parseRecipe has refused it
	}
	chosen = maps.Clone(chosen)
	for key := range m.found {
		number, ok := strings.CutPrefix(key, start)
		if !ok {
			continue
		}
		if end := strings.IndexFunc(number, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			number = number[:end]
		}
		n, err := strconv.Atoi(number)
		if n -= offset; err != nil || n <= last || n >= len(m.found) {
			continue
		}
		chosen[letter] = n
		name, err := fill(template, chosen)
		if err != nil {
			continue
		}
		name, _, inside := strings.Cut(name, "<part>")
		after, ok := strings.CutPrefix(key, name)
		if ok && (inside || after == "" || after[0] == '.' || after[0] == '/') {
			last = n
		}
	}
	return last
}

// has says whether any part of a module is in the file.
func (m *match) has(module Module, name string) bool {
	for i, p := range module.parts() {
		if _, ok := m.lookup(name, p, i); ok {
			return true
		}
	}
	return false
}
