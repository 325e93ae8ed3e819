package unit

import (
	"math"
	"testing"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{0, "s", "0 s"},
		{2.5e-9, "s", "2.50 ns"},
		{42.5e-6, "s", "42.5 µs"},
		{0.0117, "s", "11.7 ms"},
		{1, "s", "1.00 s"},
		{119, "s", "119 s"},
		{1800, "s", "30.0 min"},
		{7200, "s", "2.00 h"},
		{-0.5, "s", "-500 ms"},
		{0, "B", "0 B"},
		{1023, "B", "1023 B"},
		{1024, "B", "1.00 KiB"},
		{956 << 20, "B", "956 MiB"},
		{11.2e9, "B", "10.4 GiB"},
		{0.364, "ratio", "36.4 %"},
		{1, "ratio", "100 %"},
		{0.00053, "ratio", "0.05 %"},
		{0.000053, "ratio", "0.0053 %"},
		{45, "1", "45"},
		{2.31, "1", "2.31"},
		{85.7, "1/s", "85.7 /s"},
		{3.2e9, "Hz", "3.20 GHz"},
		{18, "W", "18.0 W"},
		{61.5, "°C", "61.5 °C"},
		{999.6e-9, "s", "1.00 µs"}, // what would be printed with four digits takes the next unit
		{999.4e-6, "s", "999 µs"},
		{999.6e-6, "s", "1.00 ms"},
		{999.6e-3, "s", "1.00 s"},
		{120, "s", "2.00 min"},
		{1e9, "Hz", "1.00 GHz"},
		{999e6, "Hz", "999 MHz"},
		{1023.6 * 1024, "B", "1.00 MiB"},
		{1e15, "1", "1000000000000000"},
		{99.95, "W", "100 W"},
		{9.995, "W", "10.0 W"},
		{0.01, "W", "0.01 W"},
		{math.NaN(), "W", "NaN W"}, // shown for what it is
		{math.Inf(1), "s", "+Inf h"},
	} {
		if got := Format(c.v, c.unit); got != c.want {
			t.Errorf("Format(%v, %q) = %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for text, want := range map[string]float64{"90": 90, "90s": 90, "2m": 120, "1h30m": 5400, "0.5": 0.5, " 2 m ": 120,
		"0": 0, "250ms": 0.25} {
		if got, err := ParseSeconds(text); err != nil || got != want {
			t.Errorf("ParseSeconds(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-2m", "soon", "2 minutes", "inf", "nan", "1e400"} {
		if got, err := ParseSeconds(text); err == nil {
			t.Errorf("ParseSeconds(%q) = %v, and it is no duration", text, got)
		}
	}
}

// FuzzParseSeconds: whatever is typed, a duration is finite and not negative.
func FuzzParseSeconds(f *testing.F) {
	for _, s := range []string{"90s", "2m", "1h30m", "0x1p3", "1_000", "+Inf", "9223372036854775807h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := ParseSeconds(s); err == nil && (v < 0 || math.IsNaN(v) || math.IsInf(v, 0)) {
			t.Errorf("ParseSeconds(%q) = %v", s, v)
		}
	})
}
