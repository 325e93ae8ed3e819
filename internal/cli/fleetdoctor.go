package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/fleet"
	"assay/internal/handoff"
	"assay/internal/host"
	"assay/internal/remote"
)

func newFleetDoctor(env *Env) *cobra.Command {
	var opts poolOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Prove that each host can take runs",
		Long: `Looks at each host of hosts.toml: ssh, assay, interpreter, that its device computes, whether the GPU is free, disk, memory, load, clock (bounded by
the round trip), which link leads to it and how fast that is (some MiB through ssh), what keeps it awake, power, whether data is there; and over
all, that Python and torch are the same.

Exit status: 0 where all passes; 3 where a check fails; 4 where one cannot be told; 1 where it could not be done; 2 where the command line or
the file is wrong.`,
		Example: `  assay fleet doctor --on hosts.toml --data /srv/imagenet --expect-link thunderbolt`,
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&opts.on, "on", hostsFile, "`file` of the hosts")
	f.StringVar(&opts.python, "python", "", "`path` of the interpreter there, where hosts.toml names none")
	f.StringArrayVar(&opts.paths, "data", nil, "`path` that has to be there on each host; may be repeated")
	f.StringVar(&opts.expect, "expect-link", "", "the `kind` of link that was meant: "+strings.Join(host.LinkKinds(),
		", "))
	f.BoolVar(&opts.noRate, "no-throughput", false, "do not time a transfer")
	f.BoolVar(&opts.json, "json", false, "print what was found, as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		return runFleetDoctor(ctx, env, opts)
	}
	return cmd
}

func runFleetDoctor(ctx context.Context, env *Env, opts poolOptions) error {
	if opts.expect != "" && !slices.Contains(host.LinkKinds(), opts.expect) {
		return fault.Exit(fmt.Errorf("--expect-link %s: %s", opts.expect, strings.Join(host.LinkKinds(), ", ")),
			fault.Usage)
	}
	_, found, err := eachHost(ctx, env, opts, func(ctx context.Context, h fleet.Host, r *remote.Host,
		at *handoff.Host) error {
		l, err := lookThere(ctx, r, h, cmp.Or(h.Python, opts.python), opts.paths, false)
		if err != nil {
			return err
		}
		at.Look = l
		at.Clock = clockOf(ctx, r)
		if !h.Local {
			at.Link = routeTo(ctx, env, h.SSH)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// One host after another: two transfers at once would share the link.
	hosts, err := readHosts(env, opts.on)
	if err != nil {
		return err
	}
	for i, h := range found {
		switch {
		case h.Look == nil || h.SSH == "":
		case opts.noRate:
			h.Why = "--no-throughput"
		default:
			rate, err := throughput(ctx, env, hosts.Hosts[i])
			if err != nil {
				h.Why = err.Error()
				break
			}
			h.Rate = &rate
		}
		h.Checks = h.Proves(Version(), opts.expect)
	}
	together := handoff.Together(found)
	if len(found) == 1 {
		together = nil
	}
	if err := printPool(env, opts, opts.on, found, together, "FAIL"); err != nil {
		return err
	}
	return poolStatus(found, together)
}

// transferred is how much is sent to time a link, bytes: two seconds of a bad Wi-Fi, a tenth of one of gigabit
// Ethernet.
const transferred = 16 << 20

// throughput times a transfer to a host through ssh, less what an empty one takes, in bytes a second. What is sent
// cannot be compressed.
func throughput(ctx context.Context, env *Env, h fleet.Host) (float64, error) {
	r, err := reachPool(ctx, env, h)
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	send := func(n int64) (time.Duration, error) {
		cmd := r.Command(ctx, "sh", "-c", "cat >/dev/null")
		cmd.Stdin = io.LimitReader(rand.NewChaCha8([32]byte{21}), n)
		began := time.Now()
		if err := cmd.Run(); err != nil {
			if ctx.Err() != nil {
				return 0, errors.New("the transfer had not ended after two minutes")
			}
			return 0, fmt.Errorf("the transfer ended: %w", err)
		}
		return time.Since(began), nil
	}
	empty, err := send(0)
	if err != nil {
		return 0, err
	}
	full, err := send(transferred)
	if err != nil {
		return 0, err
	}
	if full <= empty {
		return 0, errors.New("the transfer took no longer than an empty one")
	}
	return transferred / (full - empty).Seconds(), nil
}
