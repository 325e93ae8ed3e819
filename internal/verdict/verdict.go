// Package verdict says in which lane training belongs, by a table of rules (rules.go) over evidence, and when to stop
// tuning (stop.go).
package verdict

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"assay/internal/evidence"
	"assay/internal/gate"
	clean "assay/internal/text"
)

// Report is a verdict with its reasons: a document of evidence, whose subject and target are those of the first run,
// and whose figures are those that the rules went by.
type Report struct {
	evidence.Envelope
	Ruling `json:"body"`
}

// Ruling is what a verdict has beyond the envelope.
type Ruling struct {
	Lane     Lane      `json:"lane"`
	Rule     string    `json:"rule,omitempty"` // that decided
	Next     []string  `json:"next"`
	Needs    []string  `json:"needs"` // what would supply the evidence that is missing
	RuledOut []Lane    `json:"ruled_out"`
	Declared []string  `json:"declared"`
	Runs     []RunRef  `json:"runs"`
	Rules    []Applied `json:"rules"`
	Stop     Stop      `json:"stopping_rule"`

	Torch string `json:"torch,omitempty"` // release of PyTorch that it is given for: the first run's
	From  string `json:"torch_from"`      // why that one, or why none is known
	// which other release the project aims at by now, and what else was found of it
	Beside []string `json:"torch_beside,omitempty"`
}

// RunRef points at a run.
type RunRef struct {
	ID       string    `json:"id"`
	Document string    `json:"document,omitempty"` // SHA-256 of the evidence
	Started  time.Time `json:"started"`
	Device   string    `json:"device"`
	Path     string    `json:"path,omitempty"`
}

// Applied is a rule as it came out.
type Applied struct {
	Name    string        `json:"name"`
	Holds   string        `json:"holds"` // yes, no, cannot tell
	Then    string        `json:"then"`
	Because string        `json:"because"`
	Source  string        `json:"source"`
	Answers []gate.Answer `json:"conditions"`
	matters bool          // it could still give or change the verdict
}

// Options of a verdict.
type Options struct {
	Declared []string
	Policy   *gate.Policy      // of the stopping rule
	Paths    map[string]string // gate.Key of a run → where it is kept
	Past     []*evidence.Run   // for the stopping rule, besides Runs
}

// Judge applies the rules. The first run names the subject.
func Judge(runs []*evidence.Run, opts Options) *Report {
	rep := &Report{Envelope: evidence.NewEnvelope(evidence.KindVerdict),
		Ruling: Ruling{Lane: None, Next: []string{}, Needs: []string{}, RuledOut: []Lane{},
			Declared: append([]string{}, opts.Declared...), Runs: []RunRef{}, Rules: []Applied{}}}
	if len(runs) > 0 {
		rep.About(runs[0])
	}
	for _, run := range runs {
		rep.Runs = append(rep.Runs, ref(run, opts.Paths))
	}
	set := &gate.Set{Runs: runs}
	for _, rule := range Rules {
		a := rep.apply(set, rule)
		// Once MPS is out, what would have been measured on it no longer matters.
		a.matters = !slices.Contains(rep.RuledOut, MPS) || slices.ContainsFunc(rule.When,
			func(c Condition) bool { return c.Out == MPS })
		// MLX is a rewrite: nobody is sent there unasked.
		if rule.Lane == MLX && !slices.Contains(opts.Declared, Inference) && !slices.Contains(opts.Declared, Rewrite) {
			a.matters = false
		}
		rep.Rules = append(rep.Rules, a)
		rep.Figures = append(rep.Figures, gate.Figures("rule", a.Name, a.Answers)...)
		if a.Holds != "yes" {
			continue
		}
		switch {
		case rule.RuleOut != "":
			if !slices.Contains(rep.RuledOut, rule.RuleOut) {
				rep.RuledOut = append(rep.RuledOut, rule.RuleOut)
			}
			rep.Next = append(rep.Next, rule.Next)
		case rep.Rule == "" && !slices.Contains(rep.RuledOut, rule.Lane):
			rep.Lane, rep.Rule = rule.Lane, rule.Name
			rep.Next = append([]string{rule.Next}, rep.Next...)
		}
	}
	if rep.Lane == None && rep.Rule == "" {
		rep.missing(runs)
	}
	rep.Stop = StoppingRule(append(append([]*evidence.Run{}, runs...), opts.Past...), opts.Policy, opts.Paths)
	return rep
}

