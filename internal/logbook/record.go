package logbook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/secret"
)

// RecordSchema names the common form.
const RecordSchema = "assay.record/1"

// Kinds of record. A later room may add its own word.
const (
	KindRun       = "run"       // evidence of a run
	KindRehearsal = "rehearsal" // evidence of a run on the double
	KindNote      = "note"
	KindRejection = "rejection" // a hypothesis that was rejected
	KindFacts     = "facts"     // what was found out about a run beside its evidence
	KindSeries    = "series"    // carries points and nothing else
)

// Bounds of a document. Evidence of a run of hours has some megabytes.
const (
	MaxContent = 256 << 20 // bytes
	maxText    = 64 << 10  // bytes of a note
	maxObjects = 4 << 20   // of a document: figures of samples, above all
	maxValues  = 32 << 20  // of a document: steps, above all
)

// Record is the common form, for everything that is not the evidence of a run.
type Record struct {
	Schema   string            `json:"schema"`
	Kind     string            `json:"kind"`
	At       time.Time         `json:"at"`
	Title    string            `json:"title,omitempty"`
	About    []string          `json:"about,omitempty"`  // identifiers of records
	Fields   map[string]string `json:"fields,omitempty"` // declared by a person
	Figures  []evidence.Figure `json:"figures,omitempty"`
	Facts    []evidence.Fact   `json:"facts,omitempty"`
	Document json.RawMessage   `json:"document,omitempty"` // whatever the room wants to keep
}

var (
	kindWord = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	fullID   = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Put keeps a record in the common form and returns its identifier.
func (b *Book) Put(ctx context.Context, r Record) (string, error) {
	r.Schema, r.At = RecordSchema, r.At.UTC()
	doc, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("keep a %s: %w", r.Kind, err)
	}
	id, _, err := b.Add(ctx, doc)
	return id, err
}

// Add keeps a document: an evidence.json, or a record in the common form. added is false where it was there already.
// When the error is nil the document is on the disk. Secrets are taken out first: the identifier is that of what is
// kept. The error is a *Forgotten where the record was forgotten here.
func (b *Book) Add(ctx context.Context, doc []byte) (id string, added bool, err error) {
	n, err := prepare(doc)
	if err != nil {
		return "", false, err
	}
	if err := b.keep(ctx, n); err != nil {
		return "", false, err
	}
	if n.forgotten != nil {
		return "", false, n.forgotten
	}
	return n.id, n.added, nil
}

// Kept says what became of a document.
type Kept struct {
	ID    string
	Added bool  // false: it was there already
	Err   error // why it is not kept; *Forgotten where it was forgotten here
}

// AddAll keeps documents as Add does, all in one transaction, and says of each what became of it. When it returns,
// those that have no error are on the disk.
func (b *Book) AddAll(ctx context.Context, docs [][]byte) []Kept {
	out, all := make([]Kept, len(docs)), make([]*newcomer, len(docs))
	inParallel(len(docs), func(i int) { all[i], out[i].Err = prepare(docs[i]) })
	news := slices.DeleteFunc(slices.Clone(all), func(n *newcomer) bool { return n == nil })
	err := b.keep(ctx, news...)
	for i, n := range all {
		switch {
		case n == nil: // it says why
		case err != nil:
			out[i].Err = err
		case n.forgotten != nil:
			out[i].Err = n.forgotten
		default:
			out[i] = Kept{ID: n.id, Added: n.added}
		}
	}
	return out
}

// newcomer is a document that is to be kept, with all that can be worked out before the file is locked.
type newcomer struct {
	sum       [sha256.Size]byte
	id        string
	p         *projection
	parts     *parts
	added     bool
	forgotten *Forgotten // it was, and is not kept
}

func prepare(doc []byte) (*newcomer, error) {
	doc = secret.JSON(doc)
	if len(doc) > MaxContent {
		return nil, fmt.Errorf("keep a document of %d bytes: the most is %d", len(doc), MaxContent)
	}
	n := &newcomer{}
	done := make(chan struct{})
	go func() { // beside the reading, which takes as long
		n.sum, n.parts = sha256.Sum256(doc), apart(doc)
		close(done)
	}()
	p, err := project(doc)
	if <-done; err != nil {
		return nil, err
	}
	n.p, n.id = p, hex.EncodeToString(n.sum[:])
	n.parts.of(p)
	return n, nil
}

