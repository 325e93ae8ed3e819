package cli

import (
	"assay/internal/facts"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/atlas"
	"assay/internal/fault"
	"assay/internal/target"
	"assay/internal/text"
)

type opsOptions struct {
	Torch   string
	Missing bool
	JSON    bool
	Diff    bool
	API     string
	Wrong   bool
}

// opsSchema names the version of the JSON form of `assay ops`.
const opsSchema = "assay.ops/2"

// opsDetailed is how many operators are still told about one by one; longer lists are a table.
const opsDetailed = 6

// opsAnswer is what `assay ops --json` prints. Everything in it is derived: from wheels, from PyTorch's own databases
// traced on a CPU, from sources and issues that each row names.
type opsAnswer struct {
	Schema    string       `json:"schema"`
	Torch     string       `json:"torch"`                  // the release that states speak of
	From      string       `json:"torch_from,omitempty"`   // why that release, as target.Aim has it
	Beside    []string     `json:"torch_beside,omitempty"` // what else was found of the release
	Basis     string       `json:"basis"`                  // derived
	API       *opsAPI      `json:"api,omitempty"`
	APIs      []opsAPI     `json:"apis,omitempty"` // the Python names that a pattern fits
	Operators []opsState   `json:"operators"`
	Facts     []opsFact    `json:"facts,omitempty"` // what is known of them beyond states, the worst first
	Diff      *opsDiff     `json:"diff,omitempty"`
	Sources   []opsRelease `json:"sources"` // the wheels that the states were read from
}

type opsRelease struct {
	Package string `json:"package"`
	Version string `json:"version"`
	Wheel   string `json:"wheel"`
	SHA256  string `json:"sha256"`
}

type opsState struct {
	Name    string       `json:"name"`
	Package string       `json:"package"`
	State   string       `json:"state"`
	History []atlas.Span `json:"history"`
	// first release series with a kernel; absent when the newest has none
	NativeFrom string `json:"native_from,omitempty"`
	// what later releases do better with one that is not native, in words: composed of others from torch 2.14 on
	Later string `json:"later,omitempty"`
	// a missing operator that a composed one calls whatever its inputs
	Lacks string `json:"lacks,omitempty"`
	// the operator that the error of a missing one names, where it is another
	ErrorNames string    `json:"error_names,omitempty"`
	Needs      []opsNeed `json:"needs,omitempty"` // of a composed operator
	// composed operators of which it is not known what they call
	Untraced []string `json:"untraced,omitempty"`
	Autocast string   `json:"autocast,omitempty"`
	Sparse   string   `json:"sparse,omitempty"`
	Types    []string `json:"types,omitempty"`       // element types that its kernel takes, ? where that is not known
	Forward  []string `json:"forward_of,omitempty"`  // Python names whose forward calls it
	Backward []string `json:"backward_of,omitempty"` // Python names whose backward calls it
}

type opsNeed struct {
	Operator   string `json:"operator"`
	State      string `json:"state"`
	Sometimes  bool   `json:"sometimes,omitempty"` // for some inputs only
	NativeFrom string `json:"native_from,omitempty"`
	Later      string `json:"later,omitempty"` // as of an operator
}

type opsAPI struct {
	Name     string        `json:"name"`
	Forward  *opsDirection `json:"forward,omitempty"`
	Backward *opsDirection `json:"backward,omitempty"`
	Ways     []opsAPI      `json:"ways,omitempty"` // calls of it that were traced apart: torch.add(out=)
}

type opsDirection struct {
	// native, unknown, not there, on the CPU, missing; the last two also for some inputs
	Verdict  string    `json:"verdict"`
	Calls    []string  `json:"calls"` // ? behind an operator: for some inputs only
	Needs    []opsNeed `json:"needs"`
	Untraced []string  `json:"untraced,omitempty"`
	Types    []string  `json:"types,omitempty"` // as of an operator, where it is one that is called
}

type opsDiff struct {
	From    string      `json:"from"`
	To      string      `json:"to"`
	Changes []opsChange `json:"changes"`
}

