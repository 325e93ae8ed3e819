package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"assay/internal/fault"
	"assay/internal/node"
)

func TestParseHosts(t *testing.T) {
	h, err := ParseHosts("hosts.toml", []byte(`
[fleet]
lease = "30s"
retries = 5
python = "~/env/bin/python"
env = { HF_HOME = "/Volumes/x" }
slots = 2

[[host]]
name = "studio"
ssh = "ada@studio.local"
labels = ["fast"]
env = { OMP_NUM_THREADS = "8" }

[[host]]
name = "mini"
python = "/usr/bin/python3"
slots = 1
chip = "Apple M4"
memory = "24GB"

[[host]]
name = "here"
local = true
`))
	if err != nil {
		t.Fatal(err)
	}
	if h.Lease != 30 || h.Retries != 5 || len(h.Hosts) != 3 {
		t.Fatalf("%+v", h)
	}
	studio, mini := h.Hosts[0], h.Hosts[1]
	if studio.SSH != "ada@studio.local" || studio.Python != "~/env/bin/python" || studio.Slots != 2 ||
		studio.Environ["HF_HOME"] != "/Volumes/x" || studio.Environ["OMP_NUM_THREADS"] != "8" {
		t.Errorf("%+v", studio)
	}
	if mini.SSH != "mini" || mini.Python != "/usr/bin/python3" || mini.Slots != 1 || mini.Memory != 24<<30 ||
		len(mini.Environ) != 1 {
		t.Errorf("%+v", mini)
	}
}

// TestJobOnHost: a job has the interpreter and the variables of the host that it runs on, and its own win.
func TestJobOnHost(t *testing.T) {
	h := Host{Python: "~/venv/bin/python", Environ: map[string]string{"HF_HOME": "/models", "A": "1"}}
	job := h.of(node.Job{Environ: []string{"A=2"}})
	if job.Python != h.Python || !slices.Equal(job.Environ, []string{"A=1", "HF_HOME=/models", "A=2"}) {
		t.Errorf("%q, %q", job.Python, job.Environ)
	}
	if own := h.of(node.Job{Python: "/usr/bin/python3"}).Python; own != "/usr/bin/python3" {
		t.Errorf("the job's own interpreter became %s", own)
	}
}

func TestParseHostsRefuses(t *testing.T) {
	for toml, want := range map[string]string{
		"":                                       "names no host",
		"[[host]]\nname = \"a\"\nspeed = 3\n":    `:3: there is no key "host.speed"`,
		"[[host]]\nname = \"a\"\nname = \"b\"\n": "hosts.toml:3:",
		"[[host]]\nname = \"a\"\n[[host]]\nname = \"a\"\n":          `host "a" is there twice`,
		"[[host]]\nname = \"../a\"\n":                               "name: letters",
		"[[host]]\nssh = \"a\"\n":                                   "host 1: name",
		"[[host]]\nname = \"a\"\nssh = \"-oProxyCommand=x\"\n":      "no destination",
		"[[host]]\nname = \"a\"\nssh = \"a b\"\n":                   "no destination",
		"[[host]]\nname = \"a\"\nssh = \"b\"\nlocal = true\n":       "one of them",
		"[[host]]\nname = \"a\"\npython = \"a\\u0007\"\n":           "control characters",
		"[[host]]\nname = \"a\"\nenv = { \"A B\" = \"1\" }\n":       "no name of a variable",
		"[[host]]\nname = \"a\"\nslots = 0\n":                       "slots = 0",
		"[[host]]\nname = \"a\"\nslots = 100000\n":                  "slots = 100000",
		"[[host]]\nname = \"a\"\nmemory = \"much\"\n":               "is no size",
		"[fleet]\nlease = \"1s\"\n[[host]]\nname = \"a\"\n":         "lease",
		"[fleet]\nretries = -1\n[[host]]\nname = \"a\"\n":           "retries = -1",
		"[[host]]\nname = \"a\"\nlabels = [\"a b\"]\n":              "labels",
		strings.Repeat("[[host]]\nname = \"a\"\n", maxHosts+1) + "": "are the most",
	} {
		_, err := ParseHosts("hosts.toml", []byte(toml))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, and %q was meant", toml[:min(len(toml), 80)], err, want)
		}
	}
	_, err := ParseHosts("hosts.toml", []byte("[[host]]\nname = \"a\"\nspeed = 3\n"))
	if !strings.Contains(fault.HintOf(err), "labels") {
		t.Errorf("hint %q", fault.HintOf(err))
	}
}

