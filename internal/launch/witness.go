package launch

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// A signal that assay gets may have been sent to it alone, and then the script is to have it; or to the whole process
// group, or to every process of a unit, and then the script has it already. The kernel does not tell which. A witness
// does: a process of ours that stands in the same group and does nothing but say what reached it too.

const (
	settle   = 20 * time.Millisecond // from the question to the answer: senders signal one process after the other
	memory   = 5 * time.Second       // how long the witness remembers a signal that was not asked about
	answerBy = 2 * time.Second       // a witness that is silent for longer is not asked again
	startBy  = 10 * time.Second      // and the script does not wait longer for one to start, on however busy a machine
)

// Witness is the witness's own program: for each signal number that it reads it answers 1 where that signal reached it,
// else 0. It ends with the input, and so with the process that holds the other end, however that ends.
func Witness(in io.Reader, out io.Writer) {
	signals := make(chan os.Signal, 1024)
	for s := syscall.Signal(1); s <= lastSignal; s++ {
		if caught(s) && !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	if _, err := out.Write([]byte{1}); err != nil {
		return
	}
	var seen [lastSignal + 1][]time.Time
	note := func(s os.Signal) {
		n := s.(syscall.Signal)
		seen[n] = append(seen[n], time.Now())
	}
	question := make([]byte, 1)
	for {
		if _, err := io.ReadFull(in, question); err != nil || question[0] > byte(lastSignal) {
			return
		}
		asked := syscall.Signal(question[0])
		awaitMarker(signals, note)
		time.Sleep(settle)
		for more := true; more; {
			select {
			case s := <-signals:
				note(s)
			default:
				more = false
			}
		}
		for len(seen[asked]) > 0 && time.Since(seen[asked][0]) > memory {
			seen[asked] = seen[asked][1:]
		}
		answer := []byte{0}
		if len(seen[asked]) > 0 {
			answer[0], seen[asked] = 1, seen[asked][1:]
		}
		if _, err := out.Write(answer); err != nil {
			return
		}
	}
}

// awaitMarker sends this process the signal that the kernel hands out last, and waits until it is there: on a busy
// machine the threads that take those before it may not have run yet.
func awaitMarker(signals <-chan os.Signal, note func(os.Signal)) {
	if marker == 0 || signal.Ignored(marker) || syscall.Kill(os.Getpid(), marker) != nil {
		return
	}
	limit := time.After(answerBy / 2)
	for {
		select {
		case s := <-signals:
			if s == marker {
				return
			}
			note(s)
		case <-limit:
			return
		}
	}
}

// witness is the other end. A nil one has seen nothing.
type witness struct {
	questions *os.File
	answers   *os.File
	quiet     bool          // does not answer
	ended     chan struct{} // closed when its process has been waited for
}

// newWitness starts the command, which runs Witness. nil where there is none: then every signal is passed on, and one
// that went to the group arrives twice, rather than not at all.
func newWitness(command []string) *witness {
	if len(command) == 0 {
		return nil
	}
	in, questions, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer in.Close()
	answers, out, err := os.Pipe()
	if err != nil {
		questions.Close()
		return nil
	}
	defer out.Close()
	w := &witness{questions: questions, answers: answers, ended: make(chan struct{})}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Env = in, out, []string{"GOMAXPROCS=1"}
	if cmd.Start() != nil {
		close(w.ended)
		w.close()
		return nil
	}
	go func() { defer close(w.ended); _ = cmd.Wait() }()
	return w
}

// ready waits until the witness catches signals: one that came before would end it.
func (w *witness) ready() {
	if w != nil {
		w.read(startBy)
	}
}

func (w *witness) saw(s syscall.Signal) bool {
	if w == nil || w.quiet {
		return false
	}
	if _, err := w.questions.Write([]byte{byte(s)}); err != nil {
		w.quiet = true
		return false
	}
	return w.read(answerBy) == 1
}

func (w *witness) read(by time.Duration) byte {
	var answer [1]byte
	_ = w.answers.SetReadDeadline(time.Now().Add(by))
	if _, err := w.answers.Read(answer[:]); err != nil {
		w.quiet = true
	}
	return answer[0]
}

// close ends the witness, and waits for it: whoever adopts orphans in a container may not.
func (w *witness) close() {
	if w == nil {
		return
	}
	w.questions.Close()
	w.answers.Close()
	select {
	case <-w.ended:
	case <-time.After(answerBy):
	}
}
