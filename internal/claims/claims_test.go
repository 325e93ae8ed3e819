package claims

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/claims.md")

func book(t *testing.T) *Ledger {
	t.Helper()
	l, err := load(claimsTOML, modelsText)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.check(); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestPage: docs/claims.md is what claims.toml and the atlas make of it.
func TestPage(t *testing.T) {
	const page = "../../docs/claims.md"
	want, err := book(t).Page()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/claims.md is stale: go test ./internal/claims -run TestPage -update (-made +found):\n%s", diff)
	}
}

// TestAtlasBears: what a claim is judged by is what the atlas says.
func TestAtlasBears(t *testing.T) {
	for _, c := range book(t).Claims {
		t.Run(c.Row, func(t *testing.T) {
			for _, q := range c.Ask {
				if len(q.Expect)+len(q.Rows) == 0 {
					t.Errorf("%s: a question without an expectation", c.Title)
				}
				if err := book(t).bears(q); err != nil {
					t.Errorf("%s: %v", c.Title, err)
				}
			}
		})
	}
}

// TestExpectationsFail: an expectation that the atlas does not meet is told, with the release in which it departs.
func TestExpectationsFail(t *testing.T) {
	l := book(t)
	for _, x := range []struct {
		q    Ask
		want string
	}{
		{Ask{Operators: []string{"torchvision::roi_align"}, Expect: []string{"native 0.15.."}},
			"in 0.15 the atlas says of torchvision::roi_align: missing"},
		{Ask{Operators: []string{"torchvision::roi_align"}, Expect: []string{"native 0.99.."}}, "no such releases"},
		{Ask{Operators: []string{"aten::no_such"}, Expect: []string{"native 2.0.."}}, "no operator aten::no_such"},
		{Ask{API: "torch.logdet", Expect: []string{"backward native 2.0.."}},
			"in 2.0 the atlas says of backward: missing"},
		{Ask{API: "torch.logdet", Expect: []string{"train native 2.0.."}}, "gives no such answer"},
		{Ask{Model: "no.model"}, "no model no.model"},
		{Ask{Rows: []string{"no-row"}}, "no row no-row"},
	} {
		if err := l.bears(x.q); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v, want %q", x.q, err, x.want)
		}
	}
	if err := l.bears(Ask{Operators: []string{"torchvision::roi_align"},
		Expect: []string{"missing 0.15", "native 0.16.."}}); err != nil {
		t.Error(err)
	}
}

// TestCheckRefuses: verdicts, gaps and missing sources.
func TestCheckRefuses(t *testing.T) {
	const whole = `
[[guide]]
id = "S0"
is = "a guide"
[[claim]]
row = "1"
said = ["S0"]
title = "T"
claim = "C"
verdict = "right"
answer = "a"
when = [{ from = "2.0", to = "2.15", verdict = "right", why = "w" }]
why = "w"
instead = "i"
evidence = [{ basis = "derived", text = "t", source = "s" }]
`
	for _, x := range []struct{ old, new, want string }{
		{"", "", ""},
		{`verdict = "right"` + "\nanswer", `verdict = "true"` + "\nanswer", "no such verdict"},
		{`verdict = "right"` + "\nanswer", `verdict = "wrong"` + "\nanswer", "not what its releases say"},
		{`from = "2.0"`, `from = "2.1"`, "not the next ones"},
		{`source = "s"`, `source = ""`, "wants a basis, a text and a source"},
		{`said = ["S0"]`, `said = ["S9"]`, "no such guide"},
		{`basis = "derived"`, `basis = "guessed"`, "wants a basis"},
		{`answer = "a"`, `answer = "` + strings.Repeat("a", 111) + `"`, "an answer of one line"},
		{`why = "w"` + "\ninstead", "instead", "it wants a title"},
		{`verdict = "right"` + "\nanswer", `verdict = "not settled"` + "\nanswer", "what would settle it"},
	} {
		l, err := load([]byte(strings.Replace(whole, x.old, x.new, 1)), "")
		if err != nil {
			t.Fatal(err)
		}
		if err = l.check(); x.want == "" && err != nil || x.want != "" &&
			(err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%q in place of %q: %v, want %q", x.new, x.old, err, x.want)
		}
	}
	if _, err := load([]byte("[[claim]]\nverdct = \"right\"\n"), ""); err == nil {
		t.Error("a field that does not exist is taken")
	}
}

// TestListIsSettled: each row of the list of claims to settle has an entry.
func TestListIsSettled(t *testing.T) {
	settled := map[string]bool{}
	for _, c := range book(t).Claims {
		settled[strings.TrimRight(c.Row, "abcdefgh")] = true
	}
	for _, row := range strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17") {
		if !settled[row] {
			t.Errorf("row %s of the list of claims is not settled", row)
		}
	}
}
