package main

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// The part of CycloneDX 1.6 (cyclonedx.org) that is written. No serial number, which would be drawn: the same release
// has the same bytes.
type (
	bom struct {
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Version      int          `json:"version"`
		Metadata     bomMetadata  `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	bomMetadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Ref        string     `json:"bom-ref"`
		Type       string     `json:"type"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		Licences   []licence  `json:"licenses,omitempty"`
		PURL       string     `json:"purl,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	licence struct {
		Expression string `json:"expression"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref  string   `json:"ref"`
		Uses []string `json:"dependsOn,omitempty"`
	}
)

// billOfMaterials says what is linked into the binaries, as they say it themselves: the modules with the sums of go.sum
// (which are of a module's files together, so that they stand as properties and not as hashes), the platforms that have
// them, and Go's own library.
func billOfMaterials(s *source, binaries []*built) ([]byte, error) {
	parts := map[string]*component{}
	put := func(path, version, sum string, on platform) {
		ref := packageURL("golang", path, version)
		c := parts[ref]
		if c == nil {
			c = &component{Ref: ref, Type: "library", Name: path, Version: version, PURL: ref}
			if sum != "" {
				c.Properties = append(c.Properties, property{"assay:go.sum", sum})
			}
			parts[ref] = c
		}
		c.Properties = append(c.Properties, property{"assay:linked", on.String()})
	}
	for _, b := range binaries {
		put("std", strings.TrimPrefix(b.info.GoVersion, "go"), "", b.platform)
		for _, m := range b.info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			put(m.Path, m.Version, m.Sum, b.platform)
		}
	}
	main := component{Ref: program, Type: "application", Name: program, Version: s.version.python,
		Licences: []licence{{"Apache-2.0"}}, PURL: packageURL("pypi", distribution, s.version.python)}
	out := bom{Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: bomMetadata{Timestamp: s.date.Format(time.RFC3339), Component: main}}
	for _, c := range parts {
		out.Components = append(out.Components, *c)
	}
	slices.SortFunc(out.Components, func(a, b component) int { return cmp.Compare(a.Ref, b.Ref) })
	uses := dependency{Ref: main.Ref}
	for _, c := range out.Components {
		uses.Uses = append(uses.Uses, c.Ref)
	}
	out.Dependencies = []dependency{uses}
	data, err := json.MarshalIndent(out, "", "  ")
	return append(data, '\n'), err
}

// packageURL names a package (github.com/package-url/purl-spec); a plus would stand for a space.
func packageURL(kind, name, version string) string {
	return "pkg:" + kind + "/" + name + "@" + strings.ReplaceAll(version, "+", "%2B")
}
