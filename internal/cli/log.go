package cli

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/host"
	"assay/internal/logbook"
	"assay/internal/probe"
	"assay/internal/report"
	"assay/internal/serve"
	"assay/internal/text"
	"assay/internal/unit"
)

// logbookFile is where runs are recorded unless something else is said.
var logbookFile = filepath.Join(ownFolder, "logbook.db")

type logOptions struct {
	logbook string
	filter  logbook.Filter
	since   string
	json    bool
}

func newLogCommand(env *Env) *cobra.Command {
	var opts logOptions
	cmd := &cobra.Command{
		Use:   "log",
		Short: "List what the logbook holds; see its other commands below",
		Long: `Lists the records of the logbook, the newest first: runs, rehearsals, notes, rejected hypotheses and what other commands kept.

The logbook is one SQLite file: --logbook, else $ASSAY_LOGBOOK, else .assay/logbook.db. assay run records there. A record is named by the
beginning of its identifier, as a commit is, by the run's name (column name of the view runs), or by the path of the run's folder.
docs/logbook.md describes it.`,
		Example: `  assay log --script train.py --limit 20
  assay log diff 3f2a91 77bc02
  assay log query "SELECT name, torch, peak_memory FROM runs ORDER BY started"`,
		Args: cobra.NoArgs,
	}
	cmd.PersistentFlags().StringVar(&opts.logbook, "logbook", "",
		"`file` of the logbook; default $ASSAY_LOGBOOK or .assay/logbook.db")
	filterFlags(cmd, &opts)
	cmd.Flags().BoolVar(&opts.json, "json", false, "print the list as JSON")
	cmd.Flags().BoolVar(&opts.filter.All, "all", false, "also the facts that were found out beside runs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runLog(cmd.Context(), env, &opts) }
	cmd.AddCommand(newLogShow(env, &opts), newLogDiff(env, &opts), newLogNote(env, &opts), newLogReject(env, &opts),
		newLogFacts(env, &opts),
		newLogQuery(env, &opts),
		newLogExport(env, &opts), newLogImport(env, &opts), newLogVerify(env, &opts), newLogForget(env, &opts))
	return cmd
}

func filterFlags(cmd *cobra.Command, opts *logOptions) {
	f := cmd.Flags()
	f.StringVar(&opts.filter.Kind, "kind", "", "only this `kind`: run, rehearsal, note, rejection, …")
	f.StringVar(&opts.filter.Script, "script", "", "only runs whose script, or records whose title, holds this `text`")
	f.StringVar(&opts.filter.Device, "device", "", "only runs on this `device`: cpu, mps, cuda")
	f.BoolVar(&opts.filter.Failed, "failed", false, "only runs that did not end with 0")
	f.StringVar(&opts.since, "since", "", "only since a `date` (2026-11-08) or a time ago (36h)")
	f.IntVar(&opts.filter.Limit, "limit", 0, "at most so `many`, the newest")
}

// logbookPath is the logbook that was named, or the one of the working folder.
func logbookPath(env *Env, named string) string {
	if named == "" {
		named = env.Getenv("ASSAY_LOGBOOK")
	}
	if named == "" {
		named = logbookFile
	}
	return env.Path(named)
}

// openLogbook opens one that is there, for writing where the file allows that.
func openLogbook(ctx context.Context, env *Env, opts *logOptions) (*logbook.Book, error) {
	path := logbookPath(env, opts.logbook)
	if !logbook.Exists(path) {
		return nil, fault.Hint(fmt.Errorf("no logbook at %s", path),
			"assay run makes it, and assay log import .assay/runs takes in earlier runs")
	}
	book, err := writeLogbook(ctx, env, path)
	if err == nil {
		return book, nil
	}
	if read, readErr := logbook.OpenRead(ctx, path); readErr == nil { // a file of a colleague's, say
		return read, nil
	}
	return nil, err
}

// writeLogbook opens a logbook for writing, and makes it where there is none; the one in assay's own folder together
// with that.
func writeLogbook(ctx context.Context, env *Env, path string) (*logbook.Book, error) {
	if path == env.Path(logbookFile) {
		if err := probe.OwnFolder(env.Path(ownFolder)); err != nil {
			return nil, err
		}
	}
	return logbook.Open(ctx, path)
}

// withLogbook calls f with the logbook, and closes it.
func withLogbook(ctx context.Context, env *Env, opts *logOptions, f func(book *logbook.Book) error) error {
	book, err := openLogbook(ctx, env, opts)
	if err != nil {
		return err
	}
	err = f(book)
	if closed := book.Close(); err == nil {
		err = closed
	}
	return err
}

// resolveRecord finds the record that a word names: as the logbook knows it, or the folder of a run that is kept there.
func resolveRecord(ctx context.Context, env *Env, book *logbook.Book, word string) (string, error) {
	id, err := book.Resolve(ctx, word)
	if err == nil || word == "" {
		return id, err
	}
	doc, readErr := readEvidence(filepath.Join(env.Path(word), "evidence.json"))
	if readErr != nil {
		return "", err
	}
	sum := sha256.Sum256(doc)
	if id, bad := book.Resolve(ctx, hex.EncodeToString(sum[:])); bad == nil {
		return id, nil
	}
	return "", err
}

func (opts *logOptions) parse(env *Env) error {
	if opts.since == "" {
		return nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, opts.since, time.Local); err == nil {
		opts.filter.Since = day
		return nil
	}
	ago, err := unit.ParseSeconds(opts.since)
	if err != nil {
		return fault.Exit(fmt.Errorf("--since %s: a date such as 2026-11-08, or a time such as 36h", opts.since),
			fault.Usage)
	}
	opts.filter.Since = env.Now().Add(-time.Duration(ago * float64(time.Second)))
	return nil
}

func runLog(ctx context.Context, env *Env, opts *logOptions) error {
	if err := opts.parse(env); err != nil {
		return err
	}
	return withLogbook(ctx, env, opts, func(book *logbook.Book) error {
		list, err := book.List(ctx, opts.filter)
		if err != nil {
			return err
		}
		if opts.json {
			return printJSON(env.Stdout, list)
		}
		if len(list) == 0 {
			fmt.Fprintln(env.Stderr, "no record like that")
			return nil
		}
		return listText(env.Stdout, list)
	})
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func listText(w io.Writer, list []logbook.Entry) error {
	var out strings.Builder
	t := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "RECORD\tBEGAN\tKIND\tWHAT\tDEVICE\tRELEASE\tSTEP\tPEAK\tBASIS\tENDED")
	for _, e := range list {
		step, peak := "", ""
		var bases []string
		if e.Step.Known() {
			step = unit.Format(*e.Step.Value, "s")
			bases = append(bases, string(e.Step.Basis))
		}
		if e.Peak != nil {
			peak = unit.Format(*e.Peak, "B")
			if !slices.Contains(bases, string(e.PeakBasis)) {
				bases = append(bases, string(e.PeakBasis))
			}
		}
		ended := ""
		switch {
		case e.Exit == nil:
		case *e.Exit < 0:
			ended = "cut off" // assay itself was killed: nobody saw how the script ended
		case e.Signal != "":
			ended = e.Signal
		case *e.Exit != 0:
			ended = fmt.Sprintf("exit %d", *e.Exit)
		case !e.Complete:
			ended = "incomplete"
		default:
			ended = "ok"
		}
		title := text.Short(e.Title, 48)
		if len(e.About) > 0 {
			title += " (about " + e.About[0][:10] + ")"
		}
		line := []string{e.ID[:10], e.At.Local().Format("2006-01-02 15:04"), e.Kind, title, e.Device, e.Torch, step,
			peak, strings.Join(bases, "/"), ended}
		for i, cell := range line {
			line[i] = text.Short(cell, 64)
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(out.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func newLogShow(env *Env, opts *logOptions) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "show RECORD", Short: "Show a record whole", Args: cobra.ExactArgs(1),
		Long: `Shows a record: of a run the summary, the conditions it ran under, and what was noted about it;
--json the document that was kept, byte for byte.`}
	cmd.Flags().BoolVar(&asJSON, "json", false, "the document itself")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return withLogbook(ctx, env, opts, func(book *logbook.Book) error {
			id, err := resolveRecord(ctx, env, book, args[0])
			if err != nil {
				return err
			}
			doc, err := book.Document(ctx, id)
			if err != nil {
				return err
			}
			if asJSON {
				_, err := env.Stdout.Write(doc)
				return err
			}
			return showRecord(ctx, env, book, id)
		})
	}
	return cmd
}

func showRecord(ctx context.Context, env *Env, book *logbook.Book, id string) error {
	w := text.NewWriter(env.Stdout)
	fmt.Fprintf(w, "record %s\n", id)
	run, err := book.Run(ctx, id)
	if err != nil {
		doc, err := book.Document(ctx, id)
		if err != nil {
			return err
		}
		if d := sweepIn(doc); d != nil {
			return showSweep(w, d)
		}
		r, err := book.Record(ctx, id)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s of %s\n\n  %s\n", r.Kind, r.At.Local().Format(time.DateTime), text.Short(r.Title, 2000))
		if why := r.Because(); r.Kind == logbook.KindRejection && why != "" {
			fmt.Fprintf(w, "  rejected because: %s\n", text.Short(why, 2000))
		}
		for _, about := range r.About {
			fmt.Fprintf(w, "  about %s\n", about)
		}
		names := make([]string, 0, len(r.Fields))
		for name := range r.Fields {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			fmt.Fprintf(w, "  %s: %s (declared)\n", text.Short(name, 40), text.Short(r.Fields[name], 500))
		}
		printFacts(w, r.Facts)
		printFigures(w, r.Figures)
		return nil
	}
	if err := summary(env, w).Write(w, run); err != nil {
		return err
	}
	extra, err := book.About(ctx, id, logbook.KindFacts)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "\nconditions")
	printFacts(w, logbook.Conditions(run, extra))
	for _, r := range extra {
		printFigures(w, r.Figures)
	}
	for _, kind := range []string{logbook.KindNote, logbook.KindRejection} {
		about, err := book.About(ctx, id, kind)
		if err != nil {
			return err
		}
		for _, r := range about {
			fmt.Fprintf(w, "\n%s of %s: %s\n", kind, r.At.Local().Format(time.DateTime), text.Short(r.Title, 2000))
			if why := r.Because(); why != "" {
				fmt.Fprintf(w, "  rejected because: %s\n", text.Short(why, 2000))
			}
			for _, f := range logbook.NoteFields {
				if v := r.Fields[f[0]]; v != "" {
					fmt.Fprintf(w, "  %s: %s (declared)\n", f[0], text.Short(v, 500))
				}
			}
		}
	}
	return nil
}

func printFacts(w io.Writer, facts []evidence.Fact) {
	for _, f := range facts {
		value := text.Short(f.Value, 300)
		if value == "" {
			value = "unknown: " + text.Short(f.Missing, 200)
		}
		if f.Source != "" {
			value += " (" + text.Short(f.Source, 200) + ")"
		}
		fmt.Fprintf(w, "  %s: %s\n", text.Short(f.Name, 200), value)
	}
}

func printFigures(w io.Writer, figures []evidence.Figure) {
	for _, f := range figures {
		if !f.Known() {
			fmt.Fprintf(w, "  %s: unknown: %s\n", text.Short(f.Name, 80), text.Short(f.Missing, 200))
			continue
		}
		fmt.Fprintf(w, "  %s: %s", text.Short(f.Name, 80), text.Short(unit.Format(*f.Value, f.Unit), 40))
		if f.Low != nil && f.High != nil {
			fmt.Fprintf(w, ", %s to %s, n=%d", text.Short(unit.Format(*f.Low, f.Unit), 40),
				text.Short(unit.Format(*f.High, f.Unit), 40), f.N)
		}
		fmt.Fprintf(w, " (%s; %s)\n", text.Short(string(f.Basis), 20), text.Short(f.Note, 200))
	}
}

func newLogDiff(env *Env, opts *logOptions) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{Use: "diff A B", Short: "Say what changed from one run to another", Args: cobra.ExactArgs(2),
		Long: `Says what changed from A to B: the environment, the figures, the operators. A and B are runs, or several of each joined by commas.

Runs of one machine differ among themselves, more than steps of one run do. So a difference is judged by runs: those given, or else all in the
logbook that were made in the same way as one of the two. A sign ~ says that it may be noise; p is the probability of such a difference where
nothing changed, adjusted for the number of figures compared. Where only two runs are known, no difference of times can be told from
noise, and all bear the sign.`,
		Example: "  assay log diff 3f2a91 77bc02\n  assay log diff 3f2a91,4410aa,90cd13 77bc02,81ff20,aa0192"}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the difference as JSON")
	cmd.Flags().BoolVar(&all, "all", false, "also figures that did not change, or that may be noise")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return withLogbook(ctx, env, opts, func(book *logbook.Book) error {
			var groups []*logbook.Group
			for _, arg := range args {
				var ids []string
				for word := range strings.SplitSeq(arg, ",") {
					id, err := resolveRecord(ctx, env, book, word)
					if err != nil {
						return err
					}
					ids = append(ids, id)
				}
				g, err := book.Group(ctx, ids...)
				if err != nil {
					return err
				}
				groups = append(groups, g)
			}
			d := logbook.Compare(groups[0], groups[1])
			if asJSON {
				for i := range d.Figures { // JSON has no word for what is not a number
					f := &d.Figures[i]
					if math.IsNaN(f.P) {
						f.P = -1
					}
					if math.IsNaN(f.Change) {
						f.Change = 0
					}
				}
				return printJSON(env.Stdout, d)
			}
			return diffText(env.Stdout, d, all)
		})
	}
	return cmd
}

