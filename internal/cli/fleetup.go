package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/fleet"
	"assay/internal/handoff"
	"assay/internal/node"
	"assay/internal/python"
	"assay/internal/remote"
	"assay/internal/text"
)

// poolOptions are the flags that fleet up and fleet doctor share.
type poolOptions struct {
	on, python, lock, release, expect string
	paths                             []string
	json, noRate                      bool
}

func newFleetUp(env *Env) *cobra.Command {
	var opts poolOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Say, or do, what each host needs to join",
		Long: `Goes to each host of hosts.toml over the user's own ssh, brings assay there, makes its folder, and with --lock its environment, has its device
compute, and says what else a machine at which nobody sits needs: sleep, FileVault, restart, power, the local network. A line is done, needed or
not known, with what to type there. What takes sudo, or a hand on the machine, is said and not done.

Exit status: 0 where nothing is needed; 3 where something is; 4 where something could not be told; 1 where it could not be done; 2 where the
command line or the file is wrong.`,
		Example: `  assay fleet up --on hosts.toml --lock uv.lock`,
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&opts.on, "on", hostsFile, "`file` of the hosts")
	f.StringVar(&opts.lock, "lock", "",
		"make the environment of a `lock` there: uv.lock, pylock.toml, a requirements file")
	f.StringVar(&opts.release, "python-release", "", "`release` of Python that the lock is for, 3.11")
	f.StringVar(&opts.python, "python", "", "`path` of the interpreter there, where hosts.toml names none")
	f.BoolVar(&opts.json, "json", false, "print what was found, as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		return runFleetUp(ctx, env, opts)
	}
	return cmd
}

func runFleetUp(ctx context.Context, env *Env, opts poolOptions) error {
	if opts.lock != "" && opts.python != "" {
		return fault.Exit(errors.New("--lock and --python: one of them"), fault.Usage)
	}
	var lock python.Lock
	if opts.lock != "" {
		var err error
		if lock, err = python.LockOf(env.Path(opts.lock)); err == nil {
			_, err = os.Stat(lock.Path)
		}
		if err != nil {
			return fault.Exit(fault.Hint(fmt.Errorf("--lock %s: %w", opts.lock, err), fault.HintOf(err)), fault.Usage)
		}
		lock.Python = opts.release
	}
	hosts, found, err := eachHost(ctx, env, opts, func(ctx context.Context, h fleet.Host, r *remote.Host,
		at *handoff.Host) error {
		named := cmp.Or(h.Python, opts.python)
		if opts.lock != "" {
			made, err := environmentThere(ctx, env, r, lock)
			if err != nil {
				at.Look = &handoff.Look{Python: handoff.Interpreter{Error: err.Error(), Hint: fault.HintOf(err)}}
			} else {
				named, at.Made = made.Python, made.How
			}
		}
		l, err := lookThere(ctx, r, h, named, nil, true)
		if err != nil {
			return err
		}
		if at.Look != nil { // the environment could not be made
			l.Python = at.Look.Python
		}
		at.Look = l
		return nil
	})
	if err != nil {
		return err
	}
	for _, h := range found {
		h.Checks = h.Needs()
	}
	if err := printPool(env, opts, hosts.Path, found, nil, "needed"); err != nil {
		return err
	}
	if !opts.json && opts.lock != "" {
		for _, h := range found {
			if h.Made != "" && h.Look != nil {
				fmt.Fprintf(env.Stdout, "%s: in hosts.toml: python = %q\n", text.Line(h.Name), h.Look.Python.Path)
			}
		}
	}
	return poolStatus(found, nil)
}

// hostLimit is how long a host may take in all: gates import each framework, a minute each at most.
const hostLimit = 15 * time.Minute

