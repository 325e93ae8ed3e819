package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/signature"
	"assay/internal/target"
	"assay/internal/text"
	"assay/internal/unit"
)

// signaturesFolder is where the runs lie whose signatures were recorded: they take longer than others, and are no runs
// to compare.
var signaturesFolder = filepath.Join(ownFolder, "signatures")

func newSignaturesCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "signatures",
		Short: "Record the distinct operator calls of a run, to try them on a Mac in minutes",
		Long: `A signature is one distinct call of an operator: its name, and shapes, strides, types and scalars of what it was called with. A training has
some hundreds of them. Recorded where the training runs, they fit into one small file, with no data of the user's; docs/signatures.md.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newSignaturesRecordCommand(env),
		newSignaturesReplayCommand(env),
	)
	return cmd
}

func newSignaturesRecordCommand(env *Env) *cobra.Command {
	run := runOptions{asked: target.Words{On: target.Auto}, profile: "off", warnEpoch: defaultWarnEpoch, quiet: true,
		logbook: "off", signatures: true}
	var out, from string
	cmd := &cobra.Command{
		Use:   "record [flags] -- COMMAND [ARG…]",
		Short: "Run a script, a module or pytest, and keep each distinct operator call of it",
		Long: `Runs COMMAND as assay run does, and notes each distinct operator call, forward and backward: operator, shapes, strides, offsets, types, scalars,
layouts, which inputs share a storage, and of what is in a tensor no more than its range. Neither values nor names nor texts of the script's are kept.

In a training with optimizers not every step is looked at: the first ones are, then fewer while nothing new comes, so that the run takes a third
longer in all. What was not looked at is counted and said.

The file is written when the command has ended, whatever ended it. The run lies in .assay/signatures; --from makes the file of one in which assay
itself was ended before.

Exit status: the command's own; 125, 126, 127 as of assay run; 1 where the command ended with 0 and no file could be written.`,
		Example: `  assay signatures record -- python train.py --epochs 1
  assay signatures record --on double --steps 20 -- train.py
  assay signatures record --out tests.signatures -- pytest -n 4 tests`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "`file` to write; default NAME.signatures, after the script")
	f.StringVar(&run.asked.On, "on", run.asked.On, "`device` to run on: auto, cpu, mps, cuda, double")
	f.StringVar(&run.asked.Torch, "torch", "",
		"with --on double: `release` of PyTorch to stand for, 2.8 or 2.8.0 ("+torchDefault+")")
	f.StringVar(&run.python, "python", "", "`path` of the interpreter for scripts and modules")
	f.IntVar(&run.steps, "steps", 0, "end the run after so many training `steps`")
	f.StringVar(&from, "from", "", "no command: write what the run in this `folder` had recorded when it was cut off")
	f.SetInterspersed(false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		usage := func(format string, a ...any) error {
			err := fault.Hint(fmt.Errorf(format, a...), "see: assay signatures record --help")
			return fault.Exit(err, fault.NotStarted)
		}
		switch {
		case from != "" && len(args) > 0:
			return usage("--from reads a run that is over, and runs no command")
		case from == "" && len(args) == 0:
			return usage("no command to run: write it after --")
		}
		if _, err := target.Signatures.Parse(run.asked); err != nil {
			return fault.Exit(err, fault.NotStarted)
		}
		if out == "" {
			out = signatureName(args, from)
		}
		if err := freeFile(env, out); err != nil {
			return fault.Exit(err, fault.NotStarted)
		}
		if from != "" {
			return keepSignatures(env, env.Path(from), out)
		}
		return recordSignatures(cmd.Context(), env, run, args, out)
	}
	return cmd
}

// signatureName is the file's name where none was given: that of the script, the module or the program.
func signatureName(args []string, from string) string {
	name := filepath.Base(filepath.Clean(from))
	for i, word := range args {
		if i == 0 {
			name = word
		}
		if word == "-m" && i+1 < len(args) {
			name = args[i+1]
			break
		}
		if strings.HasSuffix(word, ".py") {
			name = strings.TrimSuffix(filepath.Base(word), ".py")
			break
		}
	}
	name = strings.Trim(unsafeName.ReplaceAllString(filepath.Base(name), "-"), "-.")
	if name == "" {
		name = "run"
	}
	return name + signature.Suffix
}

