package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/logbook"
	"assay/internal/probe"
	"assay/internal/secret"
	"assay/internal/text"
)

// runFiles are what a run's folder holds: nothing else in it is touched.
var runFiles = []string{"events.jsonl", "evidence.json", "report.html", "gates.json", "trace.json", "trace.json.gz"}

// leastForgotten is how short a value may be: a shorter one stands in words and paths of every record by chance.
const leastForgotten = 4

type forgetOptions struct {
	value, because string
	secrets        bool
	folders        []string
}

func newLogForget(env *Env, opts *logOptions) *cobra.Command {
	var own forgetOptions
	cmd := &cobra.Command{Use: "forget [RECORD…] --because REASON",
		Short: "Take a record, or a value, out of everything",
		Long: `Takes records out of the logbook and out of the folders of their runs, or takes one value out of all records and folders. A tombstone stays: that
there was a record, when and why it went, which one stands in its place. It does not tell what was taken out.

A run goes with its folder's files, its series, and the notes and facts that are about nothing else. --value - takes the value from standard input, or
asks for it: what stands on a command line is kept by the shell. --secrets takes out everything that is a secret by its shape or by the name
before it, as assay does by itself before it keeps anything: for records of earlier versions.

Folders are those below .assay/runs here and beside the logbook; --folder names others. A logbook that is imported later does not bring back what was
forgotten, and one that imports this one forgets it as well. What was exported or copied elsewhere, and what disks, snapshots and backups
keep, is beyond it. Where it was cut off, the same command completes it.`,
		Example: "  assay log forget 3f2a91 --because \"a key stood in an argument\"\n  pass show wandb | assay log forget --value - --because \"a key stood in an argument\"\n" +
			"  assay log forget --secrets --because \"kept before secrets were taken out\""}
	f := cmd.Flags()
	f.StringVar(&own.value, "value", "", "take out one value; `-` reads it from standard input")
	f.BoolVar(&own.secrets, "secrets", false, "take out whatever can be told to be a secret")
	f.StringVar(&own.because, "because", "", "the `reason`, which is kept")
	f.StringArrayVar(&own.folders, "folder", nil, "a run's `folder` elsewhere (run --out); may be given again")
	cmd.MarkFlagsMutuallyExclusive("value", "secrets")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runForget(cmd.Context(), env, opts, own, args) }
	return cmd
}

