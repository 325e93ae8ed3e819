package python

import (
	"fmt"
	"strings"

	"assay/internal/evidence"
)

// Floor is the macOS that a PyTorch release needs.
type Floor struct {
	Backend string // for the MPS backend
	Install string // for the package
}

// floors by minor release, from the texts and load commands of the macOS binaries of 2.0.1 to 2.15.0.
var floors = []struct {
	first, last string
	Floor
}{
	{"2.0", "2.5", Floor{"12.3", "11"}},
	{"2.6", "2.8", Floor{"13.0", "11"}},
	{"2.9", "2.11", Floor{"14.0", "11"}},
	{"2.12", "2.14", Floor{"14.0", "14"}},
	{"2.15", "2.15", Floor{"15.0", "14"}},
}

// MacFloor returns the macOS that a release needs; ok is false for releases that were not looked at.
func MacFloor(torchRelease string) (f Floor, ok bool) {
	minor := minorOf(torchRelease)
	for _, row := range floors {
		if minor != "" && compareVersions(minor, row.first) >= 0 && compareVersions(minor, row.last) <= 0 {
			return row.Floor, true
		}
	}
	return f, false
}

// lastIntel is the last series with builds for x86_64 Macs (pytorch/pytorch issues #114602 and #131766).
const lastIntel = "2.2"

// CheckInterpreter judges the interpreter itself.
func CheckInterpreter(in Interpreter) []evidence.Finding {
	var found []evidence.Finding
	add := func(name string, sev evidence.Severity, basis evidence.Basis, text, hint string) {
		found = append(found, evidence.Finding{Name: name, Severity: sev, Text: text, Where: in.Path, Hint: hint,
			Basis: basis})
	}
	if in.NotAsked != "" {
		add("interpreter-silent", evidence.Error, evidence.Measured, "does not run here: "+in.NotAsked, "")
	}
	if in.Translated != nil && *in.Translated {
		add("interpreter-translated", evidence.Error, evidence.Measured,
			"runs as x86_64 under Rosetta: PyTorch's builds for x86_64 Macs ended with "+lastIntel,
			"use an arm64 Python; if the file is universal, start it from a shell that is not translated (`arch -arm64`)")
	} else if in.Platform == "darwin" && in.Translated == nil && in.NotAsked == "" {
		add("interpreter-translation-unknown", evidence.Note, evidence.Measured,
			"whether it runs under Rosetta could not be asked", "")
	}
	if in.Version != "" && compareVersions(in.Version, "3.8") < 0 {
		add("interpreter-old", evidence.Error, evidence.Derived,
			"Python "+in.Version+" is too old: every PyTorch 2 needs 3.8 or later", "")
	}
	if in.Origin == "Xcode stub" || in.BaseOrigin == "Xcode" && in.Origin == in.BaseOrigin {
		add("interpreter-of-xcode", evidence.Note, evidence.Derived,
			"belongs to Apple's developer tools and changes with them",
			"make a virtual environment from a Python of your own")
	}
	if in.ExternallyManaged {
		add("interpreter-managed", evidence.Note, evidence.Derived,
			"belongs to the distribution: pip refuses to install into it (PEP 668)", "make a virtual environment")
	}
	return found
}

// CheckPackages judges what is installed against the interpreter: binaries for another system, architecture or Python,
// two versions of one package, and PyTorch against macOS and the architecture.
func CheckPackages(in Interpreter, packages []Package, torch *Torch) []evidence.Finding {
	var found []evidence.Finding
	add := func(name string, sev evidence.Severity, text, where, hint string) {
		found = append(found, evidence.Finding{Name: name, Severity: sev, Text: text, Where: where, Hint: hint,
			Basis: evidence.Derived})
	}
	first := map[string]Package{}
	for _, p := range packages {
		if why := p.ArchMismatch(in); why != "" {
			add("wheel-architecture", evidence.Error, fmt.Sprintf("%s %s is %s", p.Name, p.Version, why), p.Location,
				"install it again with this interpreter's own pip")
		}
		if why := p.PythonMismatch(in); why != "" {
			sev := evidence.Error
			if strings.HasPrefix(why, "requires") {
				sev = evidence.Warning
			}
			add("wheel-python", sev, fmt.Sprintf("%s %s: %s", p.Name, p.Version, why), p.Location,
				"install it again with this interpreter's own pip")
		}
		key := foldName(p.Name)
		if other, ok := first[key]; !ok {
			first[key] = p
		} else if other.Version != p.Version {
			add("package-twice", evidence.Warning, fmt.Sprintf("%s is recorded as %s and as %s", p.Name, other.Version,
				p.Version), p.Location,
				"the first folder on the import path wins; remove one and install it again")
		}
	}
	if torch == nil || torch.Release == "" {
		return found
	}
	if in.Platform != "darwin" {
		return found
	}
	if sameArch(in.Machine, "x86_64") && compareVersions(minorOf(torch.Release), lastIntel) > 0 {
		add("torch-architecture", evidence.Error,
			"torch "+torch.Version+" has no build for x86_64 Macs: they ended with "+lastIntel, torch.Location, "")
	}
	if f, ok := MacFloor(torch.Release); ok && in.System != "" {
		switch {
		case compareVersions(in.System, f.Install) < 0:
			add("torch-macos", evidence.Error, fmt.Sprintf("torch %s needs macOS %s, this is %s", torch.Release,
				f.Install, in.System), torch.Location, "")
		case compareVersions(in.System, f.Backend) < 0:
			add("torch-macos", evidence.Error, fmt.Sprintf("the MPS backend of torch %s needs macOS %s, this is %s",
				torch.Release, f.Backend, in.System), torch.Location,
				"update macOS, or take an older torch")
		}
	}
	return found
}
