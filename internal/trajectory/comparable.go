package trajectory

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"assay/internal/evidence"
)

// Bar is why the losses of two runs cannot be compared step by step.
type Bar struct {
	Name string `json:"name"` // what --allow takes
	Why  string `json:"why"`
	Do   string `json:"do"` // what would make them comparable
	// Allowed: somebody said that this is what is to be judged; it is a row of what changed then
	Allowed bool `json:"allowed"`
	never   bool // cannot be allowed: there is nothing to compare
}

// Names of bars that can be allowed, in the order in which they are looked for.
var allowable = []string{"script", "command", "ended", "data", "batch", "seed", "learning-rate", "levers"}

// Allowable lists what --allow takes.
func Allowable() []string { return slices.Clone(allowable) }

// Bars lists what stands against comparing the losses of b with those of a; none: they can be compared. What is not
// known of either stands against nothing: Result.Unknown says it.
func Bars(a, b *evidence.Run) (bars []Bar) {
	add := func(name, do, format string, args ...any) {
		bars = append(bars, Bar{Name: name, Do: do, Why: fmt.Sprintf(format, args...),
			never: !slices.Contains(allowable, name)})
	}
	if a.Document != "" && a.Document == b.Document {
		add("one-run", "name two runs", "both are the same run")
		return bars
	}
	for _, side := range sides(a, b) {
		if d := side.run.Target.Double; d != nil && d.ShapeOnly {
			add("shapes", "rehearse without --shape-only", "%s is a rehearsal with shapes only: it computed no losses",
				side.name)
		}
		if len(side.run.Loss.Step) == 0 && len(Logged(side.run)) == 0 {
			why := "it has no losses"
			if f := side.run.Figure("loss.first"); f.Missing != "" {
				why += ": " + f.Missing
			}
			add("losses", "run the training under assay run", "%s: %s", side.name, why)
		}
	}
	if x, y := evidence.Title(a), evidence.Title(b); x != y {
		add("script", "compare two runs of one script", "A is %s, B is %s", orUnknown(x), orUnknown(y))
	}
	x, y := arguments(a), arguments(b)
	if !slices.Equal(withoutSeed(withoutDevice(x)), withoutSeed(withoutDevice(y))) {
		add("command", "run both with the same arguments", "the arguments differ: %s", wordsApart(x, y))
	}
	for _, side := range sides(a, b) {
		if why := cutShort(side.run); why != "" {
			add("ended", "run it to its end", "%s %s", side.name, why)
		}
	}
	data, other := a.Provenance.Datasets, b.Provenance.Datasets
	for i := range min(len(data), len(other)) {
		switch p, q := data[i], other[i]; {
		case p.Fingerprint != "" && q.Fingerprint != "" && p.Fingerprint != q.Fingerprint:
			add("data", "run both on the same files", "dataset %d has other content: %s in A, %s in B", i,
				p.Fingerprint, q.Fingerprint)
		case p.Length > 0 && q.Length > 0 && p.Length != q.Length:
			add("data", "run both on the same files", "dataset %d has %d items in A, %d in B", i, p.Length, q.Length)
		}
	}
	if len(data) > 0 && len(other) > 0 && data[0].Batch > 0 && other[0].Batch > 0 {
		p, q := float64(data[0].Batch)*perUpdate(a), float64(other[0].Batch)*perUpdate(b)
		if p != q {
			add("batch", "run both with the same number of samples an update",
				"an update sees %g samples in A, %g in B", p, q)
		}
	}
	if why := seedsApart(a, b); why != "" {
		add("seed", "set the same seeds in both", "%s", why)
	} else if !slices.Equal(withoutDevice(x), withoutDevice(y)) && !barred(bars, "command") {
		add("seed", "set the same seeds in both", "the arguments differ: %s", wordsApart(x, y))
	}
	if why := ratesApart(a, b); why != "" {
		add("learning-rate", "run both with the same learning rate", "%s", why)
	}
	if p, q := levers(a), levers(b); p != q {
		add("levers", "run both as the script is written", "assay changed the training otherwise: %s in A, %s in B",
			orNone(p), orNone(q))
	}
	return bars
}

type side struct {
	name string
	run  *evidence.Run
}

