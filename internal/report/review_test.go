package report

import (
	"math"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

func review(t *testing.T) string {
	t.Helper()
	bad := `<script>alert(1)</script>"'&`
	long := strings.Repeat("0123456789abcdef", 4)
	page := Review{Title: "Loss trajectories: " + bad, ID: "trajectory-" + long, Outcome: "fail", Answer: "beyond",
		Lead: bad,
		Curves: []ReviewCurve{{Name: bad, X: "step", Step: []float64{1, 2, 3, 4}, A: []float64{3, 2, math.NaN(), 1},
			B: []float64{3, 2.1, 1.5, 1.2}}, {Name: "empty"}},
		Parts: []ReviewPart{{Title: "The two runs", Columns: []string{"what", "A", "B", "how known"},
			Rows: [][]string{{"SHA-256", long, long, "worked out of its bytes"}, {bad, bad, bad, bad}}},
			{Title: "What is left", Says: []string{bad}}, {Title: "Nothing here"}},
		Sign: []string{"Reviewed by", "Signature"}}
	var b strings.Builder
	if err := page.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestReview: a stranger's text stays text, what is empty is left out, and there is a place to sign.
func TestReview(t *testing.T) {
	page := review(t)
	for _, want := range []string{`<span class="chip bad">beyond</span>`, "<dt>Signature</dt>",
		"&lt;script&gt;alert(1)", `id="c-both-0"`,
		`id="c-apart-0"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, not := range []string{"<script>alert", "Nothing here", `id="c-both-1"`} {
		if strings.Contains(page, not) {
			t.Errorf("%s is on the page", not)
		}
	}
}

func TestReviewInBrowser(t *testing.T) {
	b := browse(t, review(t))
	for _, scheme := range []string{"light", "dark"} {
		b.media(t, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme",
			Value: scheme}}})
		for _, width := range []int64{1100, 390, 320} {
			b.do(t, chromedp.EmulateViewport(width, 740))
			if got := eval[int64](t, b, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("the page is %d wide on a screen of %d", got, width)
			}
		}
	}
	b.quiet(t)
}
