package convert

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/layout"
	"assay/internal/weights"
)

// A cell is one direction of one layer of a recurrent network. Its gates lie in one tensor: of an LSTM input, forget,
// cell and output in each framework; of a GRU reset, update and new in PyTorch and MLX, update, reset and new in Keras.
// Sources: torch.nn.LSTM and GRU (Variables), keras.layers.LSTMCell and GRUCell (call), mlx.nn.LSTM and GRU (__call__),
// and the outputs of the three (TestRecurrentAreTheFrameworks).
type cell struct {
	framework layout.Framework
	path      string // of the module, in its framework's writing
	layer     int    // of those that PyTorch stacks in one module
	reverse   bool
	parts     map[string]weights.Tensor // by what PyTorch calls them without the layer; MLX's b and bhn, Keras's bias
	gates     int                       // 1: a plain one, 3: a GRU, 4: an LSTM
	width     int64                     // of the state
}

const (
	inputs     = "weight_ih"
	states     = "weight_hh"
	inputBias  = "bias_ih"
	stateBias  = "bias_hh"
	soleBias   = "bias"
	newBias    = "bhn" // MLX's, of a GRU
	projection = "weight_hr"
)

var (
	torchCell = regexp.MustCompile(`^(?:(.*)\.)?(weight_ih|weight_hh|weight_hr|bias_ih|bias_hh)_l(\d{1,4})(_reverse)?$`)
	stackedAs = regexp.MustCompile(`^(?:(.*)[./])?l(\d{1,4})(_reverse)?$`)
	kerasCell = regexp.MustCompile(`^(?:lstm|gru|simple_rnn)_cell(?:_\d+)?$`)
	cellKinds = map[int]string{1: "a simple recurrent layer", 3: "a GRU", 4: "an LSTM"}
	mlxParts  = map[string]string{"Wx": inputs, "Wh": states, "Wxh": inputs, "Whh": states, "bias": soleBias,
		"b": soleBias, "bhn": newBias}
	kerasParts = map[string]string{"kernel": inputs, "recurrent_kernel": states, "bias": soleBias,
		"0": inputs, "1": states, "2": soleBias} // numbers: the order in which they are built
)

// cells are the recurrent layers of a file, in the order of its tensors: those that have the names of PyTorch's,
// Keras's or MLX's for both kernels.
func cells(f *weights.File) []*cell {
	found := map[string]*cell{}
	var all []*cell
	for _, t := range f.Tensors {
		c, part, ok := cellOf(f, t.Name)
		if !ok {
			continue
		}
		key := fmt.Sprint(c.framework, "\x00", c.path, "\x00", c.layer, c.reverse)
		if found[key] == nil {
			c.parts = map[string]weights.Tensor{}
			found[key] = &c
			all = append(all, &c)
		}
		found[key].parts[part] = t
	}
	return slices.DeleteFunc(all, func(c *cell) bool {
		_, i := c.parts[inputs]
		_, s := c.parts[states]
		return c.framework != layout.Torch && !(i && s) // PyTorch's names are of nothing else
	})
}

// cellOf says which cell a tensor would be of, and what of it.
func cellOf(f *weights.File, name string) (c cell, part string, ok bool) {
	if m := torchCell.FindStringSubmatch(name); m != nil {
		layer, _ := strconv.Atoi(m[3])
		return cell{framework: layout.Torch, path: m[1], layer: layer, reverse: m[4] != ""}, m[2], true
	}
	folder, last := cutLast(name, ".")
	if part, ok = mlxParts[last]; ok && !strings.Contains(name, "/") {
		c = cell{framework: layout.MLX, path: folder}
		c.unstack()
		return c, part, true
	}
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "model_weights/"), ":")
	folder, last = cutLast(name, "/")
	if part, ok = kerasParts[last]; !ok {
		return c, "", false
	}
	c = cell{framework: layout.Keras, path: folder}
	if group, numbered := strings.CutSuffix(folder, "/cell/vars"); numbered {
		c.path = group
		if inner := f.Meta["layer:"+group+"/cell"]; inner != "" && !kerasCell.MatchString(inner) {
			return c, "", false // a cell of the user's own
		}
		c.direction()
		if layer := f.Meta["layer:"+c.path]; layer != "" {
			c.path = layer
		}
		return c, part, true
	}
	if _, err := strconv.Atoi(last); err == nil {
		return c, "", false
	}
	if before, inner := cutLast(c.path, "/"); kerasCell.MatchString(inner) {
		c.path = before
		c.direction()
		c.path = folded(c.path)
		return c, part, true
	} else if strings.HasSuffix(inner, "cell") {
		return c, "", false // as above
	}
	c.unstack()
	return c, part, true
}