func diffText(w io.Writer, d *logbook.Diff, all bool) error {
	name := func(ids []string) string {
		var s []string
		for _, id := range ids {
			s = append(s, id[:10])
		}
		return strings.Join(s, ", ")
	}
	fmt.Fprintf(w, "from %s to %s\n", name(d.A), name(d.B))
	for _, r := range d.Remarks {
		fmt.Fprintf(w, "  %s\n", text.Short(r, 300))
	}
	fmt.Fprintln(w, "\nenvironment")
	if len(d.Environment) == 0 {
		fmt.Fprintln(w, "  nothing that was recorded changed")
	}
	const most = 40
	for i, c := range d.Environment {
		if i == most && !all {
			fmt.Fprintf(w, "  and %d more: --all\n", len(d.Environment)-most)
			break
		}
		value := func(v string) string {
			if v == "" {
				return "(none)"
			}
			return text.Short(v, 100)
		}
		fmt.Fprintf(w, "  %s %s: %s → %s\n", c.Part, text.Short(c.Name, 60), value(c.A), value(c.B))
	}
	fmt.Fprintln(w, "\nfigures")
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	hidden := 0
	for _, f := range d.Figures {
		var cells []string
		switch {
		case !f.AKnown || !f.BKnown:
			side := func(known bool, v float64, why string) string {
				if known {
					return unit.Format(v, f.Unit)
				}
				return "unknown: " + text.Short(why, 60)
			}
			cells = []string{side(f.AKnown, f.A, f.AWhy), "→ " + side(f.BKnown, f.B, f.BWhy), "", "", f.Basis}
		default:
			change, p := "", ""
			if !math.IsNaN(f.Change) {
				change = fmt.Sprintf("%+.1f %%", 100*f.Change)
			}
			if f.Noise {
				change += " ~"
			}
			switch {
			case f.A == f.B:
				change = "="
			case math.IsNaN(f.P):
				p = f.Ground
			default:
				p = fmt.Sprintf("p=%.2g, n=%d+%d, %s", f.P, f.N[0], f.N[1], f.Ground)
			}
			if (f.A == f.B || f.Noise && f.P >= 0.05) && !all {
				hidden++
				continue
			}
			cells = []string{unit.Format(f.A, f.Unit), "→ " + unit.Format(f.B, f.Unit), change, f.Basis, p}
		}
		for i, cell := range cells {
			cells[i] = text.Short(cell, 200)
		}
		fmt.Fprintf(t, "  %s\t%s\n", text.Short(f.Name, 60), strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if hidden > 0 {
		fmt.Fprintf(w, "  %d more did not change, or not by more than noise (p ≥ 0.05): --all\n", hidden)
	}
	fmt.Fprintln(w, "\noperators")
	if len(d.Operators) == 0 {
		fmt.Fprintln(w, "  none appeared, vanished or changed, as far as both sides know")
	}
	for i, o := range d.Operators {
		if i == most && !all {
			fmt.Fprintf(w, "  and %d more: --all\n", len(d.Operators)-most)
			break
		}
		fmt.Fprintf(w, "  %s: %s\n", text.Short(o.Name, 80), text.Short(o.What, 120))
	}
	return nil
}

func newLogNote(env *Env, opts *logOptions) *cobra.Command {
	fields := map[string]*string{}
	cmd := &cobra.Command{Use: "note RECORD [TEXT]", Short: "Note something about a record",
		Args:    cobra.RangeArgs(1, 2),
		Long:    `Keeps a note about a record. Its flags declare what no evidence tells and the project notes ask for (assay log export --markdown).`,
		Example: "  assay log note 3f2a91 \"the fan was blocked\"\n  assay log note 3f2a91 --task Detection --solution \"switched to YOLO\""}
	for _, f := range logbook.NoteFields {
		fields[f[0]] = cmd.Flags().String(f[0], "", f[1])
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withLogbook(cmd.Context(), env, opts, func(book *logbook.Book) error {
			id, err := resolveRecord(cmd.Context(), env, book, args[0])
			if err != nil {
				return err
			}
			said := map[string]string{}
			for name, v := range fields {
				if *v != "" {
					said[name] = *v
				}
			}
			note, err := book.Note(cmd.Context(), env.Now(), strings.Join(args[1:], ""), said, id)
			return printKept(env, note, err)
		})
	}
	return cmd
}

func printKept(env *Env, id string, err error) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.Stdout, id)
	return err
}

