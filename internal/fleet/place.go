package fleet

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/node"
	"assay/internal/unit"
)

// View is a host as it stands when tasks are placed.
type View struct {
	Host
	Up    bool   // connected, and its facts are known
	Why   string // why it is not
	Facts node.Facts
	GPU   int // attempts of this queue there that hold the GPU, or wait for it
	CPU   int // those that hold nothing
	// Absent has the folders of Needs.Paths that are not there, and why.
	Absent map[string]string
}

// Placement says where a task goes, and why there; or why it waits.
type Placement struct {
	Task     string
	Host     string   // "": nowhere now
	Why      string   // "fastest of 2 that are free (M4 Max: 41.0 s measured)"; "waits: both hosts have a job of ours"
	Never    bool     // no host can have it
	Excluded []string // hosts that it cannot go to, each with the reason, in the order of the hosts
}

// Speed is how long a task takes on a chip, in any unit that compares, and how that is known ("41.2 s measured", "273
// GB/s"); 0: not known.
type Speed func(chip string, t Task) (cost float64, basis string)

// busyLoad is from how many waiting processes a CPU on a host counts as busy with something else.
const busyLoad = 0.7

// FreeDisk is what has to be free on a host, bytes: the code, the run's folder, and what the run itself writes there.
const FreeDisk = 1 << 30

// Chip of a host: what it says; else what was declared.
func (v View) Chip() (name, basis string) {
	if v.Facts.Chip != "" {
		return v.Facts.Chip, "measured"
	}
	return v.Host.Chip, "declared"
}

// room is how many bytes a run may take there: the GPU's share where the host says it.
func (v View) room() (bytes int64, of string) {
	switch {
	case v.Facts.GPUMemory != nil:
		return *v.Facts.GPUMemory, "for its GPU"
	case v.Facts.Memory > 0:
		return v.Facts.Memory, "of memory"
	}
	return v.Memory, "of memory, as declared"
}

// bars says why a host can never have a task, as far as is known now; "": it can. busy says why it cannot now.
func (v View) bars(t Task) (never, busy string) {
	n, f := t.Needs, v.Facts
	if t.Host != "" && t.Host != v.Name {
		return "the job is for " + t.Host, ""
	}
	if n.Label != "" && !slices.Contains(v.Labels, n.Label) {
		return "it has no label " + n.Label, ""
	}
	if !v.Up {
		return "", or(v.Why, "no connection yet")
	}
	chip, basis := v.Chip()
	if n.Chip != "" {
		switch {
		case chip == "":
			return "its chip is not known, and " + n.Chip + " is asked for", ""
		case !strings.Contains(letters(chip), letters(n.Chip)):
			return fmt.Sprintf("%s (%s) is not %s", chip, basis, n.Chip), ""
		}
	}
	if why, ok := n.Excluded[v.Name]; ok && why != "" {
		return why, ""
	}
	if n.Memory > 0 {
		have, of := v.room()
		switch {
		case have == 0:
			return "its memory is not known, and " + unit.Bytes(float64(n.Memory)) + " are asked for", ""
		case have < n.Memory:
			return fmt.Sprintf("%s %s, and %s are asked for", unit.Bytes(float64(have)), of,
				unit.Bytes(float64(n.Memory))), ""
		case f.Available != nil && *f.Available < n.Memory && v.GPU+v.CPU == 0:
			busy = fmt.Sprintf("other programs leave %s of memory, and %s are asked for",
				unit.Bytes(float64(*f.Available)), unit.Bytes(float64(n.Memory)))
		}
	}
	for _, p := range n.Paths {
		if why, ok := v.Absent[p]; ok {
			return p + ": " + why, ""
		}
	}
	switch n.Power {
	case "any":
	case "mains":
		if f.Power != "mains" {
			busy = "it is on " + or(f.Power, "power that it does not tell") + ", and mains is asked for"
		}
	default:
		if f.Power == "battery" {
			busy = "it is on battery (--battery uses it)"
		} else if f.LowPower != nil && *f.LowPower {
			busy = "it is in Low Power Mode (--battery uses it)"
		}
	}
	if disk := max(n.Disk, FreeDisk); f.DiskFree != nil && *f.DiskFree < disk {
		busy = fmt.Sprintf("%s of disk are free there, and %s are asked for", unit.Bytes(float64(*f.DiskFree)),
			unit.Bytes(float64(disk)))
	}
	if busy != "" {
		return "", busy
	}
	if t.Device == "gpu" && v.GPU > 0 {
		return "", "it has a job of this queue"
	}
	if t.Device != "gpu" && v.CPU >= v.Slots {
		return "", fmt.Sprintf("its %s taken", slots(v.Slots))
	}
	return "", ""
}

