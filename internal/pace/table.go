package pace

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
)

//go:embed efficiency.csv
var efficiencyCSV []byte

// Quantiles are the tenth, the fiftieth and the ninetieth of a hundred published figures.
type Quantiles struct{ Low, Mid, High float64 }

// Table is what published figures say of Apple's GPUs under PyTorch's MPS: efficiency.csv, made by tools/pace.
type Table struct {
	// Compute and Bandwidth are shares of the chip's FP32 rate and of its memory's bandwidth that single operators
	// reached, by class. A class without an entry in Compute is taken to be bounded by bytes alone.
	Compute, Bandwidth map[Class]Quantiles
	// Step is the time that the device takes for a step, as a multiple of what Roofline makes of the medians above.
	Step Quantiles
	// Launch is the time to start a kernel of a training step, and Wait that of one wait of the host, seconds.
	Launch, Wait Quantiles
	Coverage     Coverage
}

// Coverage says how often the band held figures that it was not made from: each source of published steps was left out
// in turn, the band made from the others, and its steps looked up.
type Coverage struct {
	Held    int     // figures that lay in the band
	Figures int     // that were tried
	Width   float64 // High/Low of a step that the device bounds
}

// String is one clause for a reader of a band.
func (c Coverage) String() string {
	return fmt.Sprintf("such a band held %d of %d published steps that it was not made from", c.Held, c.Figures)
}

// Load reads the built-in table.
func Load() Table {
	t, err := parseTable(efficiencyCSV)
	if err != nil {
		panic(fmt.Sprintf("pace: built-in efficiency.csv: %v", err)) // a test reads it
	}
	return t
}

func parseTable(text []byte) (Table, error) {
	t := Table{Compute: map[Class]Quantiles{}, Bandwidth: map[Class]Quantiles{}}
	in := csv.NewReader(bytes.NewReader(text))
	in.Comment = '#'
	rows, err := in.ReadAll()
	if err != nil {
		return t, err
	}
	if len(rows) < 2 || len(rows[0]) < 5 {
		return t, fmt.Errorf("no row")
	}
	for _, row := range rows[1:] {
		var v [3]float64
		for i := range v {
			if v[i], err = strconv.ParseFloat(row[2+i], 64); err != nil || v[i] <= 0 || math.IsInf(v[i], 0) ||
				math.IsNaN(v[i]) {
				return t, fmt.Errorf("%s %s: %q is no positive number", row[0], row[1], row[2+i])
			}
		}
		q := Quantiles{v[0], v[1], v[2]}
		switch row[1] {
		case "compute":
			t.Compute[Class(row[0])] = q
		case "bandwidth":
			t.Bandwidth[Class(row[0])] = q
		case "factor":
			t.Step = q
		case "seconds":
			if row[0] == "wait" {
				t.Wait = q
			} else {
				t.Launch = q
			}
		case "coverage": // held, of so many, width
			t.Coverage = Coverage{int(v[0]), int(v[1]), v[2]}
		default:
			return t, fmt.Errorf("%s: %q is no measure", row[0], row[1])
		}
	}
	for _, c := range Classes() {
		if t.Bandwidth[c] == (Quantiles{}) {
			return t, fmt.Errorf("%s has no bandwidth", c)
		}
	}
	if t.Step == (Quantiles{}) || t.Launch == (Quantiles{}) || t.Wait == (Quantiles{}) || t.Coverage.Figures == 0 {
		return t, fmt.Errorf("a row of the whole step is missing")
	}
	return t, nil
}