func runForget(ctx context.Context, env *Env, opts *logOptions, own forgetOptions, args []string) error {
	usage := func(hint, format string, a ...any) error {
		return fault.Exit(fault.Hint(fmt.Errorf("log forget: "+format, a...), hint), fault.Usage)
	}
	switch {
	case strings.TrimSpace(own.because) == "":
		return usage("it is kept with the tombstone", "--because gives the reason")
	case own.value != "" && own.value != "-":
		return usage("write --value - and give it on standard input",
			"a value on a command line is kept by the shell, and seen by every user of the machine")
	case len(args) == 0 && own.value == "" && !own.secrets:
		return usage("see: assay log forget --help", "name a record, or --value -, or --secrets")
	case len(args) > 0 && (own.value != "" || own.secrets):
		return usage("", "a value is taken out of all records: name no record beside it")
	}
	var clean *cleaner
	switch {
	case own.secrets:
		clean = &cleaner{env: env, json: secret.JSON, text: secret.Text}
	case own.value != "":
		value, err := askValue(env)
		if err != nil {
			return err
		}
		if len(value) < leastForgotten {
			return usage("forget the records whole",
				"the value has %d bytes: one shorter than %d stands in every record by chance", len(value),
				leastForgotten)
		}
		v := secret.NewValue(value)
		if word := ownWord(v); word != "" {
			return usage("forget the records whole",
				"the value stands in a name of the records' own form (%s): without it they cannot be read", word)
		}
		clean = &cleaner{env: env, json: v.JSON, text: v.Text}
	}
	path := logbookPath(env, opts.logbook)
	if !logbook.Exists(path) {
		return fault.Hint(fmt.Errorf("no logbook at %s", path), "--logbook or $ASSAY_LOGBOOK names another file")
	}
	book, err := writeLogbook(ctx, env, path)
	if err != nil {
		return err
	}
	defer book.Close()
	pending, err := book.Unscrubbed(ctx)
	if err != nil {
		return err
	}
	if pending > 0 { // of a forgetting that was cut off
		if err := book.Scrub(ctx); err != nil {
			return err
		}
		fmt.Fprintln(env.Stderr, "completed what was cut off before")
	}
	f := logbook.Forgetting{At: env.Now(), Because: own.because}
	if clean != nil {
		f.Without, f.Text = clean.json, clean.text
	}
	var going []*evidence.Run
	for _, word := range args {
		id, err := book.Resolve(ctx, word)
		if err != nil && pending > 0 {
			fmt.Fprintf(env.Stderr, "no record is called %s any more\n", text.Short(word, 64))
			continue
		}
		if err != nil {
			return err
		}
		f.Records = append(f.Records, id)
		if run, err := book.Run(ctx, id); err == nil {
			going = append(going, run)
		}
	}
	// The folders first: where this is cut off, the logbook still names the record, and the same command goes on.
	folders, err := runFolders(env, path, own.folders)
	if err != nil {
		return err
	}
	touched := 0
	for _, dir := range folders {
		done := false
		if clean != nil {
			done, err = clean.folder(dir)
		} else {
			done, err = removeRun(dir, going)
		}
		if err != nil {
			return fmt.Errorf("forget in the folder %s: %w", dir, err)
		}
		if done {
			touched++
		}
	}
	done, err := book.Forget(ctx, f)
	if done != nil {
		for _, e := range done.Gone {
			fmt.Fprintf(env.Stdout, "forgotten: %s  %s  %s  %s\n", e.ID[:10], e.At.Local().Format("2006-01-02 15:04"),
				e.Kind, text.Short(secret.Text(e.Title), 60))
		}
		fmt.Fprintf(env.Stdout, "%d records forgotten, %d changed; %d folders of runs changed\n", len(done.Gone),
			len(done.Changed), touched)
	}
	return err
}

