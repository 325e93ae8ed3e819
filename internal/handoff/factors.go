package handoff

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/evidence"
	"assay/internal/unit"
)

// Difference is one thing that is not the same on the two sides.
type Difference struct {
	Factor string `json:"factor"` // row of the table that it is of
	Name   string `json:"name"`   // package, variable, path, where the factor has several
	Here   string `json:"here"`   // "": not there
	There  string `json:"there"`
	Text   string `json:"text"` // one sentence
	Class  Class  `json:"class"`
	Ground Ground `json:"ground,omitempty"` // "": it explains nothing
	Hint   string `json:"hint,omitempty"`

	effects []effect
}

// Class says whether a difference is one that a handoff means to make.
type Class string

const (
	Amiss Class = "amiss" // it should not be there
	Meant Class = "meant" // another machine is another machine
	Noted Class = "noted" // it is said, and nobody need do anything
)

var classes = []Class{Amiss, Meant, Noted}

// Ground says how it is known that a difference changes what a training takes. The order is that of the ranking.
type Ground string

const (
	Certain  Ground = "certain"  // it is other work
	Measured Ground = "measured" // it was seen to take time or memory while the run went on
	Known    Ground = "known"    // its documentation says what it does, or it is how machines work
	Possible Ground = "possible" // it can, and nothing says whether it did
)

var grounds = []Ground{Certain, Measured, Known, Possible}

// effect is what a difference can do to a kind of figure: the ratio there / here lies between Low and High. Where only
// the direction is known, High is without bound, or Low is 0.
type effect struct {
	on        string // slow: time of a step; memory; loss; or a phase of the step
	low, high float64
}

// Kinds of figures that effects are on. A phase of the step is a kind of its own.
const (
	onTime   = "time"
	onMemory = "memory"
	onLoss   = "loss"
)

var (
	inf     = math.Inf(1)
	slower  = effect{onTime, 1, inf}
	faster  = effect{onTime, 0, 1}
	anyTime = effect{onTime, 0, inf}
	anyLoss = effect{onLoss, 0, inf}
)

// ranked gives the direction in which a factor of this kind makes a step longer: there is more of it than here, or
// less.
func ranked(more bool) effect {
	if more {
		return slower
	}
	return faster
}

// factor is a row: what is looked at, and how. find is asked of two sides, each with a run.
type factor struct {
	name string
	doc  string // for docs/handoff.md
	find func(here, there Side) []Difference
}

// factors is the table, in the order in which equals are told.
var factors = []factor{
	{"command", "another script, other arguments: other work", findCommand},
	{"code", "another commit, or changes that were not committed", findCode},
	{"batch", "rows of a batch, by the first loader", findBatch},
	{"workers", "worker processes of the first loader", findWorkers},
	{"data", "checksum, length or number of the data's files", findData},
	{"seed", "seeds and settings that decide whether a run repeats", findSeeds},
	{"precision", "TF32, matmul precision, determinism, cuDNN's benchmark", findPrecision},
	{"device", "cpu where it was mps, or the other way round", findDevice},
	{"framework", "another release of what computes", findFramework},
	{"python", "another release of Python", findPython},
	{"package", "packages that came, went or have another version; those known to matter first", findPackages},
	{"debug", "debugging or profiling left on, by variable", findDebugging},
	{"threads", "threads of OpenMP, MKL, PyTorch, Accelerate", findThreads},
	{"variable", "other environment variables that can change a run", findVariables},
	{"cpus", "processors that the run may use", findCPUs},
	{"quota", "processor time that a container is granted", findQuota},
	{"load", "other programs that kept processors busy", findLoad},
	{"priority", "nice", findNice},
	{"mount", "data, caches or the run's folder on another machine's disk", findMounts},
	{"swap", "memory that is swapped while the run goes on", findSwap},
	{"apps", "memory that other programs hold", findApps},
	{"power", "battery or mains", findPower},
	{"low-power", "Low Power Mode, or a power profile that saves energy", findLowPower},
	{"governor", "the processor's governor", findGovernor},
	{"thermal", "heat that slows the processor down", findHeat},
	{"fallback", "operators that run on the CPU for want of a kernel", findFallbacks},
	{"link", "Wi-Fi where a cable was meant; how far the other end of the network is", findLink},
	{"local-network", "macOS keeps a program from the local network until somebody allows it", findLocalNetwork},
	{"clock", "clocks that are not the same", findClock},
	{"files", "files that a process may open", findFiles},
	{"translation", "an interpreter for another processor", findTranslation},
	{"virtual", "a virtual machine or a container", findVirtual},
	{"chip", "chip, cores, GPU", findChip},
	{"memory", "memory of the machine, or what a container grants", findMemory},
	{"system", "operating system and its release", findSystem},
}