func newLogReject(env *Env, opts *logOptions) *cobra.Command {
	var because string
	cmd := &cobra.Command{Use: "reject HYPOTHESIS --because REASON [RUN…]",
		Short:   "Keep a hypothesis that was tried and rejected",
		Args:    cobra.MinimumNArgs(1),
		Example: `  assay log reject "pin_memory makes the copies faster" --because "no difference over five runs, p=0.6" 3f2a91 77bc02`}
	cmd.Flags().StringVar(&because, "because", "", "the `reason`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if strings.TrimSpace(because) == "" {
			return fault.Exit(errors.New("log reject: --because gives the reason"), fault.Usage)
		}
		ctx := cmd.Context()
		// a hypothesis can be the first thing that is kept
		book, err := writeLogbook(ctx, env, logbookPath(env, opts.logbook))
		if err != nil {
			return err
		}
		defer book.Close()
		var about []string
		for _, word := range args[1:] {
			id, err := resolveRecord(ctx, env, book, word)
			if err != nil {
				return err
			}
			about = append(about, id)
		}
		id, err := book.Reject(ctx, env.Now(), args[0], because, about...)
		return printKept(env, id, err)
	}
	return cmd
}

func newLogFacts(env *Env, opts *logOptions) *cobra.Command {
	var stores, sums []string
	cmd := &cobra.Command{Use: "facts RUN", Short: "Find out more about a run's surroundings", Args: cobra.ExactArgs(1),
		Long: `Measures what the run's evidence does not hold, and keeps it beside the run: the time of a round trip to a store (--rtt; of every run where
$ASSAY_STORE names one), and the checksum of all bytes of a dataset (--checksum). What is measured now is
not what was at the time of the run; each says when.`}
	cmd.Flags().StringArrayVar(&stores, "rtt", nil, "`store`, as host:port or https://host; may be given again")
	cmd.Flags().StringArrayVar(&sums, "checksum", nil, "`file` or folder of data; may be given again")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if len(stores)+len(sums) == 0 {
			return fault.Exit(errors.New("log facts: --rtt or --checksum says what to find out"), fault.Usage)
		}
		return withLogbook(ctx, env, opts, func(book *logbook.Book) error {
			id, err := resolveRecord(ctx, env, book, args[0])
			if err != nil {
				return err
			}
			r := logbook.Record{Kind: logbook.KindFacts, At: env.Now(), Title: "found out later", About: []string{id}}
			for _, s := range stores {
				r.Figures = append(r.Figures, logbook.RTT(ctx, s))
			}
			for _, path := range sums {
				sum, files, bytes, err := logbook.Checksum(ctx, env.Path(path))
				if err != nil {
					return err
				}
				r.Facts = append(r.Facts, evidence.Fact{Name: "checksum:" + path, Value: sum,
					Source: fmt.Sprintf("%d files, %s, read %s", files, unit.Bytes(float64(bytes)),
						env.Now().UTC().Format(time.RFC3339))})
			}
			printFacts(env.Stderr, r.Facts)
			printFigures(env.Stderr, r.Figures)
			kept, err := book.Put(ctx, r)
			return printKept(env, kept, err)
		})
	}
	return cmd
}

