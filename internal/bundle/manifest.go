package bundle

import (
	"encoding/json"
	"time"

	"assay/internal/evidence"
)

// Schema names the version of the manifest. A change that an existing reader could misread raises the number.
const Schema = "assay.bundle/1"

// Names of files in a bundle; docs/formats/bundle.md says which are there when.
const (
	ManifestFile  = "manifest.json"
	CodeFile      = "code.tar.zst"
	PatchFile     = "code.patch"
	EvidenceFile  = "evidence.json"
	GatesFile     = "gates.json"
	PolicyFile    = "gates.toml"
	TraceFile     = "trace.json.gz"
	SignatureFile = "run.signatures"
	MadeLock      = "lock/requirements.lock"
	LaunchdFile   = "units/assay.plist"
	SystemdFile   = "units/assay.service"
)

// Root stands, in commands, variables and units, for the folder that a bundle was unpacked to, an absolute path. Below
// it lie the places.
const Root = "@ROOT@"

// Places below Root.
const (
	CodePlace = "code" // what is in CodeFile
	DataPlace = "data" // a folder for each of Data that is not within the code
	EnvPlace  = "env"  // environment of Python, made there: env/bin/python
	LogPlace  = "logs" // what a unit prints
)

// Manifest says what is in a bundle, how each part is known, and what is missing and why. It holds no time of packing
// and no name of the machine that packed: the same run gives the same bytes.
type Manifest struct {
	Schema      string      `json:"schema"`
	Assay       string      `json:"assay"` // version that packed it
	Run         Run         `json:"run"`
	Code        Code        `json:"code"`
	Environment Environment `json:"environment"`
	Command     Command     `json:"command"`
	Data        []Data      `json:"data"`
	Gates       *Gates      `json:"gates,omitempty"`
	Missing     []Missing   `json:"missing"` // what a reader would look for and is not here
	Files       []File      `json:"files"`   // all others, in the order of their paths
}

// Run is the run that was packed.
type Run struct {
	ID       string          `json:"id"`
	Document string          `json:"document"` // SHA-256 of evidence.json as it lay here
	Began    time.Time       `json:"began,omitzero"`
	Target   evidence.Target `json:"target"`
	Commit   string          `json:"commit,omitempty"` // of the project, as the evidence says
	Dirty    string          `json:"dirty,omitempty"`  // clean, dirty (3 files), unknown: why
	Python   string          `json:"python,omitempty"` // 3.11.7
	System   string          `json:"system"`           // linux/amd64
}

// File is a file of the bundle.
type File struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	Sum  string `json:"sha256"`
	What string `json:"what"`
}

// Missing is something that is not in the bundle.
type Missing struct {
	What string `json:"what"`
	Why  string `json:"why"`
	Hint string `json:"hint,omitempty"`
}

// Code is the project's.
type Code struct {
	// Basis: measured, where it is the run's commit and nothing else; derived, where the working copy is shown to be as
	// it was; declared, where nothing shows it.
	Basis   evidence.Basis `json:"basis"`
	Why     string         `json:"why"`              // how it is known to be the run's code, or why it is not known
	Commit  string         `json:"commit,omitempty"` // from which it was packed; Run has that of the run
	Dirty   string         `json:"dirty,omitempty"`  // clean, dirty (3 files): against Commit
	Dir     string         `json:"dir"`              // folder within it that the run was started in
	Sum     string         `json:"sha256"`           // of CodeFile
	Files   int            `json:"files"`
	Bytes   int64          `json:"bytes"`           // unpacked
	Patch   []string       `json:"patch,omitempty"` // files that PatchFile changes against Commit
	Left    []Left         `json:"left_out"`
	Secrets []Place        `json:"secrets"` // let through by --allow-secrets
	Notes   []string       `json:"notes"`
}

// Kinds of lock.
const (
	UV            = "uv"     // uv.lock
	PyLock        = "pylock" // pylock.toml, PEP 751
	Poetry        = "poetry"
	PDM           = "pdm"
	Pipenv        = "pipenv"
	Pixi          = "pixi"
	CondaLock     = "conda-lock"
	Conda         = "conda"          // environment.yml
	CondaExplicit = "conda-explicit" // what conda had, for one system
	Requirements  = "pip"            // requirements*.txt, requirements.lock
)