func one(d Difference) []Difference { return []Difference{d} }

// between says what is here and what there, with what stands for nothing.
func between(here, there, nothing string) string {
	return fmt.Sprintf("%s there and %s here", cmp.Or(there, nothing), cmp.Or(here, nothing))
}

func findCommand(here, there Side) []Difference {
	h, t := strings.Join(evidence.Words(here.run()), " "), strings.Join(evidence.Words(there.run()), " ")
	// the bundle's own command is the run's, below another folder
	if _, same := there.fact("command.of-bundle"); h == t || same {
		return nil
	}
	return one(Difference{Here: h, There: t, Class: Amiss, Ground: Certain, Text: "the command is another: " +
		between(h, t, "none"),
		Hint:    "smoke the command that the bundle has",
		effects: []effect{anyTime, {onMemory, 0, inf}, anyLoss}})
}

func findCode(here, there Side) []Difference {
	h, t := here.run().Provenance, there.run().Provenance
	if h.Commit == "" || t.Commit == "" || h.Commit == t.Commit {
		return nil
	}
	return one(Difference{Here: h.Commit, There: t.Commit, Class: Amiss, Ground: Known,
		Text: "the code is of another commit: " + between(h.Commit[:min(12, len(h.Commit))], t.Commit[:min(12,
			len(t.Commit))], ""),
		effects: []effect{anyTime, {onMemory, 0, inf}, anyLoss}})
}

// loader is the dataset that training reads first.
func loader(s Side) *evidence.Dataset {
	if sets := s.run().Provenance.Datasets; len(sets) > 0 {
		return &sets[0]
	}
	return nil
}

func findBatch(here, there Side) []Difference {
	h, t := loader(here), loader(there)
	if h == nil || t == nil || h.Batch == t.Batch || h.Batch <= 0 || t.Batch <= 0 {
		return nil
	}
	// a step of r times the rows takes between as long (all of it is the same for every batch) and r times as long
	r := float64(t.Batch) / float64(h.Batch)
	low, high := min(r, 1), max(r, 1)
	return one(Difference{Here: strconv.Itoa(h.Batch), There: strconv.Itoa(t.Batch), Class: Amiss, Ground: Certain,
		Text:    fmt.Sprintf("the batch has %d rows there and %d here", t.Batch, h.Batch),
		Hint:    "give both the same batch before their times are compared",
		effects: []effect{{onTime, low, high}, {onMemory, low, high}, anyLoss}})
}

func findWorkers(here, there Side) []Difference {
	h, t := loader(here), loader(there)
	if h == nil || t == nil || h.Workers == t.Workers {
		return nil
	}
	d := Difference{Here: strconv.Itoa(h.Workers), There: strconv.Itoa(t.Workers), Class: Amiss, Ground: Known,
		Text:    fmt.Sprintf("the loader has %d workers there and %d here", t.Workers, h.Workers),
		effects: []effect{{"data", 0, inf}, anyTime, {onMemory, 0, inf}}}
	return one(d)
}

func findData(here, there Side) []Difference {
	var all []Difference
	h, t := here.run().Provenance.Datasets, there.run().Provenance.Datasets
	for i := range min(len(h), len(t)) {
		a, b := h[i], t[i]
		name := cmp.Or(path.Base(b.Path), b.Type)
		if b.Path == "" {
			name = b.Type
		}
		d := Difference{Name: name, Class: Amiss, Ground: Certain,
			Hint:    "bring the data over again, and hold its checksums against the bundle's",
			effects: []effect{anyTime, {onMemory, 0, inf}, anyLoss}}
		switch {
		case a.Type != b.Type:
			d.Here, d.There = a.Type, b.Type
			d.Text = "the dataset is another: " + between(a.Type, b.Type, "none")
		case a.Fingerprint != "" && b.Fingerprint != "" && a.Fingerprint != b.Fingerprint:
			d.Here, d.There = a.Fingerprint, b.Fingerprint
			d.Text = fmt.Sprintf("the data of %s has other bytes there (%d files, %s; here %d files, %s)", name,
				b.Files,
				unit.Bytes(float64(b.Bytes)), a.Files, unit.Bytes(float64(a.Bytes)))
		case a.Length != b.Length:
			d.Here, d.There = strconv.Itoa(a.Length), strconv.Itoa(b.Length)
			d.Text = fmt.Sprintf("the dataset has %d items there and %d here", b.Length, a.Length)
		case a.Fingerprint != "" && b.Fingerprint == "":
			d.Here, d.Ground, d.effects = a.Fingerprint, "", nil
			d.Text = fmt.Sprintf("whether the data of %s is the same is not known: %s", name,
				cmp.Or(b.Missing, "no checksum was made there"))
		default:
			continue
		}
		all = append(all, d)
	}
	// checksums of what the bundle names, made before the run
	was, is := here.facts("data:"), there.facts("data:")
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if now, known := is[name]; known && now != was[name] {
			all = append(all, Difference{Name: name, Here: was[name], There: now, Class: Amiss, Ground: Certain,
				Text:    fmt.Sprintf("%s has other bytes there", name),
				Hint:    "bring the data over again",
				effects: []effect{anyTime, {onMemory, 0, inf}, anyLoss}})
		}
	}
	return all
}