type opsChange struct {
	Operator string `json:"operator"`
	Before   string `json:"before"`
	After    string `json:"after"`
}

func newOpsCommand(env *Env) *cobra.Command {
	var opts opsOptions
	cmd := &cobra.Command{
		Use:   "ops [PATTERN]",
		Short: "Say which operators run on MPS, in which release",
		Long: `Looks operators up in the atlas: whether one has a kernel for MPS in a release of PyTorch, is composed of others, or is missing;
since when; under which conditions it refuses; and which Python names come down to it. PATTERN is an operator (sgn, add.Tensor, aten::sgn),
a pattern (linalg_*), a part of a name, or a Python name (torch.linalg.eig).

States are derived from released macOS wheels, for torchvision, torchaudio and tensorflow-metal as well; --torch asks about one
release of torch and the releases that go with it, by default the one that the project here aims at. --diff names two releases and lists what changed.`,
		Example: `assay ops grid_sampler_3d
assay ops 'linalg_*' --torch 2.8 --missing
assay ops torch.nn.AdaptiveAvgPool3d
assay ops 'torch.linalg.*' --torch 2.8
assay ops --diff 2.7 2.8`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVar(&opts.Torch, "torch", "", "`release` of PyTorch to speak of, 2.8 or 2.8.0 ("+torchDefault+")")
	f.BoolVar(&opts.Missing, "missing", false, "only operators that are missing in that release")
	f.BoolVar(&opts.JSON, "json", false, "print the record ("+opsSchema+")")
	f.BoolVar(&opts.Diff, "diff", false, "what changed between two releases: --diff 2.7 2.8 [PATTERN]")
	f.StringVar(&opts.API, "api", "", "Python `name` whose operators to list")
	f.BoolVar(&opts.Wrong, "wrong", false, "the known wrong results of that release, those that are certain first")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return runOps(env, opts, args) }
	return cmd
}

