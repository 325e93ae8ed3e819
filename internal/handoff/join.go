package handoff

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/unit"
)

// Look is what a host of a pool says of itself to an assay that was brought there. It comes from another machine.
type Look struct {
	Assay     string          `json:"assay"`  // version
	System    string          `json:"system"` // GOOS/GOARCH
	User      string          `json:"user"`
	Root      string          `json:"root"` // folder of the node's files
	RootMode  string          `json:"root_mode,omitempty"`
	RootError string          `json:"root_error,omitempty"` // why it could not be made, or written
	Free      *int64          `json:"free,omitempty"`       // bytes of its disk
	Available *float64        `json:"available,omitempty"`  // bytes of memory that a program could take
	Holds     string          `json:"holds,omitempty"`      // job that has the GPU
	Load      *float64        `json:"load,omitempty"`
	CPUs      int             `json:"cpus"`
	Facts     []evidence.Fact `json:"facts"` // of host: machine, power, mounts of Paths, what decides about sleep
	Paths     []Path          `json:"paths,omitempty"`
	Python    Interpreter     `json:"python"`
	UV        string          `json:"uv,omitempty"` // path; "": not installed
}

// Path is a path that was asked about.
type Path struct {
	Asked   string `json:"asked"`
	There   bool   `json:"there"`
	Entries int    `json:"entries,omitempty"` // of a folder
	Error   string `json:"error,omitempty"`
}

// Interpreter is the Python that jobs are to have there.
type Interpreter struct {
	Path    string   `json:"path,omitempty"`
	Version string   `json:"version,omitempty"`
	Torch   string   `json:"torch,omitempty"`
	Error   string   `json:"error,omitempty"`
	Hint    string   `json:"hint,omitempty"`
	Gates   []Device `json:"gates,omitempty"`
}

