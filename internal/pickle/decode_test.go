package pickle

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"

	"assay/internal/fault"
)

func load(s string) (Value, error) {
	return NewDecoder(strings.NewReader(s), 0, Options{Classes: true}).Load()
}

// said writes a value as testdata/make.py does.
func said(v Value) string {
	list := func(open string, items []Value, closed string) string {
		words := make([]string, len(items))
		for i, item := range items {
			words[i] = said(item)
		}
		return open + strings.Join(words, ", ") + closed
	}
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case int64:
		return strconv.FormatInt(v, 10)
	case *big.Int:
		return v.String()
	case float64:
		return hexFloat(v)
	case complex128:
		return "complex " + hexFloat(real(v)) + " " + hexFloat(imag(v))
	case string:
		return "text " + hex.EncodeToString([]byte(v))
	case []byte:
		return "bytes " + hex.EncodeToString(v)
	case *List:
		return list("[", v.Items, "]")
	case *Tuple:
		return list("(", v.Items, ")")
	case *Set:
		return list("<", v.Items, ">")
	case *Dict:
		words := make([]string, len(v.Keys))
		for i, key := range v.Keys {
			words[i] = said(key) + ": " + said(v.Values[i])
		}
		return "{" + strings.Join(words, ", ") + "}"
	}
	return fmt.Sprintf("%T", v)
}

// hexFloat is Python's float.hex.
func hexFloat(f float64) string {
	if f == 0 {
		return "0x0.0p+0"
	}
	fraction, exponent := math.Frexp(math.Abs(f))
	bits := math.Float64bits(fraction) & (1<<52 - 1)
	sign := ""
	if f < 0 {
		sign = "-"
	}
	return fmt.Sprintf("%s0x1.%013xp%+d", sign, bits, exponent-1)
}

// TestValues: what CPython pickled, in each protocol, is what is read.
func TestValues(t *testing.T) {
	text, err := os.ReadFile("testdata/values.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	if len(lines) < 250 {
		t.Fatalf("%d pickles", len(lines))
	}
	for _, line := range lines {
		parts := strings.SplitN(line, "\t", 3)
		raw, err := base64.StdEncoding.DecodeString(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		v, err := load(string(raw))
		if err != nil {
			t.Errorf("protocol %s, %s: %v", parts[0], parts[2][:min(80, len(parts[2]))], err)
		} else if got := said(v); got != parts[2] {
			t.Errorf("protocol %s: got %s, CPython pickled %s", parts[0], got, parts[2])
		}
	}
}

// TestRefused: pickles that would run something are refused by the name that they ask for, at its byte.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		what, pickle, name string
		offset             int64
		danger             Danger
	}{
		{"REDUCE of os.system", "cos\nsystem\n(S'id'\ntR.", "os.system", 0, RunsCode},
		{"behind a value", "\x80\x02}q\x00X\x01\x00\x00\x00acposix\nsystem\nX\x02\x00\x00\x00id\x85Rs.",
			"posix.system", 11, RunsCode},
		{"INST", "(S'id'\nios\nsystem\n.", "os.system", 7, RunsCode},
		{"OBJ", "(cos\nsystem\nS'id'\no.", "os.system", 1, RunsCode},
		{"NEWOBJ", "csubprocess\nPopen\n(S'id'\nt\x81.", "subprocess.Popen", 0, RunsCode},
		{"NEWOBJ_EX", "\x80\x04\x8c\x0asubprocess\x8c\x05Popen\x93)}\x92.", "subprocess.Popen", 21, RunsCode},
		{"STACK_GLOBAL from the memo", "\x80\x04\x8c\x06system\x94\x8c\x02os\x94h\x01h\x00\x93\x8c\x02id\x85R.",
			"os.system", 20, RunsCode},
		{"STACK_GLOBAL of a dotted name", "\x80\x04\x8c\x02os\x8c\x0bpath.system\x93.", "os.path.system", 19, RunsCode},
		{"eval", "cbuiltins\neval\n(S'1'\ntR.", "builtins.eval", 0, RunsCode},
		{"eval of Python 2", "c__builtin__\neval\n(S'1'\ntR.", "builtins.eval", 0, RunsCode},
		{"exec", "\x80\x02cbuiltins\nexec\nX\x01\x00\x00\x001\x85R.", "builtins.exec", 2, RunsCode},
		{"getattr as a gadget", "cbuiltins\ngetattr\n(c__main__\nX\nS'a'\ntR.", "builtins.getattr", 0, Gadget},
		{"operator", "coperator\nattrgetter\n(S'a'\ntR.", "operator.attrgetter", 0, Gadget},
		{"open", "cbuiltins\nopen\n(S'/etc/passwd'\ntR.", "builtins.open", 0, Reaches},
		{"a socket", "csocket\nsocket\n)R.", "socket.socket", 0, Reaches},
		{"only mentioned", "cos\nsystem\n.", "os.system", 0, RunsCode},
		{"BUILD with __setstate__", "ccollections\nOrderedDict\n)R}S'__setstate__'\ncos\nsystem\nsbS'id'\nb.",
			"os.system", 44, RunsCode},
		{"runpy", "crunpy\n_run_code\n)R.", "runpy._run_code", 0, RunsCode},
		{"a nested pickle", "cpickle\nloads\n(S'cos\\nsystem\\n.'\ntR.", "pickle.loads", 0, RunsCode},
		{"importlib", "cimportlib\nimport_module\n(S'os'\ntR.", "importlib.import_module", 0, RunsCode},
		{"torch.hub", "ctorch.hub\nload\n)R.", "torch.hub.load", 0, RunsCode},
		{"an unknown function", "cmine\nrebuild\n)R.", "mine.rebuild", 15, NotListed},
	} {
		_, err := load(c.pickle)
		var refusal *Refusal
		if !errors.As(err, &refusal) {
			t.Errorf("%s: got %v", c.what, err)
			continue
		}
		if refusal.Name != c.name || refusal.Offset != c.offset || refusal.Danger != c.danger {
			t.Errorf("%s: got %+v, want %s at %d, %s", c.what, *refusal, c.name, c.offset, c.danger)
		}
		if fault.HintOf(err) == "" || !strings.Contains(err.Error(), "nothing of it was run") {
			t.Errorf("%s: %v does not say what to do", c.what, err)
		}
	}
}

