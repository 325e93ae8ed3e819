package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/report"
	"assay/internal/suite"
)

// testReports are the forms that a result of `assay test` is written in beside its own, and what it is held against.
type testReports struct {
	env                                     *Env
	summary, junit, sarif, html, badge, old string // files, "": not asked for
	github                                  bool

	manifest *testManifest // asked before; its judgement goes first
	base     *suite.Result
}

func (t *testReports) flags(f *pflag.FlagSet) {
	f.StringVar(&t.summary, "summary", "",
		"write a summary in Markdown to a `file`; added to what is in it where it is $GITHUB_STEP_SUMMARY")
	f.BoolVar(&t.github, "github", false,
		"print annotations for GitHub, which shows them beside the lines of a pull request: ten errors, the operators first")
	f.StringVar(&t.junit, "junit", "", "write JUnit's XML to a `file`: a suite for each device and release")
	f.StringVar(&t.sarif, "sarif", "", "write SARIF to a `file`: a rule for each operator and cause")
	f.StringVar(&t.html, "html", "", "write a page for people to a `file`")
	f.StringVar(&t.badge, "badge", "", "write a badge, SVG, to a `file`")
	f.StringVar(&t.old, "base", "",
		"earlier `result` of the same suite, suite.json or its folder: tell what changed, and be red for new failures alone")
}

// before reads the base and looks whether the forms can be written: not after a suite of hours.
func (t *testReports) before(*testRun) (err error) {
	if t.old != "" {
		if t.base, err = suite.Open(t.env.Path(t.old)); err != nil {
			return fmt.Errorf("--base: %w", err)
		}
	}
	for _, name := range []string{t.summary, t.junit, t.sarif, t.html, t.badge} {
		if name == "" {
			continue
		}
		folder := filepath.Dir(t.env.Path(name))
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			return fault.Hint(fmt.Errorf("write %s: there is no folder %s", name, folder),
				"make it, or name another file")
		}
	}
	return nil
}

// after writes the forms. With a base the status is that of the difference: 1 where a test fails that is not known to
// have failed before, or where not all of it is known; a manifest, where there is one, has said what the status is.
func (t *testReports) after(r *suite.Result) (status int, err error) {
	status = -1
	judged := t.manifest.judged
	var since *suite.Difference
	var refused error
	if t.base != nil {
		if since, refused = r.Since(t.base); since != nil {
			switch {
			case judged != nil:
			case since.Red() > 0 || since.Unknown():
				status = fault.Failed
			default:
				status = fault.OK
			}
			fmt.Fprint(t.env.Stderr, since.Text())
		}
	}
	if t.summary != "" {
		step := t.env.Getenv("GITHUB_STEP_SUMMARY")
		err = errors.Join(err, r.SummaryTo(t.env.Path(t.summary), step, since, judged))
	}
	for _, form := range []struct {
		name  string
		write func(io.Writer) error
	}{{t.junit, func(w io.Writer) error { return r.WriteJUnit(w, judged) }}, {t.sarif, r.WriteSARIF},
		{t.badge, r.WriteBadge}, {t.html, report.Suite{Result: r, Since: since}.Write}} {
		if form.name != "" {
			err = errors.Join(err, file.Write(t.env.Path(form.name), 0o644, form.write))
		}
	}
	if t.github {
		err = errors.Join(err, r.WriteGitHub(t.env.Stderr, since, judged))
	}
	return status, errors.Join(err, refused)
}

func newTestShowCommand(env *Env) *cobra.Command {
	forms := &testReports{env: env, manifest: &testManifest{env: env}}
	cmd := &cobra.Command{
		Use:   "show RESULT",
		Short: "Show an earlier result, or write it in other forms",
		Long: `Shows what assay test wrote earlier, a suite.json or the folder that holds it, and runs nothing. With the flags it is written in
other forms as well; with --base it is held against an earlier result of the same suite.

Exit status: 0, or with --base 1 where a test fails that is not known to have failed before, or where not all is known.`,
		Example: `  assay test show .assay/tests/20261122-101500-pytest-1f2e3d
  assay test show now/suite.json --base main/suite.json --html suite.html --badge mps.svg`,
		Args: cobra.ExactArgs(1),
	}
	forms.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := suite.Open(env.Path(args[0]))
		if err != nil {
			return err
		}
		if err := forms.before(nil); err != nil {
			return err
		}
		exit, err := forms.after(r)
		if err != nil {
			return err
		}
		if err := r.Text(env.Stdout, width(env, env.Stdout)); err != nil {
			return err
		}
		if exit > 0 {
			return status(exit)
		}
		return nil
	}
	return cmd
}
