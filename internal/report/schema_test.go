package report

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"assay/internal/evidence"
)

const schemaPath = "../../docs/formats/evidence.schema.json"

func schemaDoc(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile(schemaPath)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return doc.(map[string]any)
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("evidence.json", schemaDoc(t)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("evidence.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The schema and the Go types say the same: the same fields, the same ones required, the same types.
func TestSchemaMatchesTypes(t *testing.T) {
	doc := schemaDoc(t)
	used := map[string]bool{}
	compareStruct(t, doc, doc, reflect.TypeFor[evidence.Run](), "$", used)
	for name := range doc["$defs"].(map[string]any) {
		if !used["#/$defs/"+name] {
			t.Errorf("definition %s is used by no type", name)
		}
	}
}

func compareStruct(t *testing.T, doc, schema map[string]any, typ reflect.Type, at string, used map[string]bool) {
	t.Helper()
	if schema["additionalProperties"] != false {
		t.Errorf("%s: additionalProperties is not false", at)
	}
	props, _ := schema["properties"].(map[string]any)
	var names, required []string
	for _, f := range reflect.VisibleFields(typ) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" { // its fields stand among these
			continue
		}
		if len(f.Index) > 1 && typ.Field(f.Index[0]).Tag.Get("json") != "" { // of one that has a name
			continue
		}
		if name == "-" { // never written
			continue
		}
		names = append(names, name)
		if opts != "omitempty" && opts != "omitzero" {
			required = append(required, name)
		}
		sub, ok := props[name].(map[string]any)
		if !ok {
			t.Errorf("%s.%s: not in the schema", at, name)
			continue
		}
		compareType(t, doc, sub, f.Type, at+"."+name, used)
	}
	for name := range props {
		if !slices.Contains(names, name) {
			t.Errorf("%s.%s: in the schema, and in no type", at, name)
		}
	}
	var got []string
	for _, r := range schema["required"].([]any) {
		got = append(got, r.(string))
	}
	sort.Strings(got)
	sort.Strings(required)
	if !slices.Equal(got, required) {
		t.Errorf("%s: schema requires %v, the type writes always %v", at, got, required)
	}
}

func compareType(t *testing.T, doc, schema map[string]any, typ reflect.Type, at string, used map[string]bool) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		target, ok := doc["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		if !ok {
			t.Errorf("%s: %s leads nowhere", at, ref)
			return
		}
		used[ref] = true
		compareType(t, doc, target, typ, at, used)
		return
	}
	if schema["description"] == nil && !strings.HasSuffix(at, "[]") {
		t.Errorf("%s: no description", at)
	}
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	want := map[reflect.Kind]string{reflect.Struct: "object", reflect.Map: "object", reflect.Slice: "array",
		reflect.String: "string",
		reflect.Int:    "integer", reflect.Int64: "integer", reflect.Float64: "number",
		reflect.Bool: "boolean"}[typ.Kind()]
	if typ == reflect.TypeFor[time.Time]() {
		want = "string"
	}
	switch has := schema["type"].(type) {
	case nil:
		if schema["enum"] == nil && schema["const"] == nil {
			t.Errorf("%s: no type", at)
		}
	case string:
		if has != want {
			t.Errorf("%s: schema says %s, the type is %s", at, has, want)
		}
	case []any:
		if has[0] != want {
			t.Errorf("%s: schema says %v, the type is %s", at, has, want)
		}
	}
	switch {
	case typ == reflect.TypeFor[time.Time]():
	case typ.Kind() == reflect.Struct:
		compareStruct(t, doc, schema, typ, at, used)
	case typ.Kind() == reflect.Slice:
		compareType(t, doc, schema["items"].(map[string]any), typ.Elem(), at+"[]", used)
	}
}

// fullRun has every field set, so that no branch of the schema goes unread.
func fullRun() *evidence.Run {
	run := &evidence.Run{}
	populate(reflect.ValueOf(run).Elem(), "")
	run.Schema, run.Kind = evidence.Schema, evidence.KindRun
	return run
}

func populate(v reflect.Value, field string) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(epoch0))
		return
	case reflect.TypeFor[evidence.Figure]():
		v.Set(reflect.ValueOf(evidence.Figure{Name: "a.b", Value: ptr(1.5), Unit: "s", Low: ptr(1.0), High: ptr(2.0),
			N:     3,
			Basis: evidence.Rehearsed, Window: "steady", Note: "note"}))
		return
	case reflect.TypeFor[evidence.Basis]():
		v.SetString("declared")
		return
	case reflect.TypeFor[evidence.State]():
		v.SetString("default")
		return
	case reflect.TypeFor[evidence.Severity]():
		v.SetString("note")
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			populate(v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		populate(v.Elem(), field)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		populate(v.Index(0), field)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("K"), reflect.ValueOf("v"))
	case reflect.String:
		v.SetString("x")
		if field == "Kind" {
			v.SetString("sync")
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(2)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Bool:
		v.SetBool(true)
	}
}

func encode(t *testing.T, run *evidence.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := (JSON{}).Write(&b, run); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func validate(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

func TestJSONIsValid(t *testing.T) {
	s := compiled(t)
	runs := samples()
	runs["full"] = fullRun()
	runs["empty"] = evidence.NewRun("empty")
	for name, run := range runs {
		if err := validate(t, s, encode(t, run)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	for name, run := range samples() {
		data := encode(t, run)
		var back evidence.Run
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again := encode(t, &back); !bytes.Equal(data, again) {
			t.Errorf("%s: reading and writing again changes the record", name)
		}
	}
}

// What is not finite cannot be written in JSON: a figure becomes unknown with the reason, a loss becomes null.
func TestJSONNotFinite(t *testing.T) {
	run := digitsRun()
	*run.Figures[0].Value = math.NaN()
	run.Loss.Value[3] = ptr(math.Inf(1))
	data := encode(t, run)
	if err := validate(t, compiled(t), data); err != nil {
		t.Error(err)
	}
	var back evidence.Run
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if f := back.Figures[0]; f.Known() || f.Missing == "" || f.Low != nil {
		t.Errorf("NaN became %+v", f)
	}
	if back.Loss.Value[3] != nil {
		t.Error("an infinite loss has a value")
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := compiled(t)
	for name, spoil := range map[string]func(*evidence.Run){
		"another version":           func(r *evidence.Run) { r.Schema = "assay.evidence/3" },
		"value and missing":         func(r *evidence.Run) { r.Figures[0].Missing = "why" },
		"neither value nor missing": func(r *evidence.Run) { r.Figures[0] = evidence.Figure{Name: "a", Unit: "s"} },
		"value without basis":       func(r *evidence.Run) { r.Figures[0].Basis = "" },
		"unit that is no base unit": func(r *evidence.Run) { r.Figures[0].Unit = "ms" },
		"basis of its own":          func(r *evidence.Run) { r.Figures[0].Basis = "guessed" },
		"quartile alone":            func(r *evidence.Run) { r.Figures[0].High = nil },
		"kind of step":              func(r *evidence.Run) { r.Steps.Kind[0] = "odd" },
		"severity":                  func(r *evidence.Run) { r.Findings[0].Severity = "fatal" },
	} {
		run := digitsRun()
		spoil(run)
		if validate(t, s, encode(t, run)) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	extra := bytes.Replace(encode(t, digitsRun()), []byte("{\n"), []byte("{\n \"extra\": 1,\n"), 1)
	if validate(t, s, extra) == nil {
		t.Error("an unknown field: accepted")
	}
}
