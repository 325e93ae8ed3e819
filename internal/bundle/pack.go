package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/file"
	"assay/internal/secret"
	"assay/internal/unit"
)

// Options say what Pack packs.
type Options struct {
	Run      *evidence.Run
	Evidence []byte // evidence.json as it lies there
	Dir      string // the run's working folder on this machine
	Now      bool   // the code as it is now, whatever the evidence says
	Assay    string // version

	Around  Surroundings
	Gates   []byte // report of the gates; nil: none
	Policy  []byte // text of the policy in force
	Judged  Gates  // of what they say
	Trace   string // file; "": not asked for
	Signed  string // file of signatures; "": none
	Skip    []string
	Missing []Missing // what the caller found missing

	Data     bool              // snapshots of the run's data
	MostData int64             // bytes of one such
	Fetch    map[string]string // name of data → how to fetch it
	// Fingerprint sums up the files below paths as the run's evidence does.
	Fingerprint func(ctx context.Context, paths []string) evidence.Dataset

	Secrets      *secret.Set // values that are secret here
	AllowSecrets bool
	MostFile     int64
	Temp         string // folder for parts, which the caller removes
}

// part is a file of the bundle on its way: its content, or where it lies.
type piece struct {
	File
	content []byte
	from    string
}

type packing struct {
	Options
	m      Manifest
	pieces []piece
	places moved
	top    string // of the code
}

// Pack writes the bundle of a run into w. The same run gives the same bytes.
func Pack(ctx context.Context, o Options, w io.Writer) (Manifest, error) {
	if o.Secrets == nil {
		o.Secrets = &secret.Set{}
	}
	p := &packing{Options: o}
	p.m = Manifest{Schema: Schema, Assay: o.Assay, Missing: slices.Clone(o.Missing), Data: []Data{}, Files: []File{}}
	run := o.Run
	sum := sha256.Sum256(o.Evidence)
	p.m.Run = Run{ID: run.ID, Document: hex.EncodeToString(sum[:]), Began: run.Started, Target: run.Target,
		Commit: run.Provenance.Commit, Dirty: run.Provenance.Dirty, Python: run.Target.Python,
		System: run.Target.System}
	p.add(EvidenceFile, "what the run showed", o.Evidence)
	if err := p.code(ctx); err != nil {
		return p.m, err
	}
	if err := p.data(ctx); err != nil {
		return p.m, err
	}
	p.environment()
	if err := p.refuse(); err != nil {
		return p.m, err
	}
	if err := p.command(); err != nil {
		return p.m, err
	}
	if err := p.rest(); err != nil {
		return p.m, err
	}
	if p.m.Missing == nil {
		p.m.Missing = []Missing{}
	}
	return p.m, p.write(ctx, w)
}

func (p *packing) add(name, what string, content []byte) {
	sum := sha256.Sum256(content)
	p.pieces = append(p.pieces, piece{File{Path: name, Size: int64(len(content)), Sum: hex.EncodeToString(sum[:]),
		What: what}, content, ""})
}

func (p *packing) addFile(name, what, from string) error {
	f, err := openPlain(from)
	if err != nil {
		return fmt.Errorf("pack %s: %w", from, plain(err))
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		return fmt.Errorf("pack %s: %w", from, plain(err))
	}
	p.pieces = append(p.pieces, piece{File{Path: name, Size: n, Sum: hex.EncodeToString(sum.Sum(nil)), What: what}, nil,
		from})
	return nil
}

func (p *packing) missing(what, why, hint string) {
	p.m.Missing = append(p.m.Missing, Missing{What: what, Why: why, Hint: hint})
}

