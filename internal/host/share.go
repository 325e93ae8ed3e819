package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"assay/internal/evidence"
)

// mostThreads is how many threads of a run are asked how long they waited: some 10 µs each.
const mostThreads = 1000

// parseCPUList reads a list of processors as /proc/PID/status has it: 0-3,8.
func parseCPUList(text string) (map[int]bool, error) {
	all := map[int]bool{}
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, is := strings.Cut(part, "-")
		if !is {
			last = first
		}
		a, err := strconv.Atoi(first)
		b, bad := strconv.Atoi(last)
		if err != nil || bad != nil || a < 0 || b < a || b > 1<<16 {
			return nil, fmt.Errorf("%q is no list of processors", cut(text, 80))
		}
		for i := a; i <= b; i++ {
			all[i] = true
		}
	}
	return all, nil
}

// parseProcessors adds up the lines of /proc/stat of those processors; nil means all of them. busy and idle are seconds
// since boot, on n of them.
func parseProcessors(text []byte, allowed map[int]bool) (n int, busy, idle float64, err error) {
	lines(text, func(line string) {
		name, rest, _ := strings.Cut(line, " ")
		number, is := strings.CutPrefix(name, "cpu")
		i, bad := strconv.Atoi(number)
		words := strings.Fields(rest)
		if !is || bad != nil || len(words) < 4 || allowed != nil && !allowed[i] {
			return
		}
		n++
		for j, w := range words[:min(len(words), 8)] {
			// as in parseCPU; steal is time that another machine had the processor
			if v := float64(atoi([]byte(w))) / userHZ; j == 3 || j == 4 {
				idle += v
			} else {
				busy += v
			}
		}
	})
	if n == 0 {
		return 0, 0, 0, keyMissing("/proc/stat", "cpu0")
	}
	return n, busy, idle, nil
}

// parseSchedstat reads how long a thread was ready to run and had no processor, in seconds (Linux,
// Documentation/scheduler/sched-stats.rst: time on the processor, time waiting on a run queue, both in ns, and time
// slices).
func parseSchedstat(text []byte) (waited float64, err error) {
	words := bytes.Fields(text)
	if len(words) < 3 {
		return 0, errors.New("schedstat: not three numbers")
	}
	return float64(atoi(words[1])) / 1e9, nil
}

// shareGives are the figures of how the run shared the machine.
var shareGives = []quantity{{"process.waiting", "ratio"}, {"host.cpu.others", "1"}, {"host.cpu.free", "1"},
	{"host.cpu.throttled", "ratio"},
	{"thermal.throttled", "ratio"}, {"host.swap.in", "B/s"}}

// sharing is what the last sample knew.
type sharing struct {
	at         time.Time
	waited     map[int]float64 // thread → seconds, since it began
	busy, idle float64         // seconds
	own, self  float64
	spent      float64 // by processes of the run since the last sample, as far as they are there still
	n          int

	throttled, hot, swapIn       float64
	throttledAt, hotAt, swapInAt time.Time
}

// shares says what the run's threads waited for processors, and who had them meanwhile.
func (s *procSource) shares(now time.Time, pids []int, own float64) []evidence.Figure {
	last := &s.share
	elapsed, first := now.Sub(last.at).Seconds(), last.at.IsZero()
	last.at = now
	var figures []evidence.Figure
	if len(pids) == 0 {
		figures = unknownAll(shareGives[:3], "no process to follow")
	} else {
		figures = append([]evidence.Figure{s.waiting(pids, elapsed, first)}, s.others(own, elapsed, first)...)
	}
	return append(figures, s.quota(now), s.throttling(now), s.swapIn(now))
}

// waiting is the time that threads of the run were ready and waited, over the time that passed: 1 is one thread that
// waits all the time.
func (s *procSource) waiting(pids []int, elapsed float64, first bool) evidence.Figure {
	const name, unit = "process.waiting", "ratio"
	fresh := make(map[int]float64, len(s.share.waited)+16)
	var sum float64
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid) + "/task"
		f, err := os.Open(s.h.root + dir)
		if err != nil {
			continue
		}
		threads, _ := f.Readdirnames(mostThreads + 1)
		f.Close()
		if len(fresh)+len(threads) > mostThreads {
			s.share.waited = nil
			return evidence.Unknown(name, unit, fmt.Sprintf("the run has more than %d threads", mostThreads))
		}
		for _, thread := range threads {
			text, err := s.h.file(dir + "/" + thread + "/schedstat")
			if err != nil { // it has ended, or the kernel keeps none
				continue
			}
			waited, err := parseSchedstat(text)
			if err != nil {
				return evidence.Unknown(name, unit, err.Error())
			}
			tid := int(atoi([]byte(thread)))
			fresh[tid] = waited
			if before, ok := s.share.waited[tid]; ok && waited >= before {
				sum += waited - before
			} else if !ok {
				sum += min(waited, max(0, elapsed))
			}
		}
	}
	known := s.share.waited != nil
	s.share.waited = fresh
	switch {
	case len(fresh) == 0:
		return evidence.Unknown(name, unit,
			"the kernel keeps no times of waiting (CONFIG_SCHED_INFO), or the process has ended")
	case first || !known || elapsed <= 0:
		return evidence.Unknown(name, unit, needsTwo)
	}
	return measured(name, sum/elapsed, unit)
}