// TestUnknownClass: an object of an unknown class is named, with its attributes; without leave for that it is refused.
func TestUnknownClass(t *testing.T) {
	const pickled = "\x80\x02cmine\nNet\n)\x81}X\x01\x00\x00\x00aK\x01sb."
	v, err := load(pickled)
	if err != nil {
		t.Fatal(err)
	}
	object, ok := v.(*Object)
	if !ok || object.Class != "mine.Net" {
		t.Fatalf("got %#v", v)
	}
	if a, found := object.Attribute("a"); !found || a != int64(1) {
		t.Errorf("attribute a: %v", a)
	}
	_, err = NewDecoder(strings.NewReader(pickled), 100, Options{}).Load()
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Name != "mine.Net" || refusal.Offset != 102 || refusal.Danger != NotListed {
		t.Errorf("got %v", err)
	}
}

// TestListed: what trainers keep beside weights is an object with its arguments.
func TestListed(t *testing.T) {
	for pickled, want := range map[string]string{
		"c__builtin__\nxrange\n(I1\nI5\ntR.":                            "builtins.range(1, 5)",
		"c__builtin__\nslice\n(I1\nI5\nNtR.":                            "builtins.slice(1, 5, None)",
		"cargparse\nNamespace\n)R.":                                     "argparse.Namespace()",
		"cpathlib\nPosixPath\n(S'/'\nS'a'\ntR.":                         "pathlib.PosixPath(/, a)",
		"cpathlib._local\nPosixPath\n(S'a'\ntR.":                        "pathlib.PosixPath(a)",
		"ccopy_reg\n_reconstructor\n(cm\nX\nc__builtin__\nobject\nNtR.": "m.X()",
		"cmy.enums\nMode\n(I1\ntR.":                                     "my.enums.Mode(1)",
	} {
		v, err := load(pickled)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		object, ok := v.(*Object)
		if !ok {
			t.Errorf("%s: got %T", want, v)
			continue
		}
		if args, _ := Text(&Tuple{object.Args}, 100); object.Class+args != want {
			t.Errorf("got %s%s, want %s", object.Class, args, want)
		}
	}
}

// TestMalformed: each is one error that says where.
func TestMalformed(t *testing.T) {
	many := strings.Repeat
	for what, c := range map[string]struct{ pickle, says string }{
		"nothing":                    {"", "ends at byte 0"},
		"no STOP":                    {"K\x01", "ends at byte 2"},
		"an empty stack":             {".", "0 values"},
		"two values":                 {"NN.", "2 values"},
		"an open mark":               {"(N.", "1 values"},
		"an unknown operation":       {"\xff.", "0xff"},
		"protocol 9":                 {"\x80\x09N.", "protocol 9"},
		"POP of nothing":             {"0.", "where there is none"},
		"a tuple without a mark":     {"t.", "mark"},
		"a tuple from below a mark":  {"N(\x85.", "where there is none"},
		"GET of nothing":             {"h\x05.", "entry 5"},
		"EXT":                        {"\x82\x01.", "extension code"},
		"PERSID":                     {"Pthing\n.", "outside of it"},
		"BINPERSID":                  {"NQ.", "outside of it"},
		"a buffer":                   {"\x97.", "outside of it"},
		"a call of a text":           {"S'os.system'\n)R.", "it calls a text"},
		"a call of an object":        {"cm\nX\n)R)R.", "object of m.X"},
		"arguments that are none":    {"cm\nX\nNR.", "None for arguments"},
		"a length without content":   {"B\xff\xff\xff\x0f.", "ends at byte"},
		"a length beyond the bound":  {"B\xff\xff\xff\xff.", "256 MiB"},
		"a length of 2^63":           {"\x8d\x00\x00\x00\x00\x00\x00\x00\x80.", "length"},
		"an integer of 16 MiB":       {"\x8b\x00\x00\x00\x01.", "1024 bytes"},
		"an integer of 5000 digits":  {"I" + many("9", 5000) + "\n.", "4300 digits"},
		"an integer that is none":    {"Iabc\n.", "no number"},
		"a list that is set by key":  {"]NNs.", "adds to a list"},
		"a dict that is appended to": {"}Na.", "adds to a dict"},
		"a key without a value":      {"}(Nu.", "no value"},
		"the state of a number":      {"K\x01Nb.", "state of a number"},
		"a text without quotes":      {"Sabc\n.", "quotes"},
		"a name of numbers":          {"K\x01K\x02\x93.", "no text"},
		"a dtype of nothing":         {"cnumpy\ndtype\n)R.", "no arguments"},
		"an array too large": {"cnumpy.core.multiarray\n_reconstruct\n)R(K\x01(I99\nt" +
			"cnumpy\ndtype\n(S'f4'\ntRI00\nS'abcd'\ntb.", "it needs 396"},
	} {
		_, err := load(c.pickle)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", what, err, c.says)
		}
	}
}