// settings of the run, by name: those that are known.
func settings(s Side) map[string]evidence.Setting {
	all := map[string]evidence.Setting{}
	for _, r := range s.run().Provenance.Randomness {
		if r.State != evidence.StateUnknown {
			all[r.Name] = r
		}
	}
	return all
}

// precise are the settings that change how numbers are computed, and not which are drawn.
var precise = regexp.MustCompile(`backends|deterministic|tf32|precision|benchmark|CUBLAS_WORKSPACE|anomaly`)

func settingsThat(here, there Side, of func(name string) bool, make func(d Difference) Difference) []Difference {
	var all []Difference
	h, t := settings(here), settings(there)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		a, b := h[name], t[name]
		if !of(name) || b.Name == "" || a.Value == b.Value && (a.State == b.State || a.Value != "") {
			continue
		}
		say := func(s evidence.Setting) string { return cmp.Or(s.Value, string(s.State)) }
		all = append(all, make(Difference{Name: name, Here: say(a), There: say(b),
			Text: name + ": " + between(say(a), say(b), "")}))
	}
	return all
}

func findSeeds(here, there Side) []Difference {
	return settingsThat(here, there, func(name string) bool { return !precise.MatchString(name) },
		func(d Difference) Difference {
			d.Class, d.Ground, d.effects = Amiss, Certain, []effect{anyLoss}
			d.Hint = "the same seed, where losses are to be compared"
			return d
		})
}

func findPrecision(here, there Side) []Difference {
	return settingsThat(here, there, precise.MatchString, func(d Difference) Difference {
		d.Class, d.Ground, d.effects = Amiss, Known, []effect{anyTime, anyLoss}
		return d
	})
}

func findDevice(here, there Side) []Difference {
	h, t := evidence.Device(here.run()), evidence.Device(there.run())
	if h == t || h == "" || t == "" {
		return nil
	}
	d := Difference{Here: h, There: t, Class: Meant, Ground: Certain, Text: "it trains on " + between(h, t, "nothing"),
		effects: []effect{anyTime, {"h2d", 0, inf}, {onMemory, 0, inf}, anyLoss}}
	if t == evidence.OnCPU {
		d.Class, d.Hint = Amiss, "ask there: assay doctor says which devices compute, and why one does not"
	}
	return one(d)
}

func findFramework(here, there Side) []Difference {
	name := func(s Side) string {
		t := s.run().Target
		return strings.TrimSpace(t.Framework + " " + t.Release + " " + t.Backend + " " + t.BackendRelease)
	}
	h, t := name(here), name(there)
	if h == t || h == "" || t == "" {
		return nil
	}
	return one(Difference{Here: h, There: t, Class: Amiss, Ground: Known, Text: "what computes is another release: " +
		between(h, t, ""),
		Hint:    "make the environment from the bundle's lock",
		effects: []effect{anyTime, {onMemory, 0, inf}, anyLoss}})
}

func findPython(here, there Side) []Difference {
	h, t := here.run().Target.Python, there.run().Target.Python
	if h == t || h == "" || t == "" {
		return nil
	}
	return one(Difference{Here: h, There: t, Class: Amiss, Ground: Possible, Text: "Python is " + between(h, t, ""),
		effects: []effect{anyTime, {onMemory, 0, inf}}})
}

// mattering are packages that a training spends its time in, or that decide what a batch is. Those of NVIDIA's begin
// alike.
var mattering = regexp.MustCompile(`^(torch|torch(vision|audio|data|codec)|mlx(-.*)?|jax(lib)?|jax-.*|keras|tensorflow.*|numpy|scipy|` +
	`triton.*|nvidia-.*|mkl|intel-openmp|openblas|accelerate|transformers|tokenizers|datasets|diffusers|peft|timm|` +
	`(pytorch-)?lightning|safetensors|pillow|pillow-simd|opencv-.*|albumentations|kornia|h5py|pyarrow|webdataset|` +
	`bitsandbytes|flash-attn|xformers|optax|flax|einops|scikit-image)$`)