// Environment is the packages, and how to have them elsewhere.
type Environment struct {
	Made      string       `json:"made"`     // what made the run's environment: uv, pip, conda, …; "": not known
	MadeWhy   string       `json:"made_why"` // what says so
	Install   string       `json:"install"`  // path of the lock to install by; "": there is none
	Why       string       `json:"why"`      // why that one
	Locks     []Lock       `json:"locks"`
	Packages  int          `json:"packages"`  // that the run had
	Elsewhere []Elsewhere  `json:"elsewhere"` // packages that come from no index
	Platform  []Difference `json:"platform"`  // packages that another system has in another build, or not at all
}

// Lock is a file that pins packages.
type Lock struct {
	Path    string         `json:"path"`         // in the bundle
	Of      string         `json:"of,omitempty"` // its path in the code; "": it was made when packing
	Kind    string         `json:"kind"`
	Basis   evidence.Basis `json:"basis"`             // declared: the project's; measured: of what the run had
	Pins    int            `json:"pins"`              // packages that it names with a version
	Same    int            `json:"same"`              // packages of the run's that it has so
	Differs []Difference   `json:"differs"`           // packages of the run's that it has not, or otherwise
	More    int            `json:"more"`              // packages that it has and the run had not: other systems, extras
	Missing string         `json:"missing,omitempty"` // why it could not be compared
}

// InStep reports whether the lock gives the run's packages.
func (l Lock) InStep() bool { return l.Missing == "" && len(l.Differs) == 0 && l.Same > 0 }

// Difference is a package of which the run had one version, and the lock another.
type Difference struct {
	Package string `json:"package"`
	Run     string `json:"run"`
	Lock    string `json:"lock,omitempty"` // "": it is not in it
	Why     string `json:"why,omitempty"`
}

// Elsewhere is a package that was installed from no index (PEP 610).
type Elsewhere struct {
	Package  string `json:"package"`
	Version  string `json:"version"`
	URL      string `json:"url,omitempty"` // no password; a path of this machine only where Missing says so
	Commit   string `json:"commit,omitempty"`
	Code     string `json:"code,omitempty"` // folder of the code that it is installed from
	Editable bool   `json:"editable,omitempty"`
	Missing  string `json:"missing,omitempty"` // why it cannot be had elsewhere
}

// Command is what was run, as it runs below Root.
type Command struct {
	Words     []string          `json:"words"`         // the first one a program's path below Root, or absolute
	Dir       string            `json:"dir"`           // working folder
	Variables map[string]string `json:"variables"`     // exactly those are set
	Needed    []string          `json:"needed"`        // variables that hold secrets: set there, and not in here
	Dropped   []Missing         `json:"dropped"`       // variables that were set and are not
	Local     []Missing         `json:"local"`         // words and variables that name paths of the machine that packed
	Why       string            `json:"why,omitempty"` // it cannot be run as it is: a secret was taken out of it
}

// Data is what the run read.
type Data struct {
	Name        string         `json:"name"`
	Type        string         `json:"type,omitempty"`
	Path        string         `json:"path,omitempty"`  // where the run had it: Root/… where it goes there, or absolute
	Place       string         `json:"place,omitempty"` // where it belongs below Root
	Files       int            `json:"files,omitempty"`
	Bytes       int64          `json:"bytes,omitempty"`
	Fingerprint string         `json:"fingerprint,omitempty"` // method:hex, as in the evidence
	Basis       evidence.Basis `json:"basis,omitempty"`       // of the fingerprint
	File        string         `json:"file,omitempty"`        // snapshot in the bundle
	Fetch       string         `json:"fetch,omitempty"`       // declared: an address or a command
	Missing     string         `json:"missing,omitempty"`
}

// Gates is the policy in force.
type Gates struct {
	Policy  string `json:"policy"` // its name: gates.toml, or default
	Outcome string `json:"outcome"`
}

// encode gives the manifest's bytes.
func (m *Manifest) encode() ([]byte, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	return append(data, '\n'), err
}
