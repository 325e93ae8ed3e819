// Package remote reaches a host over the user's own ssh, brings assay there and speaks with its node.
//
// Nothing but a POSIX shell is asked of a host. What its login shell prints before our command is skipped, whichever
// shell that is.
package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/internal/fault"
	"assay/internal/node"
	"assay/internal/text"
)

// Options says which host, and how it is reached.
type Options struct {
	Host     string   // as ssh takes it: an alias of the user's config, host, or user@host
	SSH      []string // the program and its first words; nil: ssh
	Version  string   // of this assay
	Binary   string   // assay for the host; "": this one, or one that Binaries has for its system
	Binaries string   // folder with binaries as a release names them; "": where this one lies
	Root     string   // folder of the node's files there, "~/" being its user's home; "": $ASSAY_NODE, ~/.assay-node
	Log      func(string)
	// Local reaches this machine through a shell of its own, and no ssh: for tests, and for who has no sshd.
	Local   bool
	Environ []string // of Local, NAME=value beside those of this process
}

// Host is a host that was reached, and has this assay.
type Host struct {
	o      Options
	system string
	home   string
	root   string
	assay  string
}

// Name is what the user calls it.
func (h *Host) Name() string { return h.o.Host }

// System is its GOOS/GOARCH.
func (h *Host) System() string { return h.system }

// Assay is the path of this assay there.
func (h *Host) Assay() string { return h.assay }

// Home is the home folder of the user there, Root the folder of the node's files.
func (h *Host) Home() string { return h.home }
func (h *Host) Root() string { return h.root }

// Dial reaches a host and brings this assay there where it is not. Lost tells an error that may pass.
func Dial(ctx context.Context, o Options) (*Host, error) {
	if err := check(&o); err != nil {
		return nil, err
	}
	h := &Host{o: o}
	if err := h.bring(ctx); err != nil {
		return nil, err
	}
	return h, nil
}

