// Package unit prints and parses quantities: seconds, bytes, ratios, rates. Base units inside, pretty ones outside.
package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Format prints a value of a base unit (s, B, W, Hz, 1/s, ratio, 1, °C) for a reader, three significant digits.
func Format(v float64, unit string) string {
	switch unit {
	case "s":
		return Seconds(v)
	case "B":
		return Bytes(v)
	case "ratio":
		return digits(v*100) + " %"
	case "1", "":
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		return digits(v)
	case "1/s":
		return digits(v) + " /s"
	case "Hz":
		if v >= 1e9 {
			return digits(v/1e9) + " GHz"
		}
		return digits(v/1e6) + " MHz"
	}
	return digits(v) + " " + unit
}

// Seconds prints a duration given in seconds: ns, µs, ms, s, min, h.
func Seconds(v float64) string {
	a := math.Abs(v)
	switch {
	case a == 0:
		return "0 s"
	case a < 999.5e-9:
		return digits(v*1e9) + " ns"
	case a < 999.5e-6:
		return digits(v*1e6) + " µs"
	case a < 999.5e-3:
		return digits(v*1e3) + " ms"
	case a < 120:
		return digits(v) + " s"
	case a < 7200:
		return digits(v/60) + " min"
	}
	return digits(v/3600) + " h"
}

// Bytes prints a size in powers of 1024.
func Bytes(v float64) string {
	a := math.Abs(v)
	for _, u := range []struct {
		name string
		size float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if a >= u.size*(1023.5/1024) {
			return digits(v/u.size) + " " + u.name
		}
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " B"
}

// digits prints three significant digits without an exponent where that reads well.
func digits(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return fmt.Sprint(v)
	case a == 0:
		return "0"
	case a >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// ParseSeconds reads a duration: Go's form ("90s", "2m", "1h30m") or a bare number of seconds.
func ParseSeconds(s string) (float64, error) {
	s = strings.TrimSpace(s)
	if v, err := strconv.ParseFloat(s, 64); err == nil && v >= 0 && !math.IsInf(v, 0) && !math.IsNaN(v) {
		return v, nil
	}
	d, err := time.ParseDuration(strings.ReplaceAll(s, " ", ""))
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration: write 90s, 2m, 1h30m or a number of seconds", s)
	}
	return d.Seconds(), nil
}