func newLogQuery(env *Env, opts *logOptions) *cobra.Command {
	var asJSON, asCSV bool
	limit, timeout := 1000, "30s"
	cmd := &cobra.Command{Use: "query SQL", Short: "Ask the logbook in SQL, read only", Args: cobra.ExactArgs(1),
		Long: `Answers SQL over the views runs, figures, facts, operators, findings, notes, records and points (docs/logbook.md has their
columns). The connection cannot write, attach other files or load code.`,
		Example: `  assay log query "SELECT run, value, basis FROM figures WHERE name = 'step.time' ORDER BY value"
  assay log query "SELECT step, value FROM points WHERE id LIKE '3f2a91%' AND name = 'loss'" --csv`}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object a row")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print CSV")
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many `rows`")
	cmd.Flags().StringVar(&timeout, "timeout", timeout, "give up after this `time`")
	cmd.MarkFlagsMutuallyExclusive("json", "csv")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		seconds, err := unit.ParseSeconds(timeout)
		if err != nil || seconds == 0 || limit < 1 {
			return fault.Exit(fmt.Errorf("log query: --timeout %s and --limit %d: a time such as 30s, and a number above 0", timeout, limit), fault.Usage)
		}
		book, err := openLogbook(cmd.Context(), env, opts) // brings the schema up to date
		if err != nil {
			return err
		}
		book.Close()
		if book, err = logbook.OpenRead(cmd.Context(), logbookPath(env, opts.logbook)); err != nil {
			return err
		}
		defer book.Close()
		ctx, stop := context.WithTimeout(cmd.Context(), time.Duration(seconds*float64(time.Second)))
		defer stop()
		table, err := book.Query(ctx, args[0], limit)
		if err != nil {
			return err
		}
		if table.Cut {
			fmt.Fprintf(env.Stderr, "only the first %d rows: --limit allows more\n", limit)
		}
		return printTable(env.Stdout, table, asJSON, asCSV)
	}
	return cmd
}