func (rep *Report) apply(set *gate.Set, rule Rule) Applied {
	a := Applied{Name: rule.Name, Holds: "yes", Then: rule.Then(), Because: rule.Because, Source: rule.Source,
		Answers: []gate.Answer{}}
	for _, c := range rule.When {
		out := gate.Fail
		var answers []gate.Answer
		said := func(word string) bool { return slices.Contains(rep.Declared, word) }
		switch {
		case c.Where != "" && !said(c.Where):
			continue
		case c.Evidence != "":
			out, answers = set.Answer(expressions[c.Evidence])
		case c.Out != "":
			if slices.Contains(rep.RuledOut, c.Out) {
				out = gate.Pass
			}
			answers = []gate.Answer{{Condition: c.String(), Outcome: out, Text: string(c.Out) + ruled(out),
				Runs: []string{}}}
		case c.Unless != "":
			if !slices.ContainsFunc(rep.Rules, func(a Applied) bool { return a.Name == c.Unless && a.Holds == "yes" }) {
				out = gate.Pass
			}
			if out != gate.Pass {
				answers = []gate.Answer{{Condition: c.String(), Outcome: out, Text: c.Unless + " holds",
					Runs: []string{}}}
			}
		default:
			if c.Said != "" && said(c.Said) || c.NotSaid != "" && !said(c.NotSaid) {
				out = gate.Pass
			}
			word := c.Said + c.NotSaid
			fig := evidence.Figure{Name: word, Unit: "1", Basis: evidence.Declared, Missing: "nobody declared it"}
			text := word + " was not declared"
			if said(word) {
				one := 1.0
				fig.Value, fig.Missing, text = &one, "", word+" was declared"
			}
			answers = []gate.Answer{{Condition: c.String(), Outcome: out, Figure: fig, Text: text, Runs: []string{}}}
		}
		a.Answers = append(a.Answers, answers...)
		switch {
		case out == gate.Fail:
			a.Holds = "no"
		case out == gate.Unknown && a.Holds == "yes":
			a.Holds = "cannot tell"
		}
	}
	return a
}

func ruled(o gate.Outcome) string {
	if o == gate.Pass {
		return " is ruled out"
	}
	return " is not ruled out"
}

// expressions are the rules' conditions, parsed once.
var expressions = func() map[string]*gate.Expr {
	all := map[string]*gate.Expr{}
	for _, r := range Rules {
		for _, c := range r.When {
			if c.Evidence == "" {
				continue
			}
			e, err := gate.Parse(c.Evidence)
			if err != nil {
				panic(fmt.Sprintf("rule %s: %v", r.Name, err)) // a test reads them
			}
			all[c.Evidence] = e
		}
	}
	return all
}()

// missing gathers what would settle the rules that cannot be told, those that could still decide first.
func (rep *Report) missing(runs []*evidence.Run) {
	seen := map[string]bool{}
	for _, lanes := range []bool{false, true} { // first what could give a lane, then what could rule one out
		for _, a := range rep.Rules {
			out := strings.HasSuffix(a.Then, " is out")
			if a.Holds != "cannot tell" || out != lanes || !a.matters || slices.Contains(rep.RuledOut, Lane(a.Then)) {
				continue
			}
			for _, answer := range a.Answers {
				if answer.Outcome == gate.Unknown && answer.Needs != "" && !seen[answer.Needs] {
					seen[answer.Needs] = true
					rep.Needs = append(rep.Needs, answer.Needs)
				}
			}
		}
	}
	if len(runs) == 0 {
		rep.Needs = []string{"assay run --on double -- python train.py", "assay run --on cpu -- python train.py",
			"on a Mac: assay run --on mps -- python train.py --epochs 10"}
	}
}

