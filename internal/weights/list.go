package weights

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"assay/internal/text"
	"assay/internal/unit"
)

// Schema names the version of a Listing's JSON form.
const Schema = "assay.tensors/1"

// A Listing is what `assay tensors` says: its JSON.
type Listing struct {
	Schema string   `json:"schema"`
	Files  []Listed `json:"files"`
}

// Listed is a file of a Listing.
type Listed struct {
	Path    string            `json:"path"`
	Error   string            `json:"error,omitempty"` // why it could not be read; nothing else stands then
	Format  string            `json:"format,omitempty"`
	Meta    map[string]string `json:"meta"`
	Notes   []string          `json:"notes"` // what was left out, and why; what is unusual
	Tensors []Row             `json:"tensors"`
	Totals  []Total           `json:"totals"` // of the tensors listed, by type, the largest first
}

// Row is a tensor of a Listed file.
type Row struct {
	Name     string  `json:"name"`
	DType    DType   `json:"dtype"`
	Shape    []int64 `json:"shape"`    // outermost first; empty: a scalar
	Elements int64   `json:"elements"` // numbers; of GGUF's blocks those that they stand for
	Bytes    int64   `json:"bytes"`    // of its elements, unpacked
	Where    string  `json:"where"`
	Shard    string  `json:"shard,omitempty"`
	Note     string  `json:"note,omitempty"`
	*Sum             // where they were asked for
}

// Total is what the tensors of one type come to.
type Total struct {
	DType    DType `json:"dtype"`
	Tensors  int   `json:"tensors"`
	Elements int64 `json:"elements"`
	Bytes    int64 `json:"bytes"`
}

// Named are the tensors of a file whose names fit the pattern, in which * stands for any characters, ? for one and
// [a-z] for one of those; all where it is empty.
func (f *File) Named(pattern string) ([]Tensor, error) {
	if pattern == "" {
		return f.Tensors, nil
	}
	flat := strings.NewReplacer("/", "\x00").Replace // to path.Match a slash is no character like others
	if _, err := path.Match(flat(pattern), ""); err != nil {
		return nil, err
	}
	var list []Tensor
	for _, t := range f.Tensors {
		if fits, _ := path.Match(flat(pattern), flat(t.Name)); fits {
			list = append(list, t)
		}
	}
	return list, nil
}

// RowOf is the row of a tensor.
func RowOf(t Tensor, sum *Sum) Row {
	n, _ := t.Elements() // a reader gives no tensor that has none
	return Row{t.Name, t.DType, append([]int64{}, t.Shape...), n, t.Bytes, t.Where, t.Shard, t.Note, sum}
}

// Listed begins the list of a file, without its tensors.
func (f *File) Listed() Listed {
	return Listed{Path: f.Path, Format: f.Format, Meta: f.Meta, Notes: append([]string{}, f.Notes...), Tensors: []Row{},
		Totals: []Total{}}
}

// Add takes a row into the list and its totals.
func (l *Listed) Add(r Row) {
	l.Tensors = append(l.Tensors, r)
	i := slices.IndexFunc(l.Totals, func(t Total) bool { return t.DType == r.DType })
	if i < 0 {
		i = len(l.Totals)
		l.Totals = append(l.Totals, Total{DType: r.DType})
	}
	t := &l.Totals[i]
	t.Tensors, t.Elements, t.Bytes = t.Tensors+1, t.Elements+r.Elements, t.Bytes+r.Bytes
}

// Sort brings the totals into their order.
func (l *Listed) Sort() {
	slices.SortStableFunc(l.Totals, func(a, b Total) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.DType, b.DType))
	})
}

// JSON writes the record.
func (l *Listing) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(l)
}

// A Table writes tensors as lines of text, each as it comes: whoever reads may have seen enough.
type Table struct {
	w           io.Writer
	name, shape int // widths
	sums        bool
	err         error
}

// mostMeta is how many lines what a file says of itself has: a module that was pickled whole says some for each part.
const mostMeta = 40

