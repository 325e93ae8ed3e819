package secret

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
)

// Value is one secret that somebody names, to be taken out wherever it stands, however short or common it is.
type Value struct{ forms []string }

// NewValue takes the secret itself.
func NewValue(value string) *Value {
	v := &Value{}
	add := func(form string) {
		if form != "" && !slices.Contains(v.forms, form) {
			v.forms = append(v.forms, form)
		}
	}
	for _, form := range []string{value, strings.TrimSpace(value), url.QueryEscape(value), url.PathEscape(value),
		strings.ReplaceAll(value, "\n", `\n`)} {
		add(form)
		add(html.EscapeString(form))
		if data, err := json.Marshal(form); err == nil { // a document within a text of a document
			add(string(data[1 : len(data)-1]))
		}
	}
	if len(value) >= leastCarried { // of a shorter one this would stand elsewhere by chance
		add(base64.StdEncoding.EncodeToString([]byte(value)))
		add(base64.RawURLEncoding.EncodeToString([]byte(value)))
	}
	slices.SortStableFunc(v.forms, func(a, b string) int { return len(b) - len(a) })
	return v
}

// Text puts the mark in the place of the value, as it is and as addresses, pages and documents write it.
func (v *Value) Text(s string) string {
	for _, form := range v.forms {
		s = strings.ReplaceAll(s, form, Mark)
	}
	return s
}

// JSON does so for every text of a JSON document or of a line of one, names of fields included. Numbers stay.
func (v *Value) JSON(doc []byte) []byte { return rewrite(doc, 1, v.Text, nil) }

// In says whether the value stands in the text in one of its forms.
func (v *Value) In(text string) bool {
	return slices.ContainsFunc(v.forms, func(form string) bool { return strings.Contains(text, form) })
}
