package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/fleet"
	"assay/internal/logbook"
	"assay/internal/node"
	"assay/internal/probe"
	"assay/internal/remote"
	"assay/internal/secret"
	"assay/internal/text"
)

// fleetFolder has a folder for each queue.
const fleetFolder = ownFolder + "/fleet"

// hostsFile is what --on is where it is not given.
const hostsFile = "hosts.toml"

func newFleetCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Work a queue of runs off on several Macs",
		Long: `Runs a command, or many, on the hosts of a file, over the user's own ssh: one training a GPU, what was lost with a host again on another, and the
evidence of each run here, in .assay/runs and the logbook, as if it had run here.

hosts.toml has a [[host]] for each Mac:

  [[host]]
  name = "studio"            # its name here
  ssh = "ada@studio.local"   # as ssh takes it; default the name
  python = "~/train/.venv/bin/python"`,
	}
	cmd.AddCommand(newFleetUp(env), newFleetDoctor(env), newFleetRun(env), newFleetSweep(env), newFleetStatus(env),
		newFleetLogs(env), newFleetCancel(env), newFleetLook(env), newFleetEnvironment(env))
	return cmd
}

// readHosts reads the hosts that --on names.
func readHosts(env *Env, on string) (*fleet.Hosts, error) {
	h, err := fleet.ReadHosts(env.Path(on))
	if err != nil {
		return nil, fault.Exit(err, fault.Usage)
	}
	return h, nil
}

// dialHost reaches a host and speaks with its node.
func dialHost(env *Env) func(context.Context, fleet.Host) (node.Client, error) {
	return func(ctx context.Context, h fleet.Host) (node.Client, error) {
		host, err := reachPool(ctx, env, h)
		if err != nil {
			return nil, err
		}
		return host.Node(ctx)
	}
}

// reachPool reaches a host of the file.
func reachPool(ctx context.Context, env *Env, h fleet.Host) (*remote.Host, error) {
	o, err := remoteOptions(env, h.SSH, "")
	if err != nil {
		return nil, err
	}
	o.Local, o.Root = h.Local, h.Root
	if h.Local {
		o.Host = h.Name
	}
	return remote.Dial(ctx, o)
}

// hostEnviron gives the variables that hosts.toml sets for a host's jobs.
func hostEnviron(hosts []fleet.Host) func(string) []string {
	return func(name string) []string {
		var all []string
		for _, h := range hosts {
			if h.Name == name {
				for k, v := range h.Environ {
					all = append(all, k+"="+v)
				}
			}
		}
		slices.Sort(all)
		return all
	}
}

// queueFolder is where a queue's files lie.
func queueFolder(env *Env, name string) string { return env.Path(filepath.Join(fleetFolder, name)) }

// runsPath is the folder that runs come home to.
func runsPath(env *Env) string { return env.Path(filepath.Join(ownFolder, "runs")) }

// queues are the names of those that there are, the one that changed last first.
func queues(env *Env) ([]string, error) {
	entries, err := os.ReadDir(env.Path(fleetFolder))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	type found struct {
		name string
		at   int64
	}
	var all []found
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(env.Path(fleetFolder), e.Name(), fleet.JournalName))
		if err == nil {
			all = append(all, found{e.Name(), info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(all, func(a, b found) int {
		if a.at != b.at {
			return int(min(max(b.at-a.at, -1), 1))
		}
		return strings.Compare(a.name, b.name)
	})
	var names []string
	for _, f := range all {
		names = append(names, f.name)
	}
	return names, nil
}

// chosenQueue is the queue that a command is about: the one named, else the one that changed last.
func chosenQueue(env *Env, named string) (string, error) {
	names, err := queues(env)
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", fault.Exit(fault.Hint(errors.New("no queue is here: nothing was run by assay fleet in this folder"),
			"see: assay fleet run --help"), fault.Usage)
	}
	if named == "" {
		return names[0], nil
	}
	if !slices.Contains(names, named) {
		return "", fault.Exit(fault.Hint(fmt.Errorf("no queue %s is here", text.Line(named)), "there are: "+
			text.Short(strings.Join(names, ", "), 400)), fault.Usage)
	}
	return named, nil
}

// queueName names a queue by its command and by all that was asked, so that the same command finds it again.
func queueName(args []string, asked any) string {
	data, _ := json.Marshal(asked) // of plain values
	sum := sha256.Sum256(data)
	name := "fleet"
	for _, w := range args {
		if base := filepath.Base(w); strings.HasSuffix(base, ".py") {
			name = strings.TrimSuffix(base, ".py")
			break
		}
	}
	name = strings.Trim(unsafeName.ReplaceAllString(secret.Text(name), "-"), "-.")
	if name == "" || len(name) > 30 {
		name = "fleet"
	}
	return name + "-" + hex.EncodeToString(sum[:4])
}

// shortPath is a path from the working folder where it lies in it.
func shortPath(env *Env, path string) string {
	if rel, err := filepath.Rel(env.Dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// recorder keeps runs that have come home in the logbook; nil where none is kept.
func recorder(ctx context.Context, env *Env, named string) (record func(folder string) error, closeBook func() error,
	err error) {
	if named == "off" {
		return nil, func() error { return nil }, nil
	}
	if err := probe.OwnFolder(env.Path(ownFolder)); err != nil {
		return nil, nil, err
	}
	book, err := writeLogbook(ctx, env, logbookPath(env, named))
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	return func(folder string) error {
		mu.Lock()
		defer mu.Unlock()
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordLimit)
		defer stop()
		_, _, err := addRunFolder(ctx, book, folder)
		var forgotten *logbook.Forgotten
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.As(err, &forgotten) {
			// Of one of which nothing came but what it printed there is no evidence. The others have it in their
			// folder.
			fmt.Fprintf(env.Stderr, "assay: the run was not recorded in the logbook: %s; its folder has "+
				"everything, and "+
				"assay log import %s keeps it\n", text.Lines(err.Error()), text.Line(shortPath(env, folder)))
		}
		return nil
	}, book.Close, nil
}
