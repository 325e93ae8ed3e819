package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/host"
	"assay/internal/python"
	"assay/internal/secret"
	"assay/internal/target"
	"assay/internal/text"
)

type doctorOptions struct {
	JSON    bool
	Python  string
	Record  string
	NoGates bool
	Require []string
	Asked   target.Words // of the Mac aimed at: --torch, --chip, --macos
}

// doctorLines is how many findings of one name the page shows: an environment of the wrong architecture has a hundred.
const doctorLines = 6

// doctorReport is what `assay doctor --json` prints: a document of evidence.
type doctorReport struct {
	evidence.Envelope
	doctorBody `json:"body"`
	found      doctorFindings
}

// doctorBody is what it has beyond the envelope.
type doctorBody struct {
	System      string              `json:"system"`                // darwin/arm64, …: what assay itself was built for
	Interpreter *python.Interpreter `json:"interpreter,omitempty"` // absent when none was found
	Torch       *python.Torch       `json:"torch,omitempty"`       // absent when it is not installed
	Packages    []python.Package    `json:"packages"`
	Aim         target.Aim          `json:"aim"`                // the Mac that variables are judged for
	Sections    []doctorSection     `json:"sections"`           // of the page, with the names of their findings
	Gates       []python.Gate       `json:"gates"`              // empty with --no-gates
	Required    []string            `json:"required,omitempty"` // gates that must pass, from --require
	// names of error findings and of required gates that did not pass; empty: exit status 0
	Failed []string `json:"failed"`
}

// doctorSection is a part of the page.
type doctorSection struct {
	Name     string   `json:"name"`
	Findings []string `json:"findings"`
}

// doctorFindings are kept by section, in the order of the printed page. Severity error is what fails the command.
type doctorFindings struct{ Interpreter, Wheels, Environment []evidence.Finding }

// document puts into the envelope what was found.
func (r *doctorReport) document() {
	r.Sections = []doctorSection{}
	for _, s := range []struct {
		name  string
		found []evidence.Finding
	}{{"interpreter", r.found.Interpreter}, {"wheels", r.found.Wheels}, {"environment", r.found.Environment}} {
		section := doctorSection{Name: s.name, Findings: []string{}}
		for _, f := range s.found {
			section.Findings = append(section.Findings, f.Name)
		}
		r.Sections = append(r.Sections, section)
		r.Findings = append(r.Findings, s.found...)
	}
	r.Subject.Kind, r.Target.Asked, r.Target.System = "interpreter", "auto", r.System
	if r.Interpreter != nil {
		r.Subject.Command, r.Target.Python = []string{r.Interpreter.Path}, r.Interpreter.Version
		r.Provenance.Interpreter = r.Interpreter.Path
	}
	if r.Torch != nil {
		r.Target.Framework, r.Target.Release = "torch", r.Torch.Release
	}
	r.Provenance.Assay = Version()
}

func newDoctorCommand(env *Env) *cobra.Command {
	var opts doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the interpreter, its packages, the devices and the environment",
		Long: `Checks what a run would meet, before it runs: which Python it would get and whether that one is native, whether the
installed packages fit it, whether each framework can really compute on its device, and environment variables that
would be refused, misread or do nothing.

A device counts only when a matrix product on it agrees with the CPU's: each framework is imported in a process of its
own for that, at most a minute each.

Exit status 3 when a check finds an error, or when a gate named by --require does not pass; an unknown gate does not.`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.BoolVar(&opts.JSON, "json", false, "print the record ("+evidence.Schema+", a doctor's) instead of the page")
	f.StringVar(&opts.Python, "python", "",
		"interpreter to check: a `path`, a name on PATH, or the folder of an environment")
	f.StringVar(&opts.Record, "record", "", "also write what the host's sources say, raw, to `file`")
	f.StringVar(&opts.Asked.Torch, "torch", "", "`release` of PyTorch aimed at ("+torchDefault+")")
	f.StringVar(&opts.Asked.MacOS, "macos", "", "`release` of macOS aimed at (default: that of assay.toml)")
	f.BoolVar(&opts.NoGates, "no-gates", false, "do not import any framework")
	f.StringSliceVar(&opts.Require, "require", nil,
		"`gate` that must pass, may be repeated: "+strings.Join(python.GateNames(), ", "))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), env, opts) }
	return cmd
}

