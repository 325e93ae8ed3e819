package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/bundle"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/handoff"
	"assay/internal/host"
	"assay/internal/logbook"
	"assay/internal/python"
	"assay/internal/remote"
	"assay/internal/text"
)

// smokeMost is how large the document of a smoke from another machine may be.
const smokeMost = 64 << 20

// smokeHere tries a bundle of this machine. A document with an error is one that says how far it came.
func smokeHere(ctx context.Context, env *Env, opts smokeOptions, path string) (*handoff.Document, error) {
	began := env.Now()
	b, err := bundle.Open(env.Path(path))
	if err != nil {
		return nil, err
	}
	m := &b.Manifest
	data, err := b.Read(bundle.EvidenceFile, logbook.MaxContent)
	if err != nil {
		return nil, err
	}
	was, err := readRun(data)
	if err != nil {
		return nil, fmt.Errorf("read the evidence in %s: %w", path, err)
	}
	more, err := runsOf(env, opts.with)
	if err != nil {
		return nil, err
	}
	if m.Command.Why != "" {
		return nil, fmt.Errorf("smoke %s: its command cannot be run as it is: %s", path, m.Command.Why)
	}
	cache, err := python.CacheDir(env.Environ)
	if err != nil {
		return nil, err
	}
	base := filepath.Join(cache, "handoff")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder to unpack to: %w", err)
	}
	folder, release, err := smokeFolder(env, base, opts.keep)
	if err != nil {
		return nil, fmt.Errorf("make a folder to unpack to: %w", err)
	}
	defer release()
	root := filepath.Join(folder, "root")
	if err := b.Unpack(root); err != nil {
		return nil, err
	}
	s := handoff.Smoke{Bundle: handoff.Bundle{Name: filepath.Base(path), Sum: b.Sum, Run: m.Run.ID}, Here: []string{},
		There: []string{},
		Facts: []evidence.Fact{}, Checks: []handoff.Check{}}
	here := handoff.Side{Runs: append([]*evidence.Run{was}, more...)}
	sum := sha256.Sum256(data)
	s.Here = append(s.Here, hex.EncodeToString(sum[:]))
	made := func(run *evidence.Run) *handoff.Document {
		return handoff.NewDocument(s, run, Version(), began, env.Now())
	}
	if s.Environment, err = smokeInterpreter(ctx, env, opts, m, root); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		s.Checks = append(s.Checks, handoff.Check{Name: "environment", State: handoff.Fail, Text: err.Error(),
			Hint: fault.HintOf(err)})
		s.Settle()
		return made(was), nil
	}
	if opts.python != "" {
		s.Checks = append(s.Checks, handoff.Check{Name: "environment", State: handoff.Pass,
			Text: "the interpreter that was named: its packages are compared below"})
	}
	fill := filled(opts, m, root, s.Environment.Python)
	apart := *env
	apart.Environ, apart.Dir = slices.Clone(env.Environ), fill(m.Command.Dir)
	facts := bundleFacts(m)
	for name, value := range m.Command.Variables {
		apart.Environ = append(withoutVariable(apart.Environ, name), name+"="+fill(value))
	}
	if opts.python == "" { // the project's own packages, which no lock installs: from where its code lies now
		if own := ownPackages(m, root); len(own) > 0 {
			if was := apart.Getenv("PYTHONPATH"); was != "" {
				own = append(own, was)
			}
			apart.Environ = append(withoutVariable(apart.Environ, "PYTHONPATH"),
				"PYTHONPATH="+strings.Join(own, string(os.PathListSeparator)))
		}
	}
	for _, name := range m.Command.Needed {
		if apart.Getenv(name) == "" {
			s.Checks = append(s.Checks, handoff.Check{Name: "variables", State: handoff.Fail, Text: name +
				" is needed, and not set here",
				Hint: "it holds a secret, which no bundle carries: set it and smoke again"})
		}
	}
	var words []string
	for _, w := range m.Command.Words {
		words = append(words, fill(w))
	}
	s.Window = fmt.Sprintf("%d × assay run --for %s", opts.repeat, opts.forTime)
	if opts.steps > 0 {
		s.Window = fmt.Sprintf("%d × assay run --steps %d --for %s", opts.repeat, opts.steps, opts.forTime)
	}
	paths := map[string]string{}
	for i, d := range m.Data {
		place := fill(bundle.Root + "/" + d.Place)
		if d.Place == "" {
			place = fill(d.Path)
		}
		if _, err := os.Stat(place); err != nil && d.File == "" && filepath.IsAbs(place) {
			s.Checks = append(s.Checks, handoff.Check{Name: "data", State: handoff.Fail,
				Text: fmt.Sprintf("%s is not in the bundle, and not at %s", d.Name, place),
				Hint: cmp.Or(d.Fetch, "say where it lies: --data "+d.Name+"=PATH")})
		}
		if filepath.IsAbs(place) {
			paths[fmt.Sprintf("data %d %s", i+1, place)] = place
		}
	}
	for _, name := range cacheRoles {
		if v := apart.Getenv(name); filepath.IsAbs(v) {
			paths[name+" "+v] = v
		}
	}
	s.Facts = append(facts, machineFacts(ctx, apart.Environ, opts, paths)...)
	device := opts.device
	if device == "" {
		device = m.Run.Target.Asked
	}
	there, err := smokeRuns(ctx, &apart, opts, m, folder, words, device, startupOf(was))
	if err != nil && (len(there) == 0 || ctx.Err() != nil) {
		if ctx.Err() != nil {
			return nil, err
		}
		s.Checks = append(s.Checks, handoff.Check{Name: "window", State: handoff.Fail, Text: err.Error(),
			Hint: fault.HintOf(err)})
		s.Settle()
		return made(was), nil
	}
	for _, run := range there {
		s.There = append(s.There, run.ID)
	}
	if !opts.noReplay {
		if err := addSignatures(ctx, &apart, opts, b, root, folder, &s, there); err != nil {
			return nil, err
		}
	}
	s.Judge(m, here, handoff.Side{Runs: there})
	if err := keepSmokeRuns(ctx, env, opts, there); err != nil {
		fmt.Fprintf(env.Stderr, "assay: the runs were not recorded in the logbook: %s\n", text.Lines(err.Error()))
	}
	return made(there[0]), nil
}

