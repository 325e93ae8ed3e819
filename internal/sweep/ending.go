package sweep

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"assay/internal/evidence"
	"assay/internal/secret"
	"assay/internal/symptom"
	"assay/internal/unit"
)

// EndingKind is how a trial ended.
type EndingKind string

// The kinds of ending. Of several that are true of a trial the first in this list is told.
const (
	EndedByPerson EndingKind = "interrupted" // somebody stopped it: it says nothing of the batch
	EndedByMemory EndingKind = "memory"      // it ran out of memory, whether or not the script went on after that
	EndedByTime   EndingKind = "time"        // its time was over
	EndedByCrash  EndingKind = "crash"       // it failed otherwise
	EndedInSwap   EndingKind = "swap"        // it came to its end, and the machine swapped
	EndedWell     EndingKind = "ok"
)

// Ending is how a trial ended, and by what that is known.
type Ending struct {
	Kind   EndingKind
	Reason string  // the text or the figure by which it is known; "" of one that ended well
	Sure   bool    // false: others end so, too
	Limit  float64 // bytes that the allocator's own text says it may hold; 0: it does not say
}

// memorySymptoms are the rules of internal/symptom, where the texts and their sources stand, that say that there were
// not enough bytes. What counts otherwise is not among them: the number of MLX's buffers (mlx-buffers: resource_limit),
// elements in 32 bits (tensor-over-2-32, ndarray-over-4-gib, size-overflow), descriptors.
var memorySymptoms = []string{"mps-out-of-memory", "buffer-size", "gpu-out-of-memory", "mlx-buffer",
	"cuda-out-of-memory", "out-of-memory-tensorflow", "jax-out-of-memory", "cpu-out-of-memory", "array-memory",
	"host-out-of-memory"}

// countSymptoms are those that a smaller batch may help, though it is no lack of bytes.
var countSymptoms = map[string]string{
	"mlx-buffers":        "a number of buffers, not of bytes",
	"tensor-over-2-32":   "a number of elements, not of bytes",
	"ndarray-over-4-gib": "the size of one tensor, not what is free",
	"size-overflow":      "a size that overflowed, not what is free",
}

// moreTexts are what internal/symptom explains under another cause, or not at all: the class by which PyTorch says that
// the device's memory is out (before 2.5 torch.cuda's), and cuBLAS's words.
var moreTexts = regexp.MustCompile(
	`\b(?:torch\.(?:cuda\.)?OutOfMemoryError|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED)\b`)

// allowedTexts hold the limit of an allocator: of MPSAllocator.mm, and of CUDACachingAllocator.cpp under a fraction.
var allowedTexts = []*regexp.Regexp{
	regexp.MustCompile(`max allowed: ([\d.]+) (bytes|B|[KMGT]i?B)`),
	regexp.MustCompile(`([\d.]+) (bytes|B|[KMGT]i?B) allowed`),
}

