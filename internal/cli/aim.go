package cli

import (
	"io"
	"strings"

	"assay/internal/atlas"
	"assay/internal/fault"
	"assay/internal/python"
	"assay/internal/target"
	"assay/internal/text"
)

// torchDefault says in a flag's help which release is taken without it.
const torchDefault = "default: that of assay.toml, else of the project's pins or lock file, else the one installed, " +
	"else the newest known"

// aimAt is the Mac that a command judges for: by what was typed, the project in a folder, and what is installed there,
// which is looked up without running anything. An error is one in what was typed or set.
func aimAt(env *Env, dir string, typed target.Words) (target.Aim, error) {
	aim, err := target.AimAt(&atlas.Atlas{}, dir, typed, func() (torch, release, where string) {
		return python.InstalledTorch(env.Environ, dir)
	})
	if err != nil {
		return target.Aim{}, fault.Exit(err, fault.Usage)
	}
	return aim, nil
}

// sayAim prints for which release an answer is given, and why that one.
func sayAim(w io.Writer, env *Env, aim target.Aim) error {
	var b strings.Builder
	for line := range strings.Lines(aim.Text()) {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		b.WriteString(text.Wrapped(text.Line(strings.TrimSpace(line)), indent, "    ", width(env, w)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
