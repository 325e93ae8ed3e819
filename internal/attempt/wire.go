package attempt

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"assay/internal/atlas"
	"assay/internal/facts"
	"assay/internal/target"
)

// Version of the wire between assay and agent/assay_agent/attempt.py, where it is VERSION. docs/formats/attempts.md
// describes the wire.
const Version = 2

// maxLine is how many bytes an answer may have: LINE in attempt.py.
const maxLine = 16 << 20

// request is what attempt.py is told to try.
type request struct {
	Version int              `json:"version"`
	Device  string           `json:"device"`
	Double  *target.Settings `json:"double"`
	Package string           `json:"package"`
	Targets []string         `json:"targets"`
	Inputs  []string         `json:"inputs"`
	Args    []string         `json:"args"`
	Eval    bool             `json:"eval"`
	Limit   float64          `json:"limit"`
}

// helloAnswer, refusedAnswer, offeredAnswer, attemptAnswer and doneAnswer are the lines that attempt.py sends.
type (
	helloAnswer struct {
		Answer  string `json:"answer"`
		Version int    `json:"version"`
		Torch   string `json:"torch"`
		Python  string `json:"python"`
	}
	refusedAnswer struct {
		Answer string       `json:"answer"`
		Error  *failurePart `json:"error"`
	}
	offeredAnswer struct {
		Answer string   `json:"answer"`
		Models []string `json:"models"`
	}
	attemptAnswer struct {
		Answer     string          `json:"answer"` // "" in a Fallback
		Target     string          `json:"target"`
		Phase      string          `json:"phase"`
		Model      string          `json:"model"`
		Inputs     []string        `json:"inputs"`
		Parameters int64           `json:"parameters"`
		Data       bool            `json:"data"`
		Backward   bool            `json:"backward"`
		Seconds    float64         `json:"seconds"`
		Error      *failurePart    `json:"error"`
		Refusal    *refusalPart    `json:"refusal"`
		Peak       int64           `json:"peak"`
		StandIns   int             `json:"stand_ins"`
		Ops        []opsPart       `json:"ops"`
		Fallbacks  []fallbacksPart `json:"fallbacks"`
		Met        []metPart       `json:"met"`
		Notes      []notesPart     `json:"notes"`
		Fallback   *attemptAnswer  `json:"fallback"`
	}
	doneAnswer struct {
		Answer string `json:"answer"`
	}
)

// failurePart and the others are what answers are made of.
type (
	failurePart struct {
		Kind  string `json:"kind"`
		Type  string `json:"type"`
		Text  string `json:"text"`
		Where string `json:"where"`
		Via   string `json:"via"`
	}
	refusalPart struct {
		Op    string `json:"op"`
		Cause string `json:"cause"`
	}
	opsPart struct {
		Op    string   `json:"op"`
		N     int      `json:"n"`
		State string   `json:"state"`
		CPU   int64    `json:"cpu_ns"`
		FLOPs *float64 `json:"flops"`
	}
	fallbacksPart struct {
		Op    string `json:"op"`
		Where string `json:"where"`
		N     int    `json:"n"`
		CPU   int64  `json:"cpu_ns"`
		Bytes int64  `json:"bytes"`
	}
	metPart struct {
		Op    string `json:"op"`
		Fact  string `json:"fact"`
		Sure  bool   `json:"sure"`
		Where string `json:"where"`
		N     int    `json:"n"`
	}
	notesPart struct {
		Op    string `json:"op"`
		Kind  string `json:"kind"`
		Text  string `json:"text"`
		Where string `json:"where"`
		N     int    `json:"n"`
	}
)

// The kinds of a failure; "" is what the model itself raised.
const (
	kindTorch  = "torch"  // cannot be imported
	kindImport = "import" // importing what was named raised
	kindTarget = "target" // what was named is none, or cannot be made
	kindInput  = "input"
	kindArgs   = "args"
	kindCrash  = "crash" // its process ended
	kindLate   = "late"  // its process was ended
)