func runDoctor(ctx context.Context, env *Env, opts doctorOptions) error {
	for _, name := range opts.Require {
		if !slices.Contains(python.GateNames(), name) {
			err := fmt.Errorf("--require %s: no such gate", name)
			return fault.Exit(fault.Hint(err, "gates: "+strings.Join(python.GateNames(), ", ")), fault.Usage)
		}
	}
	if opts.NoGates && len(opts.Require) > 0 {
		return fault.Exit(fmt.Errorf("--require %s needs the gates that --no-gates leaves out", opts.Require[0]),
			fault.Usage)
	}
	r, err := doctor(ctx, env, opts)
	if err != nil {
		return err
	}
	if opts.Record != "" {
		n, err := writeRecord(ctx, env.Path(opts.Record))
		if err != nil {
			return err
		}
		fmt.Fprintf(env.Stderr, "recorded %s (%d bytes)\n", opts.Record, n)
	}
	if opts.JSON {
		var out bytes.Buffer
		if err = printJSON(&out, r); err == nil {
			_, err = env.Stdout.Write(secret.JSON(out.Bytes())) // it is made to be sent to others
		}
	} else {
		_, err = io.WriteString(env.Stdout, text.Lines(secret.Text(r.page(opts))))
	}
	if err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if len(r.Failed) > 0 {
		return status(fault.GateFailed)
	}
	return nil
}

// doctor looks at everything once.
func doctor(ctx context.Context, env *Env, opts doctorOptions) (*doctorReport, error) {
	r := &doctorReport{Envelope: evidence.NewEnvelope(evidence.KindDoctor),
		doctorBody: doctorBody{System: runtime.GOOS + "/" + runtime.GOARCH,
			Packages: []python.Package{}, Gates: []python.Gate{}, Failed: []string{}, Required: opts.Require}}
	r.ID, r.Started = evidence.KindDoctor, env.Now().UTC()
	in, err := python.Find(ctx, env.Environ, env.Dir, opts.Python)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("look for the interpreter: %w", ctx.Err())
	case err != nil && opts.Python != "":
		return nil, err
	case err != nil:
		r.found.Interpreter = append(r.found.Interpreter, evidence.Finding{Name: "interpreter-missing",
			Severity: evidence.Error,
			Text:     err.Error(), Hint: fault.HintOf(err), Basis: evidence.Measured})
	default:
		r.Interpreter = &in
		r.found.Interpreter = append(r.found.Interpreter, python.CheckInterpreter(in)...)
		r.Packages = append(r.Packages, python.Packages(in.Site)...)
		torch, ok, err := python.ReadTorch(in, r.Packages)
		if err != nil {
			r.found.Wheels = append(r.found.Wheels, evidence.Finding{Name: "torch-unreadable", Severity: evidence.Error,
				Text: err.Error(), Basis: evidence.Derived,
				Hint: "the installation is incomplete: install torch again"})
		} else if ok {
			r.Torch = &torch
		}
		r.found.Wheels = append(r.found.Wheels, python.CheckPackages(in, r.Packages, r.Torch)...)
	}
	r.Aim, err = target.AimAt(&atlas.Atlas{}, env.Dir, opts.Asked, func() (torch, release, where string) {
		if r.Torch == nil {
			return "", in.Version, ""
		}
		return r.Torch.Version, in.Version, cmp.Or(in.Chosen, in.Path)
	})
	if err != nil {
		return nil, fault.Exit(fault.Hint(fmt.Errorf("doctor: %w", err), fault.HintOf(err)), fault.Usage)
	}
	r.found.Wheels = append(r.found.Wheels, knownWrongOf(r)...)
	r.found.Environment = append(r.found.Environment, checkAim(r.Aim)...)
	r.found.Environment = append(r.found.Environment,
		python.CheckEnvironForMac(env.Environ, r.Aim.Torch, runtime.GOOS)...)
	if r.Interpreter != nil && !opts.NoGates {
		r.Gates = append(r.Gates, python.Gates(ctx, in, env.Environ)...)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("check the devices: %w", ctx.Err())
	}
	for _, f := range slices.Concat(r.found.Interpreter, r.found.Wheels, r.found.Environment) {
		if f.Severity == evidence.Error && !slices.Contains(r.Failed, f.Name) {
			r.Failed = append(r.Failed, f.Name)
		}
	}
	for _, name := range opts.Require {
		if r.gate(name).State != python.Pass {
			r.Failed = append(r.Failed, name)
		}
	}
	r.document()
	r.Ended = env.Now().UTC()
	return r, nil
}