func runOps(env *Env, opts opsOptions, args []string) error {
	a := &atlas.Atlas{}
	var answer *opsAnswer
	var aim target.Aim
	var err error
	if !opts.Diff { // it names its releases
		if aim, err = aimAt(env, env.Dir, target.Words{Torch: opts.Torch}); err != nil {
			return err
		}
		opts.Torch = aim.Torch
	}
	switch {
	case opts.Wrong && (opts.Diff || opts.Missing || opts.API != "" || len(args) > 0):
		err = fault.Exit(errors.New("ops --wrong: it lists what is known of a release: with --torch and --json alone"),
			fault.Usage)
	case opts.Wrong:
		return wrongOps(env, opts, aim)
	case opts.Diff:
		answer, err = diffOps(a, opts, args)
	case opts.API != "" && len(args) > 0:
		err = fault.Exit(fmt.Errorf("ops --api %s: a pattern as well, %q: ask one at a time", opts.API, args[0]),
			fault.Usage)
	case len(args) > 1:
		err = fault.Exit(fault.Hint(fmt.Errorf("ops: %d patterns, one is taken", len(args)),
			"quote a pattern with * in it: 'linalg_*'"), fault.Usage)
	case len(args) == 0 && opts.API == "" && !opts.Missing:
		err = fault.Exit(fault.Hint(errors.New("ops: no pattern"),
			"name an operator, as `assay ops sgn`, or ask for all with '*'"), fault.Usage)
	case opts.API != "":
		answer, err = apiOps(a, opts, opts.API)
	default:
		pattern := "*"
		if len(args) == 1 {
			pattern = args[0]
		}
		answer, err = lookOps(a, opts, pattern)
	}
	if err != nil {
		return err
	}
	answer.From, answer.Beside = aim.Why, aim.Besides
	if opts.JSON {
		enc := json.NewEncoder(env.Stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(answer)
	}
	err = answer.text(env.Stdout, a, width(env, env.Stdout))
	if err == nil {
		err = sayAim(env.Stdout, env, aim)
	}
	return err
}

// lookOps finds what a pattern names: operators, a Python name, several of them, the operators that have the name of a
// function, or operators that have it in theirs.
func lookOps(a *atlas.Atlas, opts opsOptions, pattern string) (*opsAnswer, error) {
	if f := facts.Load().Fact(pattern); f != nil {
		return factOps(a, opts, f)
	}
	if len(a.Named(pattern)) > 0 {
		return findOps(a, opts, pattern)
	}
	if strings.ContainsAny(pattern, "*?") {
		if apis := a.MatchAPIs(pattern); len(apis) > 0 {
			return apisOps(a, opts, apis)
		}
	}
	if _, ok := a.API(pattern); ok {
		return apiOps(a, opts, pattern)
	}
	if same := a.Namesake(pattern); same != "" {
		return findOps(a, opts, same)
	}
	if !strings.HasPrefix(pattern, "torch.ops.") &&
		slices.ContainsFunc(atlas.Libraries, func(l string) bool { return strings.HasPrefix(pattern, l) }) {
		return apiOps(a, opts, pattern)
	}
	return findOps(a, opts, pattern)
}

// newAnswer begins an answer about a release of torch, and says which releases of the other packages go with it.
func newAnswer(a *atlas.Atlas, version string) (*opsAnswer, map[string]atlas.Release, error) {
	r, err := target.ParseRelease(a, version)
	if err != nil {
		return nil, nil, fault.Exit(err, fault.Usage)
	}
	beside := map[string]atlas.Release{}
	for _, pkg := range atlas.Packages {
		if other, ok := a.Beside(pkg, r.Version); ok {
			beside[pkg] = other
		}
	}
	return &opsAnswer{Schema: opsSchema, Torch: r.Version, Basis: "derived", Operators: []opsState{},
		Sources: []opsRelease{}}, beside, nil
}

func (o *opsAnswer) source(r atlas.Release) {
	s := opsRelease{r.Package, r.Version, r.Wheel, r.SHA256}
	if !slices.Contains(o.Sources, s) {
		o.Sources = append(o.Sources, s)
	}
}

func findOps(a *atlas.Atlas, opts opsOptions, pattern string) (*opsAnswer, error) {
	o, beside, err := newAnswer(a, opts.Torch)
	if err != nil {
		return nil, err
	}
	found := a.Find(pattern)
	if len(found) == 0 {
		err := fmt.Errorf("ops: no operator is called %q, in any release", pattern)
		if near := a.Near(pattern, 8); len(near) > 0 {
			err = fault.Hint(err, "near: "+strings.Join(near, " "))
		} else if near := a.NearAPI(pattern, 8); len(near) > 0 {
			err = fault.Hint(err, "Python names: "+strings.Join(near, " "))
		}
		return nil, err
	}
	for _, op := range found {
		r := beside[op.Package]
		state := op.At(r.Column)
		lacks := ""
		if state == atlas.Composed {
			lacks = a.Lacks(beside["torch"].Column, op.Name)
		}
		if opts.Missing && state != atlas.Missing && state != atlas.NoStub && lacks == "" {
			continue
		}
		s := opsState{Lacks: lacks, Name: op.Name, Package: op.Package, State: state.String(), History: op.Spans,
			NativeFrom: op.NativeFrom(), Later: a.Later(op, r.Column)}
		if how, around := a.Generated(op.Name); how == "structured" && state == atlas.Missing {
			s.ErrorNames = around
		}
		o.Operators = append(o.Operators, s)
		o.source(r)
	}
	if len(o.Operators) <= opsDetailed || opts.JSON {
		details(a, o, beside)
	}
	return o, nil
}

// details adds what only a short list has room for.
func details(a *atlas.Atlas, o *opsAnswer, beside map[string]atlas.Release) {
	torch := beside["torch"]
	autocast, sparse := a.Table("autocast").Column(torch.Column), a.Table("sparse").Column(torch.Column)
	callers := a.Callers(torch.Column)
	var calls []atlas.Call
	for i := range o.Operators {
		s := &o.Operators[i]
		if s.State == atlas.Composed.String() {
			needs, untraced := a.Needs(torch, []atlas.Call{{Operator: s.Name}})
			s.Needs, s.Untraced = opsNeeds(a, torch, needs), untraced
		}
		s.Autocast = map[byte]string{'L': "lower precision", 'F': "float32", 'W': "widest input type"}[autocast[s.Name]]
		s.Sparse = map[byte]string{'O': "COO", 'R': "compressed", 'B': "COO and compressed"}[sparse[s.Name]]
		s.Types = a.Types(s.Name, beside[s.Package].Column)
		calls = append(calls, atlas.Call{Operator: s.Name})
		s.Forward, s.Backward = callers.Of(s.Name)
	}
	said := facts.Load().Ask(a, facts.Question{Torch: torch.Version, Operators: calls, Everyone: true})
	if len(o.Operators) <= opsDetailed {
		said = ofNames(a, torch.Version, o.Operators, said)
	}
	o.Facts = opsFacts(said)
}

func opsNeeds(a *atlas.Atlas, torch atlas.Release, needs []atlas.Need) []opsNeed {
	list := []opsNeed{}
	for _, n := range needs {
		need := opsNeed{Operator: n.Operator, State: n.State.String(), Sometimes: n.Sometimes}
		if op, ok := a.Operator(n.Operator); ok && n.State != atlas.Native {
			beside, _ := a.Beside(op.Package, torch.Version)
			need.NativeFrom, need.Later = op.NativeFrom(), a.Later(op, beside.Column)
		}
		list = append(list, need)
	}
	return list
}

func apiOps(a *atlas.Atlas, opts opsOptions, name string) (*opsAnswer, error) {
	o, beside, err := newAnswer(a, opts.Torch)
	if err != nil {
		return nil, err
	}
	api, ok := a.API(name)
	o.Facts = opsFacts(facts.Load().Ask(a, facts.Question{Torch: o.Torch, Python: name, Everyone: true}))
	if named := slices.ContainsFunc(o.Facts, func(f opsFact) bool { return !f.Everywhere() }); !ok && named {
		o.API = &opsAPI{Name: name}
		return o, nil
	}
	if !ok {
		err := fmt.Errorf("ops: the Python name %q was not traced", name)
		if strings.ContainsAny(name, "*?") {
			err = fmt.Errorf("ops: no Python name that was traced fits %q", name)
		}
		if near := a.NearAPI(name, 8); len(near) > 0 {
			return nil, fault.Hint(err, "near: "+strings.Join(near, " "))
		}
		return nil, fault.Hint(err, "ask for the operator itself: assay ops NAME")
	}
	torch := beside["torch"]
	one := opsName(a, torch, api)
	for _, way := range a.Ways(api.Name) {
		one.Ways = append(one.Ways, opsName(a, torch, way))
	}
	o.API = &one
	seen := map[string]bool{}
	for _, d := range one.directions() {
		for _, n := range d.Needs {
			if op, ok := a.Operator(n.Operator); ok && !seen[n.Operator] {
				seen[n.Operator] = true
				o.Operators = append(o.Operators, opsState{Name: op.Name, Package: op.Package, State: n.State,
					History: op.Spans, NativeFrom: op.NativeFrom(), Later: n.Later})
				o.source(beside[op.Package])
			}
		}
	}
	o.API.refuse(o.Facts)
	return o, nil
}

func opsName(a *atlas.Atlas, torch atlas.Release, api atlas.API) opsAPI {
	api = a.In(torch, api)
	return opsAPI{Name: api.Name, Forward: direction(a, torch, api.Name, api.Forward),
		Backward: direction(a, torch, api.Name, api.Backward)}
}

// isStep reports whether the name is an optimizer's step, of which each way is a thing of its own.
func (d *opsAPI) isStep() bool {
	return strings.HasPrefix(d.Name, "torch.optim.") && strings.HasSuffix(d.Name, ".step")
}

// directions are those that are told about: the name's own, and of an optimizer those of all its ways.
func (d *opsAPI) directions() []*opsDirection {
	list := []*opsDirection{d.Forward, d.Backward}
	if d.isStep() {
		for _, way := range d.Ways {
			list = append(list, way.Forward)
		}
	}
	return slices.DeleteFunc(list, func(x *opsDirection) bool { return x == nil })
}

// apisOps is the answer about the Python names that a pattern fits.
func apisOps(a *atlas.Atlas, opts opsOptions, apis []atlas.API) (*opsAnswer, error) {
	o, beside, err := newAnswer(a, opts.Torch)
	if err != nil {
		return nil, err
	}
	for _, api := range apis {
		one := opsName(a, beside["torch"], api)
		if opts.Missing && one.verdict(one.Forward) != "missing" && one.verdict(one.Backward) != "missing" {
			continue
		}
		o.APIs = append(o.APIs, one)
		for _, d := range one.directions() {
			for _, n := range d.Needs {
				if op, ok := a.Operator(n.Operator); ok {
					o.source(beside[op.Package])
				}
			}
		}
	}
	return o, nil
}

// verdict is a direction's, "-" where there is none.
func (d *opsAPI) verdict(x *opsDirection) string {
	if x == nil {
		return "-"
	}
	return x.Verdict
}

func direction(a *atlas.Atlas, torch atlas.Release, name string, roots []atlas.Call) *opsDirection {
	if roots == nil {
		return nil
	}
	needs, untraced := a.Needs(torch, roots)
	d := &opsDirection{Verdict: "native", Calls: []string{}, Needs: opsNeeds(a, torch, needs), Untraced: untraced}
	for _, c := range roots {
		name := c.Operator
		if c.Sometimes {
			name += "?"
		}
		d.Calls = append(d.Calls, name)
	}
	worse := func(verdict string) {
		order := []string{"native", "unknown", "not there", "on the CPU for some inputs", "on the CPU",
			"missing for some inputs", "missing"}
		if slices.Index(order, verdict) > slices.Index(order, d.Verdict) {
			d.Verdict = verdict
		}
	}
	if len(untraced) > 0 {
		worse("unknown")
	}
	if len(roots) == 1 {
		d.Types = a.Types(roots[0].Operator, torch.Column)
	}
	unlike := slices.ContainsFunc(needs, func(n atlas.Need) bool { return n.State != atlas.Missing })
	for _, n := range needs {
		verdict := map[atlas.State]string{atlas.Native: "native", atlas.CPU: "on the CPU", atlas.Missing: "missing",
			atlas.NoStub: "missing", atlas.Raises: "missing",
			atlas.Undefined: "unknown", atlas.Unknown: "unknown"}[n.State]
		if base, _, _ := strings.Cut(n.Operator, "."); n.State == atlas.Undefined && base == a.Namesake(name) {
			verdict = "not there"
		}
		// Whichever way it takes is missing where all are.
		if n.Sometimes && unlike && (verdict == "missing" || verdict == "on the CPU") {
			verdict += " for some inputs"
		}
		worse(verdict)
	}
	return d
}

func diffOps(a *atlas.Atlas, opts opsOptions, args []string) (*opsAnswer, error) {
	if len(args) < 2 || len(args) > 3 || opts.API != "" || opts.Missing || opts.Torch != "" {
		return nil, fault.Exit(errors.New("ops --diff: name two releases, and if you like a pattern: --diff 2.7 2.8 'linalg_*'"), fault.Usage)
	}
	o, after, err := newAnswer(a, args[1])
	if err != nil {
		return nil, err
	}
	_, before, err := newAnswer(a, args[0])
	if err != nil {
		return nil, err
	}
	o.Diff = &opsDiff{From: before["torch"].Version, To: after["torch"].Version, Changes: []opsChange{}}
	wanted := map[string]bool{}
	if len(args) == 3 {
		for _, op := range a.Find(args[2]) {
			wanted[op.Name] = true
		}
		if len(wanted) == 0 {
			return nil, fmt.Errorf("ops --diff: no operator is called %q, in any release", args[2])
		}
	}
	for _, pkg := range atlas.Packages {
		x, y := before[pkg], after[pkg]
		if x.Version == "" || y.Version == "" {
			continue
		}
		for _, c := range a.Diff(pkg, x.Column, y.Column) {
			if len(wanted) == 0 || wanted[c.Operator] {
				o.Diff.Changes = append(o.Diff.Changes, opsChange{c.Operator, c.Before.String(), c.After.String()})
			}
		}
		o.source(x)
		o.source(y)
	}
	return o, nil
}

// text prints the answer for a person, w columns wide.
func (o *opsAnswer) text(out io.Writer, a *atlas.Atlas, w int) error {
	var b strings.Builder
	switch {
	case o.Diff != nil:
		o.Diff.text(&b)
	case o.API != nil:
		o.API.text(&b, o.Torch, w)
		factsText(&b, o.Facts, w)
	case o.APIs != nil:
		o.names(&b, w)
	case len(o.Operators) == 0 && len(o.Facts) == 1:
		o.Facts[0].text(&b, w)
	default:
		o.table(&b)
		if len(o.Operators) <= opsDetailed {
			for _, s := range o.Operators {
				b.WriteString("\n")
				s.text(&b, o.Torch, w)
			}
			factsText(&b, o.Facts, w)
		}
	}
	var sources []string
	for _, s := range o.Sources {
		sources = append(sources, s.Package+" "+s.Version)
	}
	if b.WriteString("\n"); len(sources) > 0 {
		wrapTo(&b, "derived from the macOS wheels of "+strings.Join(sources,
			", ")+": what they list and what their libraries register", "", "  ", w)
	}
	_, err := io.WriteString(out, text.Lines(b.String()))
	return err
}

// history is an operator's states in words: missing 2.0 to 2.8, native since 2.9.
func history(spans []atlas.Span) string {
	var list []string
	for i, s := range spans {
		switch {
		case s.State == atlas.Undefined && i == 0 && len(spans) > 1: // it came later: the next span says when
			continue
		case len(spans) == 1:
			list = append(list, fmt.Sprintf("%s in all, %s to %s", s.Is, s.From, s.To))
		case i == len(spans)-1 && s.From != s.To:
			list = append(list, s.Is+" since "+s.From)
		case s.From == s.To:
			list = append(list, s.Is+" "+s.From)
		default:
			list = append(list, fmt.Sprintf("%s %s to %s", s.Is, s.From, s.To))
		}
	}
	return strings.Join(list, ", ")
}

func (o *opsAnswer) table(b *strings.Builder) {
	if len(o.Operators) == 0 {
		fmt.Fprintf(b, "none is missing in torch %s\n", o.Torch)
		return
	}
	name, state := len("operator"), len("torch "+o.Torch)
	for _, s := range o.Operators {
		name, state = max(name, len(s.Name)), max(state, len(s.State))
	}
	fmt.Fprintf(b, "%-*s  %-*s  %s\n", name, "operator", state, "torch "+o.Torch, "by release")
	count := map[string]int{}
	for _, s := range o.Operators {
		line := fmt.Sprintf("%-*s  %-*s  %s", name, s.Name, state, s.State, history(s.History))
		if s.Lacks != "" {
			line += "; calls " + s.Lacks + ", which is missing"
		}
		b.WriteString(line + "\n")
		count[s.State]++
	}
	if len(o.Operators) > opsDetailed {
		fmt.Fprintf(b, "\n%d operators:", len(o.Operators))
		for _, s := range []atlas.State{atlas.Native, atlas.Composed, atlas.CPU, atlas.Raises, atlas.NoStub,
			atlas.Missing, atlas.Unknown, atlas.Undefined} {
			if count[s.String()] > 0 {
				fmt.Fprintf(b, " %d %s", count[s.String()], s)
			}
		}
		b.WriteString("\n")
	}
}

// meaning says what a state comes to for a user.
var meaning = map[string]string{
	"native":       "a kernel for MPS is registered",
	"composed":     "of other operators",
	"on the CPU":   "registered to run there, with copies, whatever PYTORCH_ENABLE_MPS_FALLBACK says",
	"raises":       "registered to raise an error on MPS",
	"stub missing": "registered for MPS, but its dispatch stub has no function for it: it raises",
	"missing":      "raises NotImplementedError, or runs on the CPU, with copies, under PYTORCH_ENABLE_MPS_FALLBACK=1",
	"not there":    "the release does not have it",
	"unknown":      "it has one function for all devices, of which the atlas knows no more",
}

func (s opsState) text(b *strings.Builder, torch string, w int) {
	release := "torch " + torch
	if s.Package == "tensorflow-metal" {
		release = s.Package // its releases go with no torch
	}
	line := s.Name + ", " + release + ": " + s.State + ", " + meaning[s.State]
	if s.ErrorNames != "" {
		line += "; the error names " + s.ErrorNames
	}
	if s.Later != "" {
		line += ". " + strings.ToUpper(s.Later[:1]) + s.Later[1:]
	}
	wrapTo(b, line+".", "", "  ", w)
	needsText(b, s.Needs, s.Untraced, w)
	if s.Autocast != "" {
		fmt.Fprintf(b, "  autocast: %s\n", s.Autocast)
	}
	if s.Sparse != "" {
		fmt.Fprintf(b, "  sparse kernels: %s\n", s.Sparse)
	}
	typesText(b, s.Types, w)
	namesText(b, "forward of", s.Forward, w)
	namesText(b, "backward of", s.Backward, w)
}

func short(name string) string { return strings.TrimPrefix(name, "aten::") }

// typesText prints the element types that a kernel takes, and those of which that is not known.
func typesText(b *strings.Builder, types []string, w int) {
	var known, open []string
	for _, t := range types {
		if plain, unknown := strings.CutSuffix(t, "?"); unknown {
			open = append(open, plain)
		} else {
			known = append(known, t)
		}
	}
	if len(types) == 0 {
		return
	}
	line := "element types: " + cmp.Or(strings.Join(known, " "), "none is known")
	if len(open) > 0 {
		line += "; not known of " + strings.Join(open, " ")
	}
	wrapTo(b, line, "  ", "    ", w)
}

// needsText lists what is not native a line each, then what is.
func needsText(b *strings.Builder, needs []opsNeed, untraced []string, w int) {
	var always, sometimes []string
	for _, n := range needs {
		switch {
		case n.State == "native" && n.Sometimes:
			sometimes = append(sometimes, short(n.Operator))
		case n.State == "native":
			always = append(always, short(n.Operator))
		default:
			line := "needs " + n.Operator
			if n.Sometimes {
				line += " for some inputs"
			}
			if line += ": " + n.State; n.Later != "" {
				line += "; " + n.Later
			}
			wrapTo(b, line, "  ", "    ", w)
		}
	}
	if len(always) > 0 {
		wrapTo(b, "native: "+strings.Join(always, ", "), "  ", "    ", w)
	}
	if len(sometimes) > 0 {
		wrapTo(b, "native, for some inputs: "+strings.Join(sometimes, ", "), "  ", "    ", w)
	}
	if len(untraced) > 0 {
		wrapTo(b, "not known what it calls: "+strings.Join(untraced, ", "), "  ", "    ", w)
	}
}

// namesText prints the first of a list of Python names.
func namesText(b *strings.Builder, what string, names []string, w int) {
	const most = 12
	if len(names) == 0 {
		return
	}
	line := what + ": " + strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		line += fmt.Sprintf(" and %d more (--json has all)", len(names)-most)
	}
	wrapTo(b, line, "  ", "    ", w)
}