func printTable(w io.Writer, table *logbook.Table, asJSON, asCSV bool) error {
	cell := func(v any) string {
		switch v := v.(type) {
		case nil:
			return ""
		case []byte:
			return fmt.Sprintf("%x", v)
		case float64:
			return fmt.Sprintf("%.9g", v)
		}
		return fmt.Sprint(v)
	}
	switch {
	case asJSON:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for _, row := range table.Rows {
			object := map[string]any{}
			for i, name := range table.Columns {
				object[name] = row[i]
				if f, ok := row[i].(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
					object[name] = fmt.Sprint(f)
				}
			}
			if err := e.Encode(object); err != nil {
				return err
			}
		}
		return nil
	case asCSV:
		out := csv.NewWriter(w)
		head := make([]string, len(table.Columns))
		for i, name := range table.Columns {
			head[i] = logbook.Cell(name)
		}
		if err := out.Write(head); err != nil {
			return err
		}
		for _, row := range table.Rows {
			line := make([]string, len(row))
			for i, v := range row {
				switch v := v.(type) {
				case float64:
					line[i] = logbook.Cell(fmt.Sprint(v)) // +Inf is none
				case string:
					line[i] = logbook.Cell(v)
				case []byte:
					line[i] = cell(v)
				default: // a time, a truth, a number
					line[i] = logbook.Cell(cell(v))
				}
			}
			if err := out.Write(line); err != nil {
				return err
			}
		}
		out.Flush()
		return out.Error()
	}
	t := tabwriter.NewWriter(text.NewWriter(w), 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(table.Columns, "\t"))
	for _, row := range table.Rows {
		line := make([]string, len(row))
		for i, v := range row {
			line[i] = text.Short(cell(v), 200)
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	return t.Flush()
}

func newLogExport(env *Env, opts *logOptions) *cobra.Command {
	var markdown, asCSV, parquet, points bool
	var mlflow, out, html, policy string
	experiment := "assay"
	own := *opts
	cmd := &cobra.Command{Use: "export [RUN…]",
		Short: "Write records as Markdown, CSV, Parquet, pages, or to an MLflow server",
		Long: `Writes the runs named, or those that the filters choose, or all.

--markdown writes project notes, an entry a run, with the appendix of rejected hypotheses. --csv and --parquet write a row for each figure, with
--points for each point of the series. --mlflow sends runs with figures, series, parameters, tags and evidence.json to a tracking server; what is
there already is not sent again. $MLFLOW_TRACKING_TOKEN, or $MLFLOW_TRACKING_USERNAME and $MLFLOW_TRACKING_PASSWORD, are what it asks for.
--html writes the pages that assay serve shows as files, for a project's web page: the newest ` + fmt.Sprint(serve.MostExported) + ` runs, their notes and sweeps. An earlier
export in that folder is replaced.`,
		Example: "  assay log export --markdown > NOTES.md\n" +
			"  assay log export --parquet --points --out points.parquet --script train.py\n" +
			"  assay log export --html public/runs --device mps\n  assay log export --mlflow http://localhost:5000"}
	filterFlags(cmd, &own)
	f := cmd.Flags()
	f.BoolVar(&markdown, "markdown", false, "project notes")
	f.BoolVar(&asCSV, "csv", false, "comma-separated values")
	f.BoolVar(&parquet, "parquet", false, "Apache Parquet; wants --out")
	f.StringVar(&mlflow, "mlflow", "", "`address` of an MLflow tracking server")
	f.BoolVar(&points, "points", false, "with --csv and --parquet: the points of the series")
	f.StringVar(&experiment, "experiment", experiment, "with --mlflow: `name` of the experiment")
	f.StringVar(&html, "html", "", "pages, into a `folder` that is not there yet or holds an earlier export")
	f.StringVar(&policy, "policy", "", "with --html: gates of a `file`, or of default; default gates.toml here, if there is one")
	f.StringVar(&out, "out", "", "write to a `file` instead of standard output")
	cmd.MarkFlagsMutuallyExclusive("markdown", "csv", "parquet", "mlflow", "html")
	cmd.MarkFlagsOneRequired("markdown", "csv", "parquet", "mlflow", "html")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		own.logbook = opts.logbook
		if err := own.parse(env); err != nil {
			return err
		}
		if parquet && out == "" {
			return fault.Exit(errors.New("log export --parquet: --out names the file"), fault.Usage)
		}
		if points && !asCSV && !parquet {
			return fault.Exit(errors.New("log export --points goes with --csv and --parquet"), fault.Usage)
		}
		return withLogbook(ctx, env, &own, func(book *logbook.Book) error {
			entries, err := book.List(ctx, own.filter)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				var wanted []string
				for _, word := range args {
					id, err := resolveRecord(ctx, env, book, word)
					if err != nil {
						return err
					}
					wanted = append(wanted, id)
				}
				entries = slices.DeleteFunc(entries, func(e logbook.Entry) bool {
					return !slices.Contains(wanted,
						e.ID)
				})
			}
			if html != "" {
				var only map[string]bool
				if len(args) > 0 || cmd.Flags().NFlag() > 1 {
					only = map[string]bool{}
					for _, e := range entries {
						only[e.ID] = true
					}
				}
				return exportPages(ctx, env, own.logbook, policy, only, html)
			}
			if mlflow != "" {
				return exportMLflow(ctx, env, book, entries, mlflow, experiment)
			}
			var ids []string
			for _, e := range slices.Backward(entries) { // oldest first
				ids = append(ids, e.ID)
			}
			write := func(w io.Writer) error {
				switch {
				case markdown:
					return book.Markdown(ctx, w, entries)
				case asCSV && points:
					return book.PointsCSV(ctx, w, ids)
				case asCSV:
					return book.FiguresCSV(ctx, w, ids)
				case points:
					return book.PointsParquet(ctx, w, ids)
				}
				return book.FiguresParquet(ctx, w, ids)
			}
			if out == "" {
				return write(env.Stdout)
			}
			return file.Write(env.Path(out), 0o600, write)
		})
	}
	return cmd
}

