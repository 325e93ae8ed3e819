package evidence

import (
	"slices"
	"testing"
)

func someRun(change func(*Run)) *Run {
	run := NewRun("")
	run.Subject = Subject{Kind: "script", Command: []string{"/usr/bin/python3", "-u", "/home/u/p/train.py", "--epochs",
		"4"}, Script: "/home/u/p/train.py"}
	run.Target = Target{Device: "mps", Framework: "torch", Release: "2.8.0", System: "darwin/arm64"}
	run.Host = HostReport{Facts: []Fact{{Name: "chip", Value: "Apple M2"}, {Name: "system", Value: "macOS 15.5"}}}
	run.Provenance = Provenance{Datasets: []Dataset{{Batch: 32, Workers: 4}, {Batch: 100}}}
	if change != nil {
		change(run)
	}
	return run
}

// TestUnlike: runs are alike where they do the same work by the same command on the same machine and releases, wherever
// they were started, and each of these that differs is named.
func TestUnlike(t *testing.T) {
	rehearse := func(chip string, gib int64) func(*Run) {
		return func(r *Run) {
			r.Rehearsal, r.Target.Double = &Rehearsal{}, &Double{Release: "2.8.0", MacOS: "15", Chip: chip,
				Memory: gib << 30}
			r.Host.Facts = nil // the machine that rehearses does not count
		}
	}
	cuda := func(name string) func(*Run) { return func(r *Run) { r.Target.Device, r.Target.Name = "cuda", name } }
	for _, c := range []struct {
		name        string
		here, there func(*Run)
		unlike      string
		otherWork   string
	}{
		{"the same", nil, nil, "", ""},
		{"another folder and interpreter", nil, func(r *Run) {
			r.Subject.Script, r.Subject.Command = "/srv/train.py", []string{"/venv/bin/python", "/srv/train.py",
				"--epochs", "4"}
		}, "", ""},
		{"another argument", nil, func(r *Run) { r.Subject.Command[4] = "5" },
			"command train.py --epochs 5 there, train.py --epochs 4 here", ""},
		{"another script", nil, func(r *Run) { r.Subject.Script, r.Subject.Command[2] = "/p/eval.py", "/p/eval.py" },
			"command eval.py --epochs 4 there, train.py --epochs 4 here", "script eval.py there, train.py here"},
		{"another device", nil, func(r *Run) { r.Target.Device = "cpu" }, "device cpu there, mps here", ""},
		{"another chip", nil, func(r *Run) { r.Host.Facts[0].Value = "Apple M4" }, "chip Apple M4 there, Apple M2 here",
			""},
		{"a chip that is not known", nil, func(r *Run) { r.Host.Facts[0].Value = "" },
			"chip unknown there, Apple M2 here", ""},
		{"another system", nil, func(r *Run) { r.Host.Facts[1].Value = "macOS 26" },
			"system macOS 26 there, macOS 15.5 here", ""},
		{"a system that the host did not tell", nil, func(r *Run) { r.Host.Facts = r.Host.Facts[:1] },
			"system darwin/arm64 there, macOS 15.5 here", ""},
		{"another release", nil, func(r *Run) { r.Target.Release = "2.9.0" }, "torch release 2.9.0 there, 2.8.0 here",
			""},
		{"another framework", nil, func(r *Run) { r.Target.Framework = "mlx" }, "mlx release there, torch release here",
			""},
		{"another batch", nil, func(r *Run) { r.Provenance.Datasets[0].Batch = 64 }, "batch 64 there, 32 here",
			"batch 64 there, 32 here"},
		{"other workers", nil, func(r *Run) { r.Provenance.Datasets[0].Workers = 0 }, "workers 0 there, 4 here",
			"workers 0 there, 4 here"},
		{"another batch of a loader that is not trained on", nil, func(r *Run) { r.Provenance.Datasets[1].Batch = 7 },
			"", ""},
		{"no loader in one", nil, func(r *Run) { r.Provenance.Datasets = nil },
			"no data loader was seen in one of them", "no data loader was seen in one of them"},
		{"another commit, Python or time", nil, func(r *Run) {
			r.Provenance.Commit, r.Target.Python, r.ID = "f00",
				"3.13", "x"
		}, "", ""},
		{"the same GPU", cuda("H100"), cuda("H100"), "", ""},
		{"another GPU", cuda("H100"), cuda("A100"), "GPU A100 there, H100 here", ""},
		{"a rehearsal of the same Mac", rehearse("Apple M2", 16), func(r *Run) {
			rehearse("Apple M2", 16)(r)
			r.Host.Facts = []Fact{{Name: "chip", Value: "AMD EPYC"}}
		}, "", ""},
		{"a rehearsal of a smaller Mac", rehearse("Apple M2", 16), rehearse("Apple M2", 8),
			"chip Apple M2 with 8 GiB there, Apple M2 with 16 GiB here", ""},
		{"a rehearsal and a run", nil, rehearse("Apple M2", 16), "device double there, mps here", ""},
	} {
		here, there := someRun(c.here), someRun(c.there)
		if got := Unlike(here, there); got != c.unlike {
			t.Errorf("%s: unlike: %q, want %q", c.name, got, c.unlike)
		}
		if got := OtherWork(here, there); got != c.otherWork {
			t.Errorf("%s: other work: %q, want %q", c.name, got, c.otherWork)
		}
		if (Unlike(here, there) == "") != (Unlike(there, here) == "") || Unlike(here, here) != "" {
			t.Errorf("%s: not the same from the other side", c.name)
		}
	}
}