// packageLines is how many packages that do not matter are named one by one; the others are counted.
const packageLines = 8

func findPackages(here, there Side) []Difference {
	h, t := here.packages(), there.packages()
	if len(h) == 0 || len(t) == 0 {
		return nil
	}
	names := slices.Collect(maps.Keys(h))
	for name := range t {
		if _, both := h[name]; !both {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		ma, mb := mattering.MatchString(a), mattering.MatchString(b)
		if ma != mb {
			return map[bool]int{true: -1, false: 1}[ma]
		}
		return cmp.Compare(a, b)
	})
	var all []Difference
	rest := 0
	for _, name := range names {
		a, b := h[name], t[name]
		if a == b {
			continue
		}
		d := Difference{Name: name, Here: a, There: b, Class: Noted, Text: name + " " + between(a, b, "not")}
		switch {
		case a == "":
			d.Text = fmt.Sprintf("%s %s is there and not here", name, b)
		case b == "":
			d.Text = fmt.Sprintf("%s %s is here and not there", name, a)
		}
		if mattering.MatchString(name) {
			d.Class, d.Ground, d.effects = Amiss, Possible, []effect{anyTime, {onMemory, 0, inf}, anyLoss}
			d.Hint = "make the environment from the bundle's lock"
		} else if rest++; rest > packageLines {
			continue
		}
		all = append(all, d)
	}
	if rest > packageLines {
		all = append(all, Difference{Name: "others", Class: Noted,
			Text: fmt.Sprintf("%d more packages differ, none of those that are known to matter", rest-packageLines)})
	}
	return all
}

func findDebugging(here, there Side) []Difference {
	var all []Difference
	for _, row := range debuggings {
		h, t := here.variable(row.name), there.variable(row.name)
		a, b := row.on(h), row.on(t)
		if a == b {
			continue
		}
		d := Difference{Name: row.name, Here: h, There: t, Class: Noted, Ground: Known, effects: []effect{ranked(b)},
			Text: fmt.Sprintf("%s=%s is left on here: %s", row.name, h, row.what)}
		if b {
			d.Class, d.Hint = Amiss, "unset it there"
			d.Text = fmt.Sprintf("%s=%s is left on there: %s", row.name, t, row.what)
		}
		if strings.HasPrefix(row.name, "Malloc") || strings.HasPrefix(row.name, "MALLOC") ||
			strings.HasPrefix(row.name, "PYTHON") ||
			row.name == "PYTORCH_NO_CUDA_MEMORY_CACHING" {
			d.effects = append(d.effects, effect{onMemory, 0, inf})
		}
		all = append(all, d)
	}
	return all
}

// threadNames are the variables that say how many threads compute.
var threadNames = []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
	"NUMEXPR_NUM_THREADS", "OMP_THREAD_LIMIT", "OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "OMP_SCHEDULE",
	"KMP_AFFINITY", "KMP_BLOCKTIME", "GOMP_CPU_AFFINITY", "MKL_DYNAMIC", "OMP_DYNAMIC", "TOKENIZERS_PARALLELISM"}

func findThreads(here, there Side) []Difference {
	var all []Difference
	if h, ok := here.number("torch.threads"); ok {
		if t, ok := there.number("torch.threads"); ok && h != t && h > 0 && t > 0 {
			// k times fewer threads take up to k times as long; more of them than processors can be slower, too
			r := h / t
			d := Difference{Name: "torch.get_num_threads", Here: fmt.Sprint(h), There: fmt.Sprint(t), Class: Noted,
				Ground:  Known,
				Text:    fmt.Sprintf("PyTorch computes with %g threads there and %g here", t, h),
				effects: []effect{{onTime, min(r, 1), max(r, 1)}}}
			if evidence.Device(there.run()) == evidence.OnCPU && t > h {
				d.effects = []effect{anyTime}
			}
			all = append(all, d)
		}
	}
	for _, name := range threadNames {
		h, t := here.variable(name), there.variable(name)
		if h == t {
			continue
		}
		d := Difference{Name: name, Here: h, There: t, Class: Amiss, Ground: Known,
			Text:    fmt.Sprintf("%s is %s", name, between(h, t, "not set")),
			Hint:    "set it there as the bundle's units do",
			effects: []effect{anyTime}}
		// k times fewer threads take up to k times as long; more than there are processors can be slower, too
		if a, b := threadsOf(here, h), threadsOf(there, t); strings.HasSuffix(name, "_THREADS") && a > 0 && b > 0 {
			if cpus, known := there.number("cpu.usable"); b <= a || known && b <= cpus {
				d.effects = []effect{{onTime, min(a/b, 1), max(a/b, 1)}}
			}
		}
		all = append(all, d)
	}
	return all
}

