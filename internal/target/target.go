// Package target says which Mac and which release of PyTorch the double stands for: the chips that were sold, macOS
// releases, and what the agent is told of them.
package target

import (
	"strconv"
	"strings"

	"assay/internal/atlas"
)

// Settings are what the agent is told of the target, as JSON below "double" in its configuration. The agent works out
// what follows from them, the recommended working set among it.
type Settings struct {
	Release  string `json:"release"`   // of torch: 2.8.0
	Series   [2]int `json:"series"`    // 2, 8
	MacOS    MacOS  `json:"macos"`     // 15, 0
	Chip     string `json:"chip"`      // m3-ultra-96gb
	ChipName string `json:"chip_name"` // Apple M3 Ultra
	Memory   int64  `json:"memory"`    // bytes of unified memory
	// recommendedMaxWorkingSetSize in bytes; null: the agent computes it from memory and macOS
	Recommended *int64   `json:"recommended"`
	Cores       int      `json:"cores"` // of the GPU
	ShapeOnly   bool     `json:"shape_only"`
	Installed   string   `json:"installed"` // release of torch in the subject's environment; "" where it is not known
	Assumed     []string `json:"assumed"`   // what was chosen where the flags left it open, a sentence each
	Table       string   `json:"table"`     // path of the Table
}

// NewSettings describes a target.
func NewSettings(r atlas.Release, chip Chip, macOS MacOS) Settings {
	s := Settings{Release: r.Version, MacOS: macOS, Chip: chip.Short, ChipName: chip.Name, Assumed: []string{},
		Memory: int64(chip.Memory) << 30, Cores: chip.Cores}
	for i, field := range strings.Split(atlas.Series(r.Version), ".") {
		s.Series[i], _ = strconv.Atoi(field)
	}
	return s
}

// Table is what the atlas knows of one release, as the agent reads it.
type Table struct {
	Release   string `json:"release"`
	Commit    string `json:"commit"` // that the release was built from
	Installed string `json:"installed"`
	// operator → letter of its state; torchvision's and torchaudio's too
	Ops        map[string]string `json:"ops"`
	Structured map[string]string `json:"structured"` // operator → the one that its error names
	// composed operator → the missing one that it calls whatever its inputs
	Lacks    map[string]string `json:"lacks"`
	Autocast map[string]string `json:"autocast"` // operator → L, F or W
	Sparse   map[string]string `json:"sparse"`   // operator → O, R or B
	Beside   map[string]string `json:"beside"`   // other package → its release that goes with this one
}

// NewTable reads the tables of a release of torch, and of those of torchvision and torchaudio that go with it.
func NewTable(a *atlas.Atlas, r atlas.Release, installed string) Table {
	t := Table{Release: r.Version, Commit: r.Commit, Installed: installed, Ops: map[string]string{},
		Structured: map[string]string{},
		Lacks:      map[string]string{}, Autocast: map[string]string{}, Sparse: map[string]string{},
		Beside: map[string]string{}}
	column := func(into map[string]string, table, column string) {
		for op, letter := range a.Table(table).Column(column) {
			if letter != '.' || table != "autocast" && table != "sparse" {
				into[op] = string(rune(letter))
			}
		}
	}
	column(t.Ops, "torch", r.Column)
	for op, letter := range t.Ops {
		if letter == string(rune(atlas.Composed)) {
			if lacks := a.Lacks(r.Column, op); lacks != "" {
				t.Lacks[op] = lacks
			}
		}
		if how, around := a.Generated(op); how == "structured" {
			t.Structured[op] = around
		}
	}
	for _, pkg := range []string{"torchvision", "torchaudio"} {
		if beside, ok := a.Beside(pkg, r.Version); ok {
			t.Beside[pkg] = beside.Version
			column(t.Ops, pkg, beside.Column)
		}
	}
	column(t.Autocast, "autocast", r.Column)
	column(t.Sparse, "sparse", r.Column)
	return t
}