// TestBounds: what a few bytes would make large is refused. The Decoder is as if nearly all had been spent before.
func TestBounds(t *testing.T) {
	// a list of 100 entries, which is copied 100 times
	copies := "(" + strings.Repeat("N", 100) + "lp0\n0(" + strings.Repeat("cbuiltins\nset\ng0\n\x85R", 100) + "l."
	// a text of 1000 bytes, of which bytes are made 100 times
	text := "X\xe8\x03\x00\x00" + strings.Repeat("a", 1000) + "q\x000(" +
		strings.Repeat("c_codecs\nencode\nh\x00\x85R", 100) + "l."
	for what, c := range map[string]struct {
		pickle     string
		operations int
		text       int64
		says       string
	}{
		"operations":      {strings.Repeat("N0", 100) + "N.", maxOperations - 100, 0, "operations"},
		"copies":          {copies, maxOperations - 5000, 0, "operations"},
		"bytes of a text": {text, 0, maxText - 50000, "256 MiB"},
		"lines":           {strings.Repeat("S'aaaaaaaa'\n0", 100) + "N.", 0, maxText - 500, "256 MiB"},
	} {
		d := NewDecoder(strings.NewReader(c.pickle), 0, Options{})
		d.memo, d.operations, d.text = map[int64]Value{}, c.operations, c.text
		if _, err := d.load(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := load(c.pickle); err != nil {
			t.Errorf("%s, alone: %v", what, err)
		}
	}
}

// TestSelfReference: a list within itself, and lists that double, are read as Python would, and printed within bounds.
func TestSelfReference(t *testing.T) {
	v, err := load("]q\x00h\x00a.")
	if err != nil {
		t.Fatal(err)
	}
	if list := v.(*List); list.Items[0] != v {
		t.Error("the list does not hold itself")
	}
	if text, ok := Text(v, 100); ok {
		t.Errorf("it is text: %s", text)
	}
	laughs := "]q\x00K\x01a0"
	for i := range 60 {
		laughs += fmt.Sprintf("(h%ch%clq%c0", i, i, i+1)
	}
	if _, err := load(laughs + "h\x3c."); err != nil {
		t.Error(err)
	}
	// as keys, they are compared by what they are and not by what they hold
	if _, err := load("}" + strings.Replace(laughs, "]", "]", 1) + "h\x3c\x85Ns."); err != nil {
		t.Error(err)
	}
}

// TestText cuts what is long, at the end of a character.
func TestText(t *testing.T) {
	got, ok := Text(strings.Repeat("é", 100), 5)
	if !ok || got != "éé…" {
		t.Errorf("got %q", got)
	}
	if got, _ := Text(&List{[]Value{int64(1), "a", 0.5, nil}}, 100); got != "[1, a, 0.5, None]" {
		t.Errorf("got %q", got)
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{"cos\nsystem\n(S'id'\ntR.",
		"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00]\x94(K\x01e.",
		"}(S'a'\nI1\nu.", "cmine\nNet\n)\x81}b.", "(F1.5\nL5L\nVa\\u0041\nS'\\x41'\nt.",
		"\x8b\x02\x00\x00\x00\xff\x7f.",
		"cnumpy\ndtype\n(S'f4'\ntR.", "ccollections\nOrderedDict\n](S'a'\nI1\nlaR."} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d := NewDecoder(strings.NewReader(string(raw)), 0, Options{Classes: true,
			Persistent: func(id Value) (Value, error) { return id, nil }})
		v, err := d.Load()
		if err == nil {
			Text(v, 100)
			if d.Offset() > int64(len(raw)) {
				t.Errorf("it ends at byte %d of %d", d.Offset(), len(raw))
			}
		}
	})
}
