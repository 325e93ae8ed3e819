package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/handoff"
	"assay/internal/host"
	"assay/internal/node"
	"assay/internal/python"
	"assay/internal/text"
)

// lookOptions are the flags of `assay fleet look`.
type lookOptions struct {
	root, python string
	paths        []string
	make         bool // the folder, where it is not there
}

// newFleetLook is what an assay that was brought to a host says of it there: fleet up and fleet doctor read it.
func newFleetLook(env *Env) *cobra.Command {
	var opts lookOptions
	cmd := &cobra.Command{
		Use:    "look",
		Short:  "Say, as JSON, what this machine is like as a host of a pool",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lookHere(cmd.Context(), env, opts)
			if err != nil {
				return err
			}
			return printJSON(env.Stdout, l)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.root, "root", "", "`folder` of the node's files")
	f.StringVar(&opts.python, "python", "", "`path` of the interpreter that jobs are to have")
	f.StringArrayVar(&opts.paths, "path", nil, "`path` that has to be there; may be repeated")
	f.BoolVar(&opts.make, "make", false, "make the folder")
	return cmd
}

func lookHere(ctx context.Context, env *Env, opts lookOptions) (*handoff.Look, error) {
	root, err := nodeRoot(env, opts.root)
	if err != nil {
		return nil, err
	}
	l := &handoff.Look{Assay: Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Root: root,
		CPUs:  runtime.NumCPU(),
		Holds: node.Holds(root)}
	if u, err := user.Current(); err == nil {
		l.User = u.Username
	}
	if opts.make {
		err = os.MkdirAll(root, 0o700)
	}
	info, statErr := os.Stat(root)
	switch {
	case err != nil:
		l.RootError = err.Error()
	case statErr != nil:
		l.RootError = "it is not there"
	default:
		l.RootMode = info.Mode().Perm().String()
		probe, err := os.CreateTemp(root, ".look-")
		if err != nil {
			l.RootError = "it cannot be written: " + err.Error()
		} else {
			probe.Close()
			os.Remove(probe.Name())
		}
	}
	var paths []string
	for _, p := range opts.paths {
		there := homed(env, p)
		paths = append(paths, there)
		l.Paths = append(l.Paths, pathThere(p, there))
	}
	l.Facts = append(host.Facts(ctx, append(paths, root)...), host.Awake(ctx)...)
	for i, f := range l.Facts { // under the name that it was asked by
		for j, p := range paths {
			if f.Name == "mount:"+p {
				l.Facts[i].Name = "mount:" + opts.paths[j]
			}
		}
	}
	if load := host.Load(ctx); load.Known() {
		l.Load = load.Value
	}
	sampler := host.NewSampler(0)
	for _, f := range sampler.Sample(ctx) {
		if f.Name == "host.memory.available" && f.Known() {
			l.Available = f.Value
		}
	}
	sampler.Close()
	if free, err := node.Free(root); err == nil {
		l.Free = &free
	}
	if path, err := exec.LookPath("uv"); err == nil {
		l.UV = path
	}
	l.Python = pythonThere(ctx, env, homed(env, opts.python))
	return l, nil
}

// homed replaces a leading "~/" by the home folder.
func homed(env *Env, p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if home := file.Home(env.Environ); home != "" {
			return filepath.Join(home, rest)
		}
	}
	return p
}

// lookLimit is how long a path may take to answer: a share of another machine's may hang for good.
const lookLimit = 3 * time.Second

func pathThere(asked, p string) handoff.Path {
	answer := make(chan handoff.Path, 1)
	go func() {
		a := handoff.Path{Asked: asked}
		info, err := os.Stat(p)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			a.Error = err.Error()
		default:
			a.There = true
			if info.IsDir() {
				entries, _ := os.ReadDir(p)
				a.Entries = len(entries)
			}
		}
		answer <- a
	}()
	select {
	case a := <-answer:
		return a
	case <-time.After(lookLimit):
		return handoff.Path{Asked: asked, Error: "it did not answer in " + lookLimit.String()}
	}
}

func pythonThere(ctx context.Context, env *Env, named string) handoff.Interpreter {
	in, err := python.Find(ctx, env.Environ, env.Dir, named)
	if err != nil {
		return handoff.Interpreter{Error: err.Error(), Hint: fault.HintOf(err)}
	}
	p := handoff.Interpreter{Path: in.Path, Version: in.Version}
	if torch, ok, err := python.ReadTorch(in, python.Packages(in.Site)); err == nil && ok {
		p.Torch = torch.Version
	}
	for _, g := range python.Gates(ctx, in, env.Environ) {
		p.Gates = append(p.Gates, handoff.Device{Name: g.Name, State: string(g.State), Detail: g.Detail, Hint: g.Hint})
	}
	return p
}

// newFleetEnvironment makes the environment of a lock on the host that it is typed on: fleet up has it done there.
func newFleetEnvironment(env *Env) *cobra.Command {
	var kind, release, project string
	cmd := &cobra.Command{
		Use:    "environment LOCK",
		Short:  "Make the environment of a lock here, or find it, and say where it is",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cache, err := python.CacheDir(env.Environ)
			if err != nil {
				return err
			}
			lock := python.Lock{Kind: kind, Path: env.Path(args[0]), Python: release}
			if project != "" { // both are blobs, named by their sums: uv wants them by their names, in one folder
				dir, err := file.Temp(env.Environ, env.Dir, "try")
				if err != nil {
					return err
				}
				defer dir.Remove()
				for from, name := range map[string]string{lock.Path: "uv.lock", env.Path(project): "pyproject.toml"} {
					data, err := os.ReadFile(from)
					if err == nil {
						err = os.WriteFile(filepath.Join(dir.Path, name), data, 0o600)
					}
					if err != nil {
						return fmt.Errorf("put the lock beside its project: %w", err)
					}
				}
				lock.Path, lock.Project = filepath.Join(dir.Path, "uv.lock"), dir.Path
			}
			made, err := python.EnsureLocked(cmd.Context(), env.Environ, cache, lock, text.NewWriter(env.Stderr))
			if err != nil {
				return err
			}
			return json.NewEncoder(env.Stdout).Encode(made)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kind, "kind", "", "`kind` of the lock")
	f.StringVar(&release, "python", "", "`release` of Python")
	f.StringVar(&project, "project", "", "`file`: pyproject.toml of uv.lock")
	return cmd
}