// others says how many of the processors that the run may use were busy for others, and how many with nothing. own is
// the processor time of the run's processes with their children that have ended.
func (s *procSource) others(own, elapsed float64, first bool) []evidence.Figure {
	gives := shareGives[1:3]
	status, _ := s.h.file("/proc/" + strconv.Itoa(s.pid) + "/status")
	var allowed map[int]bool
	lines(status, func(line string) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			allowed, _ = parseCPUList(list)
		}
	})
	text, err := s.h.file("/proc/stat")
	var n int
	var busy, idle float64
	if err == nil {
		n, busy, idle, err = parseProcessors(text, allowed)
	}
	if err != nil {
		return unknownAll(gives, reason(err))
	}
	var self float64 // what assay itself takes
	if s.h.self != nil {
		self = s.h.self()
	}
	last := &s.share
	b, i := busy-last.busy, idle-last.idle
	mine := max(0, own-last.own, last.spent) + max(0, self-last.self)
	same := n == last.n
	last.busy, last.idle, last.own, last.self, last.n = busy, idle, own, self, n
	switch {
	case first || elapsed <= 0 || !same:
		return unknownAll(gives, needsTwo)
	case b < 0 || i < 0 || b+i < 0.5*elapsed: // of one processor at least
		return unknownAll(gives, "the counters of /proc/stat do not move with the clock")
	}
	return []evidence.Figure{measured(gives[0].name, max(0, b-mine)/elapsed, gives[0].unit),
		measured(gives[1].name, i/elapsed, gives[1].unit)}
}

// quota is the part of the time in which the cgroup's quota of processor time was used up.
func (s *procSource) quota(now time.Time) evidence.Figure {
	const name, unit = "host.cpu.throttled", "ratio"
	folders, v2, err := s.h.cgroup(strconv.Itoa(max(s.pid, 1)))
	if err != nil || !v2 {
		return evidence.Unknown(name, unit, "no cgroup v2 that counts it")
	}
	most, seen := 0.0, false
	for _, f := range folders {
		text, err := s.h.file(f + "/cpu.stat")
		if us, ok := parseKeyed(text)["throttled_usec"]; err == nil && ok {
			most, seen = max(most, us/1e6), true
		}
	}
	if !seen {
		return evidence.Unknown(name, unit, "the cgroup has no cpu controller")
	}
	return rate(name, unit, most, now, &s.share.throttled, &s.share.throttledAt)
}

// throttling is the part of the time in which the first processor's package was slowed down for its heat: Intel's
// counter (Linux, arch/x86/kernel/cpu/mce/therm_throt.c).
func (s *procSource) throttling(now time.Time) evidence.Figure {
	const name, unit = "thermal.throttled", "ratio"
	ms, err := s.h.word("/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_total_time_ms")
	if err != nil {
		return evidence.Unknown(name, unit, "this processor does not say when heat slows it down")
	}
	return rate(name, unit, float64(atoi([]byte(ms)))/1e3, now, &s.share.hot, &s.share.hotAt)
}

func (s *procSource) swapIn(now time.Time) evidence.Figure {
	text, err := s.h.file("/proc/vmstat")
	pages, ok := parseKeyed(text)["pswpin"]
	if err == nil && !ok {
		err = keyMissing("/proc/vmstat", "pswpin")
	}
	if err != nil {
		return evidence.Unknown("host.swap.in", "B/s", reason(err))
	}
	return rate("host.swap.in", "B/s", pages*float64(os.Getpagesize()), now, &s.share.swapIn, &s.share.swapInAt)
}

// macShares is the same of a Mac, from the processor ticks of the whole machine. How long threads waited, macOS does
// not tell other programs.
func macShares(host, process evidence.Figure, cores int) []evidence.Figure {
	gives := shareGives[1:3]
	switch {
	case !host.Known():
		return unknownAll(gives, host.Missing)
	case !process.Known():
		return unknownAll(gives, process.Missing)
	}
	busy := *host.Value * float64(cores)
	return []evidence.Figure{measured(gives[0].name, max(0, busy-*process.Value), gives[0].unit),
		measured(gives[1].name, max(0, float64(cores)-busy), gives[1].unit)}
}