// exportPages writes the pages of the logbook as files.
func exportPages(ctx context.Context, env *Env, book, policy string, only map[string]bool, dir string) error {
	site, err := siteOf(env, book, policy)
	if err != nil {
		return err
	}
	sum, err := serve.Export(ctx, site, only, env.Path(dir))
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "%d runs on %d pages in %s\n", sum.Runs, sum.Files, text.Line(dir))
	if sum.Left > 0 {
		fmt.Fprintf(env.Stdout, "%d older records were left out: the most are %d\n", sum.Left, serve.MostExported)
	}
	return nil
}

func exportMLflow(ctx context.Context, env *Env, book *logbook.Book, entries []logbook.Entry, address,
	experiment string) error {
	m := &logbook.MLflow{URI: address, Experiment: experiment, Token: env.Getenv("MLFLOW_TRACKING_TOKEN"),
		User: env.Getenv("MLFLOW_TRACKING_USERNAME"),
		Pass: env.Getenv("MLFLOW_TRACKING_PASSWORD")}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		pass, _ := u.User.Password()
		m.User, m.Pass = u.User.Username(), pass
		u.User = nil
		m.URI = u.String()
	}
	done, err := m.Export(ctx, book, entries)
	if done != nil {
		for _, r := range done.Remarks {
			fmt.Fprintln(env.Stderr, text.Short(r, 300))
		}
		fmt.Fprintf(env.Stdout, "%d runs sent with %d figures and points and %d files; %d were there already\n",
			done.Runs, done.Points, done.Artifacts,
			done.Known)
	}
	return err
}

func newLogImport(env *Env, opts *logOptions) *cobra.Command {
	cmd := &cobra.Command{Use: "import PATH…", Short: "Take in runs, folders of runs, or another logbook",
		Args: cobra.MinimumNArgs(1),
		Long: `Takes in evidence.json files, the folders of runs, folders that hold such folders (.assay/runs), and other logbooks. What is
there already is not taken in again, so that two machines can exchange their logbooks as often as they like. What is damaged is refused, and said.`}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		book, err := writeLogbook(ctx, env, logbookPath(env, opts.logbook))
		if err != nil {
			return err
		}
		defer book.Close()
		var sum logbook.Merged
		for _, arg := range args {
			if err := importPath(ctx, env, book, env.Path(arg), &sum); err != nil {
				return err
			}
		}
		for _, why := range sum.Refused {
			fmt.Fprintf(env.Stderr, "refused: %s\n", text.Short(why, 300))
		}
		fmt.Fprintf(env.Stdout, "new: %d records, and %d further chunks of points; there already: %d; refused: %d\n",
			sum.Records, sum.Chunks, sum.Known, len(sum.Refused))
		if sum.Forgotten+sum.Adopted > 0 {
			fmt.Fprintf(env.Stdout, "not taken in, since they were forgotten here: %d; forgotten or changed here, since they were forgotten there: %d\n",
				sum.Forgotten, sum.Adopted)
		}
		if len(sum.Refused) > 0 {
			return status(fault.Failed)
		}
		return nil
	}
	return cmd
}

