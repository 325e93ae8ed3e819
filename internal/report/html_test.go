package report

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"assay/internal/evidence"
)

func pageOfRun(t *testing.T, run *evidence.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := (HTML{}).Write(&b, run); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHTMLGolden(t *testing.T) {
	for name, run := range samples() {
		t.Run(name, func(t *testing.T) {
			got := pageOfRun(t, run)
			if again := pageOfRun(t, run); again != got {
				t.Error("the same evidence gave two pages")
			}
			// Style and script are files of their own: a golden that repeats them would only hide what changed.
			got = strings.Replace(strings.Replace(got, pageCSS, "…", 1), pageJS, "…", 1)
			got = regexp.MustCompile(`sha256-[^'&]*`).ReplaceAllString(got, "sha256-…")
			golden(t, name+".html", []byte(got))
		})
	}
}

// Nothing on the page reaches for the network, and nothing in the evidence can start a tag or an attribute.
func TestHTMLHostile(t *testing.T) {
	const evil = `</script></style></svg><img src=x onerror=alert(1)>" onload="alert(2)' {{.}} <!--`
	run := fullRun()
	spoil(run, evil)
	got := pageOfRun(t, run)
	for _, bad := range []string{"<img", `onload="alert`, "<!--"} {
		if strings.Contains(got, bad) {
			t.Errorf("%s is on the page", bad)
		}
	}
	if n := strings.Count(got, "</script>"); n != 1 {
		t.Errorf("%d closing script tags", n)
	}
	if n := strings.Count(got, "</style>"); n != 1 {
		t.Errorf("%d closing style tags", n)
	}
	for _, m := range regexp.MustCompile(`(?:src|href|action|data)="([^"]*)"`).FindAllStringSubmatch(got, -1) {
		if !strings.HasPrefix(m[1], "#") && m[1] != "data:," {
			t.Errorf("the page refers to %s", m[1])
		}
	}
	if regexp.MustCompile(`url\(|@import|https?://`).MatchString(pageCSS + pageJS + pageSource) {
		t.Error("style, script or template name an address")
	}
}

func spoil(run *evidence.Run, s string) {
	run.ID, run.Subject.Script, run.Subject.Command = s, s, []string{s}
	run.Outcome.Error, run.Outcome.Where, run.Outcome.Reason = s, s, s
	run.Target.Name, run.Target.Device, run.Target.System = s, s, s
	run.Findings = []evidence.Finding{{Name: s, Severity: evidence.Severity(s), Text: s, Where: s,
		Hint: s, Basis: evidence.Basis(s)}}
	run.Operators = []evidence.Operator{{Name: s, Calls: 1}}
	run.Syncs = []evidence.SyncPoint{{Call: s, Where: s}}
	run.Shapes = []evidence.Shape{{Model: s, Inputs: s}}
	run.Figures = append(run.Figures, evidence.Unknown(s, "s", s), evidence.Unknown("split.data", "s", s))
	run.Provenance.Environment = map[string]string{s: s}
	run.Provenance.Packages = []string{s}
	run.Loss.Note = s
	run.Windows = append(run.Windows, evidence.Window{Name: s, Excluded: s})
}

// A run of a million steps still makes a page that a browser opens at once, and what stands out stays on the plot.
func TestHTMLOfAMillionSteps(t *testing.T) {
	run := digitsRun()
	s := &evidence.StepSeries{}
	run.Loss = evidence.LossSeries{}
	rnd := noise(3)
	const n = 1_000_000
	at := 0.0
	for i := 1; i <= n; i++ {
		d := .03 * (1 + .1*rnd.next())
		if i == 654_321 {
			d = .2
		}
		s.Number, s.Start, s.Total = append(s.Number, i), append(s.Start, at), append(s.Total, d)
		s.Live, s.Pool = append(s.Live, 1e9*rnd.next()), append(s.Pool, 2e9)
		kind := ""
		if i%50 == 0 {
			kind = "sync"
		}
		s.Kind = append(s.Kind, kind)
		at += d
		run.Loss.Step, run.Loss.Value = append(run.Loss.Step, i), append(run.Loss.Value, ptr(1/float64(i)))
	}
	run.Steps = *s
	run.Epochs = nil
	for e := range 1000 {
		run.Epochs = append(run.Epochs, evidence.Epoch{Number: e + 1, First: e*1000 + 1, Last: (e + 1) * 1000,
			Seconds: 30, Complete: true})
	}
	run.Host.Samples = nil
	hostSamples(run, at, at/20000, 4e8, 1e9, true)
	got := pageOfRun(t, run)
	if len(got) > 2_000_000 {
		t.Errorf("%d bytes", len(got))
	}
	i := strings.Index(got, `data-name="step time"`)
	line := regexp.MustCompile(`points="([^"]*)"`).FindStringSubmatch(got[i:])[1]
	points := strings.Fields(line)
	if len(points) > mostPoints {
		t.Errorf("%d points", len(points))
	}
	top := math.Inf(1)
	for _, p := range points {
		_, y, _ := strings.Cut(p, ",")
		v, err := strconv.ParseFloat(y, 64)
		if err != nil {
			t.Fatalf("point %q", p)
		}
		top = math.Min(top, v)
	}
	if top > 1 {
		t.Errorf("the slow step is not on the plot: the highest point is at %v", top)
	}
}

// Evidence may be partial in every way; no page has NaN in its geometry, or a zero for what is not known.
func TestHTMLOfPartialEvidence(t *testing.T) {
	for name, change := range map[string]func(*evidence.Run){
		"one step":           func(r *evidence.Run) { r.Steps.Number, r.Steps.Total = []int{1}, []float64{.1} },
		"columns of uneven":  func(r *evidence.Run) { r.Steps.Number = r.Steps.Number[:10]; r.Steps.Live = nil },
		"no epochs":          func(r *evidence.Run) { r.Epochs = nil },
		"constant":           func(r *evidence.Run) { clear(r.Steps.Total) },
		"share of one phase": func(r *evidence.Run) { r.Figures = r.Figures[:3] },
		"NaN in a column":    func(r *evidence.Run) { r.Steps.Total[5] = math.NaN(); r.Steps.Total[6] = math.Inf(1) },
		"no loss values":     func(r *evidence.Run) { clear(r.Loss.Value) },
		"nothing":            func(r *evidence.Run) { *r = evidence.Run{} },
	} {
		run := digitsRun()
		change(run)
		got := pageOfRun(t, run)
		if m := regexp.MustCompile(`(?:points|d|x|width|style|data-[xy][01])="[^"]*(NaN|Inf)`).FindString(got); m != "" {
			t.Errorf("%s: %s", name, m[:min(len(m), 80)])
		}
		var b bytes.Buffer
		if err := (Text{}).Write(&b, run); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "NaN") {
			t.Errorf("%s:\n%s", name, b.String())
		}
	}
}

