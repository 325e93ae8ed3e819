package sweep

import (
	"strings"
	"syscall"
	"testing"

	"assay/internal/evidence"
)

const mpsText = "RuntimeError: MPS backend out of memory (MPS allocated: 8.89 GB, other allocations: 172.98 MB, " +
	"max allowed: 9.07 GB). Tried to allocate 6.25 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to " +
	"disable upper limit for memory allocations (may cause system failure)."

// TestEndings: texts are those of internal/symptom/testdata/reported.toml, whose sources stand there, and of programs
// that were run (torch 2.15.0: torch.empty(1 << 50); Python: bytearray(1 << 60)).
func TestEndings(t *testing.T) {
	for name, c := range map[string]struct {
		exit   int
		signal syscall.Signal
		error  string // of the outcome
		tail   string
		change func(*evidence.Run)
		kind   EndingKind
		says   string
		sure   bool
		limit  float64
	}{
		"well":           {kind: EndedWell, sure: true},
		"warnings alone": {tail: "UserWarning: lr_scheduler.step() before optimizer.step()", kind: EndedWell, sure: true},
		"steps as asked": {change: stopped("after 20 steps, as asked (--steps)"), kind: EndedWell, sure: true},
		"time as asked": {change: stopped("after step 3, as asked (--for)"), kind: EndedByTime, sure: true,
			says: "--for"},
		"mps, with limit": {exit: 1, error: mpsText, kind: EndedByMemory, sure: true, limit: 9.07 * (1 << 30)},
		"mps, in a worker": {exit: 1, tail: "Traceback …\n" + mpsText + "\n", kind: EndedByMemory, sure: true,
			limit: 9.07 * (1 << 30)},
		"mps, 2.0 to 2.6, no limit": {exit: 1, kind: EndedByMemory, sure: true, says: "private pool",
			error: "RuntimeError: MPS backend out of memory (MPS allocated: 8.89 GB, other allocations: 172.98 MB). " +
				"Tried to allocate 6.25 MB on private pool."},
		"mps, one buffer": {exit: 1, error: "RuntimeError: Invalid buffer size: 12.35 GB", kind: EndedByMemory,
			sure: true, says: "12.35 GB"},
		"metal": {exit: 1, kind: EndedByMemory, sure: true, tail: "Error: command buffer exited with error status.\n" +
			"\tInsufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"},
		"cuda": {exit: 1, kind: EndedByMemory, sure: true, error: "torch.OutOfMemoryError: CUDA out of memory. Tried to " +
			"allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.06 GiB is free."},
		"cuda, a fraction": {exit: 1, kind: EndedByMemory, sure: true, limit: 15.5 * (1 << 30),
			error: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total " +
				"capacity of 79.10 GiB of which 63.00 GiB is free. 15.50 GiB allowed; Of the allocated memory 14.00 GiB " +
				"is allocated by PyTorch"},
		"cublas": {exit: 1, kind: EndedByMemory, sure: true,
			error: "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"},
		"cpu": {exit: 1, kind: EndedByMemory, sure: true, error: "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == " +
			"0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4503599627370496 bytes. Error code 12 " +
			"(Cannot allocate memory)"},
		"python": {exit: 1, kind: EndedByMemory, sure: true, error: "MemoryError:"},
		"numpy": {exit: 1, kind: EndedByMemory, sure: true, error: "MemoryError: Unable to allocate 201. GiB for an " +
			"array with shape (2999, 2999, 2999) and data type int64"},
		"jax": {exit: 1, kind: EndedByMemory, sure: true, error: "jaxlib.xla_extension.XlaRuntimeError: " +
			"RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes."},
		"mlx, bytes": {exit: 134, kind: EndedByMemory, sure: true, tail: "libc++abi: terminating due to uncaught " +
			"exception of type std::runtime_error: [metal::malloc] Attempting to allocate 12884901888 bytes which is " +
			"greater than the maximum allowed buffer size of 9534832640 bytes."},
		"mlx, buffers": {exit: 1, kind: EndedByCrash, sure: true, says: "a number of buffers, not of bytes",
			error: "RuntimeError: [metal::malloc] Resource limit (499000) exceeded."},
		"elements": {exit: 1, kind: EndedByCrash, sure: true, says: "a number of elements, not of bytes",
			error: "RuntimeError: baddbmm not supported for tensors of more than 2**32 elements"},
		"descriptors": {exit: 1, kind: EndedByCrash, sure: true, says: "Too many open files",
			error: "OSError: [Errno 24] Too many open files"},
		"killed":          {signal: syscall.SIGKILL, kind: EndedByMemory, says: "likely"},
		"killed, a shell": {exit: 137, kind: EndedByMemory, says: "likely"},
		"killed by assay": {signal: syscall.SIGKILL, change: stopped("assay sent SIGKILL: the script did not end on SIGTERM"),
			kind: EndedByTime, sure: true, says: "assay sent"},
		"ended by assay": {signal: syscall.SIGTERM, kind: EndedByTime, sure: true,
			change: stopped("assay sent SIGTERM: the script did not end between two steps in the time asked for")},
		"out of memory before assay ended it": {signal: syscall.SIGTERM, tail: mpsText, kind: EndedByMemory, sure: true,
			limit: 9.07 * (1 << 30), change: stopped("assay sent SIGTERM: …")},
		"ctrl-c":    {signal: syscall.SIGINT, kind: EndedByPerson, sure: true, says: "SIGINT"},
		"sigterm":   {exit: 143, kind: EndedByPerson, sure: true, says: "SIGTERM"},
		"exception": {exit: 1, error: "ValueError: shapes", kind: EndedByCrash, sure: true, says: "ValueError: shapes"},
		"no text":   {exit: 3, kind: EndedByCrash, sure: true, says: "status 3"},
		"segfault":  {signal: syscall.SIGSEGV, kind: EndedByCrash, sure: true, says: "SIGSEGV"},
		"last line": {exit: 1, tail: "a\nusage: wrong\n", kind: EndedByCrash, sure: true, says: "usage: wrong"},
		"swallowed, printed": {tail: mpsText + "\nskipped\n", kind: EndedByMemory, sure: true,
			says: "went on after it (status 0)", limit: 9.07 * (1 << 30)},
		"swallowed on the double": {kind: EndedByMemory, sure: true, says: "went on after it (status 0)",
			limit: 9.07 * (1 << 30), change: func(run *evidence.Run) {
				run.Rehearsal = &evidence.Rehearsal{Refusals: []evidence.Refusal{
					{Operator: "aten::conv3d", Cause: "dtype", Text: "Undefined type Double"},
					{Operator: "aten::mm", Cause: "memory", Error: "RuntimeError",
						Text: strings.TrimPrefix(mpsText, "RuntimeError: ")}}}
			}},
		"swallowed on a device": {kind: EndedByMemory, sure: true, says: "went on after it (status 0)",
			limit: 9.07 * (1 << 30), change: func(run *evidence.Run) {
				run.OutOfMemory = []evidence.OutOfMemory{{Text: mpsText, Where: "/p/t.py:3", Count: 2}}
			}},
		"swap, marked": {kind: EndedInSwap, sure: true, says: "swap", change: func(run *evidence.Run) {
			f := evidence.Known("step.time", 0.1, "s", evidence.Measured)
			f.Disturbed = "the machine swapped (2 MB/s)"
			run.Figures = []evidence.Figure{f}
		}},
		"swap, samples":     {change: swaps(0, 4<<20, 2<<20), kind: EndedInSwap, sure: true, says: "2 of 3 samples"},
		"a little swapping": {change: swaps(0, 0, 0, 2<<20), kind: EndedWell, sure: true},
	} {
		t.Run(name, func(t *testing.T) {
			run := &evidence.Run{}
			run.Outcome.Error, run.Outcome.Exit = c.error, c.exit
			if c.change != nil {
				c.change(run)
			}
			got := EndingOf(run, c.exit, c.signal, c.tail)
			if got.Kind != c.kind || got.Sure != c.sure || got.Limit != c.limit ||
				!strings.Contains(got.Reason, c.says) {
				t.Errorf("%+v", got)
			}
			if got.Kind != EndedWell && got.Reason == "" {
				t.Error("no reason")
			}
		})
	}
}

