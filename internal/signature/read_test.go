package signature

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"assay/internal/testset"
)

const head = `{"signatures":1,"torch":"2.15.0","python":"3.11.9","device":"cpu","device_name":"","system":"linux/amd64",` +
	`"double":null,"steps":3,"looked":3,"seen":40,"complete":true,"why":""}` + "\n"

// a tensor of 2 x 3, and a line around it
const (
	tensor = `{"shape":[2,3],"stride":[3,1],"offset":0,"dtype":"float32","layout":"strided","storage":6,"device":"cpu",` +
		`"range":[-1.5,2],"values":"floats","grad":true}`
	whole = `{"op":"aten::add","overload":"Tensor","phase":"forward","count":12,"first":17,"args":[{"t":` + tensor +
		`},{"t":` + tensor + `}],"kwargs":{"alpha":1},"out":[` + tensor + `],"alias":[[0,1]]}` + "\n"
)

func readAll(text string) ([]*Signature, error) {
	r, err := NewReader(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	var list []*Signature
	for {
		s, err := r.Next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
}

// with puts one thing of the whole line in another's place.
func with(old, new string) string { return strings.Replace(whole, old, new, 1) }

// TestRead: what is read is written again as it was, with every kind of value in it.
func TestRead(t *testing.T) {
	for _, arg := range []string{`null`, `true`, `3`, `-3`, `2.5`, `2.0`, `1e-05`, `1e+30`, `"a,b->c"`,
		`{"float":"nan"}`,
		`{"float":"-inf"}`, `{"complex":[1.0,{"float":"inf"}]}`, `{"dtype":"float32"}`, `{"device":"mps"}`,
		`{"layout":"strided"}`, `{"memory_format":"channels_last"}`, `{"generator":true}`, `{"symbol":"<class 'x'>"}`,
		`{"l":[]}`, `{"l":[{"l":[1,null]},{"t":{"shape":[],"stride":[],"offset":0,"dtype":"int64","layout":"strided",` +
			`"storage":1,"device":"cpu","range":[9007199254740993,9007199254740993],"values":"constant"}}]}`} {
		list, err := readAll(head + with(`{"alpha":1}`, `{"alpha":`+arg+`}`))
		if err != nil {
			t.Errorf("%s: %v", arg, err)
			continue
		}
		got, err := list[0].Kwargs["alpha"].MarshalJSON()
		if err != nil || string(got) != arg {
			t.Errorf("%s came back as %s, %v", arg, got, err)
		}
	}
}

// TestReadRefuses: each bound is met by a file that is wrong in one thing, and the error names its line.
func TestReadRefuses(t *testing.T) {
	if list, err := readAll(head + whole); err != nil || len(list) != 1 || len(list[0].Tensors()) != 2 {
		t.Fatal(list, err)
	}
	deep := strings.Repeat(`{"l":[`, MaxDepth) + strings.Repeat(`]}`, MaxDepth)
	for name, c := range map[string]struct{ text, want string }{
		"nothing":      {"", "it is empty"},
		"another file": {"PK\x03\x04\n", "line 1"},
		"no header":    {whole, `line 1 has no "signatures"`},
		"version":      {strings.Replace(head, `:1,`, `:2,`, 1), "version 2"},
		"cut off":      {head + whole[:100], "line 2: cut off"},
		"long line":    {head + with(`"Tensor"`, `"`+strings.Repeat("x", MaxLine)+`"`), "line 2: longer than"},
		"too many":     {head + strings.Repeat(whole, 3) + "[]\n", "line 5: a signature is an object"},
		"dimensions":   {head + with(`[2,3]`, `[1`+strings.Repeat(",1", MaxDims)+`]`), "more than 64 dimensions"},
		"strides":      {head + with(`[3,1]`, `[1]`), "1 strides of 2 dimensions"},
		"negative":     {head + with(`[2,3]`, `[-2,3]`), "shape"},
		"half":         {head + with(`[2,3]`, `[2.5,3]`), "shape"},
		"huge":         {head + with(`[2,3]`, `[4000000000,4000000000]`), "more elements"},
		"overflow":     {head + with(`[3,1]`, `[4611686018427387903,1]`), "element"},
		"outside":      {head + with(`"storage":6`, `"storage":5`), "element 5 of a storage of 5"},
		"offset":       {head + with(`"offset":0`, `"offset":1`), "element 6 of a storage of 6"},
		"list":         {head + with(`:1}`, `:{"l":[1`+strings.Repeat(",1", MaxList)+`]}}`), "beyond 10000"},
		"depth":        {head + with(`"alpha":1`, `"alpha":{"l":[`+deep+`]}`), "deeper than 8"},
		"op":           {head + with(`aten::add`, `__import__('os')`), "op: no name"},
		"overload":     {head + with(`"Tensor"`, `"Tensor; x"`), "overload: no name"},
		"keyword":      {head + with(`"alpha"`, `"al pha"`), "kwargs: no name"},
		"dtype":        {head + with(`"float32"`, `"../x"`), "dtype: no name"},
		"device":       {head + with(`"cpu"`, `"cpu:\u001b"`), "device: no name"},
		"phase":        {head + with(`"forward"`, `"sideways"`), "phase"},
		"count":        {head + with(`"count":12`, `"count":0`), "count"},
		"kind":         {head + with(`"alpha":1`, `"alpha":{"code":"x"}`), "no kind of value"},
		"number":       {head + with(`"alpha":1`, `"alpha":1e999`), "beyond a float64"},
		"text":         {head + with(`"alpha":1`, `"alpha":"`+strings.Repeat("x", maxText+1)+`"`), "a text of"},
		"alias":        {head + with(`[[0,1]]`, `[[0,2]]`), "alias"},
		"alias twice":  {head + with(`[[0,1]]`, `[[0,1],[1]]`), "alias"},
		"range":        {head + with(`[-1.5,2]`, `[2,-1.5]`), "the lower end first"},
		"values":       {head + with(`"values":"floats"`, `"values":"secret"`), "values: one of"},
		"two values":   {head + strings.TrimSuffix(whole, "\n") + "{}\n", "more than one value"},
	} {
		if _, err := readAll(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// lines gives one line again and again, without holding them.
type lines struct {
	head, line string
	left       int
	now        string
}

func (l *lines) Read(p []byte) (int, error) {
	if l.now == "" {
		switch {
		case l.head != "":
			l.now, l.head = l.head, ""
		case l.left == 0:
			return 0, io.EOF
		default:
			l.now = l.line
			l.left--
		}
	}
	n := copy(p, l.now)
	l.now = l.now[n:]
	return n, nil
}

// TestReadBoundsWhole: neither many signatures nor long ones make a reader go on for ever.
func TestReadBoundsWhole(t *testing.T) {
	testset.FullOnly(t) // a quarter of a gigabyte is read
	small := `{"op":"aten::x","overload":"","phase":"other","count":1,"first":0,"args":[],"kwargs":{},"out":[],` +
		`"alias":[]}` + "\n"
	long := with(`"alpha":1`, fmt.Sprintf(`"alpha":{"l":[%s1]}`, strings.Repeat(strings.Repeat(" ", 90)+"1,", 9_000)))
	for want, from := range map[string]*lines{
		"more than 200000 signatures":             {head: head, line: small, left: MaxSignatures + 1},
		"the file is longer than 268435456 bytes": {head: head, line: long, left: MaxFile/len(long) + 1},
	} {
		r, err := NewReader(from)
		for err == nil {
			_, err = r.Next()
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzParse: whatever is taken comes back the same, and keeps its identity.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Fuzz(func(t *testing.T, line string) {
		s, err := Parse([]byte(line))
		if err != nil {
			return
		}
		data, err := s.line()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		a, _ := s.Identity()
		b, _ := again.Identity()
		if a != b {
			t.Fatalf("%s became %s", a, b)
		}
	})
}
