package abstract

import (
	"strings"
)

// Devices is a set of places where a tensor may live.
type Devices uint8

const (
	OnCPU Devices = 1 << iota
	OnMPS
	OnCUDA
	OnOther // meta, xla, …
	Open    // not known
)

// Surely reports that it can be nowhere else.
func (d Devices) Surely(where Devices) bool { return d == where }

// May reports that it is seen to be there on some way through the program; an open place alone is no sight.
func (d Devices) May(where Devices) bool { return d&where != 0 }

func (d Devices) String() string {
	var list []string
	for i, name := range []string{"cpu", "mps", "cuda", "another device", "an unknown device"} {
		if d&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return strings.Join(list, " or ")
}

func single(d Devices) bool { return d != Open && d&(d-1) == 0 && d != 0 }

func orOpen(d Devices) Devices {
	if d == 0 {
		return Open
	}
	return d
}

// deviceOf reads a device's name: "cuda:0", "mps".
func deviceOf(name string) Devices {
	kind, _, _ := strings.Cut(name, ":")
	switch kind {
	case "cpu":
		return OnCPU
	case "mps":
		return OnMPS
	case "cuda":
		return OnCUDA
	}
	return OnOther
}

func isDevice(name string) bool {
	kind, number, cut := strings.Cut(name, ":")
	switch kind {
	case "cpu", "cuda", "mps", "meta", "xla", "xpu":
	default:
		return false
	}
	for _, c := range number {
		if c < '0' || c > '9' {
			return false
		}
	}
	return !cut || number != ""
}