var (
	refusedKinds = []string{kindTorch, kindImport, kindTarget, kindInput, kindArgs}
	attemptKinds = []string{"", kindTarget, kindInput, kindCrash, kindLate}
	phases       = []string{"", phaseBuild, phaseInputs, phaseMove, phaseForward, phaseBackward, "done"}
	causes       = []string{causeMissing, "dtype", "argument", causeRank, "device", "memory",
		facts.Values}
)

// What has to be known by name.
const (
	phaseBuild    = "build"
	phaseInputs   = "inputs"
	phaseMove     = "move"
	phaseForward  = "forward"
	phaseBackward = "backward"
	causeMissing  = "missing"
	causeRank     = "rank"
	standIn       = "stand-in"     // the kind of a note
	toldVersion   = "told-version" // another: who was told the release's version
)

// decode reads one line: a *helloAnswer, *refusedAnswer, *offeredAnswer, *attemptAnswer or *doneAnswer. What departs
// from the page is an error.
func decode(line []byte) (any, error) {
	var which struct {
		Answer string `json:"answer"`
	}
	if err := json.Unmarshal(line, &which); err != nil {
		return nil, err
	}
	switch which.Answer {
	case "hello":
		var a helloAnswer
		return &a, decodeInto(line, &a)
	case "refused":
		var a refusedAnswer
		err := decodeInto(line, &a)
		if err == nil && a.Error == nil {
			err = errors.New("it has no error")
		}
		return &a, errors.Join(err, a.Error.check(refusedKinds))
	case "offered":
		var a offeredAnswer
		return &a, decodeInto(line, &a)
	case "attempt":
		var a attemptAnswer
		if err := noDeeper(line); err != nil {
			return nil, err
		}
		if err := decodeInto(line, &a); err != nil {
			return nil, err
		}
		return &a, a.check()
	case "done":
		var a doneAnswer
		return &a, decodeInto(line, &a)
	}
	return nil, fmt.Errorf("no answer is called %.40q", which.Answer)
}

// noDeeper refuses a fallback within a fallback, before anything is read more than once.
func noDeeper(line []byte) error {
	var a struct {
		Fallback *struct {
			Fallback *json.RawMessage `json:"fallback"`
		} `json:"fallback"`
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return err
	}
	if a.Fallback != nil && a.Fallback.Fallback != nil {
		return errors.New("a fallback within a fallback")
	}
	return nil
}

