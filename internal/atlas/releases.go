package atlas

import (
	"fmt"
	"strings"
)

// Release is one release that the tables were derived from.
type Release struct {
	Package string // torch, torchvision, torchaudio, tensorflow-metal
	Version string
	Column  string // the table's column that holds it
	Wheel   string // the file that was read
	SHA256  string // of that file
	Torch   string // the torch releases that it asks for, "==2.8.0" or ">=2.14.0"; "" where it asks for none
	Commit  string // that the wheel says it was built from; "" where it does not say
}

// ParseReleases reads releases.txt.
func ParseReleases(text []byte) ([]Release, error) {
	var list []Release
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 7 {
			return nil, fmt.Errorf("releases: %d fields where 7 are due: %q", len(f), line)
		}
		for i := range f {
			if f[i] == "-" {
				f[i] = ""
			}
		}
		list = append(list, Release{Package: f[0], Version: f[1], Column: f[2], Torch: f[3], Commit: f[4], SHA256: f[5],
			Wheel: f[6]})
	}
	return list, nil
}

// fits says whether a release may be installed beside a release of torch.
func (r Release) fits(torch string) bool {
	if v, ok := strings.CutPrefix(r.Torch, "=="); ok {
		return v == torch
	}
	v, ok := strings.CutPrefix(r.Torch, ">=")
	return !ok || CompareReleases(torch, v) >= 0
}

// closeness ranks what a release asks of torch: nothing, at least some release, just one.
func (r Release) closeness() int {
	switch {
	case strings.HasPrefix(r.Torch, "=="):
		return 2
	case r.Torch != "":
		return 1
	}
	return 0
}
