package replay

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"assay/internal/signature"
	"assay/internal/text"
)

// Python is a call as a line of Python on MPS, of a signature that was recorded on a device; drawn: with values of all
// kinds, else with ones.
func Python(s *signature.Signature, recorded string, drawn bool) string {
	p := python{drawn: drawn, onCPU: recorded == "cpu"}
	space, name, _ := strings.Cut(s.Op, "::")
	overload := s.Overload
	if overload == "" {
		overload = "default"
	}
	var words []string
	for _, v := range s.Args {
		words = append(words, p.value(v))
	}
	for _, k := range sortedKeys(s.Kwargs) {
		words = append(words, k+"="+p.value(s.Kwargs[k]))
	}
	return fmt.Sprintf("torch.ops.%s.%s.%s(%s)", space, name, overload, strings.Join(words, ", "))
}

// python writes arguments.
type python struct {
	drawn bool
	onCPU bool // it was recorded on a CPU: tensors there are the device's
}

func (p python) value(v signature.Value) string {
	switch v.Kind {
	case signature.Bool:
		if v.Bool {
			return "True"
		}
		return "False"
	case signature.Int:
		return strconv.FormatInt(v.Int, 10)
	case signature.Float:
		return pythonFloat(v.Float)
	case signature.Text:
		return strconv.QuoteToASCII(v.Text)
	case signature.OfTensor:
		return p.tensor(v.Tensor)
	case signature.List:
		words := make([]string, len(v.List))
		for i, item := range v.List {
			words[i] = p.value(item)
		}
		return "[" + strings.Join(words, ", ") + "]"
	case signature.Complex:
		return fmt.Sprintf("complex(%s, %s)", pythonFloat(v.Complex[0]), pythonFloat(v.Complex[1]))
	case signature.Dtype, signature.Layout, signature.MemoryFormat:
		return "torch." + v.Text
	case signature.Device:
		return "'mps'"
	}
	return "None"
}

func pythonFloat(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprintf("float('%s')", strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+")))
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

func (p python) tensor(t *signature.Tensor) string {
	device := "mps"
	if t.Device == "cpu" && !p.onCPU {
		device = "cpu"
	}
	float := strings.HasPrefix(t.Dtype, "float") || t.Dtype == "bfloat16"
	fill := "ones"
	if p.drawn && float {
		fill = "randn"
	}
	rest := fmt.Sprintf("device='%s')", device)
	if t.Dtype != "float32" {
		rest = "dtype=torch." + t.Dtype + ", " + rest
	}
	if Contiguous(t) && t.Offset == 0 {
		return fmt.Sprintf("torch.%s(%s, %s", fill, pythonSizes(t.Shape), rest)
	}
	return fmt.Sprintf("torch.%s(%d, %s.as_strided(%s, %s, %d)", fill, t.Storage, rest, pythonSizes(t.Shape),
		pythonSizes(t.Stride), t.Offset)
}

func pythonSizes(sizes []int64) string {
	words := make([]string, len(sizes))
	for i, n := range sizes {
		words[i] = strconv.FormatInt(n, 10)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// Row is a finding as a row for internal/facts/rows, or as a comment that says what to change where no row can say it.
func (f Found) Row() string {
	where := f.where()
	comment := func(format string, a ...any) string {
		return "# " + text.Line(fmt.Sprintf(format, a...)) + "\n# " + text.Line(f.Call) + "\n"
	}
	switch {
	case f.Outcome == OK && f.Fact != "":
		return comment("the row %s says otherwise: it runs (%s): narrow its condition, or give it an end", f.Fact, where)
	case f.Outcome == OK:
		return comment("internal/atlas/tables: %s, %s (%s)", f.Operator, f.Why, where)
	case f.Outcome == Missing:
		return comment("internal/atlas/tables: %s is missing (%s): %s", f.Operator, where, f.Text)
	case f.Outcome == Hangs:
		return comment("%s hangs (%s), which no outcome of a row says", f.Operator, where)
	}
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s = %s\n", name, quote(value))
		}
	}
	b.WriteString("[[fact]]\n")
	word := rowOutcomes[f.Outcome]
	field("name", f.Name)
	fmt.Fprintf(&b, "meets = [%s]\n", quote(f.Operator))
	field("when", "as in the call, the smallest of "+strconv.Itoa(f.Calls)+" that were replayed")
	field("outcome", word)
	switch f.Outcome {
	case Wrong:
		field("wrong", f.Text)
	case Refused:
		kind := f.Type
		if kind == "" {
			kind = "RuntimeError"
		}
		field("error", kind)
		field("text", f.Text)
	default:
		field("text", f.Text)
	}
	release, _, _ := strings.Cut(f.Torch, "+")
	if !plainRelease(release) {
		b.WriteString("# from: torch " + text.Line(f.Torch) + " is no release\n")
		release = ""
	}
	field("from", release)
	field("source", "assay signatures replay: "+where)
	field("known", "reported")
	if f.Beside == "" { // a row's call stands beside one that does not meet it
		b.WriteString("# call: " + text.Line(f.Call) + "\n")
		return b.String()
	}
	field("call", f.Call)
	field("beside", f.Beside)
	return b.String()
}

// rowOutcomes are the words that rows have for outcomes.
var rowOutcomes = map[Outcome]string{Refused: "refused", Wrong: "wrong", Ends: "aborts"}

// row is a name for the row.
func (f Found) row() string {
	_, short, _ := strings.Cut(f.Operator, "::")
	short = strings.NewReplacer("_", "-", ".", "-").Replace(strings.Trim(short, "_"))
	word := rowOutcomes[f.Outcome]
	if word == "" {
		word = string(f.Outcome)
	}
	return strings.ToLower(short) + "-" + word + "-replayed"
}

func plainRelease(s string) bool {
	parts := strings.Split(s, ".")
	for _, p := range parts {
		if _, err := strconv.ParseUint(p, 10, 16); err != nil {
			return false
		}
	}
	return len(parts) == 3
}

// quote writes a TOML string of what anybody may have written.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text.Line(s) {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, "\\u%04X", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (f Found) where() string {
	said := []string{}
	for _, s := range []string{f.Machine.Chip, f.Machine.Model} {
		if s != "" {
			said = append(said, text.Line(s))
		}
	}
	if f.Machine.MacOS != "" {
		said = append(said, "macOS "+text.Line(f.Machine.MacOS))
	}
	return strings.Join(append(said, "torch "+text.Line(f.Torch)), ", ")
}