// startupOf is how long a first run may take to its first step there: four times as long as here, for caches are cold.
func startupOf(run *evidence.Run) float64 {
	if f := run.Figure("run.startup"); f.Known() {
		return 4 * *f.Value
	}
	return 60
}

// ownPackages are the folders of the code from which the run had packages installed: those with a src have them there.
func ownPackages(m *bundle.Manifest, root string) (all []string) {
	for _, e := range m.Environment.Elsewhere {
		if e.Code == "" || !filepath.IsLocal(filepath.FromSlash(e.Code)) {
			continue
		}
		dir := filepath.Join(root, bundle.CodePlace, filepath.FromSlash(e.Code))
		if info, err := os.Stat(filepath.Join(dir, "src")); err == nil && info.IsDir() {
			dir = filepath.Join(dir, "src")
		}
		all = append(all, dir)
	}
	return all
}

// smokeFolder is a folder to unpack to, and what lets go of it. Those of smokes that were killed are swept first.
func smokeFolder(env *Env, base string, keep bool) (folder string, release func(), err error) {
	file.SweepIn(base)
	if keep {
		folder, err = os.MkdirTemp(base, "kept-")
		if err == nil {
			fmt.Fprintf(env.Stderr, "unpacking to %s\n", folder)
		}
		return folder, func() {}, err
	}
	private, err := file.TempIn(base, "smoke")
	if err != nil {
		return "", nil, err
	}
	return private.Path, private.Remove, nil
}

// addSignatures replays the bundle's signatures where it has them.
func addSignatures(ctx context.Context, env *Env, opts smokeOptions, b *bundle.Bundle, root, folder string,
	s *handoff.Smoke,
	there []*evidence.Run) error {
	has := slices.ContainsFunc(b.Manifest.Files, func(f bundle.File) bool { return f.Path == bundle.SignatureFile })
	if !has {
		return nil
	}
	device := evidence.Device(there[0])
	got, err := smokeReplay(ctx, env, opts, filepath.Join(root, bundle.SignatureFile), folder, s.Environment.Python,
		device)
	if ctx.Err() != nil {
		return errors.New("smoke the bundle: interrupted while its signatures were replayed")
	}
	if err != nil {
		s.Checks = append(s.Checks, handoff.Check{Name: "signatures", State: handoff.NotKnow, Text: err.Error(),
			Hint: fault.HintOf(err)})
		return nil
	}
	s.Signatures = got
	return nil
}