func importPath(ctx context.Context, env *Env, book *logbook.Book, path string, sum *logbook.Merged) error {
	info, err := os.Stat(path)
	if err != nil {
		return fault.Exit(fmt.Errorf("import: %w", err), fault.Usage)
	}
	if !info.IsDir() {
		if logbook.IsSQLite(path) {
			m, err := book.Merge(ctx, path)
			if m != nil {
				sum.Records, sum.Chunks, sum.Known = sum.Records+m.Records, sum.Chunks+m.Chunks, sum.Known+m.Known
				sum.Refused = append(sum.Refused, m.Refused...)
				sum.Forgotten, sum.Adopted = sum.Forgotten+m.Forgotten, sum.Adopted+m.Adopted
			}
			return err
		}
		return importFile(ctx, book, path, sum)
	}
	var forgotten *logbook.Forgotten
	_, added, err := addRunFolder(ctx, book, path)
	switch {
	case errors.As(err, &forgotten):
		sum.Forgotten++
		return nil
	case err == nil && added:
		sum.Records++
		return nil
	case err == nil:
		sum.Known++
		return nil
	case !errors.Is(err, os.ErrNotExist):
		sum.Refused = append(sum.Refused, err.Error())
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	found := false
	var dirs []string // that wait to be kept together
	var docs [][]byte
	held := 0
	keep := func() {
		for i, k := range book.AddAll(ctx, docs) {
			switch {
			case errors.As(k.Err, &forgotten):
				sum.Forgotten++
			case k.Err != nil:
				sum.Refused = append(sum.Refused, fmt.Sprintf("%s: %v", dirs[i], k.Err))
			case k.Added:
				sum.Records++
			default:
				sum.Known++
			}
		}
		dirs, docs, held = nil, nil, 0
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(path, e.Name())
		doc, err := readRunFolder(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		found = true
		if err != nil {
			sum.Refused = append(sum.Refused, err.Error())
			continue
		}
		dirs, docs, held = append(dirs, dir), append(docs, doc), held+len(doc)
		if len(docs) == mostImported || held > mostImportedBytes {
			keep()
		}
	}
	if len(docs) > 0 {
		keep()
	}
	if !found {
		return fault.Exit(fault.Hint(fmt.Errorf("import %s: no run in it", path),
			"name a run's folder, a folder of such folders, an evidence.json or a logbook"), fault.Usage)
	}
	return nil
}

// Bounds of what an import of folders keeps in one transaction. Nothing of it is acknowledged before it is over.
const (
	mostImported      = 64
	mostImportedBytes = 8 << 20
)

func importFile(ctx context.Context, book *logbook.Book, path string, sum *logbook.Merged) error {
	doc, err := readEvidence(path)
	if err != nil {
		sum.Refused = append(sum.Refused, err.Error()) // names the path
		return nil
	}
	_, added, err := book.Add(ctx, doc)
	var forgotten *logbook.Forgotten
	switch {
	case errors.As(err, &forgotten):
		sum.Forgotten++
	case err != nil:
		sum.Refused = append(sum.Refused, fmt.Sprintf("%s: %v", path, err))
	case added:
		sum.Records++
	default:
		sum.Known++
	}
	return nil
}

// readEvidence reads a file that may be a stranger's, within the bound of a document.
func readEvidence(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		// before it is opened: a pipe would be waited for
		return nil, fmt.Errorf("%s: not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	doc, err := io.ReadAll(io.LimitReader(f, logbook.MaxContent+1))
	if err == nil && len(doc) > logbook.MaxContent {
		err = fmt.Errorf("%s: larger than %d MiB", path, logbook.MaxContent>>20)
	}
	return doc, err
}

// addRunFolder keeps the evidence of a run's folder, byte for byte. The error is ErrNotExist where it holds none.
func addRunFolder(ctx context.Context, book *logbook.Book, dir string) (string, bool, error) {
	doc, err := readRunFolder(dir)
	if err != nil {
		return "", false, err
	}
	id, added, err := book.Add(ctx, doc)
	if err != nil {
		err = fmt.Errorf("%s: %w", dir, err)
	}
	return id, added, err
}

// readRunFolder reads the evidence of a run's folder; of a run that was cut off before its evidence was written, what
// its events add up to. The error is ErrNotExist where the folder holds neither.
func readRunFolder(dir string) ([]byte, error) {
	doc, err := readEvidence(filepath.Join(dir, "evidence.json"))
	if !errors.Is(err, os.ErrNotExist) {
		return doc, err
	}
	if _, statErr := os.Stat(filepath.Join(dir, "events.jsonl")); statErr != nil {
		return nil, err
	}
	run, _, err := probe.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	var out strings.Builder
	if err := (report.JSON{}).Write(&out, run); err != nil {
		return nil, err
	}
	return []byte(out.String()), nil
}

func newLogVerify(env *Env, opts *logOptions) *cobra.Command {
	var head string
	cmd := &cobra.Command{Use: "verify", Short: "Hold what the logbook keeps to its hashes", Args: cobra.NoArgs,
		Long: `Reads the whole logbook: each document and each chunk of points against its SHA-256, the tables against the documents that they were
read out of, the ledger's chain, the schema, SQLite's own pages, and before all of them the write-ahead log: SQLite would drop what
it cannot read there. Space of the file that holds nothing has no hash; how much that is, is said.

It prints the ledger's last hash; with --head an earlier one must still be in the chain, which shows that nothing that was kept then is gone.

Exit status: 0 where everything is as it was kept, 3 where something is not.`}
	cmd.Flags().StringVar(&head, "head", "", "`hash` that an earlier verify printed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		path := logbookPath(env, opts.logbook)
		if !logbook.Exists(path) {
			return fault.Exit(fault.Hint(fmt.Errorf("no logbook at %s", path),
				"--logbook or $ASSAY_LOGBOOK names another file"), fault.Usage)
		}
		problems, err := logbook.CheckWAL(path) // before anybody opens the file
		if err != nil {
			return err
		}
		book, err := logbook.OpenRead(cmd.Context(), path) // a damaged file is not written to
		if err != nil {
			return err
		}
		defer book.Close()
		check, err := book.Verify(cmd.Context(), strings.ToLower(head))
		if err != nil {
			return err
		}
		check.Problems = append(problems, check.Problems...)
		fmt.Fprintf(env.Stdout, "%d records (%s of documents), %d points, %d chunks of them appended\nledger %s\n", check.Records,
			unit.Bytes(float64(check.Bytes)),
			check.Points, check.Chunks, check.Head)
		if check.Unused > 0 {
			fmt.Fprintf(env.Stdout, "%s of the file's %s hold nothing, and have no hash\n",
				unit.Bytes(float64(check.Unused)), unit.Bytes(float64(check.Size)))
		}
		if check.Forgotten > 0 {
			fmt.Fprintf(env.Stdout, "%d tombstones of what was forgotten; assay log query \"SELECT * FROM forgotten\" lists them\n", check.Forgotten)
		}
		if check.Unscrubbed > 0 {
			fmt.Fprintln(env.Stdout, "what was forgotten may still lie in the file's free space, since that was cut off: assay log forget with the same words completes it")
		}
		if check.Secrets > 0 {
			fmt.Fprintf(env.Stdout, "%d records hold what looks like a secret, kept by an earlier assay: assay log forget --secrets takes it out\n", check.Secrets)
		}
		if len(check.Problems) == 0 {
			fmt.Fprintln(env.Stdout, "everything is as it was kept")
			return nil
		}
		for _, p := range check.Problems {
			fmt.Fprintln(env.Stdout, text.Short(p, 300))
		}
		return status(fault.GateFailed)
	}
	return cmd
}

// recordRun keeps a run that has just ended in the logbook. A run whose folder lies elsewhere (--out) is kept where a
// logbook was named or is there.
func recordRun(ctx context.Context, env *Env, opts runOptions, res *probe.Result) {
	path := logbookPath(env, opts.logbook)
	named := opts.logbook != "" || env.Getenv("ASSAY_LOGBOOK") != ""
	if opts.logbook == "off" || !named && opts.out != "" && !logbook.Exists(path) {
		return
	}
	ctx, stop := context.WithTimeout(ctx, recordLimit)
	defer stop()
	if err := keepRun(ctx, env, path, res); err != nil {
		dir := res.Dir
		if rel, relErr := filepath.Rel(env.Dir, dir); relErr == nil && filepath.IsLocal(rel) {
			dir = rel
		}
		fmt.Fprintf(env.Stderr, "assay: the run was not recorded in the logbook: %s; its folder has everything, and assay log import %s --logbook FILE keeps it\n",
			text.Lines(err.Error()), text.Line(dir))
	}
}

// recordLimit is how long a run's end may wait for the logbook.
const recordLimit = 30 * time.Second

func keepRun(ctx context.Context, env *Env, path string, res *probe.Result) error {
	book, err := writeLogbook(ctx, env, path)
	if err != nil {
		return err
	}
	defer book.Close()
	id, added, err := addRunFolder(ctx, book, res.Dir)
	if err != nil || !added {
		return err
	}
	r := logbook.Record{Kind: logbook.KindFacts, At: env.Now(), Title: "when the run had ended", About: []string{id}}
	var paths []string
	for _, d := range res.Run.Provenance.Datasets {
		if d.Path != "" && !slices.Contains(paths, d.Path) {
			paths = append(paths, d.Path)
		}
	}
	if len(paths) > 0 {
		for _, f := range host.Facts(ctx, paths...) {
			if strings.HasPrefix(f.Name, "mount:") {
				r.Facts = append(r.Facts, f)
			}
		}
	}
	if store := env.Getenv("ASSAY_STORE"); store != "" {
		r.Figures = append(r.Figures, logbook.RTT(ctx, store))
	}
	if len(r.Facts)+len(r.Figures) == 0 {
		return nil
	}
	_, err = book.Put(ctx, r)
	return err
}