// keep keeps documents, all in one transaction: when the error is nil they are on the disk.
func (b *Book) keep(ctx context.Context, all ...*newcomer) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	if err := b.prepareInserts(ctx); err != nil {
		return fault.Hint(fmt.Errorf("write to the logbook %s: %w", b.path, err), hintOf(err))
	}
	err := b.write(ctx, func(tx *sql.Tx) error {
		w, err := b.inserter(ctx, tx)
		if err != nil {
			return err
		}
		defer w.close()
		for _, n := range all {
			n.added = false
			if n.forgotten, err = tombstone(ctx, tx, n.p, n.id); err != nil {
				return err
			}
			if n.forgotten != nil {
				continue
			}
			if err := w.keep(n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.known = nil // what the transaction made is not there
		return fault.Hint(fmt.Errorf("write to the logbook %s: %w", b.path, err), hintOf(err))
	}
	return nil
}

func (w *inserter) keep(n *newcomer) error {
	var there int
	if err := w.query(&there, "SELECT count(*) FROM content WHERE id = ?", n.id); err != nil || there > 0 {
		return err
	}
	base, data, err := n.parts.leanest(w, n.id)
	if err != nil {
		return err
	}
	if _, err := w.exec("INSERT INTO content(id, size, data, base) VALUES(?,?,?,?)", n.id, len(n.parts.doc), data,
		base); err != nil {
		return err
	}
	if _, err := w.insert(0, n.id, n.p); err != nil {
		return err
	}
	n.added = true
	return w.enter("record", n.sum[:])
}

// projection is what of a document stands in tables: the row of record less its number and id, the rows of the others,
// and the records that it is about.
type projection struct {
	kind   string
	mark   string // tells the record from others by parts that no secret stands in; forget.go
	record []any
	rows   map[string][]row
	facts  []row // before they are put into sets
	links  []string
}

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// text cuts what a stranger's file says: the whole stays in the document.
func text(s string) any {
	if s == "" {
		return nil
	}
	if len(s) > 4096 {
		s = strings.ToValidUTF8(s[:4096], "") + " …"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func must0(s string) any { // for columns that are not null
	if v := text(s); v != nil {
		return v
	}
	return ""
}

func number(v *float64) any {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return nil
	}
	return *v
}

func truth(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

// project reads a document. It is a function of the document alone: a change to what it gives needs a migration that
// begins with "-- reproject".
func project(doc []byte) (*projection, error) {
	var head struct {
		Schema string `json:"schema"`
		Kind   string `json:"kind"`
	}
	if objects, values := weigh(doc); objects > maxObjects || values > maxValues {
		return nil, fmt.Errorf("keep a record: %d objects and %d values in it, and the most are %d and %d", objects,
			values, maxObjects, maxValues)
	}
	if run := decodeRun(doc); run != nil {
		return projectRun(run), nil
	}
	if err := json.Unmarshal(doc, &head); err != nil {
		return nil, fault.Hint(fmt.Errorf("keep a record: %w", plainer(err)),
			"evidence.json of a run's folder can be kept, or the folder")
	}
	switch head.Schema {
	case evidence.Schema, evidence.FormerSchema:
		if head.Schema == evidence.Schema && head.Kind != evidence.KindRun {
			return projectDocument(doc)
		}
		var run evidence.Run
		if err := json.Unmarshal(doc, &run); err != nil {
			return nil, fmt.Errorf("keep a run: not the evidence of a run: %w", plainer(err))
		}
		return projectRun(&run), nil
	case RecordSchema:
		r, err := parseRecord(doc)
		if err != nil {
			return nil, err
		}
		return projectRecord(r), nil
	}
	return nil, fault.Hint(fmt.Errorf("keep a record: schema %q, and this assay reads %s and %s", head.Schema,
		evidence.Schema, RecordSchema),
		"use the assay that wrote it, or a newer one")
}

// decodeRun reads the evidence of a run in the form of today, in one pass where encoding/json and the type itself would
// make several; nil for whatever else it is.
func decodeRun(doc []byte) *evidence.Run {
	if !bytes.Contains(doc[:min(len(doc), 200)], []byte(`"`+evidence.Schema+`"`)) {
		return nil
	}
	type table evidence.StepSeries // reads as it stands
	var plain struct {
		evidence.Envelope
		Body struct {
			evidence.RunBody
			Steps table `json:"steps"`
		} `json:"body"`
	}
	if err := json.Unmarshal(doc, &plain); err != nil || plain.Schema != evidence.Schema ||
		plain.Kind != evidence.KindRun || plain.Body.Steps.Phases == nil {
		return nil // what is wrong is said by whoever asks further
	}
	run := &evidence.Run{Envelope: plain.Envelope, RunBody: plain.Body.RunBody}
	run.Steps = evidence.StepSeries(plain.Body.Steps)
	return run
}

// weigh counts the objects and the values of JSON without making anything of them: a few bytes each can become hundreds
// in memory.
func weigh(doc []byte) (objects, values int) {
	text, escaped := false, false
	for _, c := range doc {
		switch {
		case escaped:
			escaped = false
		case text:
			text, escaped = c != '"', c == '\\'
		case c == '"':
			text = true
		case c == '{':
			objects++
		case c == ',':
			values++
		}
	}
	return objects, values + 1
}

// plainer says in a reader's words what encoding/json says in Go's.
func plainer(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("not JSON: %w", err)
	}
	if wrong.Field == "" {
		return fmt.Errorf("a JSON %s, and not an object", wrong.Value)
	}
	return fmt.Errorf("a JSON %s in the field %s does not belong there", wrong.Value, wrong.Field)
}

func parseRecord(doc []byte) (*Record, error) {
	var r Record
	d := json.NewDecoder(bytes.NewReader(doc))
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("keep a record: %w", plainer(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("keep a record: more than one JSON value")
	}
	switch {
	case !kindWord.MatchString(r.Kind) || r.Kind == KindRun || r.Kind == KindRehearsal:
		return nil, fmt.Errorf("keep a record: the kind %q: a lower-case word, and run and rehearsal are for evidence",
			r.Kind)
	case len(r.Title) > maxText:
		return nil, fmt.Errorf("keep a record: a title of %d bytes, and the most is %d", len(r.Title), maxText)
	}
	for _, id := range r.About {
		if !fullID.MatchString(id) {
			return nil, fmt.Errorf("keep a record: about %q: that is no identifier", id)
		}
	}
	return &r, nil
}

func projectRecord(r *Record) *projection {
	p := &projection{kind: r.Kind, mark: markOf(r.Kind, r.At, ""), rows: map[string][]row{}}
	p.record = make([]any, 30)
	p.record[0], p.record[1], p.record[3] = r.Kind, stamp(r.At), text(r.Title)
	p.figures(r.Figures)
	p.listFacts("facts", r.Facts)
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		p.fact("field", must0(name), text(r.Fields[name]), "declared", nil)
	}
	p.links = append(p.links, r.About...)
	p.rows["facts_of"] = setsOf(p.facts)
	return p
}

// add adds a row to a table: the words of its form, and what else it has.
func (p *projection) add(table string, words []any, rest ...any) {
	p.rows[table] = append(p.rows[table], row{words: words, rest: rest})
}

func (p *projection) fact(part string, name, value, source, missing any) {
	p.facts = append(p.facts, row{words: []any{part, name, source, missing}, rest: []any{value}})
}

func (p *projection) figures(list []evidence.Figure) {
	for _, f := range list {
		note, told := tell(text(noteOf(f)))
		p.add("figure", []any{must0(f.Key()), must0(f.Unit), text(string(f.Basis)), text(f.Window), note,
			text(f.Missing)}, number(f.Value), number(f.Low), number(f.High), int64(f.N), told)
	}
}

// noteOf is a figure's note with what disturbed it, which only documents of later assays have.
func noteOf(f evidence.Figure) string {
	if f.Disturbed == "" {
		return f.Note
	}
	return strings.TrimSuffix("disturbed: "+f.Disturbed+"; "+f.Note, "; ")
}

func (p *projection) listFacts(part string, list []evidence.Fact) {
	for _, f := range list {
		p.fact(part, must0(f.Name), text(f.Value), text(f.Source), text(f.Missing))
	}
}

// projectDocument reads evidence of another kind than a run, whatever its room put into the body: the envelope says
// what there is to ask for.
func projectDocument(doc []byte) (*projection, error) {
	var e evidence.Envelope
	if err := json.Unmarshal(doc, &e); err != nil {
		return nil, fmt.Errorf("keep a document of evidence: %w", plainer(err))
	}
	switch {
	case !kindWord.MatchString(e.Kind) || slices.Contains([]string{KindRehearsal, KindNote, KindRejection, KindFacts,
		KindSeries}, e.Kind):
		return nil, fmt.Errorf("keep a document of evidence: %q is no kind of it", e.Kind)
	case e.Started.IsZero():
		return nil, fmt.Errorf("keep the %s %s: it does not say when it began", e.Kind, e.ID)
	}
	p := &projection{kind: e.Kind, mark: markOf(e.Kind, e.Started, e.ID), rows: map[string][]row{}}
	p.record = make([]any, 30)
	p.record[0], p.record[1], p.record[2], p.record[4] = e.Kind, stamp(e.Started), stamp(e.Ended), text(e.ID)
	p.record[3] = text(evidence.Title(&evidence.Run{Envelope: e}))
	p.record[5], p.record[6] = text(e.Subject.Script), text(strings.Join(e.Subject.Command, " "))
	p.record[7], p.record[8], p.record[9] = text(e.Target.Asked), text(e.Target.Device), text(e.Target.Name)
	p.record[10], p.record[11], p.record[12], p.record[13] = text(e.Target.Framework), text(e.Target.Release),
		text(e.Target.Python), text(e.Target.System)
	p.record[29] = text(e.Provenance.Assay)
	p.figures(e.Figures)
	p.findings(e.Findings)
	return p, nil
}

func (p *projection) findings(list []evidence.Finding) {
	for _, f := range list {
		p.add("finding", []any{must0(f.Name), must0(string(f.Severity)), must0(f.Text), text(f.Where), text(f.Hint),
			text(string(f.Basis))})
	}
}

func projectRun(run *evidence.Run) *projection {
	p := &projection{kind: KindRun, mark: markOfRun(run), rows: map[string][]row{}}
	torch, system, chip := run.Target.Release, run.Fact("system"), run.Fact("chip")
	if run.Rehearsal != nil {
		p.kind = KindRehearsal
		if d := run.Target.Double; d != nil {
			torch, system, chip = d.Release, "macOS "+d.MacOS, d.Chip
		}
	}
	if system == "" {
		system = run.Target.System
	}
	batch, resolution := Work(run)
	var batchCell any
	if batch > 0 {
		batchCell = int64(batch)
	}
	peak := Peak(run)
	peakName := any(nil)
	if peak.Known() {
		peakName = peak.Name
	}
	device := run.Target.Device
	if run.Rehearsal == nil {
		device = evidence.Device(run) // MLX's GPU and CPU are others than PyTorch's
	}
	var print any
	if len(run.Provenance.Datasets) > 0 {
		print = text(run.Provenance.Datasets[0].Fingerprint)
	}
	p.record = []any{p.kind, stamp(run.Started), stamp(run.Ended), text(evidence.Title(run)), text(run.ID),
		text(run.Subject.Script),
		text(strings.Join(run.Subject.Command, " ")),
		text(run.Target.Asked), text(device), text(run.Target.Name),
		text(run.Target.Framework), text(torch), text(run.Target.Python), text(system), text(chip),
		text(run.Provenance.Commit), text(run.Provenance.Dirty), batchCell, text(resolution), number(peak.Value),
		peakName, text(string(peak.Basis)),
		text(run.Provenance.Environment["PYTORCH_ENABLE_MPS_FALLBACK"]), int64(len(run.Fallbacks)),
		int64(run.Outcome.Exit), text(run.Outcome.Signal),
		truth(run.Outcome.Complete), text(run.Outcome.Error), print, text(run.Provenance.Assay)}
	p.figures(run.Figures)

	p.listFacts("host", run.Host.Facts)
	for _, name := range slices.Sorted(maps.Keys(run.Provenance.Environment)) {
		p.fact("environment", must0(name), text(run.Provenance.Environment[name]), "environment", nil)
	}
	for _, line := range run.Provenance.Packages {
		name, version, _ := strings.Cut(line, "==")
		p.fact("package", must0(name), text(version), "site-packages", nil)
	}
	for i, d := range run.Provenance.Datasets {
		at := strconv.Itoa(i)
		p.fact("data", "type "+at, text(d.Type), "loader", nil)
		p.fact("data", "fingerprint "+at, text(d.Fingerprint), text(d.Path), text(d.Missing))
	}
	for _, a := range run.Host.Apps {
		if !a.Ours {
			p.fact("app", must0(a.Name), strconv.FormatFloat(a.Bytes, 'f', 0, 64),
				"bytes held when the run began", nil)
		}
	}
	for _, o := range run.Operators {
		self, total := number(&o.Self), number(&o.Total)
		if self != nil && self == total {
			total = int64(0) // most call no other
		}
		p.add("operator", []any{must0(o.Name), nil, string(evidence.Measured)}, int64(o.Calls), self, total,
			number(o.Device))
	}
	if run.Rehearsal != nil {
		for _, o := range run.Rehearsal.Operators {
			p.add("operator", []any{must0(o.Operator), text(o.State), string(evidence.Rehearsed)}, int64(o.Calls), nil,
				nil, nil)
		}
	}
	p.findings(run.Findings)
	for _, f := range run.Fallbacks {
		p.add("finding", []any{"fallback", string(evidence.Note), must0(fmt.Sprintf("%s ran on the CPU, %d times",
			f.Operator, f.Count)), text(f.Where), nil, text(string(f.Basis))})
	}
	p.rows["facts_of"] = setsOf(p.facts)
	names, all := bySeries(runPoints(run))
	for _, name := range names {
		for part, left := 0, len(all[name]); left > 0; part, left = part+1, left-maxChunk {
			p.add("series", []any{name}, int64(part), int64(min(left, maxChunk)))
		}
	}
	return p
}

// runPoints are the columns of the steps, the losses, and what the script logged itself, as DOOR/NAME.
func runPoints(run *evidence.Run) []Point {
	began := run.Started.UnixMilli()
	at := map[int]int64{}
	for i, n := range run.Steps.Number {
		if i < len(run.Steps.Start) {
			at[n] = began + int64(run.Steps.Start[i]*1000)
		}
	}
	var points []Point
	type column struct {
		name   string
		values []float64
	}
	columns := []column{{"step.time", run.Steps.Total}}
	for _, p := range run.Steps.Phases {
		if p.Name != "time" { // the step's own
			columns = append(columns, column{"step." + p.Name, p.Seconds})
		}
	}
	for _, column := range append(columns, column{"memory.live", run.Steps.Live},
		column{"memory.pool", run.Steps.Pool}) {
		for i, v := range column.values {
			if i < len(run.Steps.Number) && !(v < 0) { // -1: not known
				n := run.Steps.Number[i]
				points = append(points, Point{column.name, int64(n), at[n], v})
			}
		}
	}
	for i, n := range run.Loss.Step {
		v := math.NaN()
		if i < len(run.Loss.Value) && run.Loss.Value[i] != nil {
			v = *run.Loss.Value[i]
		}
		points = append(points, Point{"loss", int64(n), at[n], v})
	}
	for _, s := range run.Logged {
		name := s.Door + "/" + s.Name
		for len(name) > maxName { // a name's characters may be of several bytes
			_, last := utf8.DecodeLastRuneInString(name)
			name = name[:len(name)-last]
		}
		for i, n := range s.Step {
			v := math.NaN()
			if i < len(s.Value) && s.Value[i] != nil {
				v = *s.Value[i]
			}
			points = append(points, Point{name, int64(n), at[n], v})
		}
	}
	return points
}

// Peak is the peak of memory that says most about the device: the allocator's pool, its tensors, the process.
func Peak(run *evidence.Run) evidence.Figure {
	for _, name := range []string{"memory.pool.peak", "memory.live.peak", "memory.footprint.peak",
		"memory.resident.peak"} {
		if f := run.Figure(name); f.Known() {
			return f
		}
	}
	return evidence.Unknown("memory.peak", "B", "no peak of memory was seen")
}

// inputShape is what watch/torch/module.py makes of a tensor: float32[64, 3, 224, 224] on mps.
var inputShape = regexp.MustCompile(`\[(\d+(?:, ?\d+)*)\]`)

// Work is the batch and the size of one input: from the first loader and the shape that most steps had. 0 and "" where
// neither tells.
func Work(run *evidence.Run) (batch int, resolution string) {
	if len(run.Provenance.Datasets) > 0 {
		batch = run.Provenance.Datasets[0].Batch
	}
	most := 0
	for _, s := range run.Shapes {
		m := inputShape.FindStringSubmatch(s.Inputs)
		if m == nil || s.Steps <= most || len(m[1]) > 200 {
			continue
		}
		most = s.Steps
		dims := strings.Split(strings.ReplaceAll(m[1], " ", ""), ",")
		resolution = strings.Join(dims[1:], "×")
		if batch == 0 {
			batch, _ = strconv.Atoi(dims[0])
		}
	}
	return batch, resolution
}