func sides(a, b *evidence.Run) []side { return []side{{"A", a}, {"B", b}} }

// arguments are the words of the command behind the script's name.
func arguments(run *evidence.Run) []string {
	words := evidence.Words(run)
	return words[min(1, len(words)):]
}

// withoutDevice leaves out words that name a device, and the flags whose values they are: --device mps against --device
// cuda is what is compared, and no other training.
func withoutDevice(words []string) (kept []string) {
	for _, w := range words {
		_, value, assigned := strings.Cut(w, "=")
		if !assigned {
			value = w
		}
		kind, index, _ := strings.Cut(value, ":")
		_, err := strconv.Atoi(index)
		if named := slices.Contains(devices, strings.ToLower(kind)) && (index == "" || err == nil); !named {
			kept = append(kept, w)
		} else if n := len(kept); !assigned && n > 0 && strings.HasPrefix(kept[n-1], "-") {
			kept = kept[:n-1]
		}
	}
	return kept
}

// withoutSeed leaves out flags that give a seed, with their values: --seed 1, --data-seed=2.
func withoutSeed(words []string) (kept []string) {
	for i := 0; i < len(words); i++ {
		flag, _, assigned := strings.Cut(words[i], "=")
		switch seed := strings.HasSuffix(strings.ToLower(flag), "seed"); {
		case seed && assigned:
		case seed && strings.HasPrefix(flag, "-"):
			i++ // its value
		default:
			kept = append(kept, words[i])
		}
	}
	return kept
}

func barred(bars []Bar, name string) bool {
	return slices.ContainsFunc(bars, func(b Bar) bool { return b.Name == name })
}

// devices are the words by which scripts name one.
var devices = []string{"cpu", "mps", "cuda", "gpu", "mlx", "metal", "auto"}

func wordsApart(x, y []string) string {
	from := 0
	for from < min(len(x), len(y)) && x[from] == y[from] {
		from++
	}
	end := 0
	for end < min(len(x), len(y))-from && x[len(x)-1-end] == y[len(y)-1-end] {
		end++
	}
	if from > 0 && strings.HasPrefix(x[from-1], "-") && !strings.Contains(x[from-1], "=") {
		from-- // the flag whose value it is
	}
	return fmt.Sprintf("%s in A; %s in B", orNone(strings.Join(x[from:len(x)-end], " ")),
		orNone(strings.Join(y[from:len(y)-end], " ")))
}

// cutShort says that a run did not come to its end; "" where it did, or ended where it was asked to.
func cutShort(run *evidence.Run) string {
	o := run.Outcome
	switch {
	case o.Stopped != "":
		return ""
	case o.Error != "":
		return "failed: " + o.Error
	case o.Signal != "":
		return "was ended by " + o.Signal
	case o.Exit > 0:
		return fmt.Sprintf("failed with exit status %d", o.Exit)
	case o.Exit < 0:
		return "was cut off"
	case !o.Complete && o.Reason != "":
		return "is not complete: " + o.Reason
	}
	return ""
}

// perUpdate is how many batches an update is made of.
func perUpdate(run *evidence.Run) float64 {
	if m := run.Numerics.MicroSteps; m > 0 {
		return m
	}
	return 1
}

// isSeed tells what numbers are drawn by from other settings. PYTHONHASHSEED orders sets of texts alone, and draws
// nothing.
func isSeed(name string) bool {
	return name != "PYTHONHASHSEED" && (strings.HasSuffix(name, "seed") || strings.HasSuffix(name, "default_rng") ||
		strings.HasSuffix(name, "PRNGKey") || strings.HasSuffix(name, "random.key") ||
		strings.HasPrefix(name, "generator of "))
}

func settings(run *evidence.Run) map[string]evidence.Setting {
	m := map[string]evidence.Setting{}
	for _, s := range run.Provenance.Randomness {
		m[s.Name] = s
	}
	return m
}

func seedsApart(a, b *evidence.Run) string {
	there := settings(b)
	for _, s := range a.Provenance.Randomness {
		t, both := there[s.Name]
		if !isSeed(s.Name) || !both || s.State == evidence.StateUnknown || t.State == evidence.StateUnknown {
			continue
		}
		if s.State != t.State || s.Value != t.Value {
			return fmt.Sprintf("%s: %s in A; %s in B", s.Name, setTo(s), setTo(t))
		}
	}
	return ""
}

