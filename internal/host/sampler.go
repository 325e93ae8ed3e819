package host

import (
	"context"
	"runtime"
	"sync"
	"time"

	"assay/internal/evidence"
)

// Sampler reads the counters of a run and of its host. It may be used by several goroutines.
type Sampler struct {
	mu     sync.Mutex
	source source
	closed bool
}

// source is the part of a Sampler that knows the system. Calls are made one at a time.
type source interface {
	sample(ctx context.Context, now time.Time) []evidence.Figure
	close()
}

// NewSampler makes a sampler for the run whose process tree begins at pid. With pid 0 the figures of processes are
// missing and those of the host are read. Close it when the run has ended.
func NewSampler(pid int) *Sampler { return &Sampler{source: thisMachine().source(pid)} }

// Sample reads the counters once. The figures have fixed names and a fixed order for each system: bytes (B), seconds,
// watts (W), hertz (Hz), ratios and levels, as listed below, with the basis "measured". One that could not be read is
// missing with the reason; rates are missing in the first sample. Slow tools run beside the sampling path: their
// figures are those of their last answer, at most a few seconds old. A sample costs about 1 ms of processor time on
// Linux with 600 processes.
//
//	process.footprint      B      macOS: physical footprint of the run's processes, summed
//	process.resident       B      resident memory of the run's processes, summed: a shared page counts once for each
//	process.workers        B      footprint (Linux: resident memory) of the descendants without the root
//	process.pss            B      Linux: resident memory with shared pages divided, plus the same of swap
//	process.peak           B      highest footprint (Linux: resident memory) of the root so far, kept by the kernel
//	process.cpu            ratio  1 = one core busy, over the time since the last sample
//	host.cpu               ratio  1 = all cores busy, over the time since the last sample
//	host.memory.available  B      what programs can still get; Linux: the lower of the machine's and the cgroup's
//	host.swap.used         B
//	host.swap.out          B/s    written to swap since the last reading
//	host.pressure          level  macOS: 1 normal, 2 warning, 4 critical
//	host.pressure.some     ratio  Linux: share of the time in which some task waited for memory
//	cpu.power              W      macOS
//	gpu.busy               ratio  whole machine
//	gpu.power              W      whole machine
//	gpu.frequency          Hz     while busy
//	gpu.memory             B      whole machine
//	thermal.pressure       level  macOS: 0 nominal, 1 moderate, 2 heavy, 3 trapping, 4 sleeping
//	power.system           W      macOS: the whole machine
//	process.waiting        ratio  Linux: time that the run's threads were ready and had no processor; 1 = one thread all the time
//	host.cpu.others        1      processors, of those that the run may use, that were busy for others than the run and assay
//	host.cpu.free          1      processors, of the same, with nothing to do
//	host.cpu.throttled     ratio  Linux: part of the time in which the cgroup's quota of processor time was used up
//	thermal.throttled      ratio  Linux: part of the time in which the processor was slowed down for its heat
//	host.swap.in           B/s    read back from swap since the last reading
func (s *Sampler) Sample(ctx context.Context) []evidence.Figure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	return s.source.sample(ctx, time.Now())
}

// Close ends the readings that run beside the samples. After it Sample returns nothing.
func (s *Sampler) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.source.close()
	}
}

func measured(name string, value float64, unit string) evidence.Figure {
	return evidence.Known(name, value, unit, evidence.Measured)
}

// figureOr makes a measured figure, or a missing one of the error.
func figureOr(name string, value float64, unit string, err error) evidence.Figure {
	if err != nil {
		return evidence.Unknown(name, unit, reason(err))
	}
	return measured(name, value, unit)
}

const needsTwo = "needs two readings"

// quantity is the name and unit of a figure that a slow reading gives.
type quantity struct{ name, unit string }

// slow is a reading that may take long. It runs on a goroutine of its own, which owns whatever handles it needs (and
// its thread, where asked: IOReport and SMC want one); the sampler takes the last answer and never waits.
type slow struct {
	what  string        // for reasons: "nvidia-smi"
	every time.Duration // least time between two readings
	limit time.Duration // time after which a reading is given up
	gives []quantity

	mu      sync.Mutex
	last    map[string]evidence.Figure
	taken   time.Time
	started time.Time
	busy    bool
	kick    chan time.Time
	done    chan struct{}
	cancel  context.CancelFunc
}

// begin starts the goroutine. open is called on it once and returns the reading and what is to be closed at the end.
func (s *slow) begin(lock bool, open func() (read func(context.Context) []evidence.Figure, end func())) *slow {
	ctx, cancel := context.WithCancel(context.Background())
	s.kick, s.done, s.cancel = make(chan time.Time, 1), make(chan struct{}), cancel
	go func() {
		defer close(s.done)
		defer func() { _ = recover() }() // of open: no reading ever comes back, and the figures say so
		if lock {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
		}
		read, end := open()
		defer end()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-s.kick:
				limited, stop := context.WithTimeout(ctx, s.limit)
				figures := s.safely(read, limited)
				stop()
				s.mu.Lock()
				s.busy, s.taken = false, now
				s.last = make(map[string]evidence.Figure, len(figures))
				for _, f := range figures {
					s.last[f.Name] = f
				}
				s.mu.Unlock()
			}
		}
	}()
	return s
}

// safely reads; a panic is the reason why the figures are missing.
func (s *slow) safely(read func(context.Context) []evidence.Figure, ctx context.Context) (figures []evidence.Figure) {
	defer func() {
		if p := recover(); p != nil {
			figures = unknownAll(s.gives, failedInAssay(p).Error())
		}
	}()
	return read(ctx)
}

// latest asks for a new reading when one is due, and returns the figures of the last one, in the order of gives.
func (s *slow) latest(now time.Time) []evidence.Figure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.busy && (s.started.IsZero() || now.Sub(s.started) >= s.every) {
		s.busy, s.started = true, now
		s.kick <- now // holds one; empty whenever busy was false
	}
	figures := make([]evidence.Figure, 0, len(s.gives))
	for _, q := range s.gives {
		f, ok := s.last[q.name]
		switch {
		case s.last == nil:
			f = evidence.Unknown(q.name, q.unit, "first reading of "+s.what+" is not back yet")
		case now.Sub(s.taken) > 2*s.every+s.limit:
			f = evidence.Unknown(q.name, q.unit, s.what+" has stopped answering")
		case !ok:
			f = evidence.Unknown(q.name, q.unit, "not given by "+s.what)
		}
		figures = append(figures, f)
	}
	return figures
}

// close ends the goroutine; a reading under way is cancelled and waited for, a second at most.
func (s *slow) close() {
	s.cancel()
	select {
	case <-s.done:
	case <-time.After(time.Second):
	}
}

// unknownAll makes missing figures of a list.
func unknownAll(gives []quantity, why string) []evidence.Figure {
	figures := make([]evidence.Figure, len(gives))
	for i, q := range gives {
		figures[i] = evidence.Unknown(q.name, q.unit, why)
	}
	return figures
}
