package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"assay/internal/bundle"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/gate"
	"assay/internal/logbook"
	"assay/internal/probe"
	"assay/internal/python"
	"assay/internal/secret"
	"assay/internal/signature"
	"assay/internal/text"
	"assay/internal/unit"
)

func newHandoffCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "handoff",
		Short: "Take a run to another machine",
		Long: `A bundle is a run made ready to leave: its code, packages, command, variables, evidence and gates in one file. It is packed here, sent, and
tried there; docs/handoff.md.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newHandoffPackCommand(env),
		newHandoffShowCommand(env),
		newHandoffUnpackCommand(env),
		newHandoffUnitCommand(env),
		newHandoffSmoke(env),
		newHandoffSend(env),
	)
	return cmd
}

type packOptions struct {
	out          string
	force        bool
	dir          string
	code         string
	data         bool
	mostData     string
	mostFile     string
	fetch        []string
	policy       string
	signatures   string
	trace        bool
	allowSecrets bool
	json         bool
}

func newHandoffPackCommand(env *Env) *cobra.Command {
	var opts packOptions
	cmd := &cobra.Command{
		Use:   "pack RUN -o BUNDLE",
		Short: "Pack a run: code, lock, command, variables, data, evidence, gates, units",
		Long: `Packs a run into one file: its code at the commit that it ran from, with what was changed; the lock of its packages, held against what it
really had; its command and variables; where its data are, with their fingerprints; its evidence, how it came out by the gates, and the policy; its
signatures, where they were recorded; and units for launchd and systemd that set exactly those variables. RUN is a run's folder or its name, or a
record of the logbook (3f2a91). The same run gives the same bytes.

What cannot be known is said, here and in the manifest: the changes of a run whose working copy has moved on since, data that lie nowhere any more,
packages from a folder of this machine. Secrets are left out: variables by their name and their value, which are listed as needed, and files that hold
credentials by their name. Where one stands in the code itself nothing is packed.

