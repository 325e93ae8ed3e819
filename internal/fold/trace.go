package fold

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sort"

	"assay/internal/evidence"
)

const (
	traceEvents = 4_000_000 // events read from a trace at most
	traceRows   = 200       // operators kept
)

type traceEvent struct {
	Ph   string          `json:"ph"`
	Cat  string          `json:"cat"`
	Name string          `json:"name"`
	PID  json.RawMessage `json:"pid"`
	TID  json.RawMessage `json:"tid"`
	TS   float64         `json:"ts"`  // µs
	Dur  float64         `json:"dur"` // µs
	Args struct {
		External    *int64 `json:"External id"`
		Correlation *int64 `json:"correlation"`
	} `json:"args"`
}

type span struct {
	thread   string
	start    float64
	end      float64
	name     string
	children float64
	external int64
	parent   int  // index of the operator that calls it; -1: none does
	own      bool // the double's own: no row
	again    bool // the operator that encloses it is counted, and this is what computes it
}

// ReadTrace sums a Chrome trace that PyTorch's profiler wrote into a table of operators, most self time first.
//
// Self time is a host operator's duration less that of the operators it calls on the same thread. Device time is the
// duration of the kernels that an operator launched; queueing time runs from the launch call's start on the host to the
// kernel's start on the device (both from CUPTI, on one clock). Times in the trace are microseconds.
//
// In a rehearsal the double stands between an operator and what computes it, and the profiler shows that: what is the
// double's own is no operator of the script's, and is left out (doublesOwn).
func ReadTrace(r io.Reader, rehearsed bool) ([]evidence.Operator, error) {
	dec := json.NewDecoder(bufio.NewReaderSize(r, 1<<20))
	if err := seekArray(dec, "traceEvents"); err != nil {
		return nil, fmt.Errorf("read the profiler's trace: %w", err)
	}
	var host []span
	launches := map[int64]float64{} // correlation → µs
	type kernel struct {
		start, dur  float64
		correlation int64
		external    int64
	}
	var kernels []kernel
	for n := 0; dec.More(); n++ {
		if n >= traceEvents {
			return nil, fmt.Errorf("read the profiler's trace: more than %d events", traceEvents)
		}
		var e traceEvent
		if err := dec.Decode(&e); err != nil {
			return nil, fmt.Errorf("read the profiler's trace: event %d: %w", n, err)
		}
		if e.Ph != "X" {
			continue
		}
		external, correlation := int64(-1), int64(-1)
		if e.Args.External != nil {
			external = *e.Args.External
		}
		if e.Args.Correlation != nil {
			correlation = *e.Args.Correlation
		}
		switch e.Cat {
		case "cpu_op":
			host = append(host, span{thread: string(e.PID) + "/" + string(e.TID), start: e.TS, end: e.TS + e.Dur,
				name: e.Name, external: external})
		case "cuda_runtime", "cuda_driver":
			launches[correlation] = e.TS
		case "kernel", "gpu_memcpy", "gpu_memset":
			kernels = append(kernels, kernel{e.TS, e.Dur, correlation, external})
		}
	}
	sort.SliceStable(host, func(i, j int) bool {
		a, b := host[i], host[j]
		if a.thread != b.thread {
			return a.thread < b.thread
		}
		if a.start != b.start {
			return a.start < b.start
		}
		return a.end > b.end
	})
	var stack []int
	byExternal := map[int64]string{}
	for i := range host {
		s := &host[i]
		s.parent = -1
		for len(stack) > 0 && (host[stack[len(stack)-1]].thread != s.thread ||
			host[stack[len(stack)-1]].end <= s.start) {
			stack = stack[:len(stack)-1]
		}
		if len(stack) > 0 {
			s.parent = stack[len(stack)-1]
			host[s.parent].children += s.end - s.start
		}
		stack = append(stack, i)
		if s.external >= 0 {
			byExternal[s.external] = s.name
		}
	}
	if rehearsed {
		doublesOwn(host)
	}
	table := map[string]*evidence.Operator{}
	row := func(name string) *evidence.Operator {
		op := table[name]
		if op == nil {
			op = &evidence.Operator{Name: name}
			table[name] = op
		}
		return op
	}
	for _, s := range host {
		if s.own {
			continue
		}
		op := row(s.name)
		if !s.again {
			op.Calls++
			op.Total += (s.end - s.start) / 1e6
		}
		op.Self += max(0, s.end-s.start-s.children) / 1e6
	}
	for _, k := range kernels {
		name, ok := byExternal[k.external]
		if !ok {
			name = "(device work launched outside an operator)"
		}
		op := row(name)
		if op.Device == nil {
			op.Device, op.Queue = new(float64), new(float64)
		}
		*op.Device += k.dur / 1e6
		if at, ok := launches[k.correlation]; ok {
			*op.Queue += max(0, k.start-at) / 1e6
		}
	}
	ops := make([]evidence.Operator, 0, len(table))
	for _, op := range table {
		ops = append(ops, *op)
	}
	weight := func(op evidence.Operator) float64 {
		if op.Device != nil {
			return max(op.Self, *op.Device)
		}
		return op.Self
	}
	sort.Slice(ops, func(i, j int) bool {
		if a, b := weight(ops[i]), weight(ops[j]); a != b {
			return a > b
		}
		return ops[i].Name < ops[j].Name
	})
	return ops[:min(len(ops), traceRows)], nil
}

// doublesOwn marks, in spans whose callers stand before them, what the double does on an operator's way: that way
// itself, and all below it but the operator of the same name, which computes. Where there is none of that name, the
// double composes the operator of others, and those stay.
func doublesOwn(host []span) {
	computed := map[int]bool{} // ways that lead to the operator itself
	for i := range host {
		s := &host[i]
		if s.name == evidence.ThroughDouble {
			s.own = true
			continue
		}
		if s.parent < 0 || host[s.parent].name != evidence.ThroughDouble {
			continue
		}
		if by := host[s.parent].parent; by >= 0 && host[by].name == s.name {
			s.again, computed[s.parent] = true, true
		}
	}
	for i := range host {
		s := &host[i]
		if s.parent < 0 || s.own {
			continue
		}
		if host[s.parent].name == evidence.ThroughDouble {
			s.own = computed[s.parent] && !s.again
		} else {
			s.own = host[s.parent].own
		}
	}
}

// seekArray moves the decoder just inside the array that is the value of a top-level key.
func seekArray(dec *json.Decoder, key string) error {
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("no JSON object (%v)", err)
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		if t == key {
			if t, err := dec.Token(); err != nil || t != json.Delim('[') {
				return fmt.Errorf("%s is no array (%v)", key, err)
			}
			return nil
		}
		var skip json.RawMessage
		if err := dec.Decode(&skip); err != nil {
			return err
		}
	}
	return fmt.Errorf("no %s", key)
}
