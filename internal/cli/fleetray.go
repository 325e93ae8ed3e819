package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"assay/agent"
	"assay/internal/fault"
	"assay/internal/fleet"
	"assay/internal/python"
)

// rayOptions are the flags of `assay fleet run` that only --on ray://… has.
type rayOptions struct {
	python    string
	resources []string
	insecure  bool
}

// flags adds them.
func (o *rayOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.python, "ray-python", "",
		"over Ray: `path` of the interpreter here that has the cluster's Ray; default the one that assay finds")
	f.StringArrayVar(&o.resources, "resource", []string{"mps"},
		"over Ray: a run that takes a GPU asks for 1 of this `resource`; may be repeated")
	f.BoolVar(&o.insecure, "insecure-ray", false,
		"over Ray: go on where the cluster asks for no token, so that whoever reaches its port runs programs there")
}

// isRay reports whether --on names a Ray cluster.
func isRay(on string) bool { return strings.HasPrefix(on, "ray://") }

// resourceForm is what a resource of Ray's may be called here: no CPU, GPU or memory, which Ray counts itself.
var resourceForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_:.-]{0,63}$`)

// rayAddress is HOST:PORT of ray://HOST:PORT, of which the port may be left out.
func rayAddress(on string) (string, error) {
	address := strings.TrimSuffix(strings.TrimPrefix(on, "ray://"), "/")
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(strings.Trim(address, "[]"), "10001")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || strings.ContainsAny(address, "/?#@ \t") {
		return "", fleetUsage("--on %s: as ray://HOST:PORT, of the head's Ray Client server", on)
	}
	return address, nil
}

// rayEngine works a queue off over Ray. code opens a snapshot by its SHA-256, say prints a line, and abandon, when it
// is closed, has the engine return at once.
func rayEngine(ctx context.Context, env *Env, opts fleetOptions, code func(string) (fleet.CodeFile, error),
	say func(string), abandon <-chan struct{}) (fleet.Engine, error) {
	address, err := rayAddress(opts.on)
	if err != nil {
		return nil, err
	}
	if opts.leave {
		return nil, fleetUsage("--leave: Ray ends its tasks with the driver that submitted them")
	}
	resources := opts.ray.resources
	if len(resources) == 0 {
		resources = []string{"mps"}
	}
	for _, r := range resources {
		if !resourceForm.MatchString(r) || slices.Contains([]string{"CPU", "GPU", "memory", "object_store_memory"}, r) {
			return nil, fleetUsage("--resource %s: the name of a resource that nodes were started with, as mps", r)
		}
	}
	in, err := python.Find(ctx, env.Environ, env.Dir, opts.ray.python)
	if err != nil {
		return nil, fault.Hint(err, "name an interpreter that has the cluster's Ray: --ray-python PATH")
	}
	boot, err := installAgent(env)
	if err != nil {
		return nil, err
	}
	lib := filepath.Dir(boot.Boot)
	return &fleet.Ray{Address: address, Resources: resources, Insecure: opts.ray.insecure, Python: in.Path,
		Program: filepath.Join(lib, "assay_agent", "fleet", "ray_driver.py"), Agent: lib, Environ: env.Environ,
		Binary: (&rayBinaries{env: env}).find, Code: rayCode(env, code), Say: say, Abandon: abandon}, nil
}

// installAgent unpacks the agent below the cache.
func installAgent(env *Env) (agent.Installed, error) {
	cache, err := agentCache(env)
	if err != nil {
		return agent.Installed{}, err
	}
	return agent.Install(cache)
}

// rayCode finds a snapshot's file.
func rayCode(env *Env, open func(string) (fleet.CodeFile, error)) func(string) (fleet.RayFile, error) {
	return func(sum string) (fleet.RayFile, error) {
		f, err := open(sum)
		if err != nil {
			return fleet.RayFile{}, err
		}
		defer f.Close()
		path := env.Path(filepath.Join(fleetFolder, "code", filepath.Base(sum)+".tar.zst"))
		return fleet.RayFile{Path: path, Sum: sum, Size: f.Size}, nil
	}
}

// rayBinaries finds assay for the systems of a cluster's nodes.
type rayBinaries struct {
	env   *Env
	mu    sync.Mutex
	known map[string]fleet.RayFile
}

func (b *rayBinaries) find(system string) (fleet.RayFile, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f, ok := b.known[system]; ok {
		return f, nil
	}
	path, err := b.path(system)
	if err != nil {
		return fleet.RayFile{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return fleet.RayFile{}, fmt.Errorf("read assay for %s: %w", system, err)
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return fleet.RayFile{}, fmt.Errorf("read assay for %s: %w", system, err)
	}
	if b.known == nil {
		b.known = map[string]fleet.RayFile{}
	}
	b.known[system] = fleet.RayFile{Path: path, Sum: hex.EncodeToString(sum.Sum(nil)), Size: size, Version: Version()}
	return b.known[system], nil
}

var systemForm = regexp.MustCompile(`^[a-z0-9]{1,16}/[a-z0-9]{1,16}$`)

func (b *rayBinaries) path(system string) (string, error) {
	if !systemForm.MatchString(system) {
		return "", fmt.Errorf("no system is called %q", system)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if system == runtime.GOOS+"/"+runtime.GOARCH {
		if runtime.GOOS == "linux" { // there even when its file was replaced, and for the driver too
			return fmt.Sprintf("/proc/%d/exe", os.Getpid()), nil
		}
		return self, nil
	}
	folder := filepath.Dir(self)
	if named := b.env.Getenv("ASSAY_BINARIES"); named != "" {
		folder = b.env.Path(named)
	}
	end := "_" + strings.ReplaceAll(system, "/", "_")
	exact := filepath.Join(folder, "assay_"+strings.TrimPrefix(Version(), "v")+end)
	if _, err := os.Stat(exact); err == nil {
		return exact, nil
	}
	found, _ := filepath.Glob(filepath.Join(folder, "assay_*"+end))
	if len(found) != 1 {
		return "", fault.Hint(fmt.Errorf("a node is %s, this machine %s/%s, and %s has %d assays for it", system,
			runtime.GOOS, runtime.GOARCH, folder, len(found)), "take assay_VERSION"+end+" from the same release and "+
			"name its folder by $ASSAY_BINARIES")
	}
	return found[0], nil
}