// decodeInto reads an object that has every field of the struct and no other.
func decodeInto(line []byte, into any) error {
	if err := whole(line, reflect.TypeOf(into).Elem()); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// whole says which field of a struct an object lacks, in what lies within it as well.
func whole(data json.RawMessage, of reflect.Type) error {
	switch of.Kind() {
	case reflect.Pointer:
		if string(data) == "null" {
			return nil
		}
		return whole(data, of.Elem())
	case reflect.Slice:
		var list []json.RawMessage
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		if list == nil {
			return errors.New("null stands for a list")
		}
		if of.Elem().Kind() != reflect.Struct {
			return nil
		}
		for _, element := range list {
			if err := whole(element, of.Elem()); err != nil {
				return err
			}
		}
	case reflect.Struct:
		var object map[string]json.RawMessage
		if err := json.Unmarshal(data, &object); err != nil {
			return err
		}
		for i := range of.NumField() {
			field := of.Field(i)
			name := field.Tag.Get("json")
			value, there := object[name]
			switch {
			case there && string(value) == "null" && field.Type.Kind() != reflect.Pointer:
				return fmt.Errorf("%s is null", name)
			case there:
				if err := whole(value, field.Type); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			case name != "answer": // a fallback has none
				return fmt.Errorf("it has no field %s", name)
			}
		}
	}
	return nil
}

func (f *failurePart) check(kinds []string) error {
	if f != nil && !slices.Contains(kinds, f.Kind) {
		return fmt.Errorf("no failure is of the kind %.40q here", f.Kind)
	}
	return nil
}

// check holds an attempt to what the types do not say.
func (a *attemptAnswer) check() error {
	if a.Target == "" {
		return errors.New("an attempt at nothing")
	}
	if !slices.Contains(phases, a.Phase) {
		return fmt.Errorf("no phase is called %.40q", a.Phase)
	}
	if a.Refusal != nil && !slices.Contains(causes, a.Refusal.Cause) {
		return fmt.Errorf("no cause is called %.40q", a.Refusal.Cause)
	}
	if a.Refusal != nil && a.Error == nil {
		return errors.New("a refusal and no error")
	}
	least := min(a.Parameters, a.Peak, int64(a.StandIns))
	if a.Seconds < 0 {
		least = -1
	}
	for _, row := range a.Ops {
		if len(row.State) != 1 || row.N < 1 {
			return fmt.Errorf("ops: %.80q was called %d times in the state %.10q", row.Op, row.N, row.State)
		}
		if least = min(least, row.CPU); row.FLOPs != nil && *row.FLOPs < 0 {
			least = -1
		}
	}
	for _, row := range a.Fallbacks {
		least = min(least, int64(row.N), row.CPU, row.Bytes)
	}
	for _, row := range a.Met {
		least = min(least, int64(row.N))
	}
	for _, row := range a.Notes {
		least = min(least, int64(row.N))
	}
	if least < 0 {
		return errors.New("a number is negative")
	}
	if a.Fallback != nil {
		if err := a.Fallback.check(); err != nil {
			return fmt.Errorf("fallback: %w", err)
		}
	}
	return a.Error.check(attemptKinds)
}

// shares are those of the operators that the attempt called.
func (a *attemptAnswer) shares() atlas.Shares {
	called := make([]atlas.Called, len(a.Ops))
	for i, row := range a.Ops {
		called[i] = atlas.Called{State: atlas.State(row.State[0]), Calls: row.N, FLOPs: row.FLOPs}
		if seconds := float64(row.CPU) / 1e9; a.Data { // without data no operator computes
			called[i].Seconds = &seconds
		}
	}
	return atlas.SharesOf(called)
}

// conversation follows the answers of one process, and refuses one that comes out of turn.
type conversation struct {
	hello   *helloAnswer
	refused *failurePart
	offered []string // in their order; nil until they were named
	told    map[string]*attemptAnswer
	done    bool // nothing more is said: done or refused
}

// take reads a line.
func (c *conversation) take(line []byte) (*attemptAnswer, error) {
	answer, err := decode(line)
	if err != nil {
		return nil, fmt.Errorf("%w: %.200s", err, strings.TrimSpace(string(line)))
	}
	switch a := answer.(type) {
	case *helloAnswer:
		if c.hello != nil {
			return nil, errors.New("a second hello")
		}
		if a.Version != Version {
			return nil, fmt.Errorf("it speaks version %d, and this assay version %d", a.Version, Version)
		}
		c.hello = a
		return nil, nil
	case *refusedAnswer:
		if c.hello == nil || c.offered != nil {
			return nil, errors.New("refused out of turn")
		}
		c.refused, c.done = a.Error, true
	case *offeredAnswer:
		if c.hello == nil || c.offered != nil {
			return nil, errors.New("offered out of turn")
		}
		c.offered, c.told = a.Models, make(map[string]*attemptAnswer, len(a.Models))
		for _, name := range a.Models {
			if _, twice := c.told[name]; twice || name == "" {
				return nil, fmt.Errorf("%.80q is offered twice, or has no name", name)
			}
			c.told[name] = nil
		}
	case *attemptAnswer:
		before, wanted := c.told[a.Target]
		if !wanted || before != nil {
			return nil, fmt.Errorf("%.80q was not offered, or is told of twice", a.Target)
		}
		c.told[a.Target] = a
		return a, nil
	case *doneAnswer:
		if c.offered == nil || len(c.untold()) > 0 {
			return nil, errors.New("done before all was told")
		}
		c.done = true
	}
	return nil, nil
}

// untold are the models that were offered and not told of yet.
func (c *conversation) untold() []string {
	var names []string
	for _, name := range c.offered {
		if c.told[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// errLong is a line that is longer than any answer may be.
var errLong = fmt.Errorf("a line is longer than %d MiB", maxLine>>20)

// readLine is the next line, without keeping more of a long one than maxLine. A line that was cut off is none.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, errLong
		}
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
