package symptom

import (
	"bytes"
	"regexp"
	"strings"
)

// trace follows a traceback, of Python or of IPython, and keeps the innermost line that is the user's own.
type trace struct {
	open bool
	at   int    // line on which it began
	user string // train.py:12, in main
}

var (
	pythonFrame = regexp.MustCompile(`^[\s│|E]*File "([^"]+)", line (\d+)(?:, in (\S+))?`)
	cellFrame   = regexp.MustCompile(`^(?:Cell )?In ?\[(\d+)\], line (\d+)`)
	ipythonRow  = regexp.MustCompile(`^File ([^\s:]+):(\d+), in ([\w.<>]+)`)
	exception   = regexp.MustCompile(`^[A-Za-z_][\w.]*(?:\(\w+\))?(?:: |:?\s*$)`)
	// What launchers, Ray and pytest put before a line that a process printed: [rank0]: , [default0]:, (f pid=12,
	// ip=…), (raylet), E , and the bars of an exception group.
	whose = regexp.MustCompile(`^(?:\[(?:rank|default|[\w.\-]{1,40}\|)\d{1,6}\]: ?|\([^()]{0,80}\bpid=\d{1,10}[^()]{0,80}\) ?|\(raylet[^()]{0,60}\) ?|E {2,8}|\s*\+?\s*\| )+`)
)

// line takes the next line of the log, and says whether it is the exception that ends a traceback.
func (t *trace) line(raw []byte, number int) bool {
	if bytes.Contains(raw, []byte("Traceback (most recent call last)")) {
		*t = trace{open: true, at: number}
		return false
	}
	if !t.open || len(raw) == 0 {
		return false
	}
	if raw[0] != ' ' && raw[0] != '\t' && exception.Match(raw) && !ipythonRow.Match(raw) && !cellFrame.Match(raw) &&
		!bytes.HasPrefix(raw, []byte("File ")) {
		return true
	}
	line := raw
	if len(line) > 2000 {
		line = line[:2000]
	}
	if m := pythonFrame.FindSubmatch(line); m != nil {
		t.frame(string(m[1]), string(m[2]), string(m[3]))
	} else if m := ipythonRow.FindSubmatch(line); m != nil {
		t.frame(string(m[1]), string(m[2]), string(m[3]))
	} else if m := cellFrame.FindSubmatch(line); m != nil {
		t.user = "cell " + string(m[1]) + ", line " + string(m[2])
	}
	return false
}

func (t *trace) frame(file, line, in string) {
	for _, lib := range []string{"site-packages", "dist-packages", "/lib/python3", "\\lib\\", "/python3.", "<frozen",
		"<string>", "<__array_function__", "<eval_with_key>"} {
		if strings.Contains(file, lib) {
			return
		}
	}
	t.user = file + ":" + line
	if in != "" && in != "<module>" {
		t.user += ", in " + in
	}
}