// NewTable writes what a file says of itself, and the head of the table of tensors of which Row is called next. sums:
// it has columns for them.
func NewTable(w io.Writer, f *File, tensors []Tensor, sums bool, width int) *Table {
	t := &Table{w: w, name: len("name"), shape: len("shape"), sums: sums}
	var b strings.Builder
	head := fmt.Sprintf("%s: %s, %s", f.Path, f.Format, count(len(f.Tensors), "tensor"))
	b.WriteString(text.Wrapped(head, "", "  ", width))
	keys := slices.Sorted(maps.Keys(f.Meta))
	more := len(keys) - mostMeta
	if more > 0 {
		keys = keys[:mostMeta]
	}
	for _, key := range keys {
		value := text.Short(f.Meta[key], max(width, 60)) // one line: a chat template is a page
		fmt.Fprintf(&b, "  %s = %s\n", text.Short(key, 100), value)
	}
	if more > 0 {
		fmt.Fprintf(&b, "  and %d more, in --json\n", more)
	}
	for _, note := range f.Notes {
		b.WriteString(text.Wrapped(note, "  note: ", "    ", width))
	}
	if len(tensors) > 0 {
		for _, one := range tensors {
			t.name = max(t.name, utf8.RuneCountInString(one.Name))
			t.shape = max(t.shape, utf8.RuneCountInString(shapeText(one.Shape)))
		}
		t.name = min(t.name, maxNameColumn)
		b.WriteString("\n")
		b.WriteString(t.line("name", "shape", "type", "size", "min .. max", "mean ± std", "zero", "NaN", "Inf",
			"sha256"))
	}
	t.write(b.String())
	return t
}

// maxNameColumn is how wide the column of names becomes: a longer name is whole, and pushes what follows.
const maxNameColumn = 80

func (t *Table) line(name, shape, kind, size, span, mean, zeros, nan, inf, sum string) string {
	line := fmt.Sprintf("%-*s  %-*s  %-7s  %9s", t.name, name, t.shape, shape, kind, size)
	if t.sums {
		line += fmt.Sprintf("  %-24s  %-21s  %8s  %6s  %5s  %s", span, mean, zeros, nan, inf, sum)
	}
	return strings.TrimRight(line, " ") + "\n"
}

// Row writes a line.
func (t *Table) Row(r Row) error {
	var span, mean, zeros, nan, inf, digest string
	if r.Sum != nil {
		digest = r.SHA256[:min(12, len(r.SHA256))]
		if s := r.Stats; s != nil {
			zeros, nan, inf = fmt.Sprint(s.Zeros), fmt.Sprint(s.NaN), fmt.Sprint(s.Inf)
			if s.Min != nil {
				span = digits(*s.Min) + " .. " + digits(*s.Max)
			}
			if s.Mean != nil && s.Std != nil {
				mean = fmt.Sprintf("%.4g ± %.4g", *s.Mean, *s.Std)
			}
		} else {
			span = r.Why
		}
	}
	line := t.line(text.Line(r.Name), shapeText(r.Shape), string(r.DType), unit.Bytes(float64(r.Bytes)), span, mean,
		zeros, nan, inf, digest)
	if r.Note != "" {
		line = strings.TrimSuffix(line, "\n") + "  " + r.Note + "\n"
	}
	t.write(line)
	return t.err
}

// digits is a number as a table has it: that of a float with five digits.
func digits(n json.Number) string {
	if !strings.ContainsAny(n.String(), ".e") {
		return n.String()
	}
	v, _ := n.Float64()
	return fmt.Sprintf("%.5g", v)
}

// shapeText is a shape as a table has it.
func shapeText(shape []int64) string {
	if len(shape) == 0 {
		return "scalar"
	}
	return joined(shape, "×")
}

// End writes the totals.
func (t *Table) End(l Listed) error {
	var b strings.Builder
	b.WriteString("\n")
	for _, total := range l.Totals {
		fmt.Fprintf(&b, "%s: %s, %s, %s\n", total.DType, count(total.Tensors, "tensor"),
			count(int(total.Elements), "element"), unit.Bytes(float64(total.Bytes)))
	}
	if len(l.Totals) == 0 {
		b.WriteString("no tensor\n")
	}
	t.write(b.String())
	return t.err
}

func (t *Table) write(s string) {
	if t.err == nil {
		_, t.err = io.WriteString(t.w, text.Lines(s))
	}
}

// count is a number of things, with commas between its thousands.
func count(n int, thing string) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if n != 1 {
		thing += "s"
	}
	return digits + " " + thing
}
