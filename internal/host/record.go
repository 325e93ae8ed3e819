package host

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"assay/internal/secret"
)

// recording is one raw output.
type recording struct {
	name    string // as the fixtures are named
	command string // as a person would type it
	read    func(ctx context.Context) ([]byte, error)
}

// recordLimit is for one section, and the longest that any tool may take: system_profiler is the slowest, with some 0.3
// s in reports.
const (
	recordLimit   = 10 * time.Second
	recordSection = 256 << 10 // bytes
)

// Record writes the raw outputs of this host to w, for a bug report or a new fixture: sections that begin with a line
// `== name: command` and hold what the source said, cut at 256 KiB. Serial numbers, UUIDs, MAC addresses, names of the
// user, the machine, volumes and servers are removed, and so are secrets. A source that fails leaves a line `[assay:
// reason]`. The error is that of w, or of a context that ended. It takes a few seconds.
func Record(ctx context.Context, w io.Writer) error {
	return record(ctx, w, thisMachine().recordings(), ownIdentity())
}

func record(ctx context.Context, w io.Writer, all []recording, id identity) error {
	for _, r := range all {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("record %s: %w", r.name, err)
		}
		limited, cancel := context.WithTimeout(ctx, recordLimit)
		text, err := r.read(limited)
		cancel()
		if err != nil {
			text = fmt.Appendf(nil, "[assay: %s]\n", reason(err))
		}
		if len(text) > recordSection {
			text = fmt.Appendf(text[:recordSection:recordSection], "\n[assay: cut at %d of %d bytes]\n", recordSection,
				len(text))
		}
		text = redact([]byte(secret.Text(string(text))), id)
		if !bytes.HasSuffix(text, []byte("\n")) {
			text = append(text, '\n')
		}
		if _, err := fmt.Fprintf(w, "== %s: %s\n%s", r.name, redact([]byte(r.command), id), text); err != nil {
			return fmt.Errorf("write section %s: %w", r.name, err)
		}
	}
	return nil
}

// fileRecording is a section with the content of a file.
func (h *procHost) fileRecording(name, path string) recording {
	return recording{name, "cat " + path, func(context.Context) ([]byte, error) { return h.file(path) }}
}

func (h *procHost) recordings() []recording {
	all := []recording{
		h.fileRecording("cpuinfo", "/proc/cpuinfo"),
		h.fileRecording("meminfo", "/proc/meminfo"),
		h.fileRecording("vmstat", "/proc/vmstat"),
		h.fileRecording("os-release", "/etc/os-release"),
		h.fileRecording("osrelease", "/proc/sys/kernel/osrelease"),
		h.fileRecording("pressure-memory", "/proc/pressure/memory"),
		h.fileRecording("pressure-cpu", "/proc/pressure/cpu"),
		h.fileRecording("cgroup", "/proc/self/cgroup"),
		h.fileRecording("mountinfo", "/proc/self/mountinfo"),
		h.fileRecording("smaps_rollup", "/proc/self/smaps_rollup"),
		h.fileRecording("platform_profile", "/sys/firmware/acpi/platform_profile"),
	}
	if h.smi != "" {
		smi := func(args ...string) func(context.Context) ([]byte, error) {
			return func(ctx context.Context) ([]byte, error) { return h.tool(ctx, h.smi, args...) }
		}
		// Only these displays: the others hold serial numbers and the command lines of processes.
		const displays = "MEMORY,UTILIZATION,TEMPERATURE,POWER,CLOCK,COMPUTE,PERFORMANCE"
		all = append(all,
			recording{"nvidia-smi-q", "nvidia-smi -q -d " + displays, smi("-q", "-d", displays)},
			recording{"nvidia-smi-query", "nvidia-smi --query-gpu=name," + smiFields + " --format=csv",
				smi("--query-gpu=name,"+smiFields, "--format=csv")},
		)
	}
	return all
}
