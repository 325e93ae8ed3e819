package target

import (
	"fmt"
	"strconv"
	"strings"
)

// MacOS is a release of macOS: major and minor number.
type MacOS [2]int

// DefaultMacOS is taken where none is named, and raised to what the release of PyTorch needs.
var DefaultMacOS = MacOS{15, 0}

// The releases for which something about MPS is known: from the first with MPS in PyTorch, 12.3, on. Apple named no
// release 16 to 25.
var (
	oldestMacOS = MacOS{12, 3}
	newestMacOS = 26
)

// ParseMacOS reads 15, 15.5 or 26. A third number is passed over.
func ParseMacOS(text string) (MacOS, error) {
	var v MacOS
	fields := strings.Split(text, ".")
	if len(fields) > 3 {
		return v, fmt.Errorf("macOS %q is no release: write 15 or 15.5", text)
	}
	for i, field := range fields {
		n, err := strconv.Atoi(field)
		if err != nil || n < 0 || n > 99 {
			return v, fmt.Errorf("macOS %q is no release: write 15 or 15.5", text)
		}
		if i < len(v) {
			v[i] = n
		}
	}
	if len(fields) == 1 && v[0] == oldestMacOS[0] {
		v = oldestMacOS
	}
	switch {
	case v.Before(oldestMacOS):
		return v, fmt.Errorf("macOS %s has no MPS in PyTorch: it begins with %s", v, oldestMacOS)
	case v[0] > 15 && v[0] < 26:
		return v, fmt.Errorf("there is no macOS %d: 26 followed 15", v[0])
	case v[0] > newestMacOS:
		return v, fmt.Errorf("macOS %s is not known: the newest is %d", v, newestMacOS)
	}
	return v, nil
}

// Before says whether v is the older one.
func (v MacOS) Before(w MacOS) bool { return v[0] < w[0] || v[0] == w[0] && v[1] < w[1] }

// String is 15.5, and 15 for 15.0.
func (v MacOS) String() string {
	if v[1] == 0 {
		return strconv.Itoa(v[0])
	}
	return fmt.Sprintf("%d.%d", v[0], v[1])
}