func cutLast(name, separator string) (before, last string) {
	at := strings.LastIndex(name, separator)
	return name[:max(at, 0)], name[at+1:]
}

// direction takes the name of one of Keras's Bidirectional off the path: forward_layer, forward_lstm_1.
func (c *cell) direction() {
	before, last := cutLast(c.path, "/")
	switch {
	case strings.HasPrefix(last, "forward_"):
		c.path = before
	case strings.HasPrefix(last, "backward_"):
		c.path, c.reverse = before, true
	}
}

// unstack takes the layer and direction off a path, as name writes them.
func (c *cell) unstack() {
	if m := stackedAs.FindStringSubmatch(c.path); m != nil {
		c.path, c.reverse = m[1], m[3] != ""
		c.layer, _ = strconv.Atoi(m[2])
	}
}

// name is that of a part in a framework: PyTorch's lstm.weight_ih_l1_reverse is lstm.l1_reverse.Wx in MLX and
// lstm/l1_reverse/kernel in Keras; of a sole layer lstm.Wx and lstm/kernel.
func (c *cell) name(to layout.Framework, part string, sole bool) string {
	path := c.path
	if c.framework == layout.Keras && to != layout.Keras {
		path = strings.ReplaceAll(path, "/", ".")
	} else if c.framework != layout.Keras && to == layout.Keras {
		path = strings.ReplaceAll(path, ".", "/")
	}
	at := "l" + strconv.Itoa(c.layer)
	if c.reverse {
		at += "_reverse"
	}
	separator := "."
	var words []string
	if path != "" {
		words = append(words, path)
	}
	switch to {
	case layout.Torch:
		return strings.Join(append(words, part+"_"+at), ".")
	case layout.Keras:
		separator = "/"
		part = map[string]string{inputs: "kernel", states: "recurrent_kernel"}[part]
		if part == "" {
			part = "bias"
		}
	case layout.MLX:
		as := map[string]string{inputs: "Wx", states: "Wh", soleBias: "bias"}
		switch c.gates {
		case 1:
			as = map[string]string{inputs: "Wxh", states: "Whh", soleBias: "bias"}
		case 3:
			as = map[string]string{inputs: "Wx", states: "Wh", soleBias: "b", newBias: "bhn"}
		}
		part = as[part]
	}
	if !sole {
		words = append(words, at)
	}
	return strings.Join(append(words, part), separator)
}