// TestEndingIsBounded: what a script writes is anybody's: one line, no secret, and not longer than a reader wants.
func TestEndingIsBounded(t *testing.T) {
	tail := "ValueError: " + strings.Repeat("x", 10_000) + " token=hf_" + strings.Repeat("a", 34)
	got := EndingOf(&evidence.Run{}, 1, 0, tail)
	if got.Kind != EndedByCrash || len([]rune(got.Reason)) > 300 {
		t.Errorf("%d characters", len([]rune(got.Reason)))
	}
	got = EndingOf(&evidence.Run{}, 1, 0, "failed\x1b[31m\twith hf_"+strings.Repeat("a", 34))
	if strings.Contains(got.Reason, "hf_a") || strings.Contains(got.Reason, "\t") {
		t.Errorf("%q", got.Reason)
	}
}

func stopped(why string) func(*evidence.Run) {
	return func(run *evidence.Run) { run.Outcome.Stopped = why }
}

func swaps(rates ...float64) func(*evidence.Run) {
	return func(run *evidence.Run) {
		for _, r := range rates {
			run.Host.Samples = append(run.Host.Samples, evidence.Sample{Figures: []evidence.Figure{
				evidence.Known("host.swap.out", r, "B/s", evidence.Measured)}})
		}
	}
}

// TestCrashSaysTheScript: what assay itself said after the script's last line is not why the script failed.
func TestCrashSaysTheScript(t *testing.T) {
	end := EndingOf(evidence.NewRun("x"), 7, 0, "no room\nassay: report.html was not written: no space left on device\n")
	if end.Kind != EndedByCrash || end.Reason != "no room" {
		t.Errorf("%+v", end)
	}
}

// TestNeeded: what a refused batch needs at least, by the allocators' texts: internal/symptom/testdata/reported.toml,
// PyTorch's c10/cuda/CUDACachingAllocator.cpp).
func TestNeeded(t *testing.T) {
	for text, want := range map[string]float64{
		"MPS backend out of memory (MPS allocated: 7.23 GB, other allocations: 1.54 GB, max allowed: 9.07 GB). Tried to " +
			"allocate 896.00 MB on private pool.": 7.23*gib + 896*mib,
		"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 70.00 GiB is " +
			"free. 3.00 GiB allowed; Of the allocated memory 2.50 GiB is allocated by PyTorch, and 400.00 MiB is " +
			"reserved by PyTorch but unallocated.": 4.5 * gib,
		"CUDA out of memory. Tried to allocate 2.00 GiB.": 0,
		"ValueError: MPS allocated":                       0,
	} {
		if got := neededBytes(text); got != want {
			t.Errorf("%s: %.0f, want %.0f", text, got, want)
		}
	}
}