// bundleFacts say what of the bundle's words and variables differs from the run's because it was moved.
func bundleFacts(m *bundle.Manifest) []evidence.Fact {
	facts := []evidence.Fact{{Name: "command.of-bundle", Value: "yes", Source: "the bundle's manifest"}}
	for name, value := range m.Command.Variables {
		if strings.Contains(value, bundle.Root) {
			facts = append(facts, evidence.Fact{Name: "variable.moved:" + name, Value: value,
				Source: "the bundle's manifest"})
		}
	}
	for _, d := range m.Command.Dropped {
		facts = append(facts, evidence.Fact{Name: "variable.dropped:" + d.What, Value: d.Why,
			Source: "the bundle's manifest"})
	}
	slices.SortFunc(facts, func(a, b evidence.Fact) int { return strings.Compare(a.Name, b.Name) })
	return facts
}

func withoutVariable(environ []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool { return strings.HasPrefix(e, name+"=") })
}

// keepSmokeRuns keeps the evidence of the windows in the logbook.
func keepSmokeRuns(ctx context.Context, env *Env, opts smokeOptions, runs []*evidence.Run) error {
	if opts.logbook == "off" {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordLimit)
	defer stop()
	book, err := writeLogbook(ctx, env, logbookPath(env, opts.logbook))
	if err != nil {
		return err
	}
	defer book.Close()
	for _, run := range runs {
		var out bytes.Buffer
		if err := evidence.Write(&out, run); err != nil {
			return err
		}
		if _, _, err := book.Add(ctx, out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// smokeRecord is how the logbook has a smoke: its document in the common form, with the machine's facts.
func smokeRecord(doc *handoff.Document, clean []byte) logbook.Record {
	title := fmt.Sprintf("%s: %s", doc.Body.Bundle.Name, doc.Body.Verdict)
	if doc.Body.Host != "" {
		title += " on " + doc.Body.Host
	}
	return logbook.Record{Kind: handoff.Kind, At: doc.Ended, Title: text.Short(title, 200), Facts: doc.Body.Facts,
		Document: json.RawMessage(clean)}
}

var documentBegins = regexp.MustCompile(`\{\s*"schema"`)

// smokeThere has a bundle of another machine tried there, by this assay, which is brought there.
func smokeThere(ctx context.Context, env *Env, opts smokeOptions, on, path string) (*handoff.Document, error) {
	h, err := dialNamed(ctx, env, on, opts.assay)
	if err != nil {
		return nil, err
	}
	words := []string{h.Assay(), "handoff", "smoke", "--json", "--logbook", "off", "--for", opts.forTime, "--repeat",
		fmt.Sprint(opts.repeat),
		"--replay-for", opts.replayFor, "--steps", fmt.Sprint(opts.steps)}
	for _, flag := range []struct{ name, value string }{{"--python", opts.python}, {"--device", opts.device}} {
		if flag.value != "" {
			words = append(words, flag.name, strings.Replace(flag.value, "~/", h.Home()+"/", 1))
		}
	}
	for name, given := range map[string]bool{"--no-replay": opts.noReplay, "--keep": opts.keep} {
		if given {
			words = append(words, name)
		}
	}
	for _, m := range opts.moved {
		words = append(words, "--data", m)
	}
	for _, r := range opts.reach {
		words = append(words, "--reach", r)
	}
	if opts.expect != "" && len(opts.reach) > 0 {
		words = append(words, "--expect-link", opts.expect)
	}
	facts := routeTo(ctx, env, on)
	if opts.expect != "" && len(opts.reach) == 0 { // the link between the two
		facts = append(facts, evidence.Fact{Name: "link.expected", Value: opts.expect})
	}
	facts = append(facts, clockOf(ctx, h)...)
	for _, f := range facts {
		if f.Missing == "" && (len(opts.reach) == 0 || !strings.HasPrefix(f.Name, "link")) {
			words = append(words, "--fact", f.Name+"="+f.Value)
		}
	}
	if len(opts.with) > 0 {
		return nil,
			fault.Exit(fault.Hint(errors.New("--with names runs of this machine, and the smoke is made on another"),
				"smoke there with --json, and hold it against them with assay log diff"), fault.Usage)
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = h.Home() + "/" + rest
	}
	cmd := h.Command(ctx, append(words, "--", path)...)
	cmd.Stderr = text.NewWriter(env.Stderr)
	out := &kept{most: smokeMost}
	cmd.Stdout = out
	runErr := cmd.Run()
	doc := &handoff.Document{}
	at := documentBegins.FindIndex(out.b.Bytes()) // what a login shell prints comes before it
	if at == nil || json.Unmarshal(out.b.Bytes()[at[0]:], doc) != nil || doc.Kind != handoff.Kind {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("smoke on %s: interrupted", on)
		}
		var exit *exec.ExitError
		if errors.As(runErr, &exit) && exit.ExitCode() > 0 && exit.ExitCode() != 255 {
			return nil, status(exit.ExitCode()) // assay there has said why
		}
		if runErr == nil {
			runErr = errors.New("it answered with no document")
		}
		return nil, fmt.Errorf("smoke on %s: %w", on, runErr)
	}
	doc.Body.Host = on
	return doc, nil
}

// dialNamed reaches a host by the user's own ssh.
func dialNamed(ctx context.Context, env *Env, on, binary string) (*remote.Host, error) {
	o, err := remoteOptions(env, on, binary)
	if err != nil {
		return nil, err
	}
	o.Log = func(s string) { fmt.Fprintln(env.Stderr, text.Line(s)) }
	return remote.Dial(ctx, o)
}

// kept takes output up to a bound, and swallows the rest.
type kept struct {
	b    bytes.Buffer
	most int
}

func (k *kept) Write(p []byte) (int, error) {
	if room := k.most - k.b.Len(); room > 0 {
		k.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// routeTo looks up and times the way to a host, by the address and port that ssh would take.
func routeTo(ctx context.Context, env *Env, on string) []evidence.Fact {
	words, err := remote.Words(env.Getenv("ASSAY_SSH"))
	if err != nil || len(words) == 0 {
		words = []string{"ssh"}
	}
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	cmd := exec.CommandContext(ctx, words[0], append(slices.Clone(words[1:]), "-G", "--", on)...)
	cmd.Env = env.Environ
	out, err := cmd.Output()
	if err != nil {
		return []evidence.Fact{{Name: "link", Source: "ssh -G",
			Missing: "ssh does not say by which address it goes: " + err.Error()}}
	}
	hop, err := host.Route(ctx, sshAddress(out))
	if err != nil {
		return []evidence.Fact{{Name: "link", Source: "route", Missing: err.Error()}}
	}
	return hop.Facts()
}

// sshAddress is host:port of what `ssh -G` prints. Where a command or another host carries the connection, the address
// is that other's end, and its time that of nothing.
func sshAddress(config []byte) string {
	name, port := "", "22"
	for line := range strings.Lines(string(config)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "hostname":
			name = value
		case "port":
			port = value
		}
	}
	return net.JoinHostPort(name, port)
}

// clockOf is how far the clock there is from this machine's, bounded by half the time that the question took.
func clockOf(ctx context.Context, h *remote.Host) []evidence.Fact {
	const source = "date +%s there, against the middle of the question"
	asked := time.Now()
	out, err := h.Output(ctx, "date", "+%s")
	took := time.Since(asked)
	var seconds int64
	if err == nil {
		_, err = fmt.Sscan(strings.TrimSpace(string(out)), &seconds)
	}
	if err != nil {
		return []evidence.Fact{{Name: "clock.offset", Source: source, Missing: err.Error()}}
	}
	// date cuts to whole seconds: half of one is added, and is the least that is not known
	offset := time.Unix(seconds, 5e8).Sub(asked.Add(took / 2)).Seconds()
	return []evidence.Fact{{Name: "clock.offset", Value: fmt.Sprintf("%.2f s ± %.2f s", offset, 0.5+took.Seconds()/2),
		Source: source}}
}
