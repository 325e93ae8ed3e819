package target

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/fault"
)

// TestParseAccepts: what was typed is carried as it was typed, for every device of a command.
func TestParseAccepts(t *testing.T) {
	for _, c := range []struct {
		command Command
		words   Words
		want    Target
	}{
		{Run, Words{On: "auto"}, Target{Device: "auto"}},
		{Run, Words{On: "cpu"}, Target{Device: "cpu"}},
		{Run, Words{On: "mps"}, Target{Device: "mps"}},
		{Run, Words{On: "cuda"}, Target{Device: "cuda"}},
		{Run, Words{On: "double"}, Target{Device: "double"}},
		{Check, Words{On: "mps", Torch: "2.8", MacOS: "14"}, Target{Device: "mps", Release: "2.8", MacOS: "14"}},
		{Check, Words{On: "cuda", Torch: "2.8"}, Target{Device: "cuda", Release: "2.8"}},
		{Run, Words{"double", "2.8", "M3-Ultra-60core-96GB", "15.5", true},
			Target{Device: "double", Release: "2.8", Chip: "M3-Ultra-60core-96GB", MacOS: "15.5", ShapeOnly: true}},
		{Try, Words{On: "cpu"}, Target{Device: "cpu"}},
		{Try, Words{On: "mps"}, Target{Device: "mps"}},
		{Try, Words{On: "double", Torch: "2.8.0", Chip: "m2-pro", MacOS: "26"},
			Target{Device: "double", Release: "2.8.0", Chip: "m2-pro", MacOS: "26"}},
	} {
		if got, err := c.command.Parse(c.words); err != nil || got != c.want {
			t.Errorf("%s %+v: %+v, %v; want %+v", c.command.Name, c.words, got, err, c.want)
		}
	}
}

const (
	ofRun = " describes the Mac that a rehearsal stands for, and the run is --on "
	ofTry = "--torch, --chip, --macos and --shape-only describe the Mac that the double stands for, and the try is --on "
)

// TestParseRefuses: one error, with what to do, for each thing that is wrong.
func TestParseRefuses(t *testing.T) {
	type refused struct {
		command    Command
		words      Words
		text, hint string
	}
	noDouble := func(c Command, w Words, text string) refused {
		return refused{c, w, text, "see: assay " + c.Name + " --help"}
	}
	cases := []refused{
		noDouble(Run, Words{On: "tpu"}, "--on tpu: the devices are auto, cpu, mps, cuda and double"),
		noDouble(Run, Words{On: "mlx"}, "--on mlx: the devices are auto, cpu, mps, cuda and double"),
		noDouble(Run, Words{}, "--on : the devices are auto, cpu, mps, cuda and double"),
		noDouble(Check, Words{On: "double"}, "--device double: the devices are mps, cpu and cuda"),
		{Check, Words{On: "cpu", MacOS: "9"}, "macOS 9 has no MPS in PyTorch: it begins with 12.3", "as --macos 15.5"},
		noDouble(Try, Words{On: "cuda"}, "--on cuda: the devices are double, cpu and mps"),
		noDouble(Try, Words{On: "auto"}, "--on auto: the devices are double, cpu and mps"),
		noDouble(Run, Words{On: "auto", Torch: "2.8", Chip: "m9"}, "--torch"+ofRun+"auto: it goes with --on double"),
		{Run, Words{On: "double", Chip: "m9"}, "--on double: chip m9: no such chip is known",
			"known: " + strings.Join(ChipNames(), " ")},
		{Run, Words{On: "double", Chip: "m3-ultra-64gb"},
			"--on double: chip m3-ultra-64gb: M3 Ultra was not sold with 64 GiB of memory",
			"known: m3-ultra-96gb m3-ultra-256gb m3-ultra-512gb"},
		{Try, Words{On: "double", MacOS: "9"}, "--on double: macOS 9 has no MPS in PyTorch: it begins with 12.3",
			"as --macos 15.5"},
		{Run, Words{On: "double", MacOS: "17"}, "--on double: there is no macOS 17: 26 followed 15", "as --macos 15.5"},
		{Run, Words{On: "double", MacOS: "new"}, `--on double: macOS "new" is no release: write 15 or 15.5`,
			"as --macos 15.5"},
	}
	for _, device := range []string{"auto", "cpu", "mps", "cuda"} {
		for flag, w := range map[string]Words{"--torch": {Torch: "2.8"}, "--chip": {Chip: "m2"},
			"--macos": {MacOS: "15"}, "--shape-only": {ShapeOnly: true}} {
			w.On = device
			cases = append(cases, noDouble(Run, w, flag+ofRun+device+": it goes with --on double"))
			if slices.Contains(Try.Devices, device) {
				cases = append(cases, noDouble(Try, w, ofTry+device))
			}
		}
	}
	for _, c := range cases {
		got, err := c.command.Parse(c.words)
		if err == nil || err.Error() != c.text || fault.HintOf(err) != c.hint || got != (Target{}) {
			t.Errorf("%s %+v: %+v, %v (%s); want %q (%s)", c.command.Name, c.words, got, err, fault.HintOf(err), c.text,
				c.hint)
		}
	}
}