// settle finds how many gates a cell has, and says by which tensor and why it cannot be converted.
func (c *cell) settle(all []*cell) (tensor, why string) {
	wx, hasInputs := c.parts[inputs]
	wh, hasStates := c.parts[states]
	if p, ok := c.parts[projection]; ok {
		return p.Name, "it projects the state (proj_size), which Keras's and MLX's layers do not"
	}
	for part, there := range map[string]bool{inputs: hasInputs, states: hasStates} {
		if !there {
			return c.any(), c.name(c.framework, part, false) + ", which is of the same layer, is not there"
		}
	}
	if len(wx.Shape) != 2 || len(wh.Shape) != 2 {
		return wh.Name, "it is no recurrent layer of two kernels with two dimensions each: " + layout.Text(wh.Shape)
	}
	rows, columns, across := wh.Shape[0], wh.Shape[1], wx.Shape[0]
	if c.framework == layout.Keras {
		rows, columns, across = wh.Shape[1], wh.Shape[0], wx.Shape[1]
	}
	if columns < 1 || rows%columns != 0 || cellKinds[int(rows/columns)] == "" {
		return wh.Name, "its shape " + layout.Text(wh.Shape) + " is that of no LSTM, GRU or simple recurrent layer"
	}
	c.gates, c.width = int(rows/columns), columns
	if across != rows {
		return wx.Name, fmt.Sprintf("its shape %s does not go with %s of %s", layout.Text(wx.Shape),
			layout.Text(wh.Shape), wh.Name)
	}
	for _, part := range slices.Sorted(maps.Keys(c.parts)) {
		t := c.parts[part]
		want := []int64{rows}
		switch {
		case part == inputs || part == states:
			continue
		case part == newBias:
			want = []int64{columns}
		case part == soleBias && c.framework == layout.Keras && c.gates == 3:
			if slices.Equal(t.Shape, want) {
				return t.Name, "it has one bias: a GRU with reset_after=False, which neither PyTorch nor MLX computes"
			}
			want = []int64{2, rows}
		}
		if !slices.Equal(t.Shape, want) {
			return t.Name, fmt.Sprintf("its shape is %s, and %s of this width has %s", layout.Text(t.Shape),
				cellKinds[c.gates], layout.Text(want))
		}
		if t.DType != wx.DType {
			return t.Name, fmt.Sprintf("it is of type %s, and %s of %s", t.DType, wx.Name, wx.DType)
		}
	}
	return c.whole(all)
}

// any is the name of one of a cell's tensors.
func (c *cell) any() string { return c.parts[slices.Min(slices.Collect(maps.Keys(c.parts)))].Name }

// whole says what a cell, or the stack that it is of, lacks.
func (c *cell) whole(all []*cell) (tensor, why string) {
	has := func(part string) bool { _, ok := c.parts[part]; return ok }
	wx := c.parts[inputs]
	switch {
	case c.framework == layout.Torch && has(inputBias) != has(stateBias):
		return wx.Name, "of its two biases one is not there"
	case c.framework == layout.MLX && c.gates == 3 && has(soleBias) != has(newBias):
		return wx.Name, "of its biases b and bhn one is not there"
	case c.framework == layout.Keras && c.gates == 3 && !has(soleBias):
		return wx.Name, "a GRU without a bias does not say whether it has reset_after, and without that it is another"
	}
	if c.framework != layout.Torch {
		return "", ""
	}
	directions := int64(1)
	var below *cell
	for _, o := range all {
		if o.framework != c.framework || o.path != c.path {
			continue
		}
		if _, biased := o.parts[inputBias]; biased != has(inputBias) {
			return wx.Name, "another layer of its module has biases, and it has none, or the other way round"
		}
		if o.layer == c.layer && o.reverse != c.reverse {
			directions = 2
		}
		if o.layer == c.layer-1 && o.reverse == c.reverse {
			below = o
		}
	}
	switch {
	case c.layer == 0:
		return "", ""
	case below == nil:
		return wx.Name, fmt.Sprintf("its module has no layer %d in this direction", c.layer-1)
	case wx.Shape[1] != c.width*directions:
		return wx.Name, fmt.Sprintf("it takes %d inputs, and the layer below it gives %d", wx.Shape[1], c.width*directions)
	}
	return "", ""
}

// recurrent plans the recurrent layers of a file that no rule of the user's names.
func (p *Plan) recurrent() {
	if p.From == p.To || p.From == "" {
		return
	}
	all := cells(p.file)
	all = slices.DeleteFunc(all, func(c *cell) bool {
		told := c.framework != p.From
		for _, t := range c.parts {
			told = told || find(p.opts.Kinds, t.Name) != nil
		}
		return told
	})
	stacked := map[string]int{}
	for _, c := range all {
		stacked[c.path]++
	}
	for _, c := range all {
		for _, t := range c.parts {
			p.taken[t.Name] = true
		}
		if tensor, why := c.settle(all); why != "" {
			p.Refused = append(p.Refused, Unmade{Name: tensor, Why: why,
				Tell: "--kind '" + tensor + "=plain' copies it as it is"})
			continue
		}
		p.addCell(c, stacked[c.path] == 1 && c.layer == 0 && !c.reverse)
	}
	if len(p.summed) > 0 {
		p.Notes = append(p.Notes, "the sum of two biases, rounded once, since "+string(p.To)+
			" has one; the way back gives the sum and zeros: "+few(p.summed))
	}
}