func (d *opsAPI) text(b *strings.Builder, torch string, w int) {
	fmt.Fprintf(b, "%s in torch %s\n", d.Name, torch)
	d.Forward.text(b, "forward", w)
	if !d.isStep() {
		d.Backward.text(b, "backward", w)
	}
	var apart []string
	for _, way := range d.Ways {
		verdict := way.verdict(way.Forward)
		if way.Forward == nil {
			verdict = way.verdict(way.Backward)
		}
		if d.isStep() {
			fmt.Fprintf(b, "%s\n", way.Name)
			way.Forward.text(b, "forward", w)
		} else {
			lacks := strings.Join(way.lacks(), " ")
			apart = append(apart, strings.TrimSuffix(way.Name+" "+verdict+": "+lacks, ": "))
		}
	}
	if len(apart) > 0 {
		wrapTo(b, "calls that differ: "+strings.Join(apart, ", "), "", "  ", w)
	}
}

func (d *opsDirection) text(b *strings.Builder, name string, w int) {
	if d == nil {
		fmt.Fprintf(b, "%s: none traced\n", name)
		return
	}
	calls := "no operator"
	if len(d.Calls) > 0 {
		calls = strings.Join(d.Calls, " ")
	}
	wrapTo(b, name+": "+d.Verdict+" · calls "+calls, "", "  ", w)
	needsText(b, d.Needs, d.Untraced, w)
	typesText(b, d.Types, w)
}

