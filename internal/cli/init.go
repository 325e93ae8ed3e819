package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/atlas"
	"assay/internal/audit"
	"assay/internal/audit/rules"
	"assay/internal/fault"
	"assay/internal/target"
	"assay/internal/text"
)

type initOptions struct {
	Torch  string
	Module string
}

func newInitCommand(env *Env) *cobra.Command {
	opts := initOptions{Module: "mps_header.py"}
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a header module, settings and a pre-commit entry into a project",
		Long: `Writes what a project on MPS begins with: a small module to be imported before torch, which switches the silent fallback to the CPU off, asserts that
MPS is there and computes, and states the constraints; assay.toml with the settings of ` + "`assay check`" + `; and an entry for pre-commit.
What is there already is left as it is, and said.`,
		Example: `  assay init
  assay init ~/project --torch 2.8`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&opts.Torch, "torch", "", "`release` of PyTorch aimed at ("+torchDefault+")")
	f.StringVar(&opts.Module, "module", opts.Module, "`name` of the header module")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		dir := "."
		if len(args) > 0 {
			dir = args[0]
		}
		return runInit(env, opts, dir)
	}
	return cmd
}

func runInit(env *Env, opts initOptions, dir string) error {
	stem, isPython := strings.CutSuffix(opts.Module, ".py")
	if !isPython || stem == "" || strings.Trim(stem,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || stem[0] >= '0' && stem[0] <= '9' {
		return usage(fmt.Errorf("init: %q is no name of a module", opts.Module), "for example mps_header.py")
	}
	full := env.Path(dir)
	if info, err := os.Stat(full); err != nil || !info.IsDir() {
		if err == nil {
			err = errors.New("no folder")
		}
		return usage(fmt.Errorf("init %s: %w", dir, err), "give the project's folder")
	}
	aim, err := aimAt(env, full, target.Words{Torch: opts.Torch})
	if err != nil {
		return fault.Hint(fmt.Errorf("init: %w", err), fault.HintOf(err))
	}
	say := func(name, what string) { fmt.Fprintf(env.Stdout, "%-24s %s\n", name, what) }
	wrong, err := wrongInProject(full, aim)
	if err != nil {
		return fmt.Errorf("init %s: look for known wrong results: %w", dir, err)
	}
	if err := initFile(full, opts.Module, headerModule(aim, stem, wrong), say); err != nil {
		return err
	}
	if err := initSettings(full, initTOML(aim, opts.Torch != ""), say); err != nil {
		return err
	}
	if err := initPreCommit(env, full, say); err != nil {
		return err
	}
	return sayAim(env.Stdout, env, aim)
}

// initFile writes a file that is not there, and says so.
func initFile(dir, name, content string, say func(name, what string)) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		say(name, "is there already: left as it is")
		return nil
	}
	if err != nil {
		return fmt.Errorf("init: write %s: %w", name, err)
	}
	_, err = f.WriteString(content)
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("init: write %s: %w", name, err)
	}
	say(name, "written")
	return nil
}

func initSettings(dir, content string, say func(name, what string)) error {
	s, err := audit.FindSettings(dir)
	if err == nil && filepath.Dir(s.Path) == dir && filepath.Base(s.Path) == "pyproject.toml" {
		say("assay.toml", "not written: pyproject.toml has [tool.assay.check]")
		return nil
	}
	return initFile(dir, "assay.toml", content, say)
}

// preCommitEntry runs the assay that is installed, so that no repository or release has to be named.
const preCommitEntry = `  - repo: local
    hooks:
      - id: assay
        name: assay check
        entry: assay check --force-exclude
        language: system
        types_or: [python, jupyter]
        require_serial: true
`

