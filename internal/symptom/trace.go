package symptom

import (
	"bytes"
	"regexp"
	"strings"
)

// trace follows a traceback, of Python or of IPython, and keeps the innermost line that is the user's own.
type trace struct {
	open bool
	user string // train.py:12, in main
}

var (
	pythonFrame = regexp.MustCompile(`^[\s│|E]*File "([^"]+)", line (\d+)(?:, in (\S+))?`)
	cellFrame   = regexp.MustCompile(`^(?:Cell )?In ?\[(\d+)\], line (\d+)`)
	ipythonRow  = regexp.MustCompile(`^File ([^\s:]+):(\d+), in ([\w.<>]+)`)
	exception   = regexp.MustCompile(`^(?:[A-Za-z_][\w.]*)(?:: |$)`)
)

// line takes the next line of the log, and says whether it is the exception that ends a traceback.
func (t *trace) line(raw []byte) bool {
	if bytes.Contains(raw, []byte("Traceback (most recent call last)")) {
		*t = trace{open: true}
		return false
	}
	if !t.open || len(raw) == 0 {
		return false
	}
	if raw[0] != ' ' && raw[0] != '\t' && exception.Match(raw) && !ipythonRow.Match(raw) && !cellFrame.Match(raw) && !bytes.HasPrefix(raw, []byte("File ")) {
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
	for _, lib := range []string{"site-packages", "dist-packages", "/lib/python3", "\\lib\\", "/python3.", "<frozen", "<string>", "<__array_function__", "<eval_with_key>"} {
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
	errorHead  = regexp.MustCompile(`^(?:(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)(?:: \S|:? *$)|(?:[A-Za-z_]\w*\.)+(?:exc|exceptions|errors)\.[A-Z]\w*: \S)`)
	toolError  = regexp.MustCompile(`^[\w./+\-]{1,120}:(?:\d+:\d+:)? (?:fatal )?error: \S`) // of a compiler or linker
	errorLevel = regexp.MustCompile(`^(?:\[?[\d\-:T.,/ ]{8,30}\]?[ \-|]*)?(?:\[(?:ERROR|FATAL|CRITICAL)\]|(?:ERROR|FATAL|CRITICAL|Fatal Python error|fatal error|Fatal error|Error|error)[:|])\s*(\S.*)`)
	crash      = regexp.MustCompile(`failed assertion|Check failed: |GGML_ASSERT|Assertion failed|terminating (?:due to|with) uncaught exception|Segmentation fault|Abort trap|Bus error: \d|^(?:zsh|bash|sh): .*(?:abort|killed|segmentation fault|bus error|Killed)`)
	quantity   = regexp.MustCompile(`^[-+]?[\d.]+(?:e[-+]?\d+)?\s*(?:[%,;|)\]]|$|[a-zA-Z_ ]+[:=])`)
)

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
	return hasAny(raw, crashWords) && crash.Match(raw[:min(len(raw), 4000)])
}

// Words that the forms above contain: looking for them is much cheaper than the forms.
var (
	errorWords = words("Error", "Exception", "Exit", "Interrupt", "ERROR", "FATAL", "CRITICAL", "fatal error", "Fatal error", "error:", "error|", ".exc.", "exceptions.", "errors.")
	crashWords = words("failed assertion", "Check failed", "GGML_ASSERT", "Assertion failed", "uncaught exception", "egmentation fault", "Abort trap", "us error", "abort", "illed")
)

func words(list ...string) (w [][]byte) {
	for _, s := range list {
		w = append(w, []byte(s))
	}
	return w
}

func hasAny(raw []byte, list [][]byte) bool {
	for _, w := range list {
		if bytes.Contains(raw, w) {
			return true
		}
	}
	return false
}
