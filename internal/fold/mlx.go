package fold

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/unit"
)

// mlx finds what is said of a run of MLX alone.
func (b *builder) mlx() {
	b.allocatorLimits()
	e := b.p.framework
	if e == nil || e.Name != "mlx" || e.Metal == nil || b.run.Target.Device != "cpu" {
		return
	}
	switch {
	case *e.Metal:
		b.find("mlx-on-cpu", evidence.Warning, evidence.Measured, "",
			"mx.set_default_device(mx.gpu), or leave out what sets it to the CPU",
			"MLX could use Metal here, and the steps ran on its CPU")
	case b.onMac():
		b.find("no-metal", evidence.Warning, evidence.Measured, "",
			"assay doctor says what is in the way: an x86_64 Python, a virtual machine, an old macOS",
			"MLX finds no Metal on this Mac: the steps ran on its CPU")
	}
}

// onMac reports whether the run was on macOS.
func (b *builder) onMac() bool { return strings.HasPrefix(b.run.Target.System, "darwin/") }

// build says what MLX was built for, as far as it shows: "default device gpu, Metal available"; "" where that is not
// known.
func (e *frameworkEvent) build() string {
	if e.Metal == nil {
		return e.Git
	}
	metal := "no Metal"
	if *e.Metal {
		metal = "Metal available"
	}
	return fmt.Sprintf("default device %s, %s", e.DefaultDevice, metal)
}

// allocatorLimits says what the script has set its framework's allocator, and whether the run came to it.
func (b *builder) allocatorLimits() {
	live, pool := b.run.Figure("memory.live.peak"), b.run.Figure("memory.pool.peak")
	for _, name := range slices.Sorted(maps.Keys(b.p.allocator)) {
		l := b.p.allocator[name]
		where, size := b.place(l.Where), unit.Bytes(l.Bytes)
		switch {
		case name == "memory" && live.Known() && *live.Value > l.Bytes:
			b.find("memory-limit", evidence.Warning, live.Basis, where,
				"beyond it MLX waits for what is being computed before it allocates more: raise it, or lower the batch",
				"the memory limit was set to %s, and %s were in use", size, unit.Bytes(*live.Value))
		case name == "wired" && live.Known() && *live.Value > l.Bytes:
			b.find("wired-limit", evidence.Warning, live.Basis, where,
				"what is beyond it is not held resident, and the system may page it out: raise it, at most to "+
					"max_recommended_working_set_size of mx.device_info",
				"the wired limit was set to %s, and %s were in use", size, unit.Bytes(*live.Value))
		default:
			text := fmt.Sprintf("the script sets MLX's %s limit to %s", name, size)
			if pool.Known() && live.Known() {
				text += fmt.Sprintf("; at most %s were in use, %s with the cache", unit.Bytes(*live.Value),
					unit.Bytes(*pool.Value))
			}
			b.find(name+"-limit", evidence.Note, evidence.Measured, where, "", "%s", text)
		}
	}
}
