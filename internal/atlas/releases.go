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
	Commit  string // that the wheel says it was built from, "" where it does not say
}

// ParseReleases reads releases.txt.
func ParseReleases(text []byte) ([]Release, error) {
	var list []Release
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 6 {
			return nil, fmt.Errorf("releases: %d fields where 6 are due: %q", len(f), line)
		}
		list = append(list, Release{Package: f[0], Version: f[1], Column: f[2], Wheel: f[5], SHA256: f[4], Commit: strings.TrimPrefix(f[3], "-")})
	}
	return list, nil
}
