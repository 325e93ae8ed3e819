package evidence

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// What two runs have in common is asked here and nowhere else: by baselines, by runs that are judged together, by
// speedups, by the stopping rule of the verdict, and by the logbook where it tells a difference from noise.
//
//	same subject   the same Title: the script's name without its folder, or else the command
//	same work      the same subject with the same batch and workers, those of the loader that was read first: step times of two devices can be compared
//	alike          the same work by the same command, arguments with it, on the same device, chip, system and release of the framework, on CUDA
//	               on the same GPU; of rehearsals it is the Mac that counts for which they stood
//
// What is not known of either run is the same as what is not known of the other, and as nothing else.

// MostAlike is how many runs that are alike are compared with, the newest: older ones belong to another state of the
// machine.
const MostAlike = 30

// The devices that a run can have been on, as Device names them.
const (
	OnCPU    = "cpu"
	OnMPS    = "mps"
	OnCUDA   = "cuda"
	OnMLX    = "mlx"
	OnDouble = "double" // a rehearsal

	// notMLXsGPU begins what is none of them, mlx-cpu and on Linux mlx-gpu: neither what PyTorch does there nor what
	// MLX does on an Apple GPU.
	notMLXsGPU = "mlx-"
)

// Devices lists them.
func Devices() []string { return []string{OnCPU, OnMPS, OnCUDA, OnMLX, OnDouble} }

// Device that a run was on, one of Devices, or what no rule speaks of (notMLXsGPU); "" where no training step was seen.
func Device(run *Run) string {
	if run.Rehearsal != nil {
		return OnDouble
	}
	if plugin := run.Target.plugin(); plugin != "" {
		return plugin
	}
	if t := run.Target; t.computedBy("mlx") && (t.Device == "gpu" || t.Device == OnCPU) {
		if t.Device == OnCPU || strings.HasPrefix(t.System, "linux/") {
			return notMLXsGPU + t.Device
		}
		return OnMLX
	}
	return run.Target.Device
}

// Title of a run's subject: its script's name, or the command where there is no script.
func Title(run *Run) string {
	title := run.Subject.Script
	if title == "" {
		title = strings.Join(run.Subject.Command, " ")
	}
	return title[strings.LastIndex(title, "/")+1:]
}

// Words of the subject's command behind the interpreter: the script's name without its folder, and its arguments.
func Words(run *Run) []string {
	words := slices.Clone(run.Subject.Command)
	if script := run.Subject.Script; script != "" {
		if i := slices.IndexFunc(words, func(w string) bool {
			return w == script ||
				path.Base(w) == path.Base(script)
		}); i >= 0 {
			words = words[i:]
		}
	}
	if len(words) > 0 {
		words[0] = path.Base(words[0])
	}
	return words
}

// Fact of the host, or "".
func (r *Run) Fact(name string) string {
	for _, f := range r.Host.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// trait is something that runs have in common or not.
type trait struct{ name, value string }

// Place is on what a run was: its chip, its system and the release of its framework, of a rehearsal those that it stood
// for. "" is not known.
func Place(run *Run) (chip, system, release string) {
	chip, system, release = run.Fact("chip"), run.Fact("system"), run.Target.Release
	if d := run.Target.Double; d != nil && run.Rehearsal != nil {
		return fmt.Sprintf("%s with %.3g GiB", d.Chip, float64(d.Memory)/(1<<30)), "macOS " + d.MacOS, d.Release
	}
	if system == "" {
		system = run.Target.System
	}
	return chip, system, release
}

// loading is what a step is fed with, as far as the first loader tells: a training loop reads its own first.
func loading(run *Run) []trait {
	if len(run.Provenance.Datasets) == 0 {
		return nil
	}
	d := run.Provenance.Datasets[0]
	return []trait{{"batch", fmt.Sprint(d.Batch)}, {"workers", fmt.Sprint(d.Workers)}}
}

// OtherWork says in what the work of two runs differs: "batch 32 there, 64 here", there being the second; "" for the
// same work.
func OtherWork(here, there *Run) string {
	traits := func(run *Run) []trait { return append([]trait{{"script", Title(run)}}, loading(run)...) }
	return differ(traits(here), traits(there))
}

// Unlike says in what two runs are not alike, there being the second; "" where they are.
func Unlike(here, there *Run) string {
	traits := func(run *Run) []trait {
		chip, system, release := Place(run)
		all := []trait{{"command", strings.Join(Words(run), " ")}, {"device", Device(run)}, {"chip", chip},
			{"system", system},
			{run.Target.Framework + " release", release},
			{"backend", spaced(run.Target.Backend, run.Target.BackendRelease)}}
		if Device(run) == OnCUDA {
			all = append(all, trait{"GPU", run.Target.Name})
		}
		return append(all, loading(run)...)
	}
	return differ(traits(here), traits(there))
}

func differ(here, there []trait) string {
	orUnknown := func(v string) string {
		if v == "" {
			return "unknown"
		}
		return v
	}
	for _, x := range here {
		for _, y := range there {
			if x.name == y.name && x.value != y.value {
				return fmt.Sprintf("%s %s there, %s here", x.name, orUnknown(y.value), orUnknown(x.value))
			}
		}
	}
	if len(here) != len(there) {
		return "no data loader was seen in one of them"
	}
	for i := range here {
		if here[i].name != there[i].name {
			return fmt.Sprintf("%s there, %s here", there[i].name, here[i].name)
		}
	}
	return ""
}