Exit status: 0 packed, 1 not.`,
		Example: `  assay handoff pack 3f2a91 -o bundle.tar.zst
  assay handoff pack .assay/runs/20261121-101500-train-1f2e3d -o run.tar.zst --data
  assay handoff pack 3f2a91 -o bundle.tar.zst --fetch 'imagenet=rsync -a store:imagenet/ .'`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVarP(&opts.out, "out", "o", "", "`file` to write")
	f.BoolVar(&opts.force, "force", false, "write over a file that is there already")
	f.StringVar(&opts.dir, "dir", "", "`folder` that the run was started in, where it lies elsewhere by now")
	f.StringVar(&opts.code, "code", "run", "which code: that of the `run`, or now")
	f.BoolVar(&opts.data, "data", false, "pack the data along that the run read, where they are still the same")
	f.StringVar(&opts.mostData, "most-data", "1GiB", "leave out data of more than so many `bytes`")
	f.StringVar(&opts.mostFile, "most-file", "100MiB", "leave out files of the code of more than so many `bytes`")
	f.StringArrayVar(&opts.fetch, "fetch", nil, "`NAME=HOW` to fetch data: an address or a command; may be given again")
	f.StringVar(&opts.policy, "policy", "", "`file` of gates, or default; as of assay gate")
	f.StringVar(&opts.signatures, "signatures", "", "`file` that assay signatures record wrote of the command")
	f.BoolVar(&opts.trace, "trace", false, "pack the trace of the profiler along")
	f.BoolVar(&opts.allowSecrets, "allow-secrets", false, "pack although secrets seem to stand in the code")
	f.BoolVar(&opts.json, "json", false, "print the manifest")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		return runHandoffPack(ctx, env, opts, args[0])
	}
	return cmd
}

func runHandoffPack(ctx context.Context, env *Env, opts packOptions, arg string) error {
	usage := func(format string, a ...any) error {
		return fault.Exit(fault.Hint(fmt.Errorf(format, a...), "see: assay handoff pack --help"), fault.Usage)
	}
	if opts.out == "" {
		return usage("no file to write: name it with -o")
	}
	if opts.code != "run" && opts.code != "now" {
		return usage("--code %s: run or now", opts.code)
	}
	o := bundle.Options{Now: opts.code == "now", Assay: Version(), Data: opts.data, AllowSecrets: opts.allowSecrets,
		Fingerprint: probe.Fingerprint, Secrets: &secret.Set{}, Fetch: map[string]string{}, Skip: nil}
	var err error
	if o.MostData, err = parseBytes(opts.mostData); err != nil {
		return usage("--most-data %s: %w", opts.mostData, err)
	}
	if o.MostFile, err = parseBytes(opts.mostFile); err != nil {
		return usage("--most-file %s: %w", opts.mostFile, err)
	}
	for _, f := range opts.fetch {
		name, how, ok := strings.Cut(f, "=")
		if !ok || name == "" || strings.TrimSpace(how) == "" {
			return usage("--fetch %s: NAME=HOW, as in --fetch 'imagenet=rsync -a store:imagenet/ .'", f)
		}
		if secret.Text(how) != how {
			return usage("--fetch %s: a secret stands in it, and would be in the bundle", name)
		}
		o.Fetch[name] = how
	}
	o.Secrets.Environ(env.Environ)
	folder := ""
	if o.Run, o.Evidence, folder, err = packedRun(ctx, env, arg); err != nil {
		return err
	}
	if o.Dir, err = packedDir(env, o.Run, opts.dir); err != nil {
		return err
	}
	o.Around = surroundings(ctx, env, o.Run)
	if err := packGates(env, opts, &o); err != nil {
		return err
	}
	if err := packSignatures(env, opts, &o); err != nil {
		return err
	}
	if opts.trace {
		o.Trace = filepath.Join(folder, "trace.json.gz")
		if _, err := os.Stat(o.Trace); folder == "" || err != nil {
			o.Trace = ""
			o.Missing = append(o.Missing, bundle.Missing{What: "the trace", Why: "the run's folder has none"})
		}
	}
	file.Sweep(env.Environ, env.Dir) // of one that was killed
	temp, err := file.Temp(env.Environ, env.Dir, "pack")
	if err != nil {
		return err
	}
	defer temp.Remove()
	o.Temp = temp.Path
	m, err := bundle.WriteFile(ctx, o, env.Path(opts.out), opts.force)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("pack %s: interrupted: nothing was written", arg)
		}
		return err
	}
	b, err := bundle.Open(env.Path(opts.out)) // as whoever gets it will read it
	if err != nil {
		return err
	}
	if opts.json {
		return printJSON(env.Stdout, m)
	}
	return sayBundle(env.Stdout, b, opts.out)
}

// parseBytes reads a size: 500MB, 2GiB, 1048576.
func parseBytes(s string) (int64, error) {
	at := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	number, word := s, ""
	if at >= 0 {
		number, word = s[:at], strings.ToLower(strings.TrimSpace(s[at:]))
	}
	factor, ok := map[string]float64{"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 1 << 10,
		"mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}[word]
	var n float64
	if _, err := fmt.Sscanf(number, "%g", &n); err != nil || !ok || n <= 0 || n*factor > 1<<60 {
		return 0, errors.New("a size such as 500MB or 2GiB")
	}
	return int64(n * factor), nil
}

// packedRun finds a run by its path, its name below .assay/runs, or as the logbook knows it, with the bytes of its
// evidence, and its folder where that is here.
func packedRun(ctx context.Context, env *Env, arg string) (*evidence.Run, []byte, string, error) {
	path := env.Path(arg)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !strings.ContainsRune(arg, filepath.Separator) {
		if in := env.Path(filepath.Join(runsFolder, arg)); arg != "" && isFolder(in) {
			path = in
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		run, folder, err := probe.Load(path)
		if err != nil {
			return nil, nil, "", err
		}
		if run.Document == "" {
			return nil, nil, "", fault.Hint(fmt.Errorf("pack %s: the run was cut off, and has no evidence.json", arg),
				"pack a run that came to its end")
		}
		name := path
		if isFolder(path) {
			name = filepath.Join(folder, "evidence.json")
		}
		doc, err := readEvidence(name)
		return run, doc, folder, err
	}
	run, err := loadRun(env, arg)
	if err != nil {
		return nil, nil, "", err
	}
	book, err := logbook.OpenRead(ctx, logbookPath(env, ""))
	if err != nil {
		return nil, nil, "", err
	}
	defer book.Close()
	id, err := resolveRecord(ctx, env, book, arg)
	if err != nil {
		return nil, nil, "", err
	}
	doc, err := book.Document(ctx, id)
	folder := env.Path(filepath.Join(runsFolder, filepath.Base(run.ID)))
	if here, _, bad := probe.Load(folder); bad != nil || here.Document != id {
		folder = ""
	}
	return run, doc, folder, err
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// packedDir is the run's working folder here.
func packedDir(env *Env, run *evidence.Run, asked string) (string, error) {
	dir := run.Subject.Dir
	if asked != "" {
		dir = env.Path(asked)
	}
	if !filepath.IsAbs(dir) || !isFolder(dir) {
		return "", fault.Hint(fmt.Errorf("pack the code: the folder that the run was started in, %s, is not here", dir),
			"name where it lies now with --dir")
	}
	return dir, nil
}

// surroundings asks the run's interpreter what is installed.
func surroundings(ctx context.Context, env *Env, run *evidence.Run) bundle.Surroundings {
	path := run.Provenance.Interpreter
	if path == "" {
		return bundle.Surroundings{Missing: "the run's evidence names no interpreter"}
	}
	in, err := python.Inspect(ctx, env.Environ, env.Dir, path)
	if err != nil {
		return bundle.Surroundings{Missing: "the run's interpreter is not here any more"}
	}
	a := bundle.Surroundings{Prefix: in.Prefix, Origin: in.Origin}
	for _, p := range python.Packages(in.Site) {
		a.Packages = append(a.Packages, bundle.Installed{Name: p.Name, Version: p.Version, Installer: p.Installer,
			Records: p.Location})
	}
	return a
}

// packGates holds the run against the policy in force: the one named, gates.toml of the run's folder, or the default.
func packGates(env *Env, opts packOptions, o *bundle.Options) error {
	name := opts.policy
	if name == "" {
		if in := filepath.Join(o.Dir, policyFile); isFile(in) {
			name = in
		}
	}
	policy, err := loadPolicy(env, orDefault(name))
	if err != nil {
		return err
	}
	o.Policy = gate.DefaultText
	if policy.Name != "default" {
		if o.Policy, err = os.ReadFile(env.Path(name)); err != nil {
			return fmt.Errorf("read the policy: %w", err)
		}
		policy.Name = filepath.Base(policy.Name)
	}
	rep := gate.Judge(policy, &gate.Set{Runs: []*evidence.Run{o.Run}, History: runHistory(env, nil, "")})
	var report strings.Builder
	if err := (gate.JSON{}).Write(&report, rep); err != nil {
		return fmt.Errorf("pack the gates: %w", err)
	}
	o.Gates, o.Judged = []byte(report.String()), bundle.Gates{Policy: policy.Name, Outcome: string(rep.Outcome)}
	return nil
}

func orDefault(name string) string {
	if name == "" {
		return "default"
	}
	return name
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// packSignatures finds the signatures of the command: the file named, or the one that is called as assay signatures
// record would call it.
func packSignatures(env *Env, opts packOptions, o *bundle.Options) error {
	name := opts.signatures
	if name == "" {
		name = filepath.Join(o.Dir, signatureName(o.Run.Subject.Command, ""))
		if !isFile(name) {
			return nil
		}
	}
	if _, _, err := signature.Load(env.Path(name)); err != nil {
		return fmt.Errorf("pack the signatures: %w", err)
	}
	o.Signed = env.Path(name)
	return nil
}

// sayBundle says what is in a bundle, and what is not.
func sayBundle(w io.Writer, b *bundle.Bundle, name string) error {
	m := b.Manifest
	var out strings.Builder
	row := func(head, format string, a ...any) {
		said := text.Line(fmt.Sprintf(format, a...))
		lines := text.Wrap(said, fmt.Sprintf("%-12s", head), strings.Repeat(" ", 12), 100)
		out.WriteString(strings.Join(lines, "\n") + "\n")
	}
	row("bundle", "%s, %s", name, unit.Bytes(float64(b.Size)))
	row("", "SHA-256 %s", b.Sum)
	ran := []string{m.Run.ID}
	if m.Run.Target.Framework != "" {
		ran = append(ran, strings.TrimSpace(m.Run.Target.Framework+" "+m.Run.Target.Release))
	}
	if m.Run.Python != "" {
		ran = append(ran, "Python "+m.Run.Python)
	}
	row("run", "%s", strings.Join(append(ran, m.Run.System), ", "))
	c := m.Code
	commit := "no commit"
	if c.Commit != "" {
		commit = "commit " + c.Commit[:min(12, len(c.Commit))] + ", " + c.Dirty
	}
	row("code", "%d files, %s, %s", c.Files, unit.Bytes(float64(c.Bytes)), commit)
	row("", "%s (%s)", c.Why, c.Basis)
	if len(c.Patch) > 0 {
		row("", "changed against the commit: %s", some(c.Patch))
	}
	e := m.Environment
	made := e.Made
	if made == "" {
		made = "what made it is not known"
	}
	row("packages", "%d; %s: %s", e.Packages, made, e.MadeWhy)
	row("", "install by %s: %s", orNone(e.Install), e.Why)
	for _, l := range e.Locks {
		if l.Path == bundle.MadeLock {
			continue
		}
		if l.Of == "" {
			l.Of = l.Path
		}
		if l.Missing != "" {
			row("", "%s cannot be compared: %s", l.Of, l.Missing)
			continue
		}
		row("", "%s: packages as the run had them: %d, otherwise: %d", l.Of, l.Same, len(l.Differs))
		for i, d := range l.Differs {
			if i == 8 {
				row("", "  and %d more", len(l.Differs)-i)
				break
			}
			row("", "  %s: the run had %s, the lock %s", d.Package, d.Run, orNone(d.Lock))
		}
	}
	for _, p := range e.Elsewhere {
		if p.Missing == "" {
			from := p.URL
			if p.Code != "" {
				from = "the folder of the code " + p.Code
			}
			row("", "%s %s comes from %s", p.Package, p.Version, from)
		}
	}
	row("command", "%s", strings.Join(m.Command.Words, " "))
	row("", "in %s, variables: %d", m.Command.Dir, len(m.Command.Variables))
	if len(m.Command.Needed) > 0 {
		row("needed", "set them there, they hold secrets: %s", strings.Join(m.Command.Needed, ", "))
	}
	for _, d := range m.Data {
		state := "not in the bundle"
		switch {
		case d.File != "":
			state = "in the bundle"
		case d.Fetch != "":
			state = "fetch: " + d.Fetch + " (declared)"
		}
		if d.Files == 0 {
			row("data", "%s: %s; %s", d.Name, state, d.Missing)
			continue
		}
		row("data", "%s: %d files, %s, %s", d.Name, d.Files, unit.Bytes(float64(d.Bytes)), state)
		if d.Missing != "" {
			row("", "%s", d.Missing)
		}
	}
	if m.Gates != nil {
		row("gates", "%s by the policy %s", m.Gates.Outcome, m.Gates.Policy)
	}
	left := func(what, why string) { row("left out", "%s: %s", what, why) }
	for i, l := range c.Left {
		if i == 20 {
			left(fmt.Sprintf("%d more", len(c.Left)-i), "the manifest has all")
			break
		}
		left(l.Path, l.Why)
	}
	for _, d := range m.Command.Dropped {
		left(d.What, d.Why)
	}
	for _, d := range m.Command.Local {
		row("mind", "%s: %s", d.What, d.Why)
	}
	for _, n := range c.Notes {
		row("mind", "%s", n)
	}
	if len(c.Secrets) > 0 {
		row("mind", "secrets seem to stand in the code (--allow-secrets): %s, %d places", c.Secrets[0], len(c.Secrets))
	}
	for _, miss := range m.Missing {
		hint := ""
		if miss.Hint != "" {
			hint = " (" + miss.Hint + ")"
		}
		row("missing", "%s: %s%s", miss.What, miss.Why, hint)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func orNone(s string) string { return orWord(s, "none") }

func orWord(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// some names the first of a list.
func some(list []string) string {
	if len(list) > 6 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:6], ", "), len(list)-6)
	}
	return strings.Join(list, ", ")
}