// askValue reads the value from standard input, less the end of its line. On a terminal it asks for one line, which is
// not shown.
func askValue(env *Env) (string, error) {
	if f, ok := env.Stdin.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Name() != "null" {
			fmt.Fprint(env.Stderr, "the value to forget: ")
			echo := func(word string) {
				cmd := exec.Command("stty", word)
				cmd.Stdin = f
				_ = cmd.Run() // without stty it is shown as it is typed
			}
			echo("-echo")
			line, err := bufio.NewReader(f).ReadString('\n')
			echo("echo")
			fmt.Fprintln(env.Stderr)
			if err != nil && err != io.EOF {
				return "", fmt.Errorf("log forget: read the value: %w", err)
			}
			return strings.TrimRight(line, "\r\n"), nil
		}
	}
	data, err := io.ReadAll(io.LimitReader(env.Stdin, 1<<20))
	if err != nil {
		return "", fmt.Errorf("log forget: read the value: %w", err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// ownWord is a word of the records' own form in which the value stands; "" where there is none.
func ownWord(v *secret.Value) string {
	one := 1.0
	figure := evidence.Known("step.time", one, "s", evidence.Measured)
	run := evidence.NewRun("")
	run.Figures = append(run.Figures, figure)
	data, _ := json.Marshal([]any{run, logbook.Record{Schema: logbook.RecordSchema},
		evidence.Window{}, evidence.Epoch{}, evidence.Finding{}, evidence.Fallback{}, evidence.SyncPoint{},
		evidence.PhaseMem{}, evidence.Operator{}})
	for _, word := range append(strings.FieldsFunc(string(data), func(r rune) bool {
		return r != '_' && r != '.' &&
			r != '/' && (r < 'a' || r > 'z')
	}),
		string(evidence.Measured), string(evidence.Rehearsed), string(evidence.Predicted), string(evidence.Derived),
		string(evidence.Declared), logbook.KindRun,
		logbook.KindRehearsal, logbook.KindNote, logbook.KindRejection, logbook.KindFacts, logbook.KindSeries) {
		if v.In(word) {
			return word
		}
	}
	return ""
}

// runFolders are the folders of runs here, beside the logbook, and those named.
func runFolders(env *Env, book string, named []string) ([]string, error) {
	var all []string
	for _, parent := range []string{env.Path(runsFolder), filepath.Join(filepath.Dir(book), "runs")} {
		entries, err := os.ReadDir(parent)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("look for the folders of runs: %w", err)
		}
		for _, e := range entries {
			if dir := filepath.Join(parent, e.Name()); e.IsDir() && !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	for _, dir := range named {
		if info, err := os.Stat(env.Path(dir)); err != nil || !info.IsDir() {
			return nil, fault.Exit(fmt.Errorf("log forget: --folder %s: no such folder", dir), fault.Usage)
		}
		if dir = env.Path(dir); !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all, nil
}

// removeRun takes the files of a run's folder away where it is that of one of the runs, and the folder, where nothing
// else lies in it.
func removeRun(dir string, runs []*evidence.Run) (bool, error) {
	run, _, err := probe.Load(dir)
	if err != nil {
		return false, nil // no run that could be told to be one of them
	}
	if !slices.ContainsFunc(runs, func(r *evidence.Run) bool { return runKey(r) == runKey(run) }) {
		return false, nil
	}
	// Those by which it is known last: where this is cut off, the same command finds it again.
	for _, name := range []string{"report.html", "gates.json", "trace.json", "trace.json.gz", "events.jsonl",
		"evidence.json"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	for _, path := range file.Parts(dir) { // of a file that was being written when assay was killed
		_ = os.Remove(path)
	}
	_ = os.Remove(dir) // it stays where something of somebody's lies in it
	return true, nil
}

// cleaner takes something out of the files of runs.
type cleaner struct {
	env  *Env
	json func([]byte) []byte
	text func(string) string
}

// folder cleans a run's folder; false where nothing was in it.
func (c *cleaner) folder(dir string) (changed bool, err error) {
	for _, name := range runFiles {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		var done bool
		switch {
		case name == "report.html":
			continue // made anew of the evidence, below
		case strings.HasSuffix(name, ".gz"):
			done, err = c.file(path, true, func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) },
				func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
		default:
			// a document a line; a trace is too large to be read whole
			lines := name == "events.jsonl" || name == "trace.json"
			done, err = c.file(path, lines, func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil },
				func(w io.Writer) io.WriteCloser { return keepOpen{w} })
		}
		if err != nil {
			return changed, fmt.Errorf("%s: %w", name, err)
		}
		changed = changed || done
	}
	page := filepath.Join(dir, "report.html")
	was, err := os.ReadFile(page)
	if err != nil {
		return changed, nil
	}
	run, _, err := probe.Load(dir)
	if err != nil {
		return changed, nil // a page alone, or another's
	}
	var now bytes.Buffer
	form, err := pageOf(c.env, run, dir, nil)
	if err != nil {
		return changed, err
	}
	if err := form.Write(&now, run); err != nil {
		return changed, err
	}
	if !changed && c.text(string(was)) == string(was) {
		return false, nil
	}
	return true, file.Write(page, 0o600, func(w io.Writer) error { _, err := w.Write(now.Bytes()); return err })
}

type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// file cleans one file, whole or line by line, and writes it anew where something changed.
func (c *cleaner) file(path string, lines bool, open func(io.Reader) (io.ReadCloser, error),
	pack func(io.Writer) io.WriteCloser) (bool, error) {
	pass := func(w io.Writer) (changed bool, err error) {
		f, err := os.Open(path)
		if err != nil {
			return false, err
		}
		defer f.Close()
		r, err := open(f)
		if err != nil {
			return false, err
		}
		in := bufio.NewReaderSize(r, 1<<20)
		for {
			var line []byte
			var err error
			if lines {
				line, err = in.ReadBytes('\n')
			} else if line, err = io.ReadAll(in); err == nil {
				err = io.EOF
			}
			clean := c.json(line)
			changed = changed || !bytes.Equal(clean, line)
			if _, werr := w.Write(clean); werr != nil {
				return changed, werr
			}
			if err == io.EOF {
				return changed, nil
			}
			if err != nil {
				return changed, err
			}
		}
	}
	changed, err := pass(io.Discard)
	if err != nil || !changed {
		return false, err
	}
	return true, file.Write(path, 0o600, func(w io.Writer) error {
		z := pack(w)
		if _, err := pass(z); err != nil {
			return err
		}
		return z.Close()
	})
}