// addCell plans the tensors of a cell.
func (p *Plan) addCell(c *cell, sole bool) {
	why := cellKinds[c.gates] + "'s, by the names of its tensors"
	turned := c.gates == 3 && (p.From == layout.Keras) != (p.To == layout.Keras)
	for _, part := range []string{inputs, states} {
		t := c.parts[part]
		said := why
		pieces := []piece{{t, 0, t.Bytes}}
		if turned {
			said += "; its gates r, z, n and z, r, n exchanged"
			if p.From == layout.Keras {
				swapped := swapColumns(t)
				pieces = []piece{{swapped, 0, swapped.Bytes}}
			} else {
				pieces = exchanged(cut(t, 3))
			}
		}
		p.add([]weights.Tensor{t}, pieces, t.Shape, c.name(p.To, part, sole), layout.Dense, nil, said)
	}
	of, byInput, byState := c.biases()
	if len(of) == 0 {
		return
	}
	vector := func(part, said string, pieces ...piece) {
		shape := []int64{0}
		for _, piece := range pieces {
			shape[0] += piece.bytes / of[0].DType.Size()
		}
		if p.To == layout.Keras && c.gates == 3 {
			shape = []int64{2, shape[0] / 2}
		}
		p.add(of, pieces, shape, c.name(p.To, part, sole), layout.Vector, nil, said)
	}
	switch {
	case p.To == layout.Torch:
		vector(inputBias, why, byInput...)
		vector(stateBias, why, byState...)
	case p.To == layout.Keras && c.gates == 3:
		vector(soleBias, why, append(exchanged(byInput), exchanged(byState)...)...)
	default:
		summed := c.gates // of a GRU of MLX's the bias of the new gate stays apart
		if c.gates == 3 {
			summed = 2
		}
		sums := slices.Clone(byInput)
		said := why
		if c.framework == layout.Torch || c.gates == 3 && c.framework == layout.Keras {
			if !floats[of[0].DType] {
				p.Refused = append(p.Refused, Unmade{Name: of[0].Name, Why: "two biases become one, and " +
					string(of[0].DType) + " is not summed"})
				return
			}
			for i := range summed {
				sums[i] = p.sum(byInput[i], byState[i])
			}
			said += ", the sum of two"
			p.summed = append(p.summed, c.name(p.To, soleBias, sole))
		}
		vector(soleBias, said, sums...)
		if c.gates == 3 {
			vector(newBias, why, byState[2])
		}
	}
}

// biases are those of a cell by gate, in PyTorch's order, as it adds them to the inputs and to the state; none: nil.
func (c *cell) biases() (of []weights.Tensor, byInput, byState []piece) {
	if t, ok := c.parts[inputBias]; ok {
		other := c.parts[stateBias]
		return []weights.Tensor{t, other}, cut(t, int64(c.gates)), cut(other, int64(c.gates))
	}
	t, ok := c.parts[soleBias]
	if !ok {
		return nil, nil, nil
	}
	none := zeros(t.DType, c.width)
	for range c.gates {
		byState = append(byState, piece{none, 0, none.Bytes})
	}
	switch of = []weights.Tensor{t}; {
	case c.gates == 3 && c.framework == layout.Keras:
		all := cut(t, 6)
		return of, exchanged(all[:3]), exchanged(all[3:])
	case c.gates == 3:
		last := c.parts[newBias]
		byState[2] = piece{last, 0, last.Bytes}
		of = append(of, last)
	}
	return of, cut(t, int64(c.gates)), byState
}