// eachHost reaches every host of the file, all at once, and has them looked at. A host that is not reached is one of
// the
// answers; the error is of the file, or of somebody who interrupted.
func eachHost(ctx context.Context, env *Env, opts poolOptions, ask func(context.Context, fleet.Host, *remote.Host,
	*handoff.Host) error) (
	*fleet.Hosts, []*handoff.Host, error) {
	hosts, err := readHosts(env, opts.on)
	if err != nil {
		return nil, nil, err
	}
	found := make([]*handoff.Host, len(hosts.Hosts))
	var wg sync.WaitGroup
	for i, h := range hosts.Hosts {
		found[i] = &handoff.Host{Name: h.Name, SSH: h.SSH, Declared: h.Python, Checks: []handoff.Check{}}
		if h.Local {
			found[i].SSH = ""
		}
		wg.Go(func() {
			ctx, stop := context.WithTimeout(ctx, hostLimit)
			defer stop()
			r, err := reachPool(ctx, env, h)
			if err == nil {
				err = ask(ctx, h, r, found[i])
			}
			if err != nil {
				found[i].Look, found[i].Error, found[i].Hint = nil, err.Error(), fault.HintOf(err)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, nil, errors.New("look at the hosts: interrupted")
	}
	return hosts, found, nil
}

// lookThere has assay there say what the host is like.
func lookThere(ctx context.Context, r *remote.Host, h fleet.Host, python string, paths []string,
	create bool) (*handoff.Look, error) {
	words := []string{r.Assay(), "fleet", "look", "--root", r.Root()}
	if python != "" {
		words = append(words, "--python", python)
	}
	if create {
		words = append(words, "--make")
	}
	for _, p := range paths {
		words = append(words, "--path", p)
	}
	out, err := r.Output(ctx, words...)
	if err != nil {
		return nil, err
	}
	l := &handoff.Look{}
	if err := json.Unmarshal(out, l); err != nil {
		return nil, fmt.Errorf("read what %s says of itself: %w", h.Name, err)
	}
	return l, nil
}

// environmentThere brings a lock to a host and has its environment made there.
func environmentThere(ctx context.Context, env *Env, r *remote.Host, lock python.Lock) (made python.Locked, err error) {
	client, err := r.Node(ctx)
	if err != nil {
		return made, err
	}
	defer client.Close()
	put := func(path string) (string, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(data)
		return client.Put(node.Put{Sum: hex.EncodeToString(sum[:]), Size: int64(len(data))}, func(b []byte,
			at int64) (int, error) {
			return copy(b, data[min(at, int64(len(data))):]), nil
		}, nil)
	}
	path, err := put(lock.Path)
	if err != nil {
		return made, fmt.Errorf("bring %s there: %w", filepath.Base(lock.Path), err)
	}
	words := []string{r.Assay(), "fleet", "environment", path, "--kind", lock.Kind}
	if lock.Python != "" {
		words = append(words, "--python", lock.Python)
	}
	if lock.Kind == python.LockUV {
		project, err := put(filepath.Join(lock.Project, "pyproject.toml"))
		if err != nil {
			return made, fmt.Errorf("bring pyproject.toml there: %w", err)
		}
		words = append(words, "--project", project)
	}
	fmt.Fprintf(env.Stderr, "%s: making the environment, or finding it\n", text.Line(r.Name()))
	out, err := r.Output(ctx, words...)
	if err == nil {
		err = json.Unmarshal(out, &made)
	}
	return made, err
}

// poolStatus is the exit status of what was found.
func poolStatus(found []*handoff.Host, together []handoff.Check) error {
	all := slices.Clone(together)
	for _, h := range found {
		all = append(all, h.Checks...)
	}
	states := map[string]bool{}
	for _, c := range all {
		states[c.State] = true
	}
	switch {
	case states[handoff.Fail]:
		return status(fault.GateFailed)
	case states[handoff.NotKnow]:
		return status(fault.CannotTell)
	}
	return nil
}

// printPool prints the rows of each host, and those that compare them.
func printPool(env *Env, opts poolOptions, path string, found []*handoff.Host, together []handoff.Check,
	failed string) error {
	if opts.json {
		return printJSON(env.Stdout, struct {
			Hosts    []*handoff.Host `json:"hosts"`
			Together []handoff.Check `json:"together"`
		}{found, append([]handoff.Check{}, together...)})
	}
	var b strings.Builder
	columns := width(env, env.Stdout)
	rows := func(checks []handoff.Check) {
		for _, c := range checks {
			mark := map[string]string{handoff.Pass: "done", handoff.Fail: failed, handoff.NotKnow: "not known"}[c.State]
			if failed != "needed" && c.State == handoff.Pass {
				mark = "pass"
			}
			head := fmt.Sprintf("  %-9s %-13s ", mark, c.Name)
			b.WriteString(text.Wrapped(text.Line(c.Text), head, strings.Repeat(" ", len(head)), columns))
			if c.Hint != "" && c.State != handoff.Pass {
				b.WriteString(text.Wrapped(text.Line(c.Hint), strings.Repeat(" ", len(head)), strings.Repeat(" ",
					len(head)), columns))
			}
		}
	}
	for i, h := range found {
		if i > 0 {
			b.WriteByte('\n')
		}
		name := h.Name
		if h.SSH != "" && h.SSH != h.Name {
			name += " (" + h.SSH + ")"
		}
		if h.Look != nil {
			for _, want := range []string{"chip", "memory.total", "system"} {
				for _, f := range h.Look.Facts {
					if f.Name == want && f.Missing == "" {
						name += ", " + f.Value
					}
				}
			}
		}
		fmt.Fprintln(&b, text.Line(name))
		rows(h.Checks)
	}
	if len(together) > 0 {
		fmt.Fprintln(&b, "\nall hosts")
		rows(together)
	}
	_, err := env.Stdout.Write([]byte(b.String()))
	return err
}