func check(o *Options) error {
	if o.Host == "" && o.Local {
		o.Host = "this machine"
	}
	if !o.Local && (o.Host == "" || strings.HasPrefix(o.Host, "-") ||
		strings.ContainsFunc(o.Host, func(r rune) bool { return r <= ' ' || r == 0x7f })) {
		return fault.Exit(fault.Hint(fmt.Errorf("reach a host: %.80q is no name of one", o.Host),
			"name it as ssh does: host, user@host, or an alias of ~/.ssh/config"), fault.Usage)
	}
	if len(o.SSH) == 0 {
		o.SSH = []string{"ssh"}
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	return nil
}

// forced are the options that hold whatever the user's config says: nothing asks at a terminal, no unknown key is
// taken, a link that is broken is noticed, and what else a config would do beside the one command is left.
var forced = []string{"-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=15",
	"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ClearAllForwardings=yes",
	"-o", "PermitLocalCommand=no", "-o", "RemoteCommand=none", "-o", "LogLevel=ERROR"}

// command runs a script of sh there.
func (h *Host) command(ctx context.Context, script string) *exec.Cmd {
	var cmd *exec.Cmd
	if h.o.Local {
		cmd = exec.CommandContext(ctx, "/bin/sh", "-c", wrap(script))
		cmd.Env = append(os.Environ(), h.o.Environ...)
	} else {
		words := append(append([]string{}, h.o.SSH[1:]...), forced...)
		cmd = exec.CommandContext(ctx, h.o.SSH[0], append(words, "--", h.o.Host, wrap(script))...)
	}
	// A session of its own: Ctrl-C is for who asks, and what ends in which order is for that to say; and nothing that
	// ssh starts waits for a terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = 2 * time.Second // a master connection of the user's config may hold our pipes open
	return cmd
}

// Command is a program there, with these words, for the caller to start. What its user's login shell prints comes first
// on its standard output; Output leaves that out.
func (h *Host) Command(ctx context.Context, words ...string) *exec.Cmd {
	return h.command(ctx, "exec "+Quote(words...))
}

// Output runs a program there and gives its standard output, of at most 16 MiB.
func (h *Host) Output(ctx context.Context, words ...string) ([]byte, error) {
	return h.run(ctx, "exec "+Quote(words...), nil)
}

// Node starts assay's node there and speaks with it.
func (h *Host) Node(ctx context.Context) (node.Client, error) {
	s, err := h.start(ctx, "exec "+Quote(h.assay, "node", "--root", h.root))
	if err != nil {
		return nil, err
	}
	c, err := node.NewClient(s, s.Close, h.o.Version)
	if err != nil {
		return nil, fmt.Errorf("speak with assay on %s: %w", h.o.Host, err)
	}
	return c, nil
}

// mark begins what our command says; what comes before it is a login shell's.
const mark = "assay: here begins what was asked for"

// noise is how much a login shell may print before it, bytes.
const noise = 1 << 20

// stream is a command there that is spoken with. A Read at its end says why it ended.
type stream struct {
	host   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	pipe   io.Closer
	said   *tail
	cancel context.CancelFunc
	once   sync.Once
	err    error // why it ended
}

// start starts a script there and reads up to the mark.
func (h *Host) start(ctx context.Context, script string) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := h.command(ctx, "echo "+Quote(mark)+"; "+script)
	s := &stream{host: h.o.Host, cmd: cmd, said: &tail{}, cancel: cancel}
	cmd.Stderr = s.said
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	read, write, err := os.Pipe() // our own: Wait would close one of cmd's before all of it was read
	if err != nil {
		cancel()
		return nil, err
	}
	cmd.Stdout = write
	err = cmd.Start()
	write.Close()
	if err != nil {
		cancel()
		read.Close()
		return nil, h.notStarted(err)
	}
	s.in, s.out, s.pipe = in, bufio.NewReaderSize(read, 64<<10), read
	if err := s.toMark(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *stream) toMark() error {
	for left := noise; left > 0; {
		line, err := s.out.ReadSlice('\n')
		left -= len(line)
		if bytes.HasSuffix(bytes.TrimRight(line, "\r\n"), []byte(mark)) && err == nil {
			return nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return s.ended()
		}
	}
	return &Failure{Host: s.host, Why: "its login shell prints more than " + strconv.Itoa(noise) +
		" bytes before a command", Hint: "look at what ssh " + s.host + " true prints"}
}

func (s *stream) Read(b []byte) (int, error) {
	n, err := s.out.Read(b)
	if err != nil && n == 0 {
		return 0, s.ended()
	}
	return n, nil
}

func (s *stream) Write(b []byte) (int, error) { return s.in.Write(b) }

// ended waits for the end of the command, and says why that came.
func (s *stream) ended() error {
	s.once.Do(func() {
		s.in.Close()
		stop := time.AfterFunc(5*time.Second, s.cancel)
		err := s.cmd.Wait()
		stop.Stop()
		s.cancel()
		s.err = explain(s.host, err, s.said.String())
	})
	return s.err
}

// Close ends the command.
func (s *stream) Close() error {
	s.in.Close()
	defer s.pipe.Close()
	return s.ended()
}

// run runs a script there to its end and gives its standard output behind the mark.
func (h *Host) run(ctx context.Context, script string, in io.Reader) ([]byte, error) {
	const most = 16 << 20
	cmd := h.command(ctx, "echo "+Quote(mark)+"; "+script)
	said, out := &tail{}, &bounded{most: most}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, said
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) || cmd.ProcessState == nil && err != nil {
		if ctx.Err() != nil {
			return nil, h.stopped(ctx)
		}
		return nil, h.notStarted(err)
	}
	if ctx.Err() != nil {
		return nil, h.stopped(ctx)
	}
	if errors.Is(err, exec.ErrWaitDelay) { // it ended well; somebody it left holds our pipes
		err = nil
	}
	if err != nil {
		return nil, explain(h.o.Host, err, said.String())
	}
	_, rest, found := bytes.Cut(out.b.Bytes(), []byte(mark+"\n"))
	if !found {
		return nil, &Failure{Host: h.o.Host, Why: "its shell did not answer", Hint: "look at what ssh " + h.o.Host +
			" true prints"}
	}
	if out.over {
		return nil, &Failure{Host: h.o.Host, Why: fmt.Sprintf("it answered with more than %d bytes", most)}
	}
	return rest, nil
}

// bounded keeps the first bytes of what is written.
type bounded struct {
	b    bytes.Buffer
	most int
	over bool
}

func (w *bounded) Write(b []byte) (int, error) {
	keep := b
	if room := w.most - w.b.Len(); len(keep) > room {
		keep, w.over = keep[:room], true
	}
	w.b.Write(keep)
	return len(b), nil
}

