package replay

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"assay/internal/text"
)

// confirmed holds what atlas confirm --json printed of replays on Macs, a file each.
//
//go:embed confirmed
var confirmed embed.FS

// Page writes docs/confirmed.md.
func Page() ([]byte, error) { return page(confirmed) }

func page(from fs.FS) ([]byte, error) {
	names, err := fs.Glob(from, "confirmed/*.json")
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(`# What Macs have confirmed

Made by ` + "`go test ./internal/replay -run TestConfirmedPage -update`" + ` from internal/replay/confirmed; [replay.md](replay.md) says how a replay
becomes evidence.

`)
	if len(names) == 0 {
		b.WriteString("Nothing is confirmed by a Mac yet: no replay of one has been handed in. All that the tables say comes " +
			"from PyTorch's sources and\nbinaries, and from what others reported.\n")
		return []byte(b.String()), nil
	}
	b.WriteString("| machine | macOS | torch | calls as the tables say | not as they say | new | rows confirmed |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	rows := map[string]bool{}
	for _, name := range names {
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, err
		}
		var c Confirmation
		if err := json.Unmarshal(data, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, r := range c.Body.Replays {
			if r.NoProof != "" {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %d |\n", cell(r.Machine.Chip), cell(r.Machine.MacOS),
				cell(r.Torch), r.Calls[Confirmed], r.Calls[Contradicted], r.Calls[New], len(r.Rows))
			for _, row := range r.Rows {
				rows[row] = true
			}
		}
	}
	if len(rows) > 0 {
		list := sortedKeys(rows)
		slices.Sort(list)
		fmt.Fprintf(&b, "\nRows of [knowledge.md](knowledge.md) that a Mac has confirmed: %s.\n", cell(strings.Join(list, ", ")))
	}
	return []byte(b.String()), nil
}

func cell(s string) string { return strings.ReplaceAll(text.Line(s), "|", "/") }
