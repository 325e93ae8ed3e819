package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"assay/internal/fault"
	"assay/internal/node"
	"assay/internal/unit"
)

// Hosts is what a hosts.toml says.
type Hosts struct {
	Path    string  // of the file
	Hosts   []Host  // at least one, in the file's order
	Lease   float64 // seconds without a renewal after which a host ends a job; DefaultLease where none is named
	Retries int     // how often a run that was lost is begun anew; DefaultRetries where none is named
}

// Host is a machine of the pool, as the file declares it. What the machine says of itself wins over it.
type Host struct {
	Name    string            // of its own in the file
	SSH     string            // as ssh takes it: a Host of its config, user@machine, ssh://user@machine:port
	Local   bool              // this machine itself: no ssh
	Python  string            // interpreter for the jobs; "": that of the command; "~/" is the home folder there
	Root    string            // folder of the node's files there; "": $ASSAY_NODE there, else ~/.assay-node
	Environ map[string]string // variables that its jobs have
	Slots   int               // jobs at once that hold no GPU; those that do are one at a time. At least 1
	Labels  []string          // for --label
	Chip    string            // "Apple M2 Pro": only where the host does not say
	Memory  int64             // bytes: only where the host does not say; 0: not declared
}

// of is a job as it is to run on the host: with its interpreter, where the job names none, and its variables, before
// those of the job, which win.
func (h Host) of(job node.Job) node.Job {
	job.Python = or(job.Python, h.Python)
	var environ []string
	for _, name := range slices.Sorted(maps.Keys(h.Environ)) {
		environ = append(environ, name+"="+h.Environ[name])
	}
	job.Environ = append(environ, job.Environ...)
	return job
}

// Defaults of a hosts.toml.
const (
	DefaultLease   = 45.0 // seconds: three renewals, a third of it apart, may fail in a row
	DefaultRetries = 2
)

// Bounds of a hosts.toml.
const (
	maxHostsFile = 1 << 20 // bytes
	maxHosts     = 256
	maxSlots     = 256
	maxValue     = 4096 // bytes of a text in it
	minLease     = 3.0  // seconds: a renewal a second
	maxLease     = 24 * 3600.0
	maxRetries   = 100
)

// nameForm is what hosts, labels, queues and jobs may be called: it becomes part of names of files and of jobs.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// variableForm is what an environment variable may be called.
var variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// hostsFile is the file as it is written.
type hostsFile struct {
	Fleet struct {
		Lease   *string           `toml:"lease"`
		Retries *int              `toml:"retries"`
		Python  string            `toml:"python"`
		Root    string            `toml:"root"`
		Environ map[string]string `toml:"env"`
		Slots   *int              `toml:"slots"`
	} `toml:"fleet"`
	Host []struct {
		Name    string            `toml:"name"`
		SSH     string            `toml:"ssh"`
		Local   bool              `toml:"local"`
		Python  string            `toml:"python"`
		Root    string            `toml:"root"`
		Environ map[string]string `toml:"env"`
		Slots   *int              `toml:"slots"`
		Labels  []string          `toml:"labels"`
		Chip    string            `toml:"chip"`
		Memory  string            `toml:"memory"`
	} `toml:"host"`
}

// ReadHosts reads a hosts.toml. A key that it does not know is refused with its line; so is what no host can be.
func ReadHosts(path string) (*Hosts, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.Hint(fmt.Errorf("read the hosts: %w", err),
			"write one [[host]] with name and ssh for each Mac; docs/fleet.md shows it")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxHostsFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the hosts: %s: %w", path, err)
	}
	if len(data) > maxHostsFile {
		return nil, fmt.Errorf("read the hosts: %s: larger than %d bytes", path, maxHostsFile)
	}
	return ParseHosts(path, data)
}