func initPreCommit(env *Env, dir string, say func(name, what string)) error {
	const name = ".pre-commit-config.yaml"
	raw, err := os.ReadFile(filepath.Join(dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return initFile(dir, name, "repos:\n"+preCommitEntry, say)
	case err != nil:
		return fmt.Errorf("init: read %s: %w", name, err)
	case strings.Contains(string(raw), "assay check") || strings.Contains(string(raw), "id: assay"):
		say(name, "has an entry for assay already: left as it is")
		return nil
	}
	say(name, "is there already: left as it is; add below repos:")
	fmt.Fprint(env.Stdout, preCommitEntry)
	return nil
}

// initTOML is the settings of a new project. A release is set where it was typed: otherwise it goes on to come from the
// project.
func initTOML(aim target.Aim, typed bool) string {
	release := fmt.Sprintf("# torch = %q        # the release of PyTorch; where it is not set, that of pins, lock file "+
		"or environment", atlas.Series(aim.Torch))
	if typed {
		release = fmt.Sprintf("torch = %q        # the release of PyTorch", atlas.Series(aim.Torch))
	}
	return fmt.Sprintf(`# The Mac that assay judges for: check, ops, run --on double and the others.
[target]
%s
# chip = "m2-pro-16gb"   # the Mac that a rehearsal stands for; m1-16gb, where it is not set
# macos = "15"           # the release of macOS; any, where it is not set (a rehearsal's is 15)

# Settings of assay check and of the language server, assay lsp.
[check]
device = "mps"
# ignore = []          # rules not to look for; "assay rule" lists them
# exclude = ["third_party/"]   # as in .gitignore
# baseline = "assay-baseline.json"   # findings that are known: assay check --write-baseline assay-baseline.json
# sure = true          # leave out what is only suspected
`, release)
}

// headerWrongMost is how many known wrong results the header names.
const headerWrongMost = 8

// wrongInProject says what a check of a project's folder finds of the known wrong results of the release aimed at, a
// line of the header each; where it finds none, how many are known, and the command that lists them.
func wrongInProject(dir string, aim target.Aim) (lines []string, err error) {
	settings, err := audit.FindSettings(dir)
	if err != nil {
		return nil, err
	}
	files, err := audit.Discover(dir, []string{"."}, settings.Excludes())
	if err != nil {
		return nil, err
	}
	on, _ := target.ParseMacOS(aim.MacOS) // where none is named, any
	report, err := audit.Check(&audit.Options{Base: dir, Files: files, Rules: []*audit.Rule{rules.WrongResult},
		Known: rules.All, Target: audit.Target{Device: "mps", Torch: aim.Release, MacOS: [2]int(on)}})
	if err != nil {
		return nil, err
	}
	told := map[string]bool{}
	for _, i := range report.Items {
		if i.Rule != rules.WrongResult.Name || told[i.Fact] {
			continue
		}
		told[i.Fact] = true
		if len(lines) == headerWrongMost {
			lines = append(lines, "and others: \"assay check\" lists them.")
			break
		}
		lines = append(lines, fmt.Sprintf("%s (%s:%d)", i.Text, filepath.ToSlash(i.File), i.Line))
	}
	if lines == nil {
		lines = []string{fmt.Sprintf("%d are known of this release, none is shown by this project's code; "+
			"\"assay ops --wrong\" lists them.", len(knownWrong(aim.Torch, aim.MacOS)))}
	}
	for i := range lines { // names of files and what rows say stand in a docstring
		lines[i] = strings.NewReplacer("\\", "/", `"`+`""`, "...").Replace(text.Line(lines[i]))
	}
	return lines, nil
}

// wrongLines are those of the header about wrong results.
func wrongLines(wrong []string) string {
	const about = "\n- Wrong numbers, without a word: "
	return about + strings.Join(wrong, about)
}

// headerModule is the module that a project imports before torch. It needs nothing but torch. What is known to come out
// wrong is given, a line each.
func headerModule(aim target.Aim, name string, wrong []string) string {
	roi, a := "", &atlas.Atlas{}
	for _, op := range []string{"torchvision::roi_align", "torchvision::roi_pool"} {
		o, known := a.Operator(op)
		r, beside := a.Beside("torchvision", aim.Torch)
		if known && beside && (o.At(r.Column) == atlas.Missing || o.At(r.Column) == atlas.NoStub) {
			roi += "\n- torchvision.ops." + strings.TrimPrefix(op, "torchvision::") +
				": torchvision beside this release has no kernel for MPS."
		}
	}
	return strings.NewReplacer("NAME", name, "RELEASE", atlas.Series(aim.Torch), "\nROI\n", roi+wrongLines(wrong)+"\n\n").Replace(`"""Training on an Apple GPU: import this module first, before torch.

    from NAME import device

It switches the fallback to the CPU off, and stops at once where MPS is not there or does not compute. Nothing falls back in silence.

Constraints, for torch RELEASE:
- float64 does not exist on MPS: make tensors float32, and convert NumPy's float64 before they are moved.
- Nothing of CUDA: no .cuda(), no torch.cuda, no NCCL, no packages built for CUDA. Ask for this module's device.
- One device, one process: there is no distributed training over MPS.
- An operator without a kernel raises NotImplementedError. "assay ops OPERATOR" says since when it has one.
- Workers of a DataLoader start by spawn: a main guard, and nothing that cannot be pickled. Measure how many help.
ROI
"assay check" finds what breaks these.
"""

import os
import sys

if "torch" in sys.modules:
    raise ImportError("NAME has to be imported before torch, which reads PYTORCH_ENABLE_MPS_FALLBACK when it is imported")
if os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "0") != "0":
    raise RuntimeError("PYTORCH_ENABLE_MPS_FALLBACK is set to %r: unset it, so that nothing runs on the CPU in silence" % os.environ["PYTORCH_ENABLE_MPS_FALLBACK"])

import torch

if not torch.backends.mps.is_built():
    raise RuntimeError("this torch (%s) was not built with MPS: on a Mac with Apple silicon, install the arm64 wheel" % torch.__version__)
if not torch.backends.mps.is_available():
    raise RuntimeError("MPS is not available: it needs an Apple GPU that this process may use, and a macOS that this torch supports")

device = torch.device("mps")

# A product that came from the GPU, and is right: that a device can be named proves nothing.
_ones = torch.ones(8, 8, device=device)
_product = _ones @ _ones
if _product.device.type != "mps" or _product.cpu().ne(8).any():
    raise RuntimeError("a matrix product on MPS came out wrong, or elsewhere: on %s" % _product.device)
del _ones, _product

if __name__ == "__main__":
    print("torch %s on %s" % (torch.__version__, device))
`)
}
