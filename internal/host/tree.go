package host

import (
	"slices"
	"time"
)

// process is what is needed to place a process in a tree.
type process struct {
	pid, parent    int
	group, session int    // session is 0 where the system does not say
	start          uint64 // in the kernel's own unit: tells a pid from a later process with the same one
	name           string
}

// tree is the run: a root process and whatever descends from it. A process that was seen once stays, also when its
// parent ends and init adopts it. One that detached between two looks is found by its process group or session, where
// the root leads one.
type tree struct {
	root    int
	members map[int]uint64 // pid → start
	begun   uint64         // start of the root
}

func newTree(root int) *tree { return &tree{root: root, members: map[int]uint64{}} }

// update takes a list of all processes and returns the pids of the run, ascending.
func (t *tree) update(all []process) []int {
	if t.root <= 0 {
		return nil
	}
	children := make(map[int][]int, len(all))
	start := make(map[int]uint64, len(all))
	var queue []int
	for _, p := range all {
		start[p.pid] = p.start
		children[p.parent] = append(children[p.parent], p.pid)
		if p.group == t.root || p.session == t.root {
			queue = append(queue, p.pid)
		}
	}
	if s, ok := start[t.root]; ok && (t.begun == 0 || t.begun == s) {
		t.begun = s
		queue = append(queue, t.root)
	}
	for pid, s := range t.members {
		if now, ok := start[pid]; ok && now == s {
			queue = append(queue, pid)
		}
	}
	found := make(map[int]uint64, len(t.members)+1)
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		if _, seen := found[pid]; seen || pid == t.root && start[pid] != t.begun {
			continue
		}
		found[pid] = start[pid]
		queue = append(queue, children[pid]...)
	}
	t.members = found
	pids := make([]int, 0, len(found))
	for pid := range found {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

// usage is what one process holds and has used.
type usage struct {
	cpu       float64 // seconds on all cores since it began
	resident  float64 // bytes
	footprint float64 // bytes, macOS only
	peak      float64 // bytes, kept by the kernel
	start     uint64
}

// cpuMeter turns the processor time of a set of processes into a ratio: 1 is one core busy.
type cpuMeter struct {
	last map[int]usage
	at   time.Time
}

// next returns the ratio since the previous call; false on the first one. The last stretch of a process that ended in
// between is lost. cores bounds what a process that was not seen before can have used.
func (m *cpuMeter) next(now time.Time, use map[int]usage, cores int) (float64, bool) {
	elapsed, first := now.Sub(m.at).Seconds(), m.last == nil
	var spent float64
	for pid, u := range use {
		if old, ok := m.last[pid]; ok && old.start == u.start {
			spent += max(0, u.cpu-old.cpu)
		} else {
			spent += min(u.cpu, elapsed*float64(cores))
		}
	}
	m.last, m.at = use, now
	if first || elapsed <= 0 {
		return 0, false
	}
	return spent / elapsed, true
}