func setTo(s evidence.Setting) string {
	if s.State == evidence.NotSet || s.Value == "" {
		return string(s.State)
	}
	return s.Value
}

// unseeded reports whether the first generator of a run, its framework's, was given no seed: every run draws other
// numbers then.
func unseeded(run *evidence.Run) bool {
	for _, s := range run.Provenance.Randomness {
		if isSeed(s.Name) {
			return s.State == evidence.NotSet
		}
	}
	return false
}

// sameRate is how far two learning rates may differ, a ratio: a schedule is worked out in float64, whose last bits
// depend on the machine's library of functions.
const sameRate = 1e-12

// ratesApart says where the learning rates part, over the steps that both runs came to.
func ratesApart(a, b *evidence.Run) string {
	last := min(lastStep(a), lastStep(b))
	x, y := rates(a), rates(b)
	if len(x) == 0 || len(y) == 0 {
		return ""
	}
	for i := range max(len(x), len(y)) {
		switch {
		case i >= len(x) || i >= len(y):
			return fmt.Sprintf("%d learning rates in A, %d in B", len(x), len(y))
		case x[i].Name != y[i].Name:
			return fmt.Sprintf("the optimizer's learning rate is %s in A, %s in B", x[i].Name, y[i].Name)
		}
		if step, p, q, apart := rateAt(x[i], y[i], last); apart {
			return fmt.Sprintf("%s is %s in A, %s in B from step %d on", x[i].Name, p, q, step)
		}
	}
	return ""
}

func rates(run *evidence.Run) (list []evidence.Series) {
	for _, s := range run.Logged {
		if s.Door == evidence.DoorOptimizer {
			list = append(list, s)
		}
	}
	return list
}

func lastStep(run *evidence.Run) int {
	last := 0
	for _, s := range run.Steps.Number {
		last = max(last, s)
	}
	for _, s := range run.Loss.Step {
		last = max(last, s)
	}
	return last
}

// rateAt finds the first step at which the two rates differ: each holds until its next point.
func rateAt(x, y evidence.Series, last int) (step int, a, b string, apart bool) {
	if x.Thin > 1 || y.Thin > 1 { // not every change is listed: only what both list can be held together
		there := map[int]*float64{}
		for i, s := range y.Step {
			if i < len(y.Value) {
				there[s] = y.Value[i]
			}
		}
		for i, s := range x.Step {
			if q, both := there[s]; both && i < len(x.Value) && !sameRates(x.Value[i], q) {
				return s, rate(x.Value[i]), rate(q), true
			}
		}
		return 0, "", "", false
	}
	at := func(s evidence.Series, step int) (v *float64, ok bool) {
		for i, n := range s.Step {
			if n <= step && i < len(s.Value) {
				v, ok = s.Value[i], true
			}
		}
		return v, ok
	}
	steps := slices.Sorted(slices.Values(slices.Concat(x.Step, y.Step)))
	for _, step := range slices.Compact(steps) {
		if step > last {
			break
		}
		p, ok := at(x, step)
		q, too := at(y, step)
		if ok && too && !sameRates(p, q) {
			return step, rate(p), rate(q), true
		}
	}
	return 0, "", "", false
}

func sameRates(p, q *float64) bool {
	if p == nil || q == nil {
		return p == q
	}
	return math.Abs(*p-*q) <= sameRate*math.Max(math.Abs(*p), math.Abs(*q))
}

func rate(v *float64) string {
	if v == nil {
		return "not finite"
	}
	return number(*v)
}

// levers says what assay changed of the training when it was asked to.
func levers(run *evidence.Run) string {
	var words []string
	for _, l := range run.Levers {
		if l.Done {
			word := l.Lever
			if l.To != 0 {
				word += " " + strconv.FormatInt(l.To, 10)
			}
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// command says the run's command without the folders of its interpreter and script.
func command(run *evidence.Run) string {
	words := evidence.Words(run)
	if len(words) == 0 {
		return "unknown"
	}
	words[0] = path.Base(words[0])
	return strings.Join(words, " ")
}