func FuzzParseHosts(f *testing.F) {
	f.Add([]byte("[[host]]\nname = \"a\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ParseHosts("hosts.toml", data)
		if err != nil {
			return
		}
		for _, o := range h.Hosts {
			if !nameForm.MatchString(o.Name) || strings.HasPrefix(o.SSH, "-") || o.Slots < 1 {
				t.Errorf("%+v", o)
			}
		}
	})
}

func TestExpand(t *testing.T) {
	lr, _ := ParseAxis("lr=0.1, 0.01")
	wd, _ := ParseAxis("wd=0,1e-4")
	all, err := Expand(Task{Command: []string{"t", "--lr={lr}", "{wd}", "{repeat}"}}, []Axis{lr, wd}, 2)
	if err != nil || len(all) != 8 {
		t.Fatalf("%v %v", all, err)
	}
	NameTasks(all)
	last := all[7]
	if !slices.Equal(last.Command, []string{"t", "--lr=0.01", "1e-4", "2"}) ||
		last.Cell != "lr=0.01 wd=1e-4 repeat=2" ||
		last.Name != "lr-0.01-wd-1e-4-repeat-2" {
		t.Errorf("%+v", last)
	}
	for _, axes := range [][]Axis{{{Name: "x", Values: []string{"1"}}}, {lr, lr}} {
		if _, err := Expand(Task{Command: []string{"{lr}"}}, axes, 1); err == nil {
			t.Errorf("%v was taken", axes)
		}
	}
	for _, bad := range []string{"lr", "=1", "lr=", "repeat=1", "a b=1"} {
		if _, err := ParseAxis(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestNameTasks(t *testing.T) {
	all := []Task{{Cell: "x=a/b"}, {Cell: "x=a-b"}, {Cell: strings.Repeat("x", 200)}, {Name: "1"}, {}}
	NameTasks(all)
	seen := map[string]bool{}
	for _, x := range all {
		if !nameForm.MatchString(x.Name) || seen[x.Name] {
			t.Errorf("%q", x.Name)
		}
		seen[x.Name] = true
	}
}

func TestSplitWords(t *testing.T) {
	for line, want := range map[string][]string{
		`python train.py --lr 0.1`: {"python", "train.py", "--lr", "0.1"},
		`a 'b c' "d \"e" f\ g ""`:  {"a", "b c", `d "e`, "f g", ""},
		`"a\b" $HOME *`:            {`a\b`, "$HOME", "*"},
	} {
		got, err := SplitWords(line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q %v", line, got, err)
		}
	}
	for _, bad := range []string{`a "b`, `a 'b`, `a\`} {
		if got, err := SplitWords(bad); err == nil {
			t.Errorf("%s: %q", bad, got)
		}
	}
}

func views(n int) []View {
	var all []View
	for i := range n {
		all = append(all, View{Host: Host{Name: string(rune('a' + i)), Slots: 1}, Up: true,
			Facts: node.Facts{Chip: fmt.Sprintf("Apple M%d", i+1), CPUs: 8, Memory: int64(8<<30) << i, Device: "mps"}})
	}
	return all
}

func TestPlace(t *testing.T) {
	yes, load := true, 20.0
	free, some := int64(5<<20), int64(1<<30)
	speed := func(chip string, _ Task) (float64, string) {
		return map[string]float64{"Apple M1": 3, "Apple M2": 2, "Apple M3": 1}[chip], "measured"
	}
	for name, c := range map[string]struct {
		task   Task
		change func([]View)
		host   string
		why    string
		away   map[string]bool
	}{
		"the fastest": {host: "c", why: "fastest of 3"},
		"a chip":      {task: Task{Needs: Needs{Chip: "m2"}}, host: "b", why: "the only one"},
		"no such chip": {task: Task{Needs: Needs{Chip: "m9"}},
			why: "no host can have it: a: Apple M1 (measured) is not m9"},
		"memory":          {task: Task{Needs: Needs{Memory: 20 << 30}}, host: "c", why: "the only one"},
		"too much memory": {task: Task{Needs: Needs{Memory: 64 << 30}}, why: "64.0 GiB are asked for"},
		"memory by others": {task: Task{Needs: Needs{Memory: 20 << 30}},
			change: func(v []View) { v[2].Facts.Available = &some }, why: "other programs leave 1.00 GiB"},
		"battery": {change: func(v []View) { v[2].Facts.Power = "battery" }, host: "b", why: "fastest of 2"},
		"battery may": {task: Task{Needs: Needs{Power: "any"}},
			change: func(v []View) { v[2].Facts.Power = "battery" }, host: "c"},
		"mains unknown": {task: Task{Needs: Needs{Power: "mains"}}, why: "power that it does not tell"},
		"low power":     {change: func(v []View) { v[2].Facts.LowPower = &yes }, host: "b"},
		"disk":          {change: func(v []View) { v[2].Facts.DiskFree = &free }, host: "b"},
		"held":          {change: func(v []View) { v[2].Facts.Holds = "somebody-a1" }, host: "b"},
		"all held": {change: func(v []View) {
			for i := range v {
				v[i].Facts.Holds = "somebody-a1"
			}
		}, host: "c", why: "waits there for the GPU, which somebody-a1 has"},
		"loaded": {change: func(v []View) { v[2].Facts.Load = &load }, host: "b"},
		"taken": {change: func(v []View) { v[0].GPU, v[1].GPU, v[2].GPU = 1, 1, 1 },
			why: "it has a job of this queue"},
		"a label": {task: Task{Needs: Needs{Label: "x"}}, change: func(v []View) { v[0].Labels = []string{"x"} },
			host: "a"},
		"its host": {task: Task{Host: "a"}, host: "a"},
		"a path": {task: Task{Needs: Needs{Paths: []string{"/data"}}},
			change: func(v []View) { v[2].Absent = map[string]string{"/data": "no such folder"} }, host: "b"},
		"foreseen":   {task: Task{Needs: Needs{Excluded: map[string]string{"c": "does not fit"}}}, host: "b"},
		"lost there": {away: map[string]bool{"c": true}, host: "b"},
		"lost everywhere but there": {away: map[string]bool{"c": true}, change: func(v []View) {
			v[0].GPU, v[1].GPU = 1, 1
		},
			why: "waits for another host than c"},
		"nobody else is there": {away: map[string]bool{"c": true}, change: func(v []View) {
			v[0].Up, v[1].Up = false,
				false
		},
			host: "c", why: "again"},
		"all away": {change: func(v []View) { v[0].Up, v[1].Up, v[2].Up = false, false, false },
			why: "waits: a: no connection yet"},
	} {
		hosts := views(3)
		if c.change != nil {
			c.change(hosts)
		}
		c.task.Name, c.task.Device = "t", "gpu"
		got := Place([]Task{c.task}, hosts, func(string) map[string]bool { return c.away }, speed)[0]
		if got.Host != c.host || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s: on %q: %s", name, got.Host, got.Why)
		}
	}
	two := Place([]Task{{Name: "1", Device: "gpu"}, {Name: "2", Device: "gpu"}, {Name: "3", Device: "cpu"}}, views(1),
		func(string) map[string]bool { return nil }, nil)
	if two[0].Host != "a" || two[1].Host != "" || two[2].Host != "a" {
		t.Errorf("one training a GPU, and a slot beside it: %+v", two)
	}
}