// Device is a device that a framework was asked to compute on.
type Device struct {
	Name   string `json:"name"`
	State  string `json:"state"` // pass, fail, unknown
	Detail string `json:"detail,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// Host is a host of the pool as it was found.
type Host struct {
	Name     string          `json:"name"`
	SSH      string          `json:"ssh"` // as hosts.toml has it; "" of this machine
	Error    string          `json:"error,omitempty"`
	Hint     string          `json:"hint,omitempty"`
	Look     *Look           `json:"look,omitempty"`  // nil: it was not reached
	Link     []evidence.Fact `json:"link,omitempty"`  // the way to it, looked up and timed from here
	Rate     *float64        `json:"rate,omitempty"`  // bytes a second through ssh
	Why      string          `json:"why,omitempty"`   // why Rate is not known
	Clock    []evidence.Fact `json:"clock,omitempty"` // its offset
	Declared string          `json:"python,omitempty"`
	Made     string          `json:"made,omitempty"` // how its environment was made, by fleet up
	Checks   []Check         `json:"checks"`
}

// fact of the host itself, or of the way to it.
func (h *Host) fact(name string) (value, missing string, known bool) {
	lists := [][]evidence.Fact{h.Link, h.Clock}
	if h.Look != nil {
		lists = append(lists, h.Look.Facts)
	}
	for _, list := range lists {
		for _, f := range list {
			if f.Name == name {
				return f.Value, f.Missing, f.Missing == ""
			}
		}
	}
	return "", "nobody looked", false
}

// Mac reports whether the host is one.
func (h *Host) Mac() bool { return h.Look != nil && strings.HasPrefix(h.Look.System, "darwin/") }

func (c Check) with(hint string) Check { c.Hint = hint; return c }

// reached is the first row of both commands.
func (h *Host) reached() Check {
	if h.Look == nil {
		return check("ssh", Fail, "%s", cmp.Or(h.Error, "it was not reached")).with(h.Hint)
	}
	if h.SSH == "" {
		return check("ssh", Pass, "this machine itself: no ssh")
	}
	return check("ssh", Pass, "reached as %s; its key is known, and no password was asked for", h.Look.User)
}

// Needs are the rows of fleet up: what the host has to join, what it lacks, what cannot be told. A row's hint is what
// to
// type there; what takes somebody's sudo, or a hand on the machine, is said and not done.
func (h *Host) Needs() []Check {
	all := []Check{h.reached()}
	if h.Look == nil {
		return all
	}
	l := h.Look
	all = append(all, check("assay", Pass, "%s (%s) is there", l.Assay, l.System), h.root())
	all = append(all, h.python(true), h.device())
	sleep, missing, known := h.fact("sleep")
	inhibitor, _, can := h.fact("sleep.inhibitor")
	switch {
	case known && strings.HasPrefix(sleep, "never"):
		all = append(all, check("sleep", Pass, "it sleeps by itself: %s", sleep))
	case known:
		c := check("sleep", Fail, "it sleeps by itself %s without input; a run is no input",
			sleep).with("sudo pmset -c sleep 0")
		if can {
			c.Hint += "; or run it under " + filepath.Base(inhibitor) + " -i"
		}
		all = append(all, c)
	default:
		all = append(all, check("sleep", NotKnow, "%s", missing))
	}
	if h.Mac() {
		all = append(all, h.macOnly()...)
	}
	return append(all, h.power())
}

// macOnly are what a Mac at which nobody sits needs beyond.
func (h *Host) macOnly() []Check {
	var all []Check
	all = append(all, check("remote-login", Pass, "Remote Login is on: it was reached by ssh"))
	if h.SSH == "" {
		all[0] = check("remote-login", NotKnow, "this machine itself: whether others reach it was not tried").
			with("System Settings, General, Sharing, Remote Login; or sudo systemsetup -setremotelogin on")
	}
	vault, missing, known := h.fact("disk.encryption")
	switch {
	case known && vault == "FileVault off":
		all = append(all, check("filevault", Pass, "FileVault is off: it starts up without anybody"))
	case known:
		all = append(all, check("filevault", Fail,
			"FileVault is on: after a restart it waits for somebody's password, and nobody reaches "+
				"it by ssh before").with("restart it only by: sudo fdesetup authrestart; or turn FileVault off where the place is safe"))
	default:
		all = append(all, check("filevault", NotKnow, "%s", missing).with("fdesetup status"))
	}
	restart, missing, known := h.fact("restart.power-loss")
	switch {
	case known && restart == "on":
		all = append(all, check("restart", Pass, "it starts up by itself after a power cut"))
	case known:
		all = append(all, check("restart", Fail, "it stays off after a power cut").with("sudo pmset -c autorestart 1"))
	default:
		all = append(all, check("restart", NotKnow, "%s", missing).with("pmset -g custom"))
	}
	return append(all, check("local-network", NotKnow,
		"from macOS 15 on, a program that opens connections to the local network needs "+
			"somebody's leave, once; what is started by ssh has had it in reports, what launchd starts has not; no tool tells").
		with("System Settings, Privacy & Security, Local Network; fleet doctor there says whether connections fail"))
}

func (h *Host) root() Check {
	l := h.Look
	switch {
	case l.RootError != "":
		return check("folder", Fail, "%s: %s", l.Root, l.RootError).with("name another by root in hosts.toml")
	case l.RootMode != "" && !strings.HasSuffix(l.RootMode, "------"):
		return check("folder", Fail, "%s may be entered by others (%s)", l.Root, l.RootMode).with("chmod 700 " + l.Root)
	}
	return check("folder", Pass, "%s is its user's alone", l.Root)
}

// python says which interpreter jobs get. Where none was declared, and none is needed by the file, that is said.
func (h *Host) python(up bool) Check {
	p := h.Look.Python
	hint := cmp.Or(p.Hint, "name one by python in hosts.toml, or have one made: assay fleet up --lock FILE")
	switch {
	case p.Error != "":
		return check("python", Fail, "%s", p.Error).with(hint)
	case p.Path == "":
		return check("python", NotKnow, "no interpreter was looked for").with(hint)
	case p.Torch == "" && !slices.ContainsFunc(p.Gates, func(d Device) bool {
		return d.State == Pass &&
			d.Name != "native"
	}):
		return check("python", Fail, "%s, Python %s: no framework in it computes", p.Path, p.Version).with(hint)
	}
	text := fmt.Sprintf("%s, Python %s", p.Path, p.Version)
	if p.Torch != "" {
		text += ", torch " + p.Torch
	}
	if h.Made != "" && up {
		text += " (" + h.Made + ")"
	}
	return check("python", Pass, "%s", text)
}

// device says whether something there computes as a GPU does: each framework's own proof, a product held against the
// CPU's.
func (h *Host) device() Check {
	var passed []string
	var first Device
	for _, d := range h.Look.Python.Gates {
		switch {
		case d.Name == "native":
		case d.State == Pass:
			passed = append(passed, d.Name)
		case d.State == Fail && first.Name == "":
			first = d
		}
	}
	gpu := map[bool]string{true: "mps", false: "cuda"}[h.Mac()]
	for _, d := range h.Look.Python.Gates {
		if d.Name == gpu && d.State == Pass {
			return check("device", Pass, "%s computes: %s", d.Name, d.Detail)
		}
	}
	switch {
	case slices.Contains(passed, "mlx"):
		return check("device", Pass, "mlx computes")
	case h.Look.Python.Path == "" || len(h.Look.Python.Gates) == 0:
		return check("device", NotKnow, "no interpreter was asked")
	}
	for _, d := range h.Look.Python.Gates {
		if d.Name != gpu {
			continue
		}
		if d.State == Fail && !h.Mac() {
			return check("device", Pass, "no GPU: it takes runs on the CPU (%s)", cmp.Or(d.Detail,
				"cuda does not compute"))
		}
		state := map[string]string{Fail: Fail}[d.State]
		return check("device", cmp.Or(state, NotKnow), "%s: %s", d.Name, d.Detail).with(d.Hint)
	}
	return check("device", NotKnow, "%s was not asked for", gpu)
}

func (h *Host) power() Check {
	low, _, known := h.fact("power.low_power_mode")
	source, _, sourced := h.fact("power.source")
	switch {
	case known && strings.HasPrefix(low, "on"):
		return check("power", Fail, "Low Power Mode is on").with("sudo pmset -a lowpowermode 0")
	case sourced && onBattery(source):
		return check("power", Fail, "it runs on its battery").with("plug it in")
	case sourced:
		return check("power", Pass, "%s, low power mode %s", source, cmp.Or(low, "not known"))
	case !h.Mac():
		return check("power", Pass,
			"no battery and no power supply are listed: a desktop, a server or a virtual machine")
	}
	return check("power", NotKnow, "where its power comes from is not known").with("pmset -g batt")
}

// Limits of fleet doctor.
const (
	// bytes: an environment with torch for Linux takes 8 while it is installed, runs and checkpoints more
	leastDisk = 10 << 30
	mostClock = 60.0 // seconds: dates in logs still agree; nothing of assay's believes another's clock
)

// Proves are the rows of fleet doctor, of one host; those that compare hosts come from Together.
func (h *Host) Proves(version, expect string) []Check {
	all := []Check{h.reached()}
	if h.Look == nil {
		return all
	}
	l := h.Look
	if l.Assay == version {
		all = append(all, check("assay", Pass, "%s, as here", l.Assay))
	} else {
		all = append(all, check("assay", Fail, "%s there and %s here", l.Assay, version))
	}
	all = append(all, h.root(), h.python(false), h.device())
	switch {
	case l.Holds != "":
		all = append(all, check("lock", Pass, "held by %s: a training runs", l.Holds))
	default:
		all = append(all, check("lock", Pass, "free"))
	}
	switch {
	case l.Free == nil:
		all = append(all, check("disk", NotKnow, "how much is free is not known"))
	case *l.Free < leastDisk:
		all = append(all, check("disk", Fail, "%s free at %s", unit.Bytes(float64(*l.Free)), l.Root).
			with(fmt.Sprintf("%s are wanted: an environment alone takes that", unit.Bytes(leastDisk))))
	default:
		all = append(all, check("disk", Pass, "%s free at %s", unit.Bytes(float64(*l.Free)), l.Root))
	}
	if l.Available != nil {
		all = append(all, check("memory", Pass, "%s available", unit.Bytes(*l.Available)))
	} else {
		all = append(all, check("memory", NotKnow, "how much is available is not known"))
	}
	if l.Load != nil && l.CPUs > 0 && *l.Load > float64(l.CPUs) {
		all = append(all, check("load", Fail, "%.3g processes run or wait for %d processors", *l.Load,
			l.CPUs).with("see what runs there: top"))
	} else if l.Load != nil {
		all = append(all, check("load", Pass, "%.3g of %d processors", *l.Load, l.CPUs))
	} else {
		all = append(all, check("load", NotKnow, "not known"))
	}
	all = append(all, h.clock(), h.link(expect), h.rate(), h.awake(), h.power())
	for _, p := range l.Paths {
		all = append(all, h.path(p))
	}
	return all
}

func (h *Host) clock() Check {
	value, missing, known := h.fact("clock.offset")
	var offset float64
	if known {
		_, err := fmt.Sscan(value, &offset)
		known = err == nil
	}
	switch {
	case !known:
		return check("clock", NotKnow, "%s", cmp.Or(missing, "its clock was not asked"))
	case offset > mostClock || offset < -mostClock:
		return check("clock", Fail, "off by %s",
			value).with("System Settings, General, Date & Time: set automatically; on Linux timedatectl set-ntp true")
	}
	return check("clock", Pass, "off by %s", value)
}

func (h *Host) link(expect string) Check {
	value, missing, known := h.fact("link")
	rtt, _, timed := h.fact("link.rtt")
	text := value
	if timed {
		text += ", a round trip in " + rtt
	}
	kind, _, _ := strings.Cut(value, " ")
	switch {
	case h.SSH == "":
		return check("link", Pass, "this machine itself")
	case !known && expect != "":
		return check("link", NotKnow, "whether the way to it is %s is not known: %s", expect, missing)
	case !known:
		return check("link", NotKnow, "%s", missing)
	case expect != "" && kind != expect:
		return check("link", Fail, "%s, and %s was meant", text, expect).
			with("plug the cable in, give both ends an address on it, and use that address in hosts.toml")
	}
	if suspected, _, is := h.fact("local-network.suspected"); is {
		return check("link", NotKnow, "suspected: %s",
			suspected).with("System Settings, Privacy & Security, Local Network")
	}
	return check("link", Pass, "%s", text)
}

func (h *Host) rate() Check {
	switch {
	case h.SSH == "":
		return check("throughput", Pass, "this machine itself")
	case h.Rate == nil:
		return check("throughput", NotKnow, "%s", cmp.Or(h.Why, "it was not timed"))
	}
	return check("throughput", Pass, "%s/s through ssh", unit.Bytes(*h.Rate))
}

func (h *Host) awake() Check {
	for _, c := range h.Needs() {
		if c.Name == "sleep" {
			return c
		}
	}
	return check("sleep", NotKnow, "nobody looked")
}

func (h *Host) path(p Path) Check {
	mount, _, known := h.fact("mount:" + p.Asked)
	switch {
	case p.Error != "":
		return check("data", NotKnow, "%s: %s", p.Asked, p.Error)
	case !p.There:
		return check("data", Fail, "%s is not there", p.Asked)
	case known && far(mount) != "":
		return check("data", Fail, "%s lies on %s", p.Asked, mount).with("put it on a disk of the machine's own")
	case p.Entries > 0:
		return check("data", Pass, "%s, %d entries", p.Asked, p.Entries)
	}
	return check("data", Pass, "%s", p.Asked)
}

// Together are the rows that compare the hosts: what has to be the same on all of them, so that their runs are.
func Together(hosts []*Host) []Check {
	var all []Check
	for _, row := range []struct {
		name string
		of   func(*Look) string
	}{
		{"python", func(l *Look) string { return l.Python.Version }},
		{"torch", func(l *Look) string { release, _, _ := strings.Cut(l.Python.Torch, "+"); return release }},
	} {
		by, unknown := map[string][]string{}, []string(nil)
		for _, h := range hosts {
			v := ""
			if h.Look != nil {
				v = row.of(h.Look)
			}
			if v == "" {
				unknown = append(unknown, h.Name)
				continue
			}
			by[v] = append(by[v], h.Name)
		}
		var words []string
		for v, names := range by {
			words = append(words, v+" on "+strings.Join(names, ", "))
		}
		slices.Sort(words)
		switch {
		case len(by) > 1:
			all = append(all, check(row.name, Fail, "not the same: %s", strings.Join(words,
				"; ")).with("make all environments from one lock: assay fleet up --lock FILE"))
		case len(unknown) > 0:
			all = append(all, check(row.name, NotKnow, "not known of %s", strings.Join(unknown, ", ")))
		default:
			all = append(all, check(row.name, Pass, "the same on all: %s", strings.Join(words, "")))
		}
	}
	entries := map[string]map[int][]string{}
	for _, h := range hosts {
		if h.Look == nil {
			continue
		}
		for _, p := range h.Look.Paths {
			if entries[p.Asked] == nil {
				entries[p.Asked] = map[int][]string{}
			}
			if p.There {
				entries[p.Asked][p.Entries] = append(entries[p.Asked][p.Entries], h.Name)
			}
		}
	}
	for path, by := range entries {
		if len(by) > 1 {
			all = append(all, check("data", Fail, "%s has another number of entries on some hosts", path))
		}
	}
	return all
}