// JSON writes the record.
func JSON(w io.Writer, rep *Report) error {
	return evidence.Write(w, rep)
}

// Text writes the verdict for a terminal.
func Text(w io.Writer, rep *Report, width int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "verdict: %s\n", rep.Lane)
	line := func(indent, text string) { gate.Wrap(&b, indent, text, width) }
	reason := func(a Applied) {
		for _, answer := range a.Answers {
			if answer.Outcome != gate.Pass {
				continue
			}
			text := answer.Text
			if how := answer.How(); how != "" {
				text += " (" + how + ")"
			}
			line("  ", text)
		}
		line("  ", "because: "+a.Because+" ["+a.Source+"]")
	}
	for _, a := range rep.Rules {
		if a.Name == rep.Rule {
			fmt.Fprintf(&b, "by the rule %s\n", a.Name)
			reason(a)
		}
	}
	for _, a := range rep.Rules {
		if a.Holds == "yes" && strings.HasSuffix(a.Then, " is out") {
			fmt.Fprintf(&b, "%s, by the rule %s\n", a.Then, a.Name)
			reason(a)
		}
	}
	if rep.Lane == None && rep.Rule == "" {
		var reasons []string // each with the rules that it leaves open
		open := map[string][]string{}
		for _, a := range rep.Rules {
			if a.Holds != "cannot tell" || !a.matters {
				continue
			}
			var why []string
			for _, answer := range a.Answers {
				if answer.Outcome == gate.Unknown && !slices.Contains(why, answer.Text) {
					why = append(why, answer.Text)
				}
			}
			reason := strings.Join(why, "; ")
			if open[reason] == nil {
				reasons = append(reasons, reason)
			}
			open[reason] = append(open[reason], a.Name)
		}
		for _, reason := range reasons {
			line("  ", reason+": cannot tell "+strings.Join(open[reason], ", "))
		}
	}
	for _, need := range rep.Needs {
		line("", "to know: "+need)
	}
	for _, next := range rep.Next {
		line("", "next: "+next)
	}
	if s := rep.Stop; s.Outcome != "no" {
		line("", "stopping rule: "+s.Text)
		for _, run := range s.Runs {
			at := run.ID
			if run.Path != "" {
				at = run.Path
			}
			line("  ", run.Started.Format("2006-01-02")+"  "+at)
		}
		if s.Outcome == "yes" {
			line("  ", "because: "+StopBecause)
		}
		if s.Needs != "" {
			line("  ", "to know: "+s.Needs)
		}
	}
	switch {
	case rep.Torch != "":
		line("", "judged for torch "+rep.Torch+" ("+rep.From+")")
	case rep.From != "":
		line("", "judged for no release: "+rep.From)
	}
	for _, beside := range rep.Beside {
		line("  ", beside)
	}
	_, err := io.WriteString(w, clean.Lines(b.String()))
	return err
}

// RulesText prints the rules for a terminal.
func RulesText(w io.Writer, width int) {
	for _, r := range Rules {
		fmt.Fprintf(w, "%s\n", r.Name)
		for i, c := range r.When {
			word := "when"
			if i > 0 {
				word = "and"
			}
			gate.Wrap(w, "  ", fmt.Sprintf("%s %s", word, c), width)
		}
		gate.Wrap(w, "  ", "then "+r.Then(), width)
		gate.Wrap(w, "  ", "because "+r.Because+" ["+r.Source+"]", width)
		gate.Wrap(w, "  ", "next: "+r.Next, width)
	}
	fmt.Fprintln(w, "stopping rule")
	gate.Wrap(w, "  ", StopRule, width)
	gate.Wrap(w, "  ", "because "+StopBecause, width)
}
