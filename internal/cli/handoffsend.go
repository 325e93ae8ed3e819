package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/bundle"
	"assay/internal/fault"
	"assay/internal/remote"
	"assay/internal/text"
	"assay/internal/unit"
)

// sendFolder is where bundles lie on a host, unless --to says otherwise.
const sendFolder = "~/assay-bundles"

type sendOptions struct {
	to       string
	force    bool
	patience string
	binary   string
}

func newHandoffSend(env *Env) *cobra.Command {
	var opts sendOptions
	cmd := &cobra.Command{
		Use:   "send BUNDLE HOST",
		Short: "Send a bundle to another machine over your own ssh",
		Long: `Sends a bundle to HOST: user@host, or an alias of your ~/.ssh/config. Your own ssh does it, with its config, agent and known_hosts; a key that it
does not know is refused. assay copies itself there first, once. The bundle is verified here, and again there by its SHA-256; it has its name there
only when it is whole. A link that breaks or stalls is made again, and what has come is gone on with; so it is when the same command is typed again.

Exit status: 0 it lies there whole, 1 not.`,
		Example: `  assay handoff send bundle.tar.zst mini.local
  assay handoff send bundle.tar.zst me@studio --to /Volumes/work/bundles`,
		Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar(&opts.to, "to", sendFolder, "`folder` there")
	cmd.Flags().BoolVar(&opts.force, "force", false, "take the place of another file of that name there")
	cmd.Flags().StringVar(&opts.patience, "patience", "10m", "`time` without progress after which it gives up")
	cmd.Flags().StringVar(&opts.binary, "assay", "", "assay for HOST's system, where that is another than this one's: "+
		"`file` of the same release")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return runHandoffSend(cmd.Context(), env, opts, args[0], args[1])
	}
	return cmd
}

// remoteOptions is how a host is reached from this command line; binary is assay for another system, "" for none.
func remoteOptions(env *Env, host, binary string) (remote.Options, error) {
	o := remote.Options{Host: host, Version: Version()}
	if words := env.Getenv("ASSAY_SSH"); strings.TrimSpace(words) != "" {
		var err error
		if o.SSH, err = remote.Words(words); err != nil {
			return o, fault.Hint(fmt.Errorf("read ASSAY_SSH: %w", err), "words as a shell splits them: ssh -F FILE")
		}
	}
	if binary != "" {
		o.Binary = env.Path(binary)
	}
	if folder := env.Getenv("ASSAY_BINARIES"); folder != "" {
		o.Binaries = env.Path(folder)
	}
	return o, nil
}

func runHandoffSend(ctx context.Context, env *Env, opts sendOptions, name, host string) error {
	patience, err := unit.ParseSeconds(opts.patience)
	if err != nil {
		return fault.Exit(fault.Hint(fmt.Errorf("--patience %s: %w", opts.patience, err), "as 90s, 10m or 2h"),
			fault.Usage)
	}
	if opts.to == "" {
		return fault.Exit(fault.Hint(errors.New("--to: it names no folder"), "the default is "+sendFolder), fault.Usage)
	}
	o, err := remoteOptions(env, host, opts.binary)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	b, err := bundle.Open(env.Path(name))
	if err != nil {
		return err
	}
	shown := text.Line(filepath.Base(name))
	p := &sendProgress{w: env.Stderr, draws: isTerminal(env.Stderr), what: shown, host: text.Line(host), size: b.Size}
	o.Log = p.say
	sent, err := remote.Send(ctx, o, remote.Sending{Path: b.Path, Sum: b.Sum, Size: b.Size,
		To: path.Join(opts.to, filepath.Base(name)), Force: opts.force,
		Patience: time.Duration(patience * float64(time.Second)), Progress: p.progress})
	p.end()
	if err != nil {
		return fault.Hint(fmt.Errorf("send %s to %s: %w", shown, text.Line(host), err), fault.HintOf(err))
	}
	if sent.Already {
		p.say("it lay there already, with the same bytes")
	}
	_, err = fmt.Fprintf(env.Stdout, "%s:%s\nsha256 %s\n", text.Line(host), text.Line(sent.Path), b.Sum)
	return err
}

// sendProgress says how far it is: one line that is drawn anew on a terminal, elsewhere what changes alone.
type sendProgress struct {
	mu    sync.Mutex
	w     io.Writer
	draws bool
	what  string
	host  string
	size  int64
	begun bool
	from  int64 // bytes that were there when this connection began
	since time.Time
	drawn time.Time
	line  bool // one stands there, without its end
}

func (p *sendProgress) say(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	p.begun = false // another connection may follow
	fmt.Fprintln(p.w, text.Line(s))
}

// wipe takes the drawn line away.
func (p *sendProgress) wipe() {
	if p.line {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.line = false
	}
}

func (p *sendProgress) progress(have int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.begun {
		p.begun, p.from, p.since = true, have, now
		p.wipe()
		if have > 0 && have < p.size {
			fmt.Fprintf(p.w, "going on with %s at %s of %s\n", p.what, unit.Bytes(float64(have)),
				unit.Bytes(float64(p.size)))
		} else if have == 0 {
			fmt.Fprintf(p.w, "sending %s to %s, %s\n", p.what, p.host, unit.Bytes(float64(p.size)))
		}
	}
	if !p.draws || now.Sub(p.drawn) < 200*time.Millisecond {
		return
	}
	p.drawn = now
	line := fmt.Sprintf("%3.0f %%  %s of %s", 100*float64(have)/float64(max(p.size, 1)), unit.Bytes(float64(have)),
		unit.Bytes(float64(p.size)))
	if took := now.Sub(p.since).Seconds(); took > 1 && have > p.from {
		speed := float64(have-p.from) / took
		line += fmt.Sprintf("  %s/s, %s left", unit.Bytes(speed), unit.Seconds(math.Ceil(float64(p.size-have)/speed)))
	}
	fmt.Fprintf(p.w, "\r%s\x1b[K", line)
	p.line = true
}

func (p *sendProgress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}