// tail keeps the last bytes of what is written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	const most = 8 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	if len(t.b) > most {
		t.b = append(t.b[:0], t.b[len(t.b)-most:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

// Failure is why a host was not reached, or did not do what was asked.
type Failure struct {
	Host string
	Why  string
	Hint string
	Lost bool // the way to it failed: the same may do later
	// Reached is that the host had answered before.
	Reached bool
}

func (f *Failure) Error() string { return "reach " + text.Line(f.Host) + ": " + text.Line(f.Why) }

// Unwrap carries the hint, as fault does.
func (f *Failure) Unwrap() error {
	if f.Hint == "" {
		return nil
	}
	return fault.Hint(errors.New(f.Why), f.Hint)
}

// Lost tells whether the error is of the way to a host, so that the same may do later: a link that broke, a host that
// is down. An unknown key, a refused user, what a node answers, and what is wrong here are not.
func Lost(err error) bool {
	var f *Failure
	if errors.As(err, &f) {
		return f.Lost
	}
	var gone *node.Gone
	return errors.As(err, &gone)
}

// stopped is why a context ended a command: the host took too long, or somebody wants no more of it.
func (h *Host) stopped(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return &Failure{Host: h.o.Host, Why: cause.Error(), Lost: true}
	}
	return ctx.Err()
}

func (h *Host) notStarted(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return &Failure{Host: h.o.Host, Why: fmt.Sprintf("there is no %s here", h.o.SSH[0]),
			Hint: "install OpenSSH's client, or name another by $ASSAY_SSH"}
	}
	return &Failure{Host: h.o.Host, Why: err.Error()}
}

// explain says in our words why ssh ended, or the command there. said is what came on standard error.
func explain(host string, err error, said string) error {
	last := lastLine(said)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	f := &Failure{Host: host, Why: last}
	if code != 255 && code >= 0 { // the command's own status; ssh's is 255
		if own, hint, ok := ofAssay(said); ok {
			f.Why, f.Hint = own, hint
			return f
		}
		if f.Why == "" {
			f.Why = fmt.Sprintf("the command there ended with the status %d", code)
		}
		f.Lost = code == 0
		return f
	}
	has := func(words string) bool { return strings.Contains(said, words) }
	switch {
	case has("REMOTE HOST IDENTIFICATION HAS CHANGED"):
		f.Why = "its key is another than the one you know: it was set up anew, or another machine answers in its place"
		f.Hint = "ask who runs it; if it was set up anew, take its old key away (ssh-keygen -R), then ssh " + host +
			" once and compare the fingerprint"
	case has("Host key verification failed"), has("host key is known for"):
		f.Why = "its key is not known here"
		f.Hint = "ssh " + host + " once and compare the fingerprint with the host's own"
	case has("Permission denied ("), has("Too many authentication failures"):
		f.Why = "it does not let you in: " + last
		f.Hint = "ssh " + host + " has to work without a question: ssh-copy-id " + host + ", or ssh-add your key"
	case has("Bad configuration option"), has("Bad owner or permissions"), has("terminating,"):
		f.Hint = "ssh does not take its own configuration: try ssh " + host
	case has("Could not resolve hostname"):
		f.Lost = true
		f.Hint = "look at the name, and whether this machine is on the network"
	default:
		f.Lost = true
		if f.Why == "" {
			f.Why = "the link was lost: nothing more came from it" // ssh says that on a level that is off
		}
	}
	return f
}

// ofAssay is the last error of assay's own in what was said, and its hint.
func ofAssay(said string) (why, hint string, ok bool) {
	lines := strings.Split(said, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if rest, found := strings.CutPrefix(lines[i], "assay: "); found {
			if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  ") {
				hint = text.Short(strings.TrimSpace(lines[i+1]), 300)
			}
			return text.Short(rest, 300), hint, true
		}
	}
	return "", "", false
}

func lastLine(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return text.Short(strings.TrimSpace(lines[len(lines)-1]), 300)
}

// Quote makes words of sh of the words.
func Quote(words ...string) string {
	var list []string
	for _, w := range words {
		if w != "" && !strings.ContainsFunc(w, func(r rune) bool { return !plain(r) || r == '~' || r == '$' }) {
			list = append(list, w)
		} else {
			list = append(list, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
	}
	return strings.Join(list, " ")
}

func plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+=:,@%", r)
}

// wrap makes of a script of sh a command that every login shell reads alike: sh, bash, zsh, fish, csh. Within single
// quotes they differ in "'", "\\", "!" and line ends only; a script that has one of those, or a character beyond ASCII,
// travels as octal numbers, which sh's own printf reads.
func wrap(script string) string {
	if !strings.ContainsFunc(script, func(r rune) bool {
		return r == '\'' || r == '\\' || r == '!' || r < ' ' || r > '~'
	}) {
		return "exec /bin/sh -c '" + script + "'"
	}
	var b strings.Builder
	b.WriteString(`exec /bin/sh -c 'eval "$(printf %b "`)
	for _, c := range []byte(script) {
		if c == ' ' || plain(rune(c)) && c != '%' && c < 0x7f {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\0%03o`, c)
		}
	}
	b.WriteString(`")"'`)
	return b.String()
}