func (p *packing) code(ctx context.Context) error {
	run := p.Run
	k := known{commit: run.Provenance.Commit, dirty: run.Provenance.Dirty, began: run.Started}
	opts := SnapshotOptions{Into: p.Temp, MostFile: p.MostFile, Secrets: p.Secrets, Skip: p.Skip}
	s, c, err := k.code(ctx, p.Dir, p.Now, opts)
	if err != nil {
		return err
	}
	p.top = s.Root
	p.places.add(s.Root, path.Join(Root, CodePlace))
	for _, top := range []string{run.Subject.Dir, p.Dir} { // as the run called it, and with links in it
		for d := s.Dir; d != "."; d = path.Dir(d) {
			top = path.Dir(top)
		}
		if path.IsAbs(top) {
			p.places.add(top, path.Join(Root, CodePlace))
		}
	}
	if err := p.addFile(CodeFile, "the code", s.Path); err != nil {
		return err
	}
	if s.Dirty != "clean" && s.Commit != "" {
		skip := slices.Clone(p.Skip)
		text, names, err := patch(ctx, s.Root, s.Commit, skip, s.Left)
		if err != nil {
			return err
		}
		if len(text) > 0 {
			c.Patch = names
			p.add(PatchFile, "what is changed in the code against its commit", text)
			c.Secrets = append(c.Secrets, p.secrets(PatchFile, text)...)
		}
	}
	if c.Basis == evidence.Declared && k.commit != "" && !p.Now {
		p.missing("the run's changes to its code", c.Why, "--code now packs the working copy as it is now")
	}
	if k.commit == "" {
		why := "the run's evidence names none"
		if k.dirty != "" {
			why += ": " + k.dirty
		}
		p.missing("the commit of the code", why, "keep the project in git")
	}
	if c.Left == nil {
		c.Left = []Left{}
	}
	if c.Secrets == nil {
		c.Secrets = []Place{}
	}
	if c.Notes == nil {
		c.Notes = []string{}
	}
	p.m.Code = c
	return nil
}

// secrets gives where secrets stand in a file of the bundle.
func (p *packing) secrets(name string, text []byte) []Place {
	var found []Place
	for _, at := range p.Secrets.Sure(string(text)) {
		place := Place{Path: name, Line: 1 + bytes.Count(text[:at], []byte("\n"))}
		if !slices.Contains(found, place) && len(found) < mostFound {
			found = append(found, place)
		}
	}
	return found
}

// refuse says where secrets stand in what would be packed.
func (p *packing) refuse() error {
	all := p.m.Code.Secrets
	if len(all) == 0 || p.AllowSecrets {
		return nil
	}
	var list []string
	for _, at := range all[:min(len(all), 10)] {
		list = append(list, at.String())
	}
	if more := len(all) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return fault.Hint(fmt.Errorf("pack %s: secrets stand in the code: %s", p.top, strings.Join(list, ", ")),
		"take them out, and out of use; or pack them along with --allow-secrets, where they are none")
}

