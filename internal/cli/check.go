package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/atlas"
	"assay/internal/audit"
	"assay/internal/audit/rules"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/target"
	"assay/internal/text"
)

type checkOptions struct {
	Torch    string
	Device   string
	MacOS    string
	Select   []string
	Ignore   []string
	Exclude  []string
	Force    bool
	Format   string
	JSON     bool
	Sure     bool
	All      bool
	Fix      bool
	Unsafe   bool
	Diff     bool
	Baseline string
	NewBase  string
	Watch    bool
	StdinAs  string
	ExitZero bool
}

func newCheckCommand(env *Env) *cobra.Command {
	opts := checkOptions{Format: "text", StdinAs: "stdin.py"}
	cmd := &cobra.Command{
		Use:   "check [flags] [PATH…]",
		Short: "Find in the source what breaks, falls back or slows down on the target",
		Long: `Reads scripts, notebooks, packages and requirement files, without Python and without running anything, and tells what will break, fall back to the
CPU, slow down or mislead on the target: PyTorch's MPS, of the release that the project pins, unless told otherwise. What follows from the source is told as such; what depends
on something that the source leaves open is marked as suspected.

Folders are searched as git would. Settings stand in assay.toml ([check]) or pyproject.toml ([tool.assay.check]).
A comment allows a finding: # assay: allow RULE -- reason. "assay rule" lists the rules and explains one.

Exit status: 0 nothing found that is an error or a warning and sure, 3 something was, 1 or 2 the check could not be made.`,
		Example: `  assay check
  assay check train.py --torch 2.8 --fix --diff
  assay check src --format sarif > assay.sarif
  cat train.py | assay check -`,
		RunE: func(cmd *cobra.Command, args []string) error { return runCheck(cmd.Context(), env, opts, args, cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&opts.Torch, "torch", "", "`release` of PyTorch aimed at ("+torchDefault+")")
	f.StringVar(&opts.Device, "device", "", "`device` aimed at: mps, cpu or cuda (default mps)")
	f.StringVar(&opts.MacOS, "macos", "", "`release` of macOS aimed at (default: any)")
	f.StringSliceVar(&opts.Select, "select", nil, "only these `rules`")
	f.StringSliceVar(&opts.Ignore, "ignore", nil, "not these `rules`")
	f.StringSliceVar(&opts.Exclude, "exclude", nil, "leave out files by `pattern`, as in .gitignore")
	f.BoolVar(&opts.Force, "force-exclude", false,
		"leave out what is excluded even where it is named, as pre-commit names every file")
	f.StringVar(&opts.Format, "format", opts.Format, "text, concise, json, sarif, github or junit")
	f.BoolVar(&opts.JSON, "json", false, "the same as --format json")
	f.BoolVar(&opts.Sure, "sure", false, "leave out what is only suspected")
	f.BoolVar(&opts.All, "all", false, "notes that are only suspected, too")
	f.BoolVar(&opts.Fix, "fix", false, "apply the safe fixes")
	f.BoolVar(&opts.Unsafe, "unsafe-fixes", false,
		"with --fix or --diff: those that may change what the program does, too")
	f.BoolVar(&opts.Diff, "diff", false, "show what --fix would change, and change nothing")
	f.StringVar(&opts.Baseline, "baseline", "", "`file` of findings that are known")
	f.StringVar(&opts.NewBase, "write-baseline", "", "write what is found as known to a `file`")
	f.BoolVar(&opts.Watch, "watch", false, "check again whenever a file changes")
	f.StringVar(&opts.StdinAs, "stdin-filename", opts.StdinAs, "`name` that standard input (-) goes by")
	f.BoolVar(&opts.ExitZero, "exit-zero", false, "end with 0 whatever is found")
	return cmd
}

// usage is an error in the command line, with what to do.
func usage(err error, hint string) error { return fault.Exit(fault.Hint(err, hint), fault.Usage) }

// checkTarget makes the target of flags and settings, for the project in a folder.
func checkTarget(env *Env, opts checkOptions, s audit.Settings, dir string) (audit.Target, error) {
	words := target.Words{On: first(opts.Device, s.Device, "mps"), Torch: opts.Torch, MacOS: opts.MacOS}
	if _, err := target.Check.Parse(words); err != nil {
		return audit.Target{}, fault.Exit(fault.Hint(fmt.Errorf("check: %w", err), fault.HintOf(err)), fault.Usage)
	}
	aim, err := aimAt(env, dir, words)
	if err != nil {
		return audit.Target{}, fault.Hint(fmt.Errorf("check: %w", err), fault.HintOf(err))
	}
	t := audit.Target{Device: words.On, Atlas: &atlas.Atlas{}, Torch: aim.Release, Aim: aim}
	if aim.MacOS != "" {
		t.MacOS, err = target.ParseMacOS(aim.MacOS)
	}
	return t, err
}

// projectOf is the folder that the paths to be checked have in common, or the working folder where that holds none.
func projectOf(env *Env, paths []string) string {
	common := ""
	for _, path := range paths {
		if path == "-" {
			path = "."
		}
		path = env.Path(path)
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			path = filepath.Dir(path)
		}
		for common != "" && path != common && !strings.HasPrefix(path, strings.TrimSuffix(common, "/")+"/") {
			common = filepath.Dir(common)
		}
		if common == "" {
			common = path
		}
	}
	if common == "" || strings.HasPrefix(env.Dir, strings.TrimSuffix(common, "/")+"/") {
		return env.Dir
	}
	return common
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// chosenRules are the rules to look for.
func chosenRules(selected, ignored []string) ([]*audit.Rule, error) {
	for _, name := range append(slices.Clone(selected), ignored...) {
		if !slices.ContainsFunc(rules.All, func(r *audit.Rule) bool { return r.Name == name }) {
			hint := "`assay rule` lists the rules"
			if near := audit.Near(rules.All, name); near != "" {
				hint = "did you mean " + near + "?"
			}
			return nil, usage(fmt.Errorf("check: there is no rule %q", name), hint)
		}
	}
	var list []*audit.Rule
	for _, r := range rules.All {
		if (len(selected) == 0 || slices.Contains(selected, r.Name)) && !slices.Contains(ignored, r.Name) {
			list = append(list, r)
		}
	}
	return list, nil
}

func runCheck(ctx context.Context, env *Env, opts checkOptions, args []string, cmd *cobra.Command) error {
	if opts.JSON {
		opts.Format = "json"
	}
	at := slices.IndexFunc(audit.Forms, func(f audit.Form) bool { return f.Name == opts.Format })
	if at < 0 {
		return usage(fmt.Errorf("check: there is no format %q", opts.Format),
			"text, concise, json, sarif, github or junit")
	}
	if opts.Watch && (opts.Fix || opts.Diff || opts.NewBase != "" || slices.Contains(args, "-")) {
		return usage(errors.New("check: --watch only looks: not with --fix, --diff, --write-baseline or standard input"), "leave one of them out")
	}
	if opts.Unsafe && !opts.Fix && !opts.Diff {
		return usage(errors.New("check: --unsafe-fixes does nothing by itself"),
			"add --diff to look at them, or --fix to apply them")
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	settings, err := audit.FindSettings(env.Dir)
	if err != nil {
		return usage(fmt.Errorf("check: %w", err), "")
	}
	aimed, err := checkTarget(env, opts, settings, projectOf(env, args))
	if err != nil {
		return err
	}
	if _, err := chosenRules(settings.Select, settings.Ignore); err != nil {
		return fmt.Errorf("%w (in %s)", err, settings.Path)
	}
	if len(opts.Select) == 0 {
		opts.Select = settings.Select
	}
	chosen, err := chosenRules(opts.Select, append(opts.Ignore, settings.Ignore...))
	if err != nil {
		return err
	}
	o := audit.Options{Base: env.Dir, Rules: chosen, Known: rules.All, Target: aimed, Sure: opts.Sure || settings.Sure,
		All: opts.All, Version: Version(),
		Stdin: env.Stdin, StdinAs: opts.StdinAs}
	if opts.Fix || opts.Diff {
		o.Fix = audit.Safe
		if opts.Unsafe {
			o.Fix = audit.Unsafe
		}
	}
	baseline := opts.Baseline
	if baseline != "" {
		baseline = env.Path(baseline)
	} else if settings.Baseline != "" {
		baseline = filepath.Join(filepath.Dir(settings.Path), settings.Baseline)
	}
	exclude := append(settings.Excludes(), audit.Exclude{Dir: env.Dir, Patterns: opts.Exclude})
	once := func() (*audit.Report, error) { return checkOnce(env, opts, o, args, exclude, baseline) }
	report, err := once()
	if err != nil {
		return err
	}
	write, out := audit.Forms[at].Write, env.Stdout
	if opts.Fix && slices.Contains(args, "-") {
		out = env.Stderr // standard output is the fixed source
	}
	if !opts.Diff {
		if err := write(out, report); err != nil {
			return err
		}
	}
	if opts.Watch {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		return watchFiles(ctx, env, args, exclude, tick.C, func() error {
			report, err := once()
			if err != nil {
				return err
			}
			fmt.Fprintln(env.Stdout)
			return write(env.Stdout, report)
		})
	}
	if report.Bad() && !opts.ExitZero {
		return status(fault.GateFailed)
	}
	return nil
}

func checkOnce(env *Env, opts checkOptions, o audit.Options, args []string, exclude []audit.Exclude,
	baseline string) (*audit.Report, error) {
	o.Files = nil
	var paths []string
	for _, a := range args {
		if a == "-" {
			o.Files = append(o.Files, "-")
		} else {
			paths = append(paths, a)
		}
	}
	found, err := audit.Discover(env.Dir, paths, exclude)
	if err != nil {
		return nil, usage(err, "give files or folders that are there")
	}
	if opts.Force {
		found = slices.DeleteFunc(found, func(f string) bool { return audit.Excluded(env.Dir, env.Path(f), exclude) })
	}
	o.Files = append(o.Files, found...)
	var stdin, before []byte
	if slices.Contains(o.Files, "-") {
		if stdin, err = io.ReadAll(io.LimitReader(env.Stdin, 32<<20)); err != nil {
			return nil, fmt.Errorf("check: read standard input: %w", err)
		}
		before = stdin
	}
	o.Changed = map[string][]byte{}
	var report *audit.Report
	fixed := 0
	for range 10 { // a fix may uncover another
		if baseline != "" && opts.NewBase == "" { // a new one holds what the old one held
			if o.Baseline, err = audit.LoadBaseline(baseline, env.Dir); err != nil {
				return nil, usage(fmt.Errorf("check: %w", err), "write one with --write-baseline")
			}
		}
		o.Stdin = strings.NewReader(string(stdin))
		if report, err = audit.Check(&o); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
		fixed += report.Counts.Fixed
		if content, ok := o.Changed[env.Path(o.StdinAs)]; ok && slices.Contains(o.Files, "-") {
			stdin = content
		}
		if report.Counts.Fixed == 0 {
			break
		}
	}
	report.Counts.Fixed = fixed
	for _, name := range o.Files {
		content, ok := o.Changed[env.Path(name)]
		if name == "-" && opts.Diff {
			name, content, ok = o.StdinAs, stdin, string(stdin) != string(before)
		} else if name == "-" && opts.Fix {
			if _, err := env.Stdout.Write(stdin); err != nil {
				return nil, err
			}
			continue
		}
		if !ok {
			continue
		}
		if opts.Diff {
			before := before
			if name != o.StdinAs || !slices.Contains(o.Files, "-") {
				if before, err = os.ReadFile(env.Path(name)); err != nil {
					return nil, fmt.Errorf("check: %w", err)
				}
			}
			if _, err := io.WriteString(env.Stdout, audit.Diff(filepath.ToSlash(name), before, content)); err != nil {
				return nil, err
			}
			continue
		}
		if err := file.Rewrite(env.Path(name), content); err != nil {
			return nil, fmt.Errorf("check: write the fixed %s: %w", name, err)
		}
	}
	if opts.NewBase != "" {
		if err := audit.WriteBaseline(env.Path(opts.NewBase), env.Dir, report); err != nil {
			return nil, fmt.Errorf("check: write the baseline: %w", err)
		}
	}
	return report, nil
}

// watchFiles calls again whenever a file that is checked appears, goes or changes, until the context ends. It looks at
// each tick.
func watchFiles(ctx context.Context, env *Env, args []string, exclude []audit.Exclude, ticks <-chan time.Time,
	again func() error) error {
	state := func() string {
		files, err := audit.Discover(env.Dir, args, exclude)
		if err != nil {
			return err.Error()
		}
		var b strings.Builder
		for _, f := range files {
			if info, err := os.Stat(env.Path(f)); err == nil {
				fmt.Fprintf(&b, "%s %d %d\n", f, info.Size(), info.ModTime().UnixNano())
			}
		}
		return b.String()
	}
	last := state()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
		}
		if now := state(); now != last {
			last = now
			if err := again(); err != nil {
				fmt.Fprintf(env.Stderr, "assay: %s\n", text.Lines(err.Error()))
			}
		}
	}
}

func newRuleCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "rule [NAME]",
		Short: "List the rules of `assay check`, or explain one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, r := range rules.All {
					fmt.Fprintf(env.Stdout, "%-34s %-8s %s\n", r.Name, r.Severity, r.Title)
				}
				return nil
			}
			for _, r := range rules.All {
				if r.Name == args[0] {
					_, err := io.WriteString(env.Stdout, audit.Page(r))
					return err
				}
			}
			hint := "`assay rule` lists the rules"
			if near := audit.Near(rules.All, args[0]); near != "" {
				hint = "did you mean " + near + "?"
			}
			return usage(fmt.Errorf("rule: there is no rule %q", args[0]), hint)
		},
	}
}