// An error that no rule knows shows by its form. A metric that is called error does not: what follows it is a number.
var (
	errorHead  = regexp.MustCompile(`^(?:(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*(?:Error|Exception|Exit|Interrupt)(?:\(\w+\))?(?:: +\S|:? *$)|(?:[A-Za-z_]\w*\.)+(?:exc|_?exceptions|errors)\.\w+: +\S)`)
	toolError  = regexp.MustCompile(`^[\w./+\-]{1,120}:(?:\d+:\d+:)? (?:fatal )?error: \S`) // of a compiler or linker
	errorLevel = regexp.MustCompile(`^(?:\[?[\d\-:T.,/ ]{8,30}\]?[ \-|]*)?(?:\[(?:ERROR|FATAL|CRITICAL)\]|(?:ERROR|FATAL|CRITICAL|Fatal Python error|fatal error|Fatal error|Error|error)[:|])\s*(\S.*)`)
	crash      = regexp.MustCompile(strings.Join([]string{
		`failed assertion|Check failed: |GGML_ASSERT|Assertion failed|Assertion .{1,200} failed\.`,
		`[Tt]erminating (?:due to|with|app due to) uncaught exception|libc\+\+abi(?:\.dylib)?: |terminate called (?:after|without|recursively)|^\s*what\(\): `,
		`Segmentation fault|Abort trap|Out of memory: Kill|\(core dumped\)|\*\*\* Received signal \d|[Uu]nhandled exception: `,
		// what allocators say before they abort: macOS, glibc
		`malloc: \*\*\* error|(?:free|realloc|malloc|munmap_chunk|calloc)\(\): |double free or corruption|corrupted (?:size|double-linked)|\*\*\* stack smashing detected`,
		// what a shell prints of a child that a signal ended: macOS with the number, Linux without
		`(?:^|[:\d] +)(?:Bus error|Trace/BPT trap|Illegal instruction|Floating point exception|Bad system call|Terminated|Quit|Cputime limit exceeded|` +
			`Filesize limit exceeded|Virtual timer expired|User defined signal \d|Alarm clock|Hangup): \d{1,2}(?:\s{2}|\s*$)`,
		`^(?:Aborted|Bus error|Illegal instruction|Floating point exception|Trace/breakpoint trap|Bad system call|Killed|Terminated)\s*$`,
		`^(?:\[\d+\] +\d+ |(?:zsh|-?bash|sh|fish): .*)(?:abort|killed|segmentation fault|bus error|trace trap|illegal hardware instruction|floating point exception|` +
			`Killed|Aborted|[Tt]erminated)`,
		// an error that torch.distributed logs
		`^\[?(?:rank\d+\]:)?\[?[EF]\d* ?[\d: .]*(?:ProcessGroup|socket\.cpp|TCPStore)`,
	}, "|"))
	quantity = regexp.MustCompile(`^[-+]?[\d.]+(?:e[-+]?\d+)?\s*(?:[%,;|)\]]|$|[a-zA-Z_ ]+[:=])`)
)

// sadEnd is how a program says in prose that it failed. It counts only on the last line of a log in which nothing else
// was found.
var sadEnd = regexp.MustCompile(`(?i)\b(?:failed (?:to|with|due|because|in|on|at|after|while)|(?:has|have|had|is|was) (?:failed|crashed|refused|denied)|(?:execution|training|run|job|task|build|request|test session) failed|timed out|could not|couldn't|cannot|unable to|` +
	`connection refused|permission denied|not supported|not implemented)\b`)

func looksLikeError(raw []byte) bool {
	head := raw[:min(len(raw), 240)]
	if hasAny(head, errorWords) {
		if errorHead.Match(head) || toolError.Match(head) {
			return true
		}
		if m := errorLevel.FindSubmatch(head); m != nil && !quantity.Match(m[1]) {
			return true
		}
	}
	return crashWords.any(raw) && crash.Match(raw[:min(len(raw), 4000)])
}

// Words that the forms above contain: looking for them is much cheaper than the forms.
var (
	errorWords = words("Error", "Exception", "Exit", "Interrupt", "ERROR", "FATAL", "CRITICAL", "fatal error",
		"Fatal error", "error:", "error|", ".exc.", "exceptions.", "errors.")
	crashWords = anyOf("failed assertion", "Check failed", "GGML_ASSERT", "Assertion ", "uncaught exception",
		"libc++abi", "terminate called", "what():",
		"egmentation fault", "bort", "us error", "rap: ", "race", "nstruction", "loating point exc", "ad system call",
		"erminated", "Quit: ", "limit exceeded",
		"timer expired", "User defined", "larm clock", "angup: ", "core dumped", "illed", "of memory: Kill",
		"ProcessGroup", "socket.cpp", "TCPStore", "Received signal", "handled exception",
		"malloc", "(): ", "double free", "corrupted ", "stack smashing")
	endWords = anyOf("ailed", "imed out", "ould not", "ouldn't", "annot", "nable to", "crashed", "efused", "denied",
		"not supported", "not implemented", "killed")
)

func words(list ...string) (w [][]byte) {
	for _, s := range list {
		w = append(w, []byte(s))
	}
	return w
}

// anyOf looks for many texts in one pass, whatever the case of their letters.
func anyOf(list ...string) *finder {
	for i, s := range list {
		list[i] = strings.ToLower(s)
	}
	return newFinder(list)
}

func hasAny(raw []byte, list [][]byte) bool {
	for _, w := range list {
		if bytes.Contains(raw, w) {
			return true
		}
	}
	return false
}
