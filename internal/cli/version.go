package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"assay/internal/evidence"
)

// release is the version that tools/release and the Homebrew formula build, as v0.9.0:
// go build -ldflags "-X assay/internal/cli.release=v0.9.0". Any other build leaves it empty.
var release string

// Version names the build: that of a release, else the module's version and, where the build knows it, the commit.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "-" + s.Value[:12]
			}
			if s.Key == "vcs.modified" && s.Value == "true" {
				v += "-dirty"
			}
		}
	}
	return v
}

func newVersionCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(env.Stdout, "assay %s %s/%s %s, evidence %s\n", Version(), runtime.GOOS,
				runtime.GOARCH, runtime.Version(), evidence.Schema)
			return err
		},
	}
}