// freeFile says, before anything is run, why a file could not be written there.
func freeFile(env *Env, out string) error {
	path := env.Path(out)
	if _, err := os.Lstat(path); err == nil {
		return fault.Hint(fmt.Errorf("write %s: it is there already", out),
			"name another with --out: what is recorded is never written over")
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fault.Hint(fmt.Errorf("write %s: there is no folder %s", out, filepath.Dir(out)),
			"make it, or name another with --out")
	}
	return nil
}

func recordSignatures(ctx context.Context, env *Env, run runOptions, args []string, out string) error {
	res, err := runSubject(ctx, env, run, args)
	if err != nil {
		return err
	}
	var kept error
	survive(env, "keeping the signatures", func() { kept = keepSignatures(env, res.Dir, out) })
	if err := endAs(res); err != nil { // the command's own ending comes first
		if kept != nil {
			fmt.Fprintf(env.Stderr, "assay: %s\n", text.Lines(kept.Error()))
		}
		return err
	}
	return kept
}

// keepSignatures writes the file of a run that is over, and says what is in it.
func keepSignatures(env *Env, folder, out string) error {
	if folder == "" {
		return errors.New("no signatures were kept: there was no place for the run's folder")
	}
	rec, err := signature.FromRun(folder)
	if errors.Is(err, os.ErrNotExist) {
		return fault.Hint(fmt.Errorf("read the run %s: there are no events in it", folder),
			"name a folder of .assay/signatures")
	}
	if err != nil {
		return err
	}
	if len(rec.Signatures) == 0 {
		why := rec.Header.Why
		if why == "" || rec.Header.Complete {
			why = "no process of the command called an operator of PyTorch's"
		}
		return fault.Hint(fmt.Errorf("%s was not written: nothing was recorded: %s", out, why),
			"record a command that trains, or tests, with PyTorch")
	}
	path := env.Path(out)
	if err := signature.Write(path, rec.Header, rec.Signatures); err != nil {
		return fault.Hint(fmt.Errorf("write %s: %w", out, err),
			"what was recorded lies in the run's folder: assay signatures record --from "+folder+" --out FILE")
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	sayRecorded(env.Stderr, rec, out, info.Size())
	return nil
}

func sayRecorded(w io.Writer, rec *signature.Recorded, out string, size int64) {
	h, operators, phases := rec.Header, map[string]bool{}, map[string]int{}
	for _, s := range rec.Signatures {
		operators[s.Name()] = true
		phases[s.Phase]++
	}
	var parts []string
	for _, phase := range signature.Phases {
		if phases[phase] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", phases[phase], phase))
		}
	}
	on := h.Device
	if h.DeviceName != "" {
		on += " (" + h.DeviceName + ")"
	}
	if h.Double != nil {
		on = "the double of PyTorch " + h.Double.Release + ", macOS " + h.Double.MacOS
	}
	fmt.Fprintf(w, "assay: %s: %d signatures of %d operators (%s), of %d calls on %s, PyTorch %s; %s\n", text.Line(out),
		len(rec.Signatures), len(operators), strings.Join(parts, ", "), h.Seen, text.Line(on),
		text.Line(h.Torch), unit.Format(float64(size), "B"))
	if h.Steps > 0 {
		share := 100 * float64(h.Looked) / float64(h.Steps)
		fmt.Fprintf(w, "assay: looked at %d of %d steps (%.0f %%)", h.Looked, h.Steps, share)
		if h.Looked < h.Steps {
			fmt.Fprint(w, "; what only the others called is not in it")
		}
		fmt.Fprintln(w)
	}
	if rec.Processes > 1 {
		fmt.Fprintf(w, "assay: of %d processes\n", rec.Processes)
	}
	if rec.Alike > 0 {
		fmt.Fprintf(w, "assay: %d calls differ from ones in it in numbers alone, and are counted with them\n", rec.Alike)
	}
	if h.Why != "" {
		word := "left out"
		if !h.Complete {
			word = "not complete"
		}
		fmt.Fprintf(w, "assay: %s: %s\n", word, text.Line(h.Why))
	}
	fmt.Fprintf(w, "assay: on a Mac: assay signatures replay %s\n", text.Line(out))
}