func TestWordsAndTitle(t *testing.T) {
	run := someRun(nil)
	if got := Words(run); !slices.Equal(got, []string{"train.py", "--epochs", "4"}) || Title(run) != "train.py" {
		t.Errorf("%q, %q", got, Title(run))
	}
	if run.Subject.Command[2] != "/home/u/p/train.py" {
		t.Error("the run was changed")
	}
	tool := NewRun("")
	tool.Subject = Subject{Kind: "command", Command: []string{"/usr/bin/make", "train"}}
	if got := Words(tool); !slices.Equal(got, []string{"make", "train"}) || Title(tool) != "make train" {
		t.Errorf("%q, %q", got, Title(tool))
	}
	if got := Words(&Run{}); len(got) != 0 || Title(&Run{}) != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// TestDevices: what Device names a run's device by is in the list that gates and targets take theirs from.
func TestDevices(t *testing.T) {
	run := NewRun("r")
	if Device(run) != "" || len(Devices()) != 5 {
		t.Errorf("nothing seen is %q; %v", Device(run), Devices())
	}
	for _, device := range []string{"cpu", "cuda", "mlx", "mps"} {
		run.Target.Device = device
		if Device(run) != device || !slices.Contains(Devices(), device) {
			t.Errorf("%s is %s of %v", device, Device(run), Devices())
		}
	}
	// MLX's GPU on a Mac is the lane MLX. What MLX does elsewhere is no lane, and not PyTorch's CPU.
	run.Target.Framework = "mlx"
	for _, c := range [][3]string{{"gpu", "darwin/arm64", "mlx"}, {"gpu", "linux/amd64", "mlx-gpu"},
		{"cpu", "darwin/arm64", "mlx-cpu"}, {"cpu", "linux/amd64", "mlx-cpu"}, {"", "linux/amd64", ""}} {
		run.Target.Device, run.Target.System = c[0], c[1]
		if Device(run) != c[2] {
			t.Errorf("MLX on %s of %s is %q, want %q", c[0], c[1], Device(run), c[2])
		}
	}
	run.Rehearsal = &Rehearsal{}
	if Device(run) != "double" || !slices.Contains(Devices(), "double") {
		t.Errorf("a rehearsal is on %s", Device(run))
	}
}
