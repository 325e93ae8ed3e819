package audit

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestSettings: the nearest file that has any, and whose mistakes have a place.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name, text, says string
		want             Settings
	}{
		{"assay.toml", "[check]\ntorch = \"2.8\"\nignore = [\"a\"]\n[other]\nx = 1\n", "",
			Settings{Torch: "2.8", Ignore: []string{"a"}}},
		{"assay.toml", "", "", Settings{}},
		{"pyproject.toml", "[project]\nname = \"x\"\n[tool.assay.check]\ndevice = \"cpu\"\nsure = " +
			"true\n[tool.assay.other]\ny = 1\n", "", Settings{Device: "cpu", Sure: true}},
		{"assay.toml", "[check]\n\ntorhc = \"2.8\"\n", `line 3, column 1: [check] has no setting "torhc"`, Settings{}},
		{"pyproject.toml", "[tool.assay.check]\nx.y = 1\n", `line 2, column 1: [tool.assay.check] has no setting "x.y"`,
			Settings{}},
		{"assay.toml", "[check]\nsure = \"yes\"\n", "line 2, column 8", Settings{}},
		{"assay.toml", "[check]\ntorch = 2.8\n", "line 2, column 9", Settings{}},
		{"pyproject.toml", "[tool\n", "line 1", Settings{}},
	} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, c.name), c.text)
		put(t, filepath.Join(dir, "a/b/pyproject.toml"), "[project]\nname = \"below\"\n")
		s, err := FindSettings(filepath.Join(dir, "a/b"))
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), filepath.Join(dir, c.name)) {
				t.Errorf("%s: %q: %v", c.name, c.text, err)
			}
			continue
		}
		c.want.Path = filepath.Join(dir, c.name)
		if err != nil || !reflect.DeepEqual(s, c.want) {
			t.Errorf("%s: %q: %+v, %v", c.name, c.text, s, err)
		}
	}
}