// EndingOf tells the endings of a trial apart. exit is the script's status, signal what ended it (0: nothing did), and
// stderrTail the end of what it wrote to standard error, which may be anybody's.
func EndingOf(run *evidence.Run, exit int, signal syscall.Signal, stderrTail string) Ending {
	out := run.Outcome
	if signal == 0 && exit > 128 && exit < 128+65 { // a shell between us and the script
		signal = syscall.Signal(exit - 128)
	}
	byAssay := strings.HasPrefix(out.Stopped, "assay sent") // probe.steer: it did not end by itself
	failed := (exit != 0 || signal != 0) && !(byAssay && signal != 0)
	if signal == syscall.SIGINT || signal == syscall.SIGHUP || signal == syscall.SIGTERM && !byAssay {
		return Ending{Kind: EndedByPerson, Reason: "it was ended by " + signalName(signal), Sure: true}
	}
	said, limit := memoryText(out.Error, stderrTail)
	if r := refusedForMemory(run); r != nil {
		if limit == 0 {
			_, limit = memoryText(r.Text, "")
		}
		reason := r.Text
		if !failed {
			reason = wentOn(exit) + r.Text
		}
		return Ending{EndedByMemory, oneLine(reason), true, limit}
	}
	if said == "" && len(run.OutOfMemory) > 0 {
		said = run.OutOfMemory[0].Text
		limit = allowedBytes(said)
		if !failed {
			return Ending{EndedByMemory, oneLine(wentOn(exit) + said), true, limit}
		}
	}
	switch {
	case said != "" && failed:
		return Ending{EndedByMemory, oneLine(said), true, limit}
	case said != "":
		// Sure where an allocator says so with its figures; who prints the words may have tried on purpose.
		return Ending{EndedByMemory, oneLine(wentOn(exit) + said), limit > 0, limit}
	case byAssay:
		return Ending{Kind: EndedByTime, Reason: out.Stopped, Sure: true}
	case signal == syscall.SIGKILL:
		return Ending{Kind: EndedByMemory, Reason: "likely: SIGKILL ended it, which Linux's out-of-memory killer and macOS's " +
			"jetsam send; a person or a scheduler sends the same" + swapWords(run)}
	case failed:
		return crashed(out, exit, signal, stderrTail)
	case strings.Contains(out.Stopped, "--for"):
		return Ending{Kind: EndedByTime, Reason: out.Stopped, Sure: true}
	}
	if text := swapped(run); text != "" {
		return Ending{Kind: EndedInSwap, Reason: text, Sure: true}
	}
	return Ending{Kind: EndedWell, Sure: true}
}

func wentOn(exit int) string { return fmt.Sprintf("the script went on after it (status %d): ", exit) }

// refusedForMemory is what the double refused for want of memory: the script may have caught it.
func refusedForMemory(run *evidence.Run) *evidence.Refusal {
	if run.Rehearsal == nil {
		return nil
	}
	i := slices.IndexFunc(run.Rehearsal.Refusals, func(r evidence.Refusal) bool { return r.Cause == "memory" })
	if i < 0 {
		return nil
	}
	return &run.Rehearsal.Refusals[i]
}

// memoryText is the line of one of the texts that says that memory is out, "" where none does, and the limit in it,
// bytes; 0: none.
func memoryText(texts ...string) (line string, limit float64) {
	for _, text := range texts {
		for _, s := range symptomsOf(text) {
			if slices.Contains(memorySymptoms, s.Rule) && line == "" && len(s.Found) > 0 {
				line = s.Found[0].Text
			}
		}
		for each := range strings.Lines(text) {
			if line == "" && moreTexts.MatchString(each) {
				line = each
			}
			if limit == 0 {
				limit = allowedBytes(each)
			}
		}
	}
	if line == "" {
		limit = 0
	}
	return line, limit
}

func symptomsOf(text string) []symptom.Symptom {
	rep, err := symptom.For{}.Scan("trial", strings.NewReader(text))
	if err != nil { // of a reader that cannot fail
		return nil
	}
	return rep.Symptoms
}

// neededTexts hold what was in use and what was refused beyond it: MPSAllocator.mm's and CUDACachingAllocator.cpp's.
var neededTexts = []struct{ used, more *regexp.Regexp }{
	{regexp.MustCompile(`MPS allocated: ([\d.]+) (bytes|B|[KMGT]i?B)`),
		regexp.MustCompile(`max allowed: [^)]*\)\. Tried to allocate ([\d.]+) (bytes|B|[KMGT]i?B)`)},
	{regexp.MustCompile(`Of the allocated memory ([\d.]+) (bytes|B|[KMGT]i?B) is allocated by PyTorch`),
		regexp.MustCompile(`CUDA out of memory\. Tried to allocate ([\d.]+) (bytes|B|[KMGT]i?B)`)},
}