var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// data lists what the run read, and packs it where that is asked for.
func (p *packing) data(ctx context.Context) error {
	taken := map[string]int{}
	name := func(of string) string {
		n := strings.Trim(unsafe.ReplaceAllString(path.Base(filepath.ToSlash(of)), "-"), "-.")
		if n == "" {
			n = "data"
		}
		if taken[n]++; taken[n] > 1 {
			n = fmt.Sprintf("%s-%d", n, taken[n])
		}
		return n
	}
	fetch := map[string]string{}
	for k, v := range p.Fetch {
		fetch[k] = v
	}
	seen := map[string]bool{}
	for _, set := range p.Run.Provenance.Datasets {
		if set.Path == "" {
			if set.Missing != "" && !seen[set.Type] {
				seen[set.Type] = true
				p.m.Data = append(p.m.Data, Data{Name: name(set.Type), Type: set.Type, Missing: set.Missing})
			}
			continue
		}
		if seen[set.Path+set.Fingerprint] {
			continue // another loader of the same files
		}
		seen[set.Path+set.Fingerprint] = true
		d := Data{Name: name(set.Path), Type: set.Type, Path: set.Path, Files: set.Files, Bytes: set.Bytes,
			Fingerprint: set.Fingerprint, Basis: evidence.Measured, Missing: set.Missing}
		if there, ok := p.places.path(path.Clean(set.Path)); ok && there != path.Join(Root, CodePlace) {
			d.Path = there
		} else {
			d.Path = path.Join(Root, DataPlace, d.Name)
			if !ok {
				p.places.add(set.Path, d.Path)
			}
		}
		d.Place = strings.TrimPrefix(d.Path, Root+"/")
		if d.Fetch = fetch[d.Name]; d.Fetch != "" {
			delete(fetch, d.Name)
		}
		if p.Data {
			if err := p.snapshot(ctx, set, &d); err != nil {
				return err
			}
		}
		if d.File == "" && d.Fetch == "" {
			p.missing("data "+d.Name, "they are in the bundle by their fingerprint alone",
				"--data packs them along, --fetch '"+d.Name+"=…' says how to fetch them")
		}
		p.m.Data = append(p.m.Data, d)
	}
	for i := range p.m.Data {
		if d := &p.m.Data[i]; d.Path == "" && fetch[d.Name] != "" {
			d.Fetch = fetch[d.Name]
			delete(fetch, d.Name)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(fetch)) {
		p.m.Data = append(p.m.Data, Data{Name: k, Fetch: fetch[k], Basis: evidence.Declared,
			Missing: "the run's evidence names no such data: there is no fingerprint"})
	}
	return nil
}

// snapshot packs data, where they are still what the run read, and not too much.
func (p *packing) snapshot(ctx context.Context, set evidence.Dataset, d *Data) error {
	if set.Bytes > p.MostData {
		d.Missing = fmt.Sprintf("not packed: %s, more than %s", unit.Bytes(float64(set.Bytes)),
			unit.Bytes(float64(p.MostData)))
		return nil
	}
	if set.Path == p.top {
		d.Missing = "not packed: their common folder is that of the code"
		return nil
	}
	now := p.Fingerprint(ctx, []string{set.Path})
	only := ""
	if now.Fingerprint != set.Fingerprint && set.Files == 1 {
		only = p.one(ctx, set)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if now.Fingerprint != set.Fingerprint && only == "" {
		d.Missing = "not packed: what lies there now is not, or not alone, what the run read"
		if now.Missing != "" {
			d.Missing += ": " + now.Missing
		}
		return nil
	}
	skip := []string{}
	if rel, err := filepath.Rel(p.top, set.Path); err == nil && filepath.IsLocal(rel) {
		b, err := git(ctx, p.top, "ls-files", "-z", "--", ":(top,literal)"+filepath.ToSlash(rel))
		if err == nil {
			for name := range strings.SplitSeq(string(b), "\x00") {
				if r, ok := strings.CutPrefix(name, filepath.ToSlash(rel)+"/"); ok {
					skip = append(skip, r) // the code has it
				}
			}
		}
	}
	opts := SnapshotOptions{Into: p.Temp, All: true, Only: only, MostFile: p.MostData, Skip: skip}
	s, err := Take(ctx, set.Path, opts)
	if err != nil {
		d.Missing = "not packed: " + err.Error()
		return ctx.Err()
	}
	if len(s.Left) > 0 {
		d.Missing = fmt.Sprintf("packed without %d files, of which the first is %s: %s", len(s.Left), s.Left[0].Path,
			s.Left[0].Why)
	}
	d.File = "data/" + d.Name + ".tar.zst"
	return p.addFile(d.File, "data: "+d.Name, s.Path)
}

// one finds the file that the run read in a folder of others; "": it is not there.
func (p *packing) one(ctx context.Context, set evidence.Dataset) string {
	list, err := os.ReadDir(set.Path)
	if err != nil {
		return ""
	}
	for _, d := range list {
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() != set.Bytes {
			continue
		}
		if p.Fingerprint(ctx, []string{filepath.Join(set.Path, d.Name())}).Fingerprint == set.Fingerprint {
			return d.Name()
		}
	}
	return ""
}

func (p *packing) environment() {
	env, texts := environment(p.Run, p.Around, p.top, p.m.Code.Dir)
	p.m.Environment = env
	for _, l := range env.Locks {
		what := "packages, by " + l.Of
		if l.Of == "" {
			what = "packages that the run had"
		}
		p.add(l.Path, what, texts[l.Path])
		if !slices.ContainsFunc(p.m.Code.Secrets, func(at Place) bool { return at.Path == l.Of }) {
			p.m.Code.Secrets = append(p.m.Code.Secrets, p.secrets(l.Path, texts[l.Path])...)
		}
	}
	if env.Install == "" {
		p.missing("a lock of the environment", env.Why, "run it again under assay run")
	}
	for _, e := range env.Elsewhere {
		if e.Missing != "" {
			p.missing("the package "+e.Package, e.Missing, "put it on an index, or into the code")
		}
	}
}

// systemPrefix are folders in which a Python lies beside much else.
var systemPrefix = map[string]bool{"/usr": true, "/usr/local": true, "/opt": true, "/opt/homebrew": true,
	"/opt/local": true, "/": true}

func (p *packing) command() error {
	bin := ""
	if i := p.Run.Provenance.Interpreter; i != "" {
		bin = path.Dir(i)
		if prefix := path.Dir(bin); !systemPrefix[prefix] {
			p.places.add(prefix, path.Join(Root, EnvPlace))
		}
	}
	for _, w := range p.Run.Subject.Command {
		if strings.Contains(w, Root) {
			return fmt.Errorf("pack the command: its word %q holds %s, which stands for a folder in a bundle", w, Root)
		}
	}
	if len(p.Run.Subject.Command) == 0 {
		return errors.New("pack the command: the run's evidence names none")
	}
	c := command(p.Run, p.m.Code.Dir, bin, p.places, p.Secrets)
	for _, name := range slices.Sorted(maps.Keys(c.Variables)) {
		if why := Settable(name, c.Variables[name]); why != "" {
			c.Local = append(c.Local, Missing{What: name, Why: "the units do not set it: " + why})
		}
	}
	p.m.Command = c
	u := p.m.Unit("", Root)
	if c.Why != "" {
		p.missing("the units", c.Why, "")
		return nil
	}
	for _, unit := range []struct {
		name, what string
		make       func() ([]byte, error)
	}{{LaunchdFile, "a property list for launchd", u.Launchd}, {SystemdFile, "a unit for systemd", u.Systemd}} {
		text, err := unit.make()
		if err != nil {
			p.missing(unit.name, err.Error(), "")
			continue
		}
		p.add(unit.name, unit.what, text)
	}
	return nil
}

func (p *packing) rest() error {
	if p.Gates != nil {
		p.m.Gates = &p.Judged
		p.add(GatesFile, "how the run came out by the gates", p.Gates)
		p.add(PolicyFile, "the policy in force: "+p.Judged.Policy, p.Policy)
	}
	if p.Signed != "" {
		if err := p.addFile(SignatureFile, "the distinct operator calls of the run", p.Signed); err != nil {
			return err
		}
	} else {
		p.missing("signatures", "none were recorded of this command, or they do not lie beside it",
			"assay signatures record -- COMMAND, then pack with --signatures FILE")
	}
	if p.Trace != "" {
		return p.addFile(TraceFile, "operators over time", p.Trace)
	}
	return nil
}

// write writes the manifest, and behind it the files in the order of their paths.
func (p *packing) write(ctx context.Context, to io.Writer) error {
	slices.SortFunc(p.pieces, func(a, b piece) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range p.pieces {
		p.m.Files = append(p.m.Files, f.File)
	}
	manifest, err := p.m.encode()
	if err != nil {
		return err
	}
	if err := p.m.check(); err != nil {
		return err
	}
	return packed(to, func(w *tar.Writer) error {
		if err := w.WriteHeader(header(ManifestFile, "", 0o644, int64(len(manifest)))); err != nil {
			return err
		}
		if _, err := w.Write(manifest); err != nil {
			return err
		}
		for _, f := range p.pieces {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f.write(w); err != nil {
				return fmt.Errorf("%s: %w", f.Path, plain(err))
			}
		}
		return nil
	})
}

func (f piece) write(w *tar.Writer) error {
	if err := w.WriteHeader(header(f.Path, "", 0o644, f.Size)); err != nil {
		return err
	}
	if f.from == "" {
		_, err := w.Write(f.content)
		return err
	}
	from, err := openPlain(f.from)
	if err != nil {
		return err
	}
	defer from.Close()
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(w, sum), from, f.Size); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.Sum {
		return errors.New("has changed while it was packed")
	}
	return nil
}

// WriteFile packs into a file, whole or not at all. One that is there already stays, but where force says otherwise.
func WriteFile(ctx context.Context, o Options, out string, force bool) (Manifest, error) {
	var m Manifest
	if info, err := os.Lstat(out); err == nil && (!force || !info.Mode().IsRegular()) {
		return m, fault.Hint(fmt.Errorf("write %s: it is there already", out), "name another with -o, or say --force")
	}
	err := file.Write(out, 0o600, func(w io.Writer) error {
		var err error
		m, err = Pack(ctx, o, w)
		return err
	})
	var at *fs.PathError
	if errors.As(err, &at) && fault.HintOf(err) == "" {
		err = fmt.Errorf("write %s: %w", out, at.Err)
	}
	return m, err
}