// doctorWrong is how many known wrong results are named.
const doctorWrong = 4

// knownWrongOf says how many wrong results are known of the torch that is installed, on this macOS, or the one aimed
// at, those that are certain first.
func knownWrongOf(r *doctorReport) []evidence.Finding {
	if r.Torch == nil {
		return nil
	}
	macos, on := r.Aim.MacOS, ""
	if r.Interpreter != nil && r.Interpreter.Platform == "darwin" {
		macos = r.Interpreter.System
	}
	if _, err := target.ParseMacOS(macos); err == nil && macos != "" {
		on = " on macOS " + macos
	}
	said := knownWrong(r.Torch.Release, macos)
	if len(said) == 0 {
		return nil
	}
	var names []string
	for _, s := range said[:min(doctorWrong, len(said))] {
		names = append(names, s.Name)
	}
	return []evidence.Finding{{Name: "known-wrong-results", Severity: evidence.Note, Basis: evidence.Derived,
		Text: fmt.Sprintf("%d wrong results are known of torch %s on MPS%s: %s, …", len(said), r.Torch.Release, on,
			strings.Join(names, ", ")),
		Hint: "`assay ops --wrong --torch " + r.Torch.Release + "` tells them; `assay check` finds those that a " +
			"project's code shows"}}
}

// checkAim says where the release aimed at has no MPS on the macOS aimed at.
func checkAim(aim target.Aim) []evidence.Finding {
	floor, known := python.MacFloor(aim.Torch)
	needed, err := target.ParseMacOS(floor.Backend)
	have, wrong := target.ParseMacOS(aim.MacOS)
	if !known || err != nil || wrong != nil || !have.Before(needed) {
		return nil
	}
	return []evidence.Finding{{Name: "macos-too-old", Severity: evidence.Error, Basis: evidence.Derived,
		Text: fmt.Sprintf("torch %s has no MPS on macOS %s: it needs %s", aim.Torch, have, floor.Backend),
		Hint: "aim at a newer macOS, or at an older release of PyTorch"}}
}

// writeRecord writes what the host says to path, which holds either all of it or what it held before.
func writeRecord(ctx context.Context, path string) (size int64, err error) {
	err = file.Write(path, 0o600, func(w io.Writer) error {
		count := &counter{to: w}
		defer func() { size = count.n }()
		return host.Record(ctx, count)
	})
	if err != nil {
		return 0, fmt.Errorf("record the host to %s: %w", path, err)
	}
	return size, nil
}

// counter counts what is written.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// gate returns the gate of that name; where there is none, an unknown one that says so.
func (r *doctorReport) gate(name string) python.Gate {
	for _, g := range r.Gates {
		if g.Name == name {
			return g
		}
	}
	return python.Gate{Name: name, State: python.Unknown, Detail: "does not arise here", Basis: evidence.Derived}
}

