package target

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"assay/internal/atlas"
)

// TestParts: every row of chips.csv is whole, and says where it comes from.
func TestParts(t *testing.T) {
	parts := Parts()
	if len(parts) < 30 {
		t.Fatalf("%d rows", len(parts))
	}
	for _, p := range parts {
		if p.Chip == "" || p.Cores < 1 || p.Source == "" || !slices.IsSorted(p.Memories) {
			t.Errorf("%+v", p)
		}
	}
}

func TestParseChip(t *testing.T) {
	for _, c := range []struct {
		name, short, full, chosen string
		memory, cores             int
	}{
		{"m3-ultra-96gb", "m3-ultra-96gb", "Apple M3 Ultra", "80 GPU cores, the most of 60, 80 cores", 96, 80},
		{"M3-Ultra-60core-96GB", "m3-ultra-96gb", "Apple M3 Ultra", "", 96, 60},
		{"Apple M2 Pro", "m2-pro-16gb", "Apple M2 Pro",
			"16 GiB, the smallest of 16, 32 GiB; 19 GPU cores, the most of 16, 19 cores", 16, 19},
		{"m4-max-36gb", "m4-max-36gb", "Apple M4 Max", "", 36, 32},
		{"m4-max-128gb", "m4-max-128gb", "Apple M4 Max", "", 128, 40},
		{DefaultChip, "m1-16gb", "Apple M1", "8 GPU cores, the most of 7, 8 cores", 16, 8},
	} {
		got, err := ParseChip(c.name)
		if want := (Chip{c.full, c.short, c.memory, c.cores, c.chosen}); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"m3-ulta": "no such chip is known; m3 m3-pro m3-max m3-ultra", "x1": "no such chip is known; m1 m1-pro",
		"":                      "no such chip is known; m1",
		"m3-ultra-64gb":         "M3 Ultra was not sold with 64 GiB of memory; m3-ultra-96gb m3-ultra-256gb m3-ultra-512gb",
		"m3-ultra-60core-512gb": "M3 Ultra with 60 GPU cores is not known to have been sold with 512 GiB of memory; m3-ultra-60core-96gb m3-ultra-80core-96gb",
		"m3-ultra-70core":       "m3-ultra was not sold with 70 GPU cores; m3-ultra-60core-96gb",
		"m3-8core":              "with which memory that part was sold is not known; m3-10core-8gb",
	} {
		_, err := ParseChip(name)
		var chip *ChipError
		if !errors.As(err, &chip) || !strings.HasPrefix(chip.Why+"; "+strings.Join(chip.Near, " "), want) {
			t.Errorf("%s: %+v, want %q", name, err, want)
		}
	}
}

func TestParseMacOS(t *testing.T) {
	for text, want := range map[string]string{"15": "15", "15.5": "15.5", "14.7.5": "14.7", "12": "12.3", "26": "26",
		"26.1": "26.1"} {
		if got, err := ParseMacOS(text); err != nil || got.String() != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"": "no release", "x": "no release", "15.": "no release",
		"-1": "no release", "15.1.2.3": "no release",
		"12.2": "begins with 12.3", "11": "begins with 12.3", "17": "26 followed 15", "99": "newest is 26"} {
		if got, err := ParseMacOS(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v; want …%s…", text, got, err, want)
		}
	}
}

// TestTable: the table of a release says what the atlas says.
func TestTable(t *testing.T) {
	a := &atlas.Atlas{}
	for _, r := range a.Releases("torch") {
		table := NewTable(a, r, "")
		if len(table.Ops) < 2500 || table.Commit == "" || table.Structured["aten::sgn"] != "aten::sgn.out" {
			t.Errorf("%s: %d operators, commit %q, sgn's error names %q", r.Version, len(table.Ops), table.Commit,
				table.Structured["aten::sgn"])
		}
		for op, missing := range table.Lacks {
			if table.Ops[op] != "C" || table.Ops[missing] != "-" && table.Ops[missing] != "S" {
				t.Errorf("%s: %s (%s) lacks %s (%s)", r.Version, op, table.Ops[op], missing, table.Ops[missing])
			}
		}
	}
	r, err := a.Release("torch", "2.8")
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(a, r, "2.15.0+cpu")
	if table.Ops["aten::grid_sampler_3d"] != "-" || table.Ops["torchvision::nms"] != "N" ||
		table.Autocast["aten::conv2d"] != "L" || table.Beside["torchvision"] != "0.23.0" {
		t.Errorf("grid_sampler_3d %q, nms %q, autocast of conv2d %q, beside %v", table.Ops["aten::grid_sampler_3d"],
			table.Ops["torchvision::nms"], table.Autocast["aten::conv2d"], table.Beside)
	}
	for _, letter := range table.Autocast {
		if letter == "." {
			t.Fatal("operators that autocast leaves alone are listed")
		}
	}
}