// TestOfDouble: a command's own flag that goes with the double is refused in the same words.
func TestOfDouble(t *testing.T) {
	for _, c := range []struct {
		device string
		given  bool
		want   string
	}{{"double", true, ""}, {"double", false, ""}, {"auto", false, ""},
		{"cpu", true, "--no-cpu" + ofRun + "cpu: it goes with --on double"}} {
		got := ""
		if err := Run.OfDouble(Target{Device: c.device}, "--no-cpu", c.given); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestQuestions: what is asked of each device that a command takes, and of evidence that names none or a strange one.
func TestQuestions(t *testing.T) {
	type answers struct {
		rehearsal, hidesCUDA, needsProof bool
		mustShow                         string
	}
	want := map[string]answers{
		"":       {},
		"auto":   {},
		"cpu":    {hidesCUDA: true, mustShow: "cpu"},
		"mps":    {needsProof: true, mustShow: "mps"},
		"cuda":   {needsProof: true, mustShow: "cuda"},
		"double": {rehearsal: true, hidesCUDA: true, mustShow: "double"},
		"tpu":    {mustShow: "tpu"},
	}
	for device, w := range want {
		on := Target{Device: device}
		if got := (answers{on.Rehearsal(), on.HidesCUDA(), on.NeedsProof(), on.MustShow()}); got != w {
			t.Errorf("%q: %+v, want %+v", device, got, w)
		}
	}
	for _, command := range []Command{Run, Try, Check} {
		for _, device := range command.Devices {
			if _, asked := want[device]; !asked {
				t.Errorf("%s takes %s, of which nothing is asked here", command.Name, device)
			}
			if on := (Target{Device: device}); on.MustShow() != "" && !slices.Contains(evidence.Devices(),
				on.MustShow()) {
				t.Errorf("%s: no evidence names its device so", device)
			}
		}
	}
	if CPU() != (Target{Device: "cpu"}) {
		t.Errorf("%+v", CPU())
	}
}

// TestWholeInEvidence: every field goes into the evidence and comes back, under the name that the event start has for
// it.
func TestWholeInEvidence(t *testing.T) {
	asked := Target{Device: "double", Release: "2.8", Chip: "m3-ultra", MacOS: "15.5", ShapeOnly: true, Host: "mac"}
	for i := range reflect.TypeFor[Target]().NumField() {
		if reflect.ValueOf(asked).Field(i).IsZero() {
			t.Fatalf("%s is not set here", reflect.TypeFor[Target]().Field(i).Name)
		}
	}
	run := evidence.Target{System: "linux/amd64"}
	asked.In(&run)
	if got := Asked(run); got != asked {
		t.Errorf("came back as %+v", got)
	}
	document, event := fields(t, run), fields(t, asked)
	for name, value := range event {
		if document[name] != value {
			t.Errorf("%s: %v in the event, %v in the evidence", name, value, document[name])
		}
	}
	if len(event) != 6 || len(document) != 7 {
		t.Errorf("event %v, evidence %v", event, document)
	}
	// Of earlier assays there is the word alone, and where nothing else was asked for there still is.
	var former Target
	if err := json.Unmarshal([]byte(`{"asked":"mps"}`), &former); err != nil || former != (Target{Device: "mps"}) {
		t.Errorf("%+v, %v", former, err)
	}
	if got := fields(t, former); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func fields(t *testing.T, v any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestDouble: what the double is told follows from the Mac aimed at; what that leaves open is assumed, and said.
func TestDouble(t *testing.T) {
	a := &atlas.Atlas{}
	floor := func(least string) func(string) string { return func(string) string { return least } }
	const pinned = "torch 2.3.1 (torch==2.3.1 in requirements.txt)"
	files := map[string]string{"requirements.txt": "torch==2.3.1\n"}
	settings := map[string]string{"assay.toml": "[target]\ntorch = \"2.8\"\nchip = \"m2-pro-16gb\"\nmacos = \"15.5\"\n"}
	for _, c := range []struct {
		on                   Target
		files                map[string]string
		installed, floor     string
		release, chip, macOS string
		memory               int64
		assumed              []string
	}{
		{Target{Release: "2.8"}, nil, "2.15.0+cpu", "", "2.8.0", "m1-16gb", "15", 16,
			[]string{"the Mac: m1-16gb, since --chip names none", "macOS 15, since --macos names none"}},
		{Target{Chip: "m4-max-128gb", MacOS: "15.5", ShapeOnly: true}, nil, "2.8.0", "14.0", "2.8.0", "m4-max-128gb",
			"15.5", 128, []string{"torch 2.8.0 (the installed torch 2.8.0: here)"}},
		{Target{Release: "2.8.0", Chip: "m2-pro", MacOS: "14"}, files, "", "14.0", "2.8.0", "m2-pro-16gb", "14", 16,
			[]string{"16 GiB, the smallest of 16, 32 GiB; 19 GPU cores, the most of 16, 19 cores"}},
		{Target{Chip: "m4-max-128gb"}, files, "2.15.0", "26.1", "2.3.1", "m4-max-128gb", "26.1", 128,
			[]string{pinned, "macOS 26.1, since --macos names none"}},
		{Target{}, settings, "2.15.0", "", "2.8.0", "m2-pro-16gb", "15.5", 16,
			[]string{`torch 2.8.0 (torch = "2.8" in assay.toml)`, "the Mac: m2-pro-16gb, as assay.toml says",
				"19 GPU cores, the most of 16, 19 cores", "macOS 15.5, as assay.toml says"}},
		{Target{Release: "2.3.1", Chip: "m1-8gb", MacOS: "14"}, settings, "2.15.0", "", "2.3.1", "m1-8gb", "14", 8,
			[]string{"8 GPU cores, the most of 7, 8 cores"}},
	} {
		aim, err := aimAt(t, a, c.files, c.on, c.installed)
		if err != nil {
			t.Errorf("%+v: %v", c.on, err)
			continue
		}
		d, err := c.on.Double(a, aim, c.installed, floor(c.floor))
		if err != nil {
			t.Errorf("%+v: %v", c.on, err)
			continue
		}
		s := d.Settings
		if s.Release != c.release || s.Chip != c.chip || s.MacOS.String() != c.macOS || s.Memory != c.memory<<30 ||
			s.Installed != c.installed ||
			s.ShapeOnly != c.on.ShapeOnly || !slices.Equal(s.Assumed, c.assumed) {
			t.Errorf("%+v: %+v", c.on, s)
		}
		if d.Table.Release != c.release || d.Table.Installed != c.installed || s.Table != "" {
			t.Errorf("%+v: the table is of %s with %s, at %q", c.on, d.Table.Release, d.Table.Installed, s.Table)
		}
	}
	for _, c := range []struct {
		on         Target
		text, hint string
	}{
		{Target{Release: "2.8", MacOS: "13"}, "--on double: torch 2.8.0 has no MPS on macOS 13: it needs 14.0",
			"name a newer --macos, or an older --torch"},
		{Target{Release: "2.8", Chip: "x"}, "--on double: chip x: no such chip is known", ""},
		{Target{Release: "2.8", MacOS: "x"}, `--on double: macOS "x" is no release: write 15 or 15.5`,
			"as --macos 15.5"},
	} {
		aim, err := aimAt(t, a, nil, c.on, "")
		if err == nil {
			_, err = c.on.Double(a, aim, "", floor("14.0"))
		}
		if err == nil || err.Error() != c.text || c.hint != "" && fault.HintOf(err) != c.hint {
			t.Errorf("%+v: %v (%s)", c.on, err, fault.HintOf(err))
		}
	}
}

// TestKeep: the table lies where the settings say, for this user alone, and reads back; the double itself names no
// place.
func TestKeep(t *testing.T) {
	aim, err := aimAt(t, &atlas.Atlas{}, nil, Target{Release: "2.8"}, "2.8.0")
	if err != nil {
		t.Fatal(err)
	}
	d, err := Target{Release: "2.8"}.Double(&atlas.Atlas{}, aim, "2.8.0", func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "double.json")
	settings, err := d.Keep(path)
	if err != nil || settings.Table != path || settings.Release != "2.8.0" || d.Settings.Table != "" {
		t.Errorf("%+v, %v; the double's own table is at %q", settings, err, d.Settings.Table)
	}
	data, err := os.ReadFile(path)
	var table Table
	if err != nil || json.Unmarshal(data, &table) != nil || !reflect.DeepEqual(table, d.Table) {
		t.Errorf("the table reads back otherwise: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := d.Keep(filepath.Join(path, "below")); err == nil {
		t.Error("a table that cannot be written is no error")
	}
}

// TestParseRelease: a release that is not known is an error that names those that are.
func TestParseRelease(t *testing.T) {
	a := &atlas.Atlas{}
	if r, err := ParseRelease(a, "2.8"); err != nil || r.Version != "2.8.0" {
		t.Errorf("%+v, %v", r, err)
	}
	_, err := ParseRelease(a, "2.99")
	if hint := fault.HintOf(err); err == nil || !strings.HasPrefix(hint, "the nearest it has is ") ||
		!strings.Contains(hint, " 2.8.0 ") {
		t.Errorf("%v (%s)", err, hint)
	}
	for _, word := range []string{"banana", "2.8.x", "", "2.", "-1", strings.Repeat("1", 1000)} {
		_, err := ParseRelease(a, word)
		if err == nil || !strings.HasSuffix(err.Error(), "is no release: write 2.8 or 2.8.0") ||
			!strings.HasPrefix(fault.HintOf(err), "known: 2.0") || strings.Contains(fault.HintOf(err), "nearest") {
			t.Errorf("%q: %v (%s)", word, err, fault.HintOf(err))
		}
	}
}