// names prints Python names as a table, and what of each is missing or runs on the CPU.
func (o *opsAnswer) names(b *strings.Builder, w int) {
	rows := [][]string{{"Python name", "forward", "backward"}}
	for _, d := range o.APIs {
		rows = append(rows, []string{d.Name, d.verdict(d.Forward), d.verdict(d.Backward)})
	}
	wide := make([]int, 3)
	for _, row := range rows {
		for i, cell := range row {
			wide[i] = max(wide[i], len(cell))
		}
	}
	for i, row := range rows {
		line := fmt.Sprintf("%-*s  %-*s  %-*s", wide[0], row[0], wide[1], row[1], wide[2], row[2])
		if lacks := i > 0 && len(o.APIs[i-1].lacks()) > 0; lacks {
			wrapTo(b, strings.Join(o.APIs[i-1].lacks(), " "), line+"  ", "      ", w)
		} else {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	fmt.Fprintf(b, "\n%d Python names in torch %s\n", len(o.APIs), o.Torch)
}

// lacks lists the operators that a name needs and MPS has no kernel for, ? behind those that some inputs alone reach.
func (d *opsAPI) lacks() []string {
	var list []string
	for _, x := range []*opsDirection{d.Forward, d.Backward} {
		if x == nil {
			continue
		}
		for _, n := range x.Needs {
			name := short(n.Operator)
			if n.Sometimes {
				name += "?"
			}
			if n.State != "native" && n.State != "unknown" && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

func (d *opsDiff) text(b *strings.Builder) {
	width := 0
	for _, c := range d.Changes {
		width = max(width, len(c.Operator))
	}
	groups := []struct {
		title string
		has   func(before, after string) bool
	}{
		{"now native", func(x, y string) bool { return y == "native" && x != "not there" }},
		{"new operators", func(x, y string) bool { return x == "not there" }},
		{"no longer native", func(x, y string) bool { return x == "native" && y != "not there" }},
		{"gone", func(x, y string) bool { return y == "not there" }},
		{"otherwise changed", func(x, y string) bool { return true }},
	}
	left := d.Changes
	fmt.Fprintf(b, "torch %s to %s: %d operators changed\n", d.From, d.To, len(left))
	for _, g := range groups {
		var mine, rest []opsChange
		for _, c := range left {
			if g.has(c.Before, c.After) {
				mine = append(mine, c)
			} else {
				rest = append(rest, c)
			}
		}
		if left = rest; len(mine) > 0 {
			fmt.Fprintf(b, "\n%s (%d)\n", g.title, len(mine))
			for _, c := range mine {
				fmt.Fprintf(b, "  %-*s  %s, was %s\n", width, c.Operator, c.After, c.Before)
			}
		}
	}
}

// wrapTo writes text in lines of at most w columns, the first after one indent, the others after another.
func wrapTo(b *strings.Builder, words, first, others string, w int) {
	b.WriteString(text.Wrapped(words, first, others, w))
}