// page is the report for people: section by section, each line a mark, what it says, and how that is known.
func (r *doctorReport) page(opts doctorOptions) string {
	var b strings.Builder
	line := func(mark, text string, basis evidence.Basis, hint string) {
		fmt.Fprintf(&b, "  %-4s  %s  (%s)\n", mark, text, basis)
		if hint != "" {
			fmt.Fprintf(&b, "        → %s\n", hint)
		}
	}
	findings := func(list []evidence.Finding) {
		times := map[string]int{}
		for _, f := range list {
			if times[f.Name]++; times[f.Name] > doctorLines {
				continue
			}
			mark := map[evidence.Severity]string{evidence.Error: "FAIL", evidence.Warning: "warn",
				evidence.Note: "note"}[f.Severity]
			text := f.Text
			if f.Where != "" && (r.Interpreter == nil || f.Where != r.Interpreter.Path) {
				text += " [" + f.Where + "]"
			}
			line(mark, text, f.Basis, f.Hint)
		}
		for _, name := range slices.Sorted(maps.Keys(times)) {
			if more := times[name] - doctorLines; more > 0 {
				line("", fmt.Sprintf("%d more of %s: --json lists them", more, name), evidence.Derived, "")
			}
		}
	}

	fmt.Fprintln(&b, "Interpreter")
	if in := r.Interpreter; in != nil {
		name := in.Path
		if in.Chosen != "" {
			name += " (" + in.Chosen + ")"
		}
		line("ok", name, evidence.Derived, "")
		what := in.Origin
		if in.BaseOrigin != in.Origin {
			what += " on " + in.BaseOrigin
		}
		known := evidence.Measured
		if in.NotAsked != "" {
			known = evidence.Derived
		}
		version, mark := "Python "+in.Version, "ok"
		if in.Version == "" {
			version, mark = "version not known", "?"
		}
		line(mark, version+", "+what, known, "")
		runs := in.Format + " for " + strings.Join(in.Arch, " and ")
		if in.Machine != "" {
			runs += ", runs as " + in.Machine
		}
		if in.Translated != nil && !*in.Translated {
			runs += ", not translated"
		}
		line("ok", runs, known, "")
		for _, p := range in.Passed {
			line("note", "passed over: "+p, evidence.Measured, "")
		}
	}
	findings(r.found.Interpreter)

	fmt.Fprintln(&b, "\nWheels")
	if r.Interpreter != nil {
		if t := r.Torch; t != nil {
			text := "torch " + t.Version + ", " + t.Flavour
			if t.Commit != "" {
				text += ", commit " + t.Commit[:12]
			}
			if t.Origin != "" {
				text += ", from " + t.Origin
			}
			line("ok", text, evidence.Declared, "")
			if f, ok := python.MacFloor(t.Release); ok && r.Interpreter.Platform == "darwin" {
				line("note", fmt.Sprintf("torch %s needs macOS %s for MPS; this is %s", t.Release, f.Backend,
					cmp.Or(r.Interpreter.System, "not known")), evidence.Derived, "")
			}
		} else if len(r.found.Wheels) == 0 || r.found.Wheels[0].Name != "torch-unreadable" {
			line("?", "torch is not installed", evidence.Derived, "")
		}
		misfits := 0
		for _, f := range r.found.Wheels {
			if strings.HasPrefix(f.Name, "wheel-") {
				misfits++
			}
		}
		if misfits == 0 {
			line("ok", fmt.Sprintf("%d packages, none built for another system, architecture or Python",
				len(r.Packages)), evidence.Derived, "")
		}
	} else {
		line("?", "no interpreter to look into", evidence.Derived, "")
	}
	findings(r.found.Wheels)

	fmt.Fprintln(&b, "\nDevice gates")
	switch {
	case opts.NoGates:
		line("?", "not tried (--no-gates)", evidence.Declared, "")
	case r.Interpreter == nil:
		line("?", "no interpreter to try them with", evidence.Derived, "")
	}
	shown := r.Gates
	for _, name := range r.Required {
		if !slices.ContainsFunc(r.Gates, func(g python.Gate) bool { return g.Name == name }) {
			shown = append(shown, r.gate(name))
		}
	}
	for _, g := range shown {
		required := slices.Contains(r.Required, g.Name)
		mark := "?"
		switch {
		case g.State == python.Pass:
			mark = "ok"
		case required:
			mark = "FAIL"
		case g.State == python.Fail && g.Basis == evidence.Derived &&
			slices.Contains([]string{"mps", "cuda", "mlx", "jax", "keras"}, g.Name):
			mark = "no" // nothing is wrong: this system has no such device
		case g.State == python.Fail:
			mark = "FAIL"
		}
		text := g.Name + ": " + g.Detail
		if required && g.State == python.Unknown {
			text += " (unknown, which is no pass)"
		}
		line(mark, text, g.Basis, g.Hint)
	}

	fmt.Fprintln(&b, "\nEnvironment")
	line("ok", "judged for "+r.Aim.String(), evidence.Declared, "")
	for _, beside := range r.Aim.Besides {
		line("note", beside, evidence.Declared, "")
	}
	if t := r.Torch; t != nil && t.Release != r.Aim.Torch {
		line("note", "torch "+t.Version+" is installed, and another one is aimed at", evidence.Derived, "")
	}
	for _, named := range [][3]string{{"macOS ", r.Aim.MacOS, r.Aim.MacOSAt}, {"", r.Aim.Chip, r.Aim.ChipAt}} {
		if named[1] != "" {
			line("ok", "aimed at "+named[0]+named[1]+", as "+cmp.Or(named[2], "the command line")+" says",
				evidence.Declared, "")
		}
	}
	if len(r.found.Environment) == 0 {
		line("ok", "no variable that would be refused, misread or ignored", evidence.Derived, "")
	}
	findings(r.found.Environment)
	if len(r.Failed) > 0 {
		fmt.Fprintf(&b, "\nfailed: %s\n", strings.Join(r.Failed, ", "))
	}
	return b.String()
}