// threadsOf is what a variable of a number of threads comes to: where it is not set, the processors. 0: not known.
func threadsOf(s Side, value string) float64 {
	if value == "" {
		cpus, _ := s.number("cpu.usable")
		return cpus
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0
	}
	return float64(n)
}

// quietVariables are variables of the record that say where things lie, and change no run by themselves.
var quietVariables = regexp.MustCompile(`^(VIRTUAL_ENV|CONDA_PREFIX|PYTHONPATH|PYTHONDONTWRITEBYTECODE|PYTHONUNBUFFERED|` +
	`HF_HOME|HF_HUB_CACHE|HF_DATASETS_CACHE|TORCH_HOME|TORCHINDUCTOR_CACHE_DIR|TRANSFORMERS_CACHE|MASTER_.*|` +
	`TF_CLI_CONFIG_FILE|PYTHONPYCACHEPREFIX|PYTHONHISTFILE|HF_TOKEN|PYTHONIOENCODING)$`)

func findVariables(here, there Side) []Difference {
	h, t := here.run().Provenance.Environment, there.run().Provenance.Environment
	said := func(name string) bool {
		return slices.Contains(threadNames, name) ||
			slices.ContainsFunc(debuggings, func(d debugging) bool {
				return d.name == name && d.on(h[name]) != d.on(t[name])
			})
	}
	names := slices.Collect(maps.Keys(h))
	for name := range t {
		if _, both := h[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	moved, dropped := there.facts("variable.moved:"), there.facts("variable.dropped:")
	var all []Difference
	for _, name := range names {
		a, inH := h[name]
		b, inT := t[name]
		if a == b && inH == inT || said(name) || moved[name] != "" { // a path below the folder that it was unpacked to
			continue
		}
		if why := dropped[name]; why != "" && !inT {
			all = append(all, Difference{Name: name, Here: a, Class: Noted, Ground: Possible,
				Text:    fmt.Sprintf("%s is not set there: the bundle leaves it out, since %s", name, why),
				effects: []effect{anyTime}})
			continue
		}
		d := Difference{Name: name, Here: a, There: b, Class: Amiss, Ground: Possible,
			Text: fmt.Sprintf("%s is %s", name, between(a, b, map[bool]string{true: "empty",
				false: "not set"}[inH && inT])),
			Hint:    "set it there as the bundle's units do",
			effects: []effect{anyTime, {onMemory, 0, inf}, anyLoss}}
		if quietVariables.MatchString(name) {
			d.Class, d.Ground, d.Hint, d.effects = Noted, "", "", nil
		}
		all = append(all, d)
	}
	return all
}

var grants = regexp.MustCompile(`grants the time of ([0-9.eE+-]+)`)

func findCPUs(here, there Side) []Difference {
	h, okH := here.number("cpu.usable")
	t, okT := there.number("cpu.usable")
	if !okH || !okT {
		h, okH = here.number("cpu.cores")
		t, okT = there.number("cpu.cores")
	}
	if !okH || !okT || h == t || h <= 0 || t <= 0 {
		return nil
	}
	r := h / t
	return one(Difference{Here: fmt.Sprint(h), There: fmt.Sprint(t), Class: Meant, Ground: Known,
		Text:    fmt.Sprintf("the run may use %g processors there and %g here", t, h),
		effects: []effect{{onTime, min(r, 1), max(r, 1)}}})
}

func findQuota(here, there Side) []Difference {
	grant := func(s Side) (v float64, limited bool) {
		usable, _ := s.fact("cpu.usable")
		if m := grants.FindStringSubmatch(usable); m != nil {
			v, err := strconv.ParseFloat(m[1], 64)
			return v, err == nil && v > 0
		}
		return 0, false
	}
	h, limitedH := grant(here)
	t, limitedT := grant(there)
	usedUp, measured := there.finding("cpu-quota")
	usedHere, measuredHere := here.finding("cpu-quota")
	if h == t && limitedH == limitedT && measured == measuredHere {
		return nil
	}
	say := func(v float64, limited bool) string {
		if !limited {
			return "no limit"
		}
		return fmt.Sprintf("the time of %.3g processors", v)
	}
	d := Difference{Here: say(h, limitedH), There: say(t, limitedT), Class: Amiss, Ground: Known,
		Text:    "a container's quota of processor time: " + between(say(h, limitedH), say(t, limitedT), ""),
		Hint:    "raise the quota, or lower threads and workers",
		effects: []effect{anyTime}}
	switch {
	case limitedT && (!limitedH || t < h):
		d.effects = []effect{slower}
	case limitedH && (!limitedT || h < t):
		d.Class, d.Hint, d.effects = Noted, "", []effect{faster}
	}
	switch {
	case measured && !measuredHere:
		d.Ground, d.Text, d.effects = Measured, d.Text+"; there "+usedUp, []effect{slower}
	case measuredHere && !measured:
		d.Ground, d.Text, d.effects = Measured, d.Text+"; here "+usedHere, []effect{faster}
	}
	return one(d)
}

// disturbed makes a difference of a finding that only one side has, of something that took time while the run went on.
func disturbed(here, there Side, finding, hint string, effects func(more bool) []effect) []Difference {
	a, h := here.finding(finding)
	b, t := there.finding(finding)
	if h == t {
		return nil
	}
	d := Difference{Here: a, There: b, Class: Noted, Ground: Measured, Text: "here " + a, effects: effects(t)}
	if t {
		d.Class, d.Text, d.Hint = Amiss, "there "+b, hint
	}
	return one(d)
}

func findLoad(here, there Side) []Difference {
	return disturbed(here, there, "cpu-contention", "end the other programs there, and smoke again",
		func(more bool) []effect {
			h, _ := here.figure("host.cpu.lost")
			t, _ := there.figure("host.cpu.lost")
			// what was lost is a part of the time that the run could have had; threads that wait for one another lose
			// more
			return []effect{ranked(more), {onTime, min(1, (1-min(t, 0.95))/(1-min(h, 0.95))), 1 / (1 - min(0.95, max(t,
				h)))}}
		})
}

func findNice(here, there Side) []Difference {
	h, okH := here.number("process.nice")
	t, okT := there.number("process.nice")
	if !okH || !okT || h == t {
		return nil
	}
	d := Difference{Here: fmt.Sprint(h), There: fmt.Sprint(t), Class: Noted, Ground: Known,
		Text:    fmt.Sprintf("the run's nice level is %g there and %g here: busy programs beside it come first where it is higher", t, h),
		effects: []effect{ranked(t > h)}}
	if t > h {
		d.Class, d.Hint = Amiss, "start it without nice, and without launchd's ProcessType Background"
	}
	return one(d)
}

// far says why a place's reads may be slow; "" for a disk of the machine's own.
func far(described string) string {
	for _, kind := range []string{"network", "user-space file system", "shared by the host of a virtual machine",
		"mounted on demand"} {
		if strings.Contains(described, ", "+kind) {
			return kind
		}
	}
	return ""
}

func findMounts(here, there Side) []Difference {
	var all []Difference
	h, t := here.facts("mount:"), there.facts("mount:")
	for _, place := range slices.Sorted(maps.Keys(t)) {
		b := far(t[place])
		a := far(h[place])
		if b == "" {
			continue
		}
		// the same place by its role, where the paths differ: a bundle is unpacked elsewhere
		if a == "" && h[place] == "" && len(h) > 0 {
			a = farByRole(h, place)
		}
		if a == b {
			continue
		}
		all = append(all, Difference{Name: place, Here: h[place], There: t[place], Class: Amiss, Ground: Known,
			Text:    fmt.Sprintf("%s lies on another kind of disk there: %s", place, t[place]),
			Hint:    "put it on a disk of the machine's own",
			effects: []effect{slower, {"data", 1, inf}}})
	}
	for _, place := range slices.Sorted(maps.Keys(h)) {
		if far(h[place]) != "" && far(t[place]) == "" && t[place] != "" {
			all = append(all, Difference{Name: place, Here: h[place], There: t[place], Class: Noted, Ground: Known,
				Text:    fmt.Sprintf("%s lies on another kind of disk here: %s", place, h[place]),
				effects: []effect{faster, {"data", 0, 1}}})
		}
	}
	return all
}

// farByRole is how far a place of the same role lies; roles stand before a blank: "data /mnt/x", "HF_HOME /Users/x".
func farByRole(all map[string]string, place string) string {
	role, _, named := strings.Cut(place, " ")
	if !named {
		return ""
	}
	for other, described := range all {
		if was, _, ok := strings.Cut(other, " "); ok && was == role {
			return far(described)
		}
	}
	return ""
}

func findSwap(here, there Side) []Difference {
	return disturbed(here, there, "swapping", "close other programs, or lower the batch", func(more bool) []effect {
		return []effect{ranked(more)}
	})
}

// appsLeast is from how much memory on other programs count, bytes.
const appsLeast = 1 << 30

func findApps(here, there Side) []Difference {
	held := func(s Side) (sum float64, most string) {
		var largest float64
		for _, a := range s.run().Host.Apps {
			if a.Ours || a.Name == "assay" {
				continue
			}
			sum += a.Bytes
			if a.Bytes > largest {
				largest, most = a.Bytes, a.Name
			}
		}
		return sum, most
	}
	h, _ := held(here)
	t, most := held(there)
	if math.Abs(t-h) < appsLeast || max(t, h) < 1.5*min(t, h) {
		return nil
	}
	return one(Difference{Here: unit.Bytes(h), There: unit.Bytes(t), Class: Noted, Ground: Possible,
		Text: fmt.Sprintf("other programs hold %s there (the largest: %s) and %s here", unit.Bytes(t), cmp.Or(most,
			"none"),
			unit.Bytes(h)),
		effects: []effect{ranked(t > h)}})
}

func onBattery(value string) bool { return strings.Contains(strings.ToLower(value), "battery") }

func findPower(here, there Side) []Difference {
	h, okH := here.fact("power.source")
	t, okT := there.fact("power.source")
	if !okT || onBattery(h) == onBattery(t) || !okH && !onBattery(t) {
		return nil
	}
	d := Difference{Here: h, There: t, Class: Noted, Ground: Known, Text: "power: " + between(h, t, "not known"),
		effects: []effect{ranked(onBattery(t))}}
	if onBattery(t) {
		d.Class, d.Hint = Amiss, "plug it in"
	}
	return one(d)
}

func findLowPower(here, there Side) []Difference {
	h, _ := here.fact("power.low_power_mode")
	t, _ := there.fact("power.low_power_mode")
	a, b := strings.HasPrefix(h, "on"), strings.HasPrefix(t, "on")
	if a == b {
		return nil
	}
	d := Difference{Here: h, There: t, Class: Noted, Ground: Known, Text: "low power mode is " + between(h, t,
		"not known"),
		effects: []effect{ranked(b)}}
	if b {
		d.Class, d.Hint = Amiss, "switch it off; on a Mac: sudo pmset -a lowpowermode 0"
	}
	return one(d)
}

func findGovernor(here, there Side) []Difference {
	h, okH := here.fact("power.profile")
	t, okT := there.fact("power.profile")
	if !okH || !okT || h == t {
		return nil
	}
	saves := func(v string) bool { return strings.Contains(v, "powersave") || strings.Contains(v, "low") }
	d := Difference{Here: h, There: t, Class: Noted, Ground: Possible, Text: "the power profile is " + between(h, t,
		""),
		effects: []effect{anyTime}}
	if saves(t) != saves(h) {
		d.effects, d.Ground = []effect{ranked(saves(t))}, Known
		if saves(t) {
			d.Class, d.Hint = Amiss, "choose the profile that does not save energy while it trains"
		}
	}
	return one(d)
}

func findHeat(here, there Side) []Difference {
	return disturbed(here, there, "thermal-throttling", "let it cool, and smoke again with free air around it",
		func(more bool) []effect { return []effect{ranked(more)} })
}

func findFallbacks(here, there Side) []Difference {
	names := func(s Side) map[string]int {
		all := map[string]int{}
		for _, f := range s.run().Fallbacks {
			all[f.Operator] += f.Count
		}
		return all
	}
	h, t := names(here), names(there)
	var came, went []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if h[name] == 0 {
			came = append(came, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if t[name] == 0 {
			went = append(went, name)
		}
	}
	var all []Difference
	if len(came) > 0 {
		all = append(all, Difference{Here: strings.Join(went, ", "), There: strings.Join(came, ", "), Class: Amiss,
			Ground:  Known,
			Text:    "there these operators run on the CPU, and not here: " + strings.Join(came, ", "),
			effects: []effect{slower}})
	}
	if len(went) > 0 {
		all = append(all, Difference{Here: strings.Join(went, ", "), There: strings.Join(came, ", "), Class: Noted,
			Ground:  Known,
			Text:    "here these operators run on the CPU, and not there: " + strings.Join(went, ", "),
			effects: []effect{faster}})
	}
	return all
}

func findLink(here, there Side) []Difference {
	// link.expected is what somebody meant; link is what the route goes through
	var all []Difference
	meant, asked := there.fact("link.expected")
	is, known := there.fact("link")
	switch kind, _, _ := strings.Cut(is, " "); {
	case asked && !known:
		all = append(all, Difference{Name: "route", Here: meant, Class: Amiss,
			Text: "whether the route goes by " + meant + " is not known"})
	case asked && kind != meant:
		all = append(all, Difference{Name: "route", Here: meant, There: is, Class: Amiss, Ground: Known,
			Text:    fmt.Sprintf("the route goes by %s, and %s was meant", is, meant),
			Hint:    "plug the cable in, give both ends an address on it, and use that address",
			effects: []effect{{"data", 1, inf}, slower}})
	}
	h, okH := here.number("link.rtt")
	t, okT := there.number("link.rtt")
	if okH && okT && max(h, t) > 5*min(h, t) && math.Abs(h-t) > 1 {
		all = append(all, Difference{Name: "round trip", Here: fmt.Sprintf("%.3g ms", h), There: fmt.Sprintf("%.3g ms",
			t), Class: Noted,
			Ground: Possible, Text: fmt.Sprintf("a round trip takes %.3g ms there and %.3g ms here", t, h),
			effects: []effect{{"data", 0, inf}}})
	}
	return all
}

func findLocalNetwork(_, there Side) []Difference {
	text, suspected := there.fact("local-network.suspected")
	if !suspected {
		return nil
	}
	return one(Difference{There: text, Class: Amiss, Ground: Possible, Text: "suspected: " + text,
		Hint:    "System Settings, Privacy & Security, Local Network: allow the terminal or program that starts it; somebody has to sit there",
		effects: []effect{{"data", 1, inf}}})
}

// clockLeast is from which offset on clocks are not the same, seconds, where the round trip is shorter.
const clockLeast = 2.0

func findClock(_, there Side) []Difference {
	offset, known := there.number("clock.offset")
	if !known || math.Abs(offset) < clockLeast {
		return nil
	}
	text, _ := there.fact("clock.offset")
	return one(Difference{There: text, Class: Noted,
		Text: fmt.Sprintf("the clock there is off by %s: dates of files and logs do not agree",
			unit.Seconds(math.Abs(offset)))})
}

func findFiles(here, there Side) []Difference {
	h, okH := here.number("limit.files")
	t, okT := there.number("limit.files")
	if !okH || !okT || h == t {
		return nil
	}
	d := Difference{Here: fmt.Sprint(h), There: fmt.Sprint(t), Class: Noted,
		Text: fmt.Sprintf("a process may open %g files there and %g here", t, h)}
	if t < h && t <= spareFiles {
		d.Class, d.Hint = Amiss, "ulimit -n 4096; in a launchd unit SoftResourceLimits, in systemd's LimitNOFILE"
		d.Text += ": loaders with workers run out of 256 first"
	}
	return one(d)
}

// spareFiles: 256 is what launchd and a login shell on macOS hand down; loaders run out of these first.
const spareFiles = 256

func findTranslation(here, there Side) []Difference {
	h, okH := here.fact("system.translated")
	t, okT := there.fact("system.translated")
	if !okT || okH && h == t || t == "no" && !okH {
		return nil
	}
	d := Difference{Here: h, There: t, Class: Noted, Ground: Known, Text: "translation by Rosetta: " + between(h, t,
		"not known"),
		effects: []effect{ranked(t != "no")}}
	if t != "no" {
		d.Class, d.Hint = Amiss, "install a Python for arm64"
	}
	return one(d)
}

func findVirtual(here, there Side) []Difference {
	return meant(here, there, "system.virtual", "a virtual machine: ", Possible, anyTime)
}

// meant is a fact of the machine that a handoff is expected to change.
func meant(here, there Side, name, words string, ground Ground, effects ...effect) []Difference {
	h, okH := here.fact(name)
	t, okT := there.fact(name)
	if !okH || !okT || h == t {
		return nil
	}
	return one(Difference{Name: name, Here: h, There: t, Class: Meant, Ground: ground, Text: words + between(h, t,
		"not known"),
		effects: effects})
}

func findChip(here, there Side) []Difference {
	all := meant(here, there, "chip", "the chip is ", Known, anyTime)
	all = append(all, meant(here, there, "gpu", "the GPU is ", Known, anyTime, effect{onMemory, 0, inf})...)
	all = append(all, meant(here, there, "gpu.cores", "the GPU's cores are ", Known, anyTime)...)
	all = append(all, meant(here, there, "gpu.driver", "the GPU's driver is ", Possible, anyTime)...)
	return append(all, meant(here, there, "model", "the machine is ", "")...)
}

func findMemory(here, there Side) []Difference {
	// an allocator keeps more where there is more to keep
	all := meant(here, there, "memory.total", "the machine's memory is ", Possible, effect{onMemory, 0, inf})
	h, okH := here.fact("memory.limit")
	t, okT := there.fact("memory.limit")
	if okH == okT && h == t {
		return all
	}
	return append(all, Difference{Name: "memory.limit", Here: h, There: t, Class: Noted, Ground: Possible,
		Text:    "a container's limit of memory is " + between(h, t, "not set"),
		effects: []effect{{onMemory, 0, inf}, ranked(okT)}})
}

func findSystem(here, there Side) []Difference {
	all := meant(here, there, "system", "the system is ", Possible, anyTime, effect{onMemory, 0, inf})
	return append(all, meant(here, there, "system.build", "its build is ", Possible, anyTime)...)
}
