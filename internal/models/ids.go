package models

import (
	_ "embed"
	"strings"
)

//go:embed ids.tsv
var idsText string

// Asked is what was asked for by an id of the Hugging Face hub, and the model of the table that stands for it.
type Asked struct {
	ID    string `json:"id"`
	Model string `json:"model"` // its name; "" where the table has none
	About string `json:"about"` // its architecture, or why there is none
}

// ids are those of ids.tsv, whose header says where they are from, the most used first.
func ids() []Asked {
	var list []Asked
	for line := range strings.Lines(idsText) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 || strings.HasPrefix(line, "#") {
			continue
		}
		list = append(list, Asked{f[0], strings.TrimPrefix(f[1], "-"), f[2]})
	}
	return list
}

// Stands says which model stands for an id, ORGANISATION/NAME or NAME alone: one of the most used ids by its
// architecture, any other by the name, where the table has a model of that name (timm's names end at their first dot).
// False where nothing is known of it. Capitals do not count.
func (t *Table) Stands(id string) (Asked, bool) {
	for _, a := range ids() {
		if _, name, _ := strings.Cut(a.ID, "/"); strings.EqualFold(a.ID, id) || strings.EqualFold(name, id) {
			return a, true
		}
	}
	organisation, name, found := strings.Cut(id, "/")
	if !found {
		return Asked{}, false
	}
	if strings.EqualFold(organisation, "timm") {
		name, _, _ = strings.Cut(id, ".")
	}
	for _, m := range t.Models {
		if strings.EqualFold(m.Name, name) {
			return Asked{id, m.Name, m.Family}, true
		}
	}
	return Asked{}, false
}