func slots(n int) string {
	if n == 1 {
		return "slot is"
	}
	return fmt.Sprintf("%d slots are", n)
}

// letters leaves letters and digits, small: "m4-max" is in "Apple M4 Max".
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(s))
}

// rank orders the hosts that may have a task now: the smaller first.
type rank struct {
	away, held, loaded bool
	known              bool
	cost               float64
	number             int
}

func (a rank) before(b rank) bool {
	switch {
	case a.away != b.away:
		return b.away
	case a.held != b.held:
		return b.held
	case a.loaded != b.loaded:
		return b.loaded
	case a.known && b.known && a.cost != b.cost:
		return a.cost < b.cost
	}
	return a.number < b.number
}

// Place says for each task that waits where it goes now, in the tasks' order. Free hosts come first, of these the
// fastest; a host whose GPU somebody else's job holds is taken only where no other does, and the job waits there for
// its turn. A host that was lost with a task, or could not start it, gets it again only where no other can have it.
func Place(tasks []Task, hosts []View, away func(task string) map[string]bool, speed Speed) []Placement {
	hosts = slices.Clone(hosts)
	var all []Placement
	for _, t := range tasks {
		all = append(all, place(t, hosts, away(t.Name), speed))
	}
	return all
}

func place(t Task, hosts []View, away map[string]bool, speed Speed) Placement {
	p := Placement{Task: t.Name}
	var best rank
	at, may, possible := -1, 0, 0
	elsewhere := false // a host that it was not lost with is there, and has no room now
	var waits []string
	for i, v := range hosts {
		never, busy := v.bars(t)
		if never != "" {
			p.Excluded = append(p.Excluded, v.Name+": "+never)
			continue
		}
		possible++
		if busy != "" {
			waits = append(waits, v.Name+": "+busy)
			elsewhere = elsewhere || v.Up && !away[v.Name]
			continue
		}
		may++
		r := v.rank(t, away, speed, i)
		if at < 0 || r.before(best) {
			best, at = r, i
		}
	}
	switch {
	case at >= 0 && best.away && elsewhere:
		p.Why = fmt.Sprintf("waits for another host than %s, which was lost with it: %s", hosts[at].Name,
			strings.Join(waits, "; "))
		return p
	case at >= 0:
		v := &hosts[at]
		p.Host, p.Why = v.Name, v.because(t, best, may, speed)
		if t.Device == "gpu" {
			v.GPU++
		} else {
			v.CPU++
		}
	case possible == 0:
		p.Never = true
		p.Why = "no host can have it: " + strings.Join(p.Excluded, "; ")
	default:
		p.Why = "waits: " + strings.Join(waits, "; ")
	}
	return p
}

func (v View) rank(t Task, away map[string]bool, speed Speed, number int) rank {
	r := rank{away: away[v.Name], held: t.Device == "gpu" && v.Facts.Holds != "", number: number}
	r.loaded = v.Facts.Load != nil && v.Facts.CPUs > 0 && v.GPU+v.CPU == 0 &&
		*v.Facts.Load > busyLoad*float64(v.Facts.CPUs)
	if speed != nil {
		chip, _ := v.Chip()
		r.cost, _ = speed(chip, t)
		r.known = r.cost > 0
	}
	return r
}

func (v View) because(t Task, r rank, may int, speed Speed) string {
	chip, basis := v.Chip()
	if chip == "" {
		chip = "chip not known"
	} else if basis != "measured" {
		chip += ", " + basis
	}
	if r.known && speed != nil {
		if _, how := speed(v.chipName(), t); how != "" {
			chip += ", " + how
		}
	}
	s := "the only one that is free"
	if may > 1 {
		s = fmt.Sprintf("first of %d that are free", may)
		if r.known {
			s = fmt.Sprintf("fastest of %d that are free", may)
		}
	}
	switch {
	case r.held:
		s = fmt.Sprintf("waits there for the GPU, which %s has", v.Facts.Holds)
	case r.away:
		s = "again: no other host can have it"
	case r.loaded:
		s += fmt.Sprintf("; other programs load it (%.1f on %d CPUs)", *v.Facts.Load, v.Facts.CPUs)
	}
	return s + " (" + chip + ")"
}

func (v View) chipName() string {
	name, _ := v.Chip()
	return name
}