// ParseHosts is ReadHosts of a file that was read; path is what errors call it.
func ParseHosts(path string, data []byte) (*Hosts, error) {
	var raw hostsFile
	var err error
	dec := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	if err := dec.Decode(&raw); err != nil {
		var unknown *toml.StrictMissingError
		if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
			first := unknown.Errors[0]
			line, _ := first.Position()
			return nil, fault.Hint(fmt.Errorf("read the hosts: %s:%d: there is no key %q", path, line,
				strings.Join(first.Key(), ".")), "of [[host]]: name, ssh, local, python, root, env, slots, labels, "+
				"chip, memory; "+
				"of [fleet]: lease, retries, python, root, env, slots")
		}
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, _ := at.Position()
			return nil, fmt.Errorf("read the hosts: %s:%d: %w", path, line, err)
		}
		return nil, fmt.Errorf("read the hosts: %s: %w", path, err)
	}
	h := &Hosts{Path: path, Lease: DefaultLease, Retries: DefaultRetries}
	wrong := func(format string, a ...any) (*Hosts, error) {
		return nil, fmt.Errorf("read the hosts: %s: "+format, append([]any{path}, a...)...)
	}
	if raw.Fleet.Lease != nil {
		if h.Lease, err = ParseLease(*raw.Fleet.Lease); err != nil {
			return wrong("lease = %v", err)
		}
	}
	if n := raw.Fleet.Retries; n != nil {
		if *n < 0 || *n > maxRetries {
			return wrong("retries = %d: a number from 0 to %d", *n, maxRetries)
		}
		h.Retries = *n
	}
	if len(raw.Host) == 0 {
		return nil, fault.Hint(fmt.Errorf("read the hosts: %s names no host", path),
			"write one [[host]] with name and ssh for each Mac")
	}
	if len(raw.Host) > maxHosts {
		return wrong("%d hosts, and %d are the most", len(raw.Host), maxHosts)
	}
	seen := map[string]bool{}
	for i, r := range raw.Host {
		at := fmt.Sprintf("host %d", i+1)
		if r.Name != "" {
			at = fmt.Sprintf("host %q", r.Name)
		}
		switch {
		case !nameForm.MatchString(r.Name):
			return wrong("%s: name: letters, digits, \".\", \"_\" and \"-\", the first a letter or a digit, 64 at "+
				"most", at)
		case seen[r.Name]:
			return wrong("%s is there twice", at)
		}
		seen[r.Name] = true
		if r.Local && r.SSH != "" {
			return wrong("%s: ssh and local: one of them", at)
		}
		o := Host{Name: r.Name, SSH: r.SSH, Local: r.Local, Python: or(r.Python, raw.Fleet.Python), Root: or(r.Root,
			raw.Fleet.Root),
			Environ: map[string]string{}, Slots: 1, Labels: r.Labels, Chip: r.Chip}
		if o.SSH == "" {
			o.SSH = r.Name
		}
		// A first "-" would be an option of ssh's.
		if strings.HasPrefix(o.SSH, "-") || strings.ContainsAny(o.SSH, " \t") || !plain(o.SSH) {
			return wrong("%s: ssh = %q: no destination", at, o.SSH)
		}
		for _, v := range []string{o.Python, o.Root, o.Chip} {
			if !plain(v) {
				return wrong("%s: %q: no control characters, %d bytes at most", at, v, maxValue)
			}
		}
		maps.Copy(o.Environ, raw.Fleet.Environ)
		maps.Copy(o.Environ, r.Environ)
		for _, name := range slices.Sorted(maps.Keys(o.Environ)) {
			if !variableForm.MatchString(name) {
				return wrong("%s: env: %q is no name of a variable", at, name)
			}
			if v := o.Environ[name]; len(v) > maxValue || strings.ContainsRune(v, 0) {
				return wrong("%s: env: %s: %d bytes at most, and no NUL", at, name, maxValue)
			}
		}
		for _, n := range []*int{raw.Fleet.Slots, r.Slots} {
			if n != nil {
				o.Slots = *n
			}
		}
		if o.Slots < 1 || o.Slots > maxSlots {
			return wrong("%s: slots = %d: a number from 1 to %d", at, o.Slots, maxSlots)
		}
		for _, l := range o.Labels {
			if !nameForm.MatchString(l) {
				return wrong("%s: labels: %q: letters, digits, \".\", \"_\" and \"-\"", at, l)
			}
		}
		if r.Memory != "" {
			if o.Memory, err = ParseSize(r.Memory); err != nil {
				return wrong("%s: memory: %v", at, err)
			}
		}
		h.Hosts = append(h.Hosts, o)
	}
	return h, nil
}

// ParseLease reads a lease, in seconds.
func ParseLease(s string) (float64, error) {
	v, err := unit.ParseSeconds(s)
	if err != nil || v < minLease || v > maxLease {
		return 0, fmt.Errorf("%q: a time from %s to %s", s, unit.Seconds(minLease), unit.Seconds(maxLease))
	}
	return v, nil
}

// IsName reports whether a queue, a job, a host or a label may be called so.
func IsName(s string) bool { return nameForm.MatchString(s) }

// ParseSize reads bytes: a number with B, KiB, MiB, GiB or TiB; "GB" is what makers of memory mean by it, GiB.
func ParseSize(s string) (int64, error) {
	number := strings.TrimRight(strings.TrimSpace(s), "BGiKMTgkmt ")
	size, ok := sizes[strings.ToLower(strings.TrimSpace(strings.TrimSpace(s)[len(number):]))]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || !(n > 0) || n*size > 1<<60 {
		return 0, fmt.Errorf("%q is no size: such as 24GiB", s)
	}
	return int64(n * size), nil
}

var sizes = map[string]float64{"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
	"gb": 1 << 30, "g": 1 << 30}

// plain reports whether a text is short, and has no control characters.
func plain(s string) bool {
	return len(s) <= maxValue && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
