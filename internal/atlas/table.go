package atlas

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// State says how an operator overload is carried out on MPS in one release. Its value is the letter that stands in the
// tables.
type State byte

// The states, with the letter of the tables.
const (
	Native   State = 'N' // a kernel of its own is registered for MPS
	Composed State = 'C' // written in terms of other operators, which need kernels
	CPU      State = 'F' // registered to run on the CPU, whether or not PYTORCH_ENABLE_MPS_FALLBACK is set
	Raises   State = 'X' // registered only to raise an error
	NoStub   State = 'S' // registered for MPS, by way of a dispatch stub that has no MPS function: raises
	// no kernel: raises NotImplementedError, or runs on the CPU under PYTORCH_ENABLE_MPS_FALLBACK=1
	Missing   State = '-'
	Undefined State = '.' // the release has no such operator
	Unknown   State = '?' // not read from the library
)

// String is the word for a state.
func (s State) String() string {
	switch s {
	case Native:
		return "native"
	case Composed:
		return "composed"
	case CPU:
		return "on the CPU"
	case Raises:
		return "raises"
	case NoStub:
		return "stub missing"
	case Missing:
		return "missing"
	case Undefined:
		return "not there"
	case Unknown:
		return "unknown"
	}
	return "state " + string(rune(s))
}

// Table is a text with an operator a line and a release a column. A column is named by its series (2.8) when all its
// patch releases agree, which releases.txt lists; a patch release that departs has a column of its own.
type Table struct {
	Head    string   // what the comment at its top says, without "# "
	Columns []string // in the order of releases
	Rows    []Row    // by name
}

// Row is an operator with a letter for each column.
type Row struct {
	Name  string
	Cells string // as long as the table has columns
}

// ParseTable reads a table.
func ParseTable(text []byte) (*Table, error) {
	t := &Table{}
	var head strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if comment, ok := strings.CutPrefix(line, "#"); ok {
			head.WriteString(strings.TrimPrefix(comment, " ") + "\n")
			continue
		}
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case t.Columns == nil:
			t.Columns = fields[1:]
		default:
			row := Row{Name: fields[0], Cells: strings.Join(fields[1:], "")}
			if len(row.Cells) != len(t.Columns) || len(fields)-1 != len(t.Columns) {
				return nil, fmt.Errorf("line %d: %s has %d cells for %d releases", n, row.Name, len(fields)-1,
					len(t.Columns))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	t.Head = head.String()
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if !slices.IsSortedFunc(t.Rows, func(a, b Row) int { return strings.Compare(a.Name, b.Name) }) {
		return nil, fmt.Errorf("its lines are not sorted by operator")
	}
	return t, nil
}

// row finds an operator's row.
func (t *Table) row(name string) (int, bool) {
	return slices.BinarySearchFunc(t.Rows, name, func(r Row, n string) int { return strings.Compare(r.Name, n) })
}

// Column returns the cells of one release, by operator; nil when there is no such column.
func (t *Table) Column(name string) map[string]byte {
	i := slices.Index(t.Columns, name)
	if i < 0 {
		return nil
	}
	cells := make(map[string]byte, len(t.Rows))
	for _, r := range t.Rows {
		cells[r.Name] = r.Cells[i]
	}
	return cells
}

// SetColumn puts a release into the table, anew or in place of what stood there. absent is the letter of operators that
// the column lacks.
func (t *Table) SetColumn(name string, cells map[string]byte, absent byte) {
	all := map[string][]byte{}
	at, found := slices.BinarySearchFunc(t.Columns, name, CompareReleases)
	for _, r := range t.Rows {
		row := []byte(r.Cells)
		if !found {
			row = slices.Insert(row, at, absent)
		}
		row[at] = absent
		all[r.Name] = row
	}
	if !found {
		t.Columns = slices.Insert(t.Columns, at, name)
	}
	for op, cell := range cells {
		if all[op] == nil {
			all[op] = bytes.Repeat([]byte{absent}, len(t.Columns))
		}
		all[op][at] = cell
	}
	t.Rows = t.Rows[:0]
	for op, row := range all {
		if len(bytes.Trim(row, string(rune(absent)))) > 0 {
			t.Rows = append(t.Rows, Row{op, string(row)})
		}
	}
	slices.SortFunc(t.Rows, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
}

// WriteTo writes the table as ParseTable reads it.
func (t *Table) WriteTo(w io.Writer) (int64, error) {
	var out bytes.Buffer
	for line := range strings.Lines(t.Head) {
		out.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	width := len("operator")
	for _, r := range t.Rows {
		width = max(width, utf8.RuneCountInString(r.Name))
	}
	fmt.Fprintf(&out, "%-*s", width, "operator")
	for _, c := range t.Columns {
		out.WriteString("  " + c)
	}
	out.WriteString("\n")
	for _, r := range t.Rows {
		fmt.Fprintf(&out, "%-*s", width, r.Name)
		for i, c := range t.Columns {
			fmt.Fprintf(&out, "  %*c", len(c), r.Cells[i])
		}
		out.WriteString("\n")
	}
	return out.WriteTo(w)
}
