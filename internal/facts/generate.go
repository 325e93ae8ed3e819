package facts

import (
	"bytes"
	"encoding/json"
)

// forDouble is what the double reads of a row (agent/assay_agent/double/facts.py).
type forDouble struct {
	Name    string   `json:"name"`
	Meets   []string `json:"meets"`
	If      []Clause `json:"if"`
	Partly  bool     `json:"partly,omitempty"`
	Outcome Outcome  `json:"outcome"`
	Error   string   `json:"error,omitempty"`
	Text    string   `json:"text,omitempty"`
	When    string   `json:"when,omitempty"`
	Wrong   string   `json:"wrong,omitempty"`
	From    string   `json:"from,omitempty"`
	Until   string   `json:"until,omitempty"`
	Fixed   string   `json:"fixed,omitempty"`
	MacOS   string   `json:"macos,omitempty"`
	Known   string   `json:"known,omitempty"`
	Open    bool     `json:"open,omitempty"`

	Direction string `json:"direction,omitempty"`
}

// Double writes the table as the double reads it: a JSON list, a row a line.
func (t *Table) Double() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("[\n")
	for i, f := range t.All {
		row := forDouble{Name: f.Name, Meets: f.Meets, If: f.If, Partly: f.Partly, Outcome: f.Outcome, Error: f.Error,
			Text: f.Text,
			From: f.From, Until: f.Until, Fixed: f.Fixed, MacOS: f.MacOS}
		if f.Outcome != Refused { // what a remark says
			row.When, row.Wrong, row.Known, row.Open, row.Direction = f.When, f.Wrong, f.Known, f.Open, f.Direction
		}
		var line bytes.Buffer
		enc := json.NewEncoder(&line)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(row); err != nil {
			return nil, err
		}
		out.Write(bytes.TrimRight(line.Bytes(), "\n"))
		if i < len(t.All)-1 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	out.WriteString("]\n")
	return out.Bytes(), nil
}
