package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/logbook"
	"assay/internal/probe"
	"assay/internal/symptom"
	"assay/internal/target"
)

type explainOptions struct {
	json  bool
	rules bool
	torch string
}

func newExplainCommand(env *Env) *cobra.Command {
	var opts explainOptions
	cmd := &cobra.Command{
		Use:   "explain [FILE|-|RUN|TEXT]",
		Short: "Explain an error, a log or a run: cause, remedy, releases concerned",
		Long: `Reads a log (a FILE, or - for standard input), a run (its folder, an evidence.json, or a record of the logbook), or an error message given
as it is, and says for each symptom that it knows: what it is, on which lines it was found, what to do, which releases are concerned, and
which rule says so, with its source. Out-of-memory messages are read with their numbers, and turned into a batch where the log or the run names the one that was used.

A single line may also be what a guide calls a symptom ("fast start then cliff", "loss drift"). Where something circulates about an error, the answer names
the claim: assay claims 5 tells it in full.

What is called likely is said in words that others print as well; the rest follows from the words. What looks like an error and is not known is
listed as not known, and so is a last line that says that something failed. Without an argument the newest run below .assay/runs, or
else of the logbook, is explained. --rules prints the rules; docs/symptoms.md is made from them.

Exit status: 0 where something was explained or nothing looks like an error, 4 where there are only errors that are not known.`,
		Example: `  assay explain train.log
  python train.py 2>&1 | assay explain -
  assay explain .assay/runs/20261121-101500-train-1f2e3d
  assay explain "RuntimeError: Placeholder storage has not been allocated on MPS device!"`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&opts.json, "json", false, "print the record ("+symptom.Schema+")")
	cmd.Flags().StringVar(&opts.torch, "torch", "",
		"`release` of PyTorch to speak of (default: the one that the log or run names, else as for assay check)")
	cmd.Flags().BoolVar(&opts.rules, "rules", false, "print the rules")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return runExplain(env, opts, args) }
	return cmd
}

func runExplain(env *Env, opts explainOptions, args []string) error {
	if opts.rules {
		_, err := io.WriteString(env.Stdout, symptom.Page())
		return err
	}
	aim, aimErr := aimAt(env, env.Dir, target.Words{Torch: opts.torch})
	if aimErr != nil && opts.torch != "" {
		return aimErr
	}
	asked := symptom.For{}
	switch {
	case opts.torch != "":
		asked.Typed = aim.Torch
	case aimErr == nil && !aim.Guessed:
		asked.Else = aim.Torch
	}
	rep, err := explain(env, args, asked)
	if err != nil {
		return err
	}
	switch {
	case opts.torch == "" && rep.Context.Torch != "":
		rep.Aim = &target.Aim{Torch: rep.Context.Torch, Why: rep.Input + " says so", Besides: []string{}}
	case aimErr != nil:
		return aimErr
	case len(rep.Symptoms) > 0:
		rep.Aim = &aim
	}
	write := func() error { return symptom.Text(env.Stdout, rep, width(env, env.Stdout)) }
	if opts.json {
		write = func() error { return symptom.JSON(env.Stdout, rep) }
	}
	if err := write(); err != nil {
		return fmt.Errorf("print the explanation: %w", err)
	}
	if !rep.Known() && len(rep.Unknown) > 0 {
		return status(fault.CannotTell)
	}
	return nil
}

// explain explains what is named, for the release asked about, else that of the log or run, else that of the project
// here.
func explain(env *Env, args []string, asked symptom.For) (*symptom.Report, error) {
	if len(args) == 0 {
		return explainNewest(env, asked)
	}
	if args[0] == "-" {
		rep, err := asked.Scan("standard input", env.Stdin)
		if err != nil {
			return nil, fmt.Errorf("explain standard input: %w", err)
		}
		return rep, nil
	}
	path := env.Path(args[0])
	info, err := os.Stat(path)
	if err != nil && strings.ContainsAny(args[0], " \n") { // no file: the message itself
		return asked.Scan("the command line", strings.NewReader(args[0]))
	}
	if errors.Is(err, fs.ErrNotExist) && logbook.Exists(logbookPath(env, "")) { // a record of the logbook
		if run, err := loadRun(env, args[0]); err == nil {
			return asked.Run(args[0], run), nil
		}
	}
	if err != nil {
		return nil, fault.Exit(fault.Hint(fmt.Errorf("explain: %w", err),
			"name a log, a run's folder, a record of the logbook, - for standard input, or give the message in quotes"),
			fault.Usage)
	}
	if info.IsDir() {
		run, _, err := probe.Load(path)
		if err != nil {
			return nil, err
		}
		return asked.Run(args[0], run), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 64<<10)
	if head, _ := in.Peek(4096); bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")) &&
		bytes.Contains(head, []byte(`"assay.evidence/`)) {
		run, _, err := probe.Load(path)
		if err != nil {
			return nil, err
		}
		return asked.Run(args[0], run), nil
	}
	rep, err := asked.Scan(args[0], in)
	if err != nil {
		return nil, fmt.Errorf("explain %s: %w", args[0], err)
	}
	return rep, nil
}

func explainNewest(env *Env, asked symptom.For) (*symptom.Report, error) {
	hint := "name a log or a run, or pipe one in: python train.py 2>&1 | assay explain -"
	run, path, err := newest(env)
	if err != nil {
		return nil, err
	}
	if run == nil {
		return nil, fault.Exit(fault.Hint(errors.New("explain: nothing named, and no run is kept below "+runsFolder+" or in the logbook"), hint), fault.Usage)
	}
	return asked.Run(path, run), nil
}
