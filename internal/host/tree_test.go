package host

import (
	"slices"
	"testing"
	"time"
)

func TestTree(t *testing.T) {
	tr := newTree(10)
	p := func(pid, parent, group int, start uint64) process {
		return process{pid: pid, parent: parent, group: group, start: start}
	}
	steps := []struct {
		name string
		all  []process
		want []int
	}{
		{"root, child, grandchild, stranger", []process{p(1, 0, 1, 1), p(10, 1, 5, 100), p(11, 10, 5, 101),
			p(12, 11, 5, 102), p(13, 1, 5, 90)}, []int{10, 11, 12}},
		{"orphan stays", []process{p(1, 0, 1, 1), p(10, 1, 5, 100), p(12, 1, 5, 102)}, []int{10, 12}},
		{"pid of an orphan used again", []process{p(1, 0, 1, 1), p(10, 1, 5, 100), p(12, 1, 5, 300)}, []int{10}},
		{"detached before it was seen, in the root's group", []process{p(10, 1, 10, 100), p(14, 1, 10, 301),
			p(15, 14, 15, 302)}, []int{10, 14, 15}},
		{"root gone, members stay", []process{p(1, 0, 1, 1), p(15, 1, 15, 302)}, []int{15}},
		{"root's pid used again", []process{p(10, 1, 10, 900), p(15, 1, 15, 302)}, []int{15}},
	}
	for _, s := range steps {
		if got := tr.update(s.all); !slices.Equal(got, s.want) {
			t.Errorf("%s: %v, want %v", s.name, got, s.want)
		}
	}
	if got := newTree(0).update([]process{p(0, 0, 0, 0), p(1, 0, 0, 1)}); got != nil {
		t.Errorf("no root: %v", got)
	}
}

func TestCPUMeter(t *testing.T) {
	var m cpuMeter
	at := time.Unix(1000, 0)
	if _, ok := m.next(at, map[int]usage{1: {cpu: 50, start: 7}}, 4); ok {
		t.Error("a first reading has no rate")
	}
	// Process 1 used 2 s in 2 s; 2 is new and used 1 s; 3 is an old one found late: no more than 4 cores for 2 s.
	got, ok := m.next(at.Add(2*time.Second), map[int]usage{1: {cpu: 52, start: 7}, 2: {cpu: 1}, 3: {cpu: 999}}, 4)
	if !ok || got != (2+1+8)/2.0 {
		t.Errorf("ratio %v %v", got, ok)
	}
	// Pid 1 is another process now.
	if got, _ := m.next(at.Add(3*time.Second), map[int]usage{1: {cpu: 0.5, start: 9}}, 4); got != 0.5 {
		t.Errorf("reused pid: %v", got)
	}
}

func TestLargest(t *testing.T) {
	programs := []program{
		{process{pid: 10, parent: 1, name: "python"}, 100},
		{process{pid: 11, parent: 10, name: "python"}, 50},
		{process{pid: 12, parent: 1, name: "python"}, 70},
		{process{pid: 13, parent: 1, name: "Safari"}, 70},
		{process{pid: 14, parent: 1, name: "kthread"}, 0},
	}
	got := largest(programs, 10, 3)
	if len(got) != 3 || !got[0].Ours || got[0].Bytes != 150 || got[0].Count != 2 || got[1].Name != "Safari" ||
		got[2].Ours {
		t.Errorf("%+v", got)
	}
	for path, want := range map[string]string{
		"/Applications/Safari.app/Contents/MacOS/Safari":                                                "Safari",
		"/Applications/Google Chrome.app/Contents/Frameworks/Helper.app/Contents/MacOS/Helper":          "Google Chrome",
		"/opt/homebrew/Cellar/python@3.12/3.12.1/bin/python3.12":                                        "python3.12",
		"/Library/Frameworks/Python.framework/Versions/3.12/Resources/Python.app/Contents/MacOS/Python": "Python",
		"": "",
	} {
		if got := appName(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}