// Text and lines keep the contrast that WCAG 2.2 asks for at level AA, in both modes: 4.5 for text, 3 for drawings.
func TestContrast(t *testing.T) {
	vars := func(css string) map[string]string {
		out := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+):(#[0-9a-f]{3,6})`).FindAllStringSubmatch(css, -1) {
			out[m[1]] = m[2]
		}
		return out
	}
	_, rest, _ := strings.Cut(pageCSS, ":root{")
	light, rest, _ := strings.Cut(rest, "@media (prefers-color-scheme:dark)")
	dark, _, _ := strings.Cut(rest, "}}")
	light, _, _ = strings.Cut(light, "}")
	for mode, v := range map[string]map[string]string{"light": vars(light), "dark": vars(dark)} {
		check := func(fg, bg string, least float64) {
			if c := contrast(v[fg], v[bg]); c < least {
				t.Errorf("%s: %s on %s is %.2f, less than %v", mode, fg, bg, c, least)
			}
		}
		for _, fg := range []string{"ink", "mute", "accent", "bad", "warn", "good"} {
			check(fg, "bg", 4.5)
			check(fg, "panel", 4.5)
		}
		colours := []string{"rest"}
		for i := range phaseColours {
			colours = append(colours, fmt.Sprint("p", i+1))
		}
		for _, p := range colours {
			check(p, "bg", 3)
			check(p, "band", 2.7) // a line over the tint of an epoch; the tint carries no meaning of its own
			check("on-"+p, p, 4.5)
		}
	}
}

func contrast(a, b string) float64 {
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + .05) / (min(la, lb) + .05)
}

func luminance(hex string) float64 {
	hex = strings.TrimPrefix(hex, "#")
	if len(hex) == 3 {
		hex = fmt.Sprintf("%c%c%c%c%c%c", hex[0], hex[0], hex[1], hex[1], hex[2], hex[2])
	}
	var sum float64
	for i, w := range []float64{.2126, .7152, .0722} {
		n, _ := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		c := float64(n) / 255
		if c <= .04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+.055)/1.055, 2.4)
		}
		sum += w * c
	}
	return sum
}

func TestTicksAreRoundAndCover(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		unit   string
	}{{0, .0309, "s"}, {0, 1e-7, "s"}, {0, 5400, "s"}, {0, 24.9 * (1 << 30), "B"}, {0, 0, "B"}, {1, 135, "1"},
		{1, 1e6, "1"}, {0, 1, "ratio"}, {-3, 2.5, "1"}, {7, 7, "1"}, {260, 320, "W"}} {
		lo, hi, ticks := ticksOf(c.lo, c.hi, c.unit, 4)
		if lo > c.lo || hi < c.hi || hi <= lo || len(ticks) < 2 || len(ticks) > 9 {
			t.Errorf("%v…%v %s: %v…%v in %v", c.lo, c.hi, c.unit, lo, hi, ticks)
		}
		seen := map[string]bool{}
		for _, k := range ticks {
			if seen[k.Label] {
				t.Errorf("%v…%v %s: %s twice", c.lo, c.hi, c.unit, k.Label)
			}
			seen[k.Label] = true
		}
	}
}

func TestForms(t *testing.T) {
	names := map[string]bool{}
	for _, f := range Forms() {
		if f.Name() == "" || names[f.Name()] {
			t.Errorf("name %q", f.Name())
		}
		names[f.Name()] = true
		var a, b bytes.Buffer
		if err := f.Write(&a, cudaRun()); err != nil {
			t.Fatal(err)
		}
		if err := f.Write(&b, cudaRun()); err != nil {
			t.Fatal(err)
		}
		if a.String() != b.String() || a.Len() == 0 {
			t.Errorf("%s: not the same twice", f.Name())
		}
		if err := f.Write(broken{}, cudaRun()); err == nil {
			t.Errorf("%s: a failing writer goes unnoticed", f.Name())
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, fmt.Errorf("no space left on device") }