// neededBytes is what an allocator's text says that was in use and was refused, together, bytes: a batch that ran out
// of memory needs that at least. 0: it does not say.
func neededBytes(text string) float64 {
	for _, of := range neededTexts {
		used, more := bytesIn(of.used, text), bytesIn(of.more, text)
		if used > 0 && more > 0 {
			return used + more
		}
	}
	return 0
}

// allowedBytes is the limit that an allocator's text names, bytes; 0: none. PyTorch counts in powers of 1024 whether it
// writes GB or GiB (c10/util/Exception: format_size).
func allowedBytes(text string) float64 {
	for _, re := range allowedTexts {
		if v := bytesIn(re, text); v > 0 {
			return v
		}
	}
	return 0
}

// bytesIn is the quantity that an expression finds in a text, its number and its unit, in bytes; 0: none.
func bytesIn(re *regexp.Regexp, text string) float64 {
	powers := map[byte]float64{'b': 1, 'B': 1, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}
	m := re.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0
	}
	return v * powers[m[2][0]]
}

// crashed is an ending that memory did not cause, or not in bytes.
func crashed(out evidence.Outcome, exit int, signal syscall.Signal, tail string) Ending {
	for _, s := range symptomsOf(out.Error + "\n" + tail) {
		if what := countSymptoms[s.Rule]; what != "" && len(s.Found) > 0 {
			return Ending{Kind: EndedByCrash, Reason: oneLine(what + ": " + s.Found[0].Text), Sure: true}
		}
	}
	reason := out.Error
	if reason == "" {
		for line := range strings.Lines(strings.TrimSpace(tail)) {
			if reason == "" || !strings.HasPrefix(line, "assay: ") { // ours, of a folder that is full, say
				reason = strings.TrimSpace(line)
			}
		}
	}
	switch {
	case signal != 0:
		reason = strings.TrimSuffix("it was ended by "+signalName(signal)+"; "+reason, "; ")
	case reason == "":
		reason = fmt.Sprintf("status %d", exit)
	}
	return Ending{Kind: EndedByCrash, Reason: oneLine(reason), Sure: true}
}

// swapped is the figure that says that the machine swapped while it trained; "" where none does. What the steps say of
// themselves comes first, then the host's samples, against the limit that findings go by.
func swapped(run *evidence.Run) string {
	if text := run.Figure("step.time").Disturbed; strings.Contains(text, "swap") {
		return text
	}
	var most float64
	over, known := 0, 0
	for _, s := range run.Host.Samples {
		for _, f := range s.Figures {
			if f.Name != "host.swap.out" || !f.Known() {
				continue
			}
			known++
			if *f.Value >= evidence.SwapRate {
				over++
			}
			most = max(most, *f.Value)
		}
	}
	if over == 0 || 2*over < known { // as the marks of figures: what comes in most of the samples
		return ""
	}
	return fmt.Sprintf("the machine wrote to swap in %d of %d samples, up to %s/s (host.swap.out)", over, known,
		unit.Bytes(most))
}

// swapWords says how full swap was, of a process that was killed.
func swapWords(run *evidence.Run) string {
	if f := run.Figure("swap.used.peak"); f.Known() && *f.Value > 0 {
		return "; swap in use up to " + unit.Bytes(*f.Value)
	}
	return ""
}

func signalName(s syscall.Signal) string {
	for name, known := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGHUP": syscall.SIGHUP,
		"SIGTERM": syscall.SIGTERM, "SIGABRT": syscall.SIGABRT, "SIGSEGV": syscall.SIGSEGV, "SIGBUS": syscall.SIGBUS,
		"SIGILL": syscall.SIGILL, "SIGTRAP": syscall.SIGTRAP} {
		if s == known {
			return name
		}
	}
	return fmt.Sprintf("signal %d", int(s))
}

// oneLine is a stranger's text on one line, of at most 300 characters and without secrets.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(secret.Text(text)), " ")
	if r := []rune(text); len(r) > 300 {
		text = string(r[:299]) + "…"
	}
	return text
}
