package target

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/fault"
)

// Target is on what a command runs something, as the user asked for it. Release, Chip, MacOS and ShapeOnly describe the
// Mac that the double stands for, and are empty with every other device. As JSON it stands in the event start;
// evidence.Target has the same fields.
type Target struct {
	Device    string `json:"asked"`                      // Auto, or one of evidence.Devices; "" is Auto
	Release   string `json:"asked_release,omitempty"`    // of the framework, as it was typed; "": the one installed
	Chip      string `json:"asked_chip,omitempty"`       // as ParseChip takes it; "": DefaultChip
	MacOS     string `json:"asked_macos,omitempty"`      // as ParseMacOS takes it; "": as Double says
	ShapeOnly bool   `json:"asked_shape_only,omitempty"` // shapes and no data
	Host      string `json:"asked_host,omitempty"`       // the machine; "": this one, the only one so far
}

// Auto leaves the device to the script.
const Auto = "auto"

// CPU of this machine.
func CPU() Target { return Target{Device: evidence.OnCPU} }

// Words are what the user typed.
type Words struct {
	On, Torch, Chip, MacOS string
	ShapeOnly              bool
}

// Command is a command that takes a target.
type Command struct {
	Name      string   // of the command: its help is where an error in the words leads to
	Devices   []string // that its --on takes, in the order in which they are named
	misplaced string   // said of a flag (1) of the double's where --on names a device (2) that is another
	judges    bool     // its device is only judged for: the other words go with each
}

// The commands that take a target.
var (
	Run = Command{Name: "run",
		Devices:   []string{Auto, evidence.OnCPU, evidence.OnMPS, evidence.OnCUDA, evidence.OnDouble},
		misplaced: "%[1]s describes the Mac that a rehearsal stands for, and the run is --on %[2]s: it goes with --on double"}
	Test = Command{Name: "test", Devices: Run.Devices,
		misplaced: "%[1]s describes the Mac that a rehearsal stands for, and the tests run --on %[2]s: it goes with " +
			"--on double"}
	Signatures = Command{Name: "signatures record", Devices: Run.Devices,
		misplaced: "%[1]s describes the Mac that a rehearsal stands for, and the run is --on %[2]s: it goes with --on double"}
	Sweep = Command{Name: "sweep", Devices: Run.Devices,
		misplaced: "%[1]s describes the Mac that a rehearsal stands for, and the sweep is --on %[2]s: it goes with --on double"}
	Try = Command{Name: "try", Devices: []string{evidence.OnDouble, evidence.OnCPU, evidence.OnMPS},
		misplaced: "--torch, --chip, --macos and --shape-only describe the Mac that the double stands for, and the try is --on %[2]s"}
	Replay = Command{Name: "signatures replay",
		Devices:   []string{evidence.OnMPS, evidence.OnCUDA, evidence.OnCPU, evidence.OnDouble},
		misplaced: "%[1]s describes the Mac that the double stands for, and the replay is --on %[2]s: it goes with --on double"}
	// Check's device is its --device, and what it describes is judged for.
	Check = Command{Name: "check", Devices: []string{evidence.OnMPS, evidence.OnCPU, evidence.OnCUDA}, judges: true}
)

// Parse makes a target of what was typed, or says with a hint what is wrong with it. Which releases of the framework
// are known is asked by Double, since none may have been named.
func (c Command) Parse(w Words) (Target, error) {
	t := Target{Device: w.On, Release: w.Torch, Chip: w.Chip, MacOS: w.MacOS, ShapeOnly: w.ShapeOnly}
	if !slices.Contains(c.Devices, w.On) {
		last := len(c.Devices) - 1
		devices := strings.Join(c.Devices[:last], ", ") + " and " + c.Devices[last]
		return Target{}, c.usage("%s %s: the devices are %s", c.flag(), w.On, devices)
	}
	for _, flag := range []struct {
		name  string
		given bool
	}{{"--torch", w.Torch != ""}, {"--chip", w.Chip != ""}, {"--macos", w.MacOS != ""}, {"--shape-only", w.ShapeOnly}} {
		if err := c.OfDouble(t, flag.name, flag.given); err != nil {
			return Target{}, err
		}
	}
	if _, err := t.chip(); err != nil {
		return Target{}, c.doing(err)
	}
	if _, err := t.macOS(); err != nil {
		return Target{}, c.doing(err)
	}
	return t, nil
}