// spoken is the framework whose names all recurrent layers of a file have; "": there are none, or of several.
func spoken(f *weights.File) (one layout.Framework) {
	for _, c := range cells(f) {
		if one != "" && one != c.framework {
			return ""
		}
		one = c.framework
	}
	return one
}

// cut gives n equal pieces of a tensor's outermost elements.
func cut(t weights.Tensor, n int64) (pieces []piece) {
	size := t.Bytes / n
	for i := range n {
		pieces = append(pieces, piece{t, i * size, size})
	}
	return pieces
}

// exchanged are the gates of a GRU in the other order.
func exchanged(of []piece) []piece { return []piece{of[1], of[0], of[2]} }

// swapColumns is a kernel of a GRU, in × out, whose first two gates are exchanged in each row.
func swapColumns(t weights.Tensor) weights.Tensor {
	open := t.Open
	third := t.Shape[1] / 3 * t.DType.Size()
	t.Open = func() (io.ReadCloser, error) {
		r, err := open()
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{newColumns(r, int(third)), r}, nil
	}
	return t
}

func newColumns(in io.Reader, third int) *columns {
	return &columns{in: in, raw: make([]byte, 3*third), row: make([]byte, 3*third), third: third}
}

// columns gives rows of three parts whose first two are exchanged.
type columns struct {
	in       io.Reader
	raw, row []byte
	third    int
	left     []byte
}

func (c *columns) Read(p []byte) (int, error) {
	if len(c.left) == 0 {
		if _, err := io.ReadFull(c.in, c.raw); err != nil {
			return 0, err
		}
		copy(c.row, c.raw[c.third:2*c.third])
		copy(c.row[c.third:], c.raw[:c.third])
		copy(c.row[2*c.third:], c.raw[2*c.third:])
		c.left = c.row
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

func zeros(dtype weights.DType, n int64) weights.Tensor {
	t := weights.Tensor{Name: "zeros", DType: dtype, Shape: []int64{n}, Bytes: n * dtype.Size()}
	t.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(make([]byte, t.Bytes))), nil }
	return t
}

// sum is two pieces of one float type added, each element rounded once; where one is zero, the other as it is.
func (p *Plan) sum(a, b piece) piece {
	dtype := a.tensor.DType
	t := weights.Tensor{Name: a.tensor.Name, DType: dtype, Shape: []int64{a.bytes / dtype.Size()}, Bytes: a.bytes}
	t.Open = func() (io.ReadCloser, error) {
		x, err := wholePiece(a)
		if err != nil {
			return nil, err
		}
		y, err := wholePiece(b)
		if err != nil {
			return nil, err
		}
		for i, size := 0, int(dtype.Size()); i < len(x); i += size {
			addFloat(dtype, x[i:i+size], y[i:i+size])
		}
		return io.NopCloser(bytes.NewReader(x)), nil
	}
	return piece{t, 0, t.Bytes}
}

func wholePiece(of piece) ([]byte, error) {
	r, err := openPieces([]piece{of})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := make([]byte, of.bytes)
	_, err = io.ReadFull(r, data)
	return data, err
}

// addFloat adds b to a.
func addFloat(dtype weights.DType, a, b []byte) {
	little := binary.LittleEndian
	read := func(x []byte) float64 {
		switch dtype {
		case weights.F64:
			return math.Float64frombits(little.Uint64(x))
		case weights.F32:
			return float64(math.Float32frombits(little.Uint32(x)))
		case weights.BF16:
			return float64(math.Float32frombits(uint32(little.Uint16(x)) << 16))
		}
		return fromHalf(little.Uint16(x))
	}
	x, y := read(a), read(b)
	switch {
	case y == 0:
		return
	case x == 0:
		copy(a, b)
		return
	}
	switch dtype {
	case weights.F64:
		little.PutUint64(a, math.Float64bits(x+y))
	case weights.F32:
		little.PutUint32(a, math.Float32bits(float32(x+y)))
	case weights.BF16:
		little.PutUint16(a, toNarrow(x+y, 8, 7))
	default:
		little.PutUint16(a, toNarrow(x+y, 5, 10))
	}
}