// flag is the one that names the device.
func (c Command) flag() string {
	if c.judges {
		return "--device"
	}
	return "--on"
}

// doing says of an error in a word about the Mac what it was needed for.
func (c Command) doing(err error) error {
	if c.judges {
		return err
	}
	return fault.Hint(fmt.Errorf("--on double: %w", err), fault.HintOf(err))
}

// OfDouble is the error of a flag that goes with the double alone, where it is given with another device.
func (c Command) OfDouble(t Target, flag string, given bool) error {
	if !given || c.judges || t.Rehearsal() {
		return nil
	}
	return c.usage(c.misplaced, flag, t.Device)
}

func (c Command) usage(format string, a ...any) error {
	return fault.Hint(fmt.Errorf(format, a...), "see: assay "+c.Name+" --help")
}

// chip is the one asked for, or DefaultChip.
func (t Target) chip() (Chip, error) {
	name := t.Chip
	if name == "" {
		name = DefaultChip
	}
	chip, err := ParseChip(name)
	var unknown *ChipError
	if errors.As(err, &unknown) {
		return Chip{}, fault.Hint(err, "known: "+strings.Join(unknown.Near, " "))
	}
	return chip, err
}

// macOS is the one asked for, or DefaultMacOS.
func (t Target) macOS() (MacOS, error) {
	if t.MacOS == "" {
		return DefaultMacOS, nil
	}
	v, err := ParseMacOS(t.MacOS)
	if err != nil {
		return MacOS{}, fault.Hint(err, "as --macos 15.5")
	}
	return v, nil
}

// Rehearsal says whether the double was asked for.
func (t Target) Rehearsal() bool { return t.Device == evidence.OnDouble }

// IsCPU says whether the CPU alone was asked for.
func (t Target) IsCPU() bool { return t.Device == evidence.OnCPU }

// IsMPS says whether what comes of it is about MPS: a real one, or its double.
func (t Target) IsMPS() bool { return t.Device == evidence.OnMPS || t.Rehearsal() }

// LeftOpen says whether the device was left to be chosen.
func (t Target) LeftOpen() bool { return t.Device == Auto || t.Device == "" }

// HidesCUDA says whether no CUDA device is to be seen: a script for the CPU would take one that it finds, and a Mac has
// none.
func (t Target) HidesCUDA() bool { return t.Device == evidence.OnCPU || t.Rehearsal() }

// NeedsProof says whether the device has to be proved to compute before hours are spent on it. python.Gates has a gate
// of its name.
func (t Target) NeedsProof() bool { return t.Device == evidence.OnMPS || t.Device == evidence.OnCUDA }

// MustShow is the device that the evidence has to show, as evidence.Device names it; "" where that was left to the
// script.
func (t Target) MustShow() string {
	if t.Device == Auto {
		return ""
	}
	return t.Device
}

// In is the part of a run's target that was asked for.
func (t Target) In(run *evidence.Target) {
	run.Asked, run.AskedRelease, run.AskedChip, run.AskedMacOS = t.Device, t.Release, t.Chip, t.MacOS
	run.AskedShapeOnly, run.AskedHost = t.ShapeOnly, t.Host
}

// Asked is what was asked for in a run, by its evidence. Earlier assays kept the device alone.
func Asked(run evidence.Target) Target {
	return Target{Device: run.Asked, Release: run.AskedRelease, Chip: run.AskedChip, MacOS: run.AskedMacOS,
		ShapeOnly: run.AskedShapeOnly, Host: run.AskedHost}
}
