package weights

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/fault"
	"assay/internal/hdf5"
)

// hdf5Format is an .h5 of any kind; which Keras wrote it, if one did, is told by what lies in it.
var hdf5Format = format{
	name: "HDF5 (.weights.h5, .h5)",
	is: func(head []byte, name string) bool {
		return bytes.HasPrefix(head, []byte(hdf5.Signature)) || // behind a block of the user's there is the name alone
			strings.HasSuffix(name, ".h5") || strings.HasSuffix(name, ".hdf5")
	},
	open: func(f *os.File, size int64) (*File, error) {
		file, err := readHDF5(f, size, "")
		if err != nil {
			return nil, err
		}
		file.Closers = append(file.Closers, f)
		return file, nil
	},
}

// kerasFormat is a .keras of Keras 3: a zip with config.json, metadata.json and model.weights.h5.
var kerasFormat = format{
	name: "Keras (.keras)",
	is: func(head []byte, name string) bool {
		return bytes.HasPrefix(head, []byte("PK\x03\x04")) && strings.HasSuffix(name, ".keras")
	},
	open: openKeras,
}

// Bounds for texts within a .keras, and for weights that are packed there. Keras stores them as they are, and weights
// hardly pack: what unpacks to more than a gigabyte and sixteen times the file is no model.
const (
	mostConfig   = 64 << 20
	mostUnpacked = 1 << 30
	mostPacked   = 16
)

func openKeras(f *os.File, size int64) (*File, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, fmt.Errorf("its zip: %w", err)
	}
	members := map[string]*zip.File{}
	for _, m := range z.File {
		if members[m.Name] != nil {
			return nil, fmt.Errorf("its zip has %q twice", m.Name)
		}
		members[m.Name] = m
	}
	meta := map[string]string{}
	if text, err := member(members["metadata.json"]); err != nil {
		return nil, err
	} else if text != nil {
		var said struct {
			Version string `json:"keras_version"`
			Saved   string `json:"date_saved"`
		}
		if err := json.Unmarshal(text, &said); err != nil {
			return nil, fmt.Errorf("metadata.json: %w", err)
		}
		keep(meta, "keras", said.Version)
		keep(meta, "saved", said.Saved)
	}
	config, err := member(members["config.json"])
	if err != nil {
		return nil, err
	}
	keep(meta, "config", string(config))
	m := members["model.weights.h5"]
	if m == nil {
		err := errors.New("its zip has no model.weights.h5")
		if members["model.weights.json"] != nil {
			return nil, fault.Hint(err, "its weights are in several files: save them as one .weights.h5")
		}
		return nil, err
	}
	var file *File
	where := m.Name + ", "
	if m.Method == zip.Store {
		at, err := m.DataOffset()
		if err != nil {
			return nil, err
		}
		if n := m.UncompressedSize64; n > uint64(size) || uint64(at) > uint64(size)-n {
			return nil, fmt.Errorf("%s: %d bytes at %d lie beyond the file, which has %d", m.Name, n, at, size)
		}
		n := int64(m.UncompressedSize64)
		file, err = readHDF5(io.NewSectionReader(f, at, n), n, where)
		if err != nil {
			return nil, err
		}
	} else if file, err = unpackKeras(m, where, size); err != nil {
		return nil, err
	}
	file.Closers = append(file.Closers, f)
	file.Format = "keras"
	for key, value := range meta {
		file.Meta[key] = value
	}
	return file, nil
}

// member gives a small text of a zip; nil where it is not there.
func member(m *zip.File) ([]byte, error) {
	if m == nil {
		return nil, nil
	}
	r, err := m.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, mostConfig+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	if len(text) > mostConfig {
		return nil, fmt.Errorf("%s: it is larger than %d bytes", m.Name, mostConfig)
	}
	return text, nil
}

// unpackKeras unpacks weights that the zip has packed into a temporary file that has no name.
func unpackKeras(m *zip.File, where string, size int64) (file *File, err error) {
	n := m.UncompressedSize64
	if n > mostUnpacked && n/mostPacked > uint64(size) {
		return nil, fault.Hint(fmt.Errorf("%s: it says to unpack to %d bytes from %d", m.Name, n, size),
			"unpack it by hand, where you trust it, and name model.weights.h5 itself")
	}
	r, err := m.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	defer r.Close()
	temporary, err := os.CreateTemp("", "assay-keras-")
	if err != nil {
		return nil, err
	}
	os.Remove(temporary.Name()) // it lives on while it is open, and no longer, however assay ends
	defer func() {
		if err != nil {
			temporary.Close()
		}
	}()
	if _, err := io.Copy(temporary, io.LimitReader(r, int64(n)+1)); err != nil { // zip holds it to its size and sum
		return nil, fmt.Errorf("unpacking %s to a temporary file: %w", m.Name, err)
	}
	if file, err = readHDF5(temporary, int64(n), where); err != nil {
		return nil, err
	}
	file.Closers = append(file.Closers, temporary)
	return file, nil
}

// dtypesOfHDF5 are the names of types by those that the reader of HDF5 has.
var dtypesOfHDF5 = map[string]DType{
	"bool": Bool,
	"int8": I8, "int16": I16, "int32": I32, "int64": I64, "uint8": U8, "uint16": U16, "uint32": U32, "uint64": U64,
	"float16": F16, "bfloat16": BF16, "float32": F32, "float64": F64, "complex64": C64, "complex128": C128,
}

// layerPrefix begins a key of File.Meta: behind it stands a group, and the value is the layer's own name.
const layerPrefix = "layer:"

// readHDF5 reads a file of Keras's, or any other; where stands before the places of tensors. Meta has, of what the file
// says: "keras", its version; "backend"; "config", the model's configuration as JSON; and for each group of a layer
// "layer:GROUP", the layer's own name.
func readHDF5(r io.ReaderAt, size int64, where string) (*File, error) {
	h, err := hdf5.Open(r, size)
	if err != nil {
		return nil, err
	}
	file := &File{Format: "hdf5", Meta: map[string]string{}, Notes: h.Notes}
	for _, d := range h.Datasets {
		t, err := tensorOfHDF5(d, where)
		if err != nil {
			return nil, err
		}
		if t.DType.Size() == 0 {
			file.Notes = append(file.Notes, fmt.Sprintf("%q is left out, it has no numbers: %s datatype of %d bytes at %#x",
				d.Path, d.Type.Name, d.Type.Size, d.Address))
			continue
		}
		file.Tensors = append(file.Tensors, t)
	}
	k := kerasFile{file: file, place: map[string]int{}}
	for _, g := range h.Groups {
		if err := k.group(g); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(file.Tensors, k.compare)
	return file, nil
}

func tensorOfHDF5(d *hdf5.Dataset, where string) (Tensor, error) {
	t := Tensor{
		Name: d.Path, DType: DType(d.Type.Name), Shape: d.Shape, Bytes: d.Bytes,
		Where: where + d.Where(), Open: d.Open,
	}
	var notes []string
	if d.Link != "" {
		notes = append(notes, fmt.Sprintf("a soft link to %s", d.Link))
	}
	if d.Null {
		notes = append(notes, "it has no elements")
		t.Shape = []int64{0}
	}
	switch dtype, number := dtypesOfHDF5[d.Type.Name]; {
	case number && d.Type.Number():
		t.DType = dtype
	case d.Type.Name == "opaque" && d.Type.Size == 2:
		// h5py knows no bfloat16: Keras writes two opaque bytes, and says in an attribute what they are.
		said, _, err := d.Text("dtype")
		if err != nil {
			return t, err
		}
		if said == "bfloat16" {
			t.DType = BF16
		}
	}
	if d.Type.Big {
		notes = append(notes, "big-endian")
	}
	if d.Type.Enum {
		notes = append(notes, "an enumeration")
	}
	if layout := d.Layout(); layout != "contiguous" {
		notes = append(notes, layout)
	}
	if d.Wrong != "" {
		notes = append(notes, "not read here: "+d.Wrong)
	}
	t.Note = strings.Join(notes, "; ")
	return t, nil
}

// A kerasFile is what Keras says beside the tensors.
type kerasFile struct {
	file  *File
	place map[string]int // of a layer's group and of a weight, by path: as the file's lists have them
}

// group reads what Keras says of a group.
func (k *kerasFile) group(g *hdf5.Object) error {
	attributes, err := g.Attributes()
	if err != nil {
		return err
	}
	meta := k.file.Meta
	for i := range attributes {
		a := &attributes[i]
		name, part := attributeBase(a.Name)
		switch {
		case g.Path != "" && g.Path != "model_weights" && name != "weight_names" && name != "name":
			continue
		case a.Null || a.Type.Name != "string" && a.Type.Name != "strings":
			continue // an empty list is one of numbers
		}
		switch name {
		case "keras_version", "backend", "model_config", "name", "layer_names", "weight_names":
		default:
			continue
		}
		texts, err := a.Strings()
		if err != nil {
			return fmt.Errorf("%s: %w", g.Path, err)
		}
		switch name {
		case "layer_names":
			k.file.Format = "keras"
			for i, layer := range texts {
				group := path.Join(g.Path, layer)
				meta[layerPrefix+group] = layer
				k.place[group] = part<<32 + i + 1
			}
			continue
		case "weight_names":
			for i, weight := range texts {
				k.place[path.Join(g.Path, weight)] = part<<32 + i + 1
			}
			continue
		}
		if len(texts) != 1 {
			continue
		}
		switch name {
		case "keras_version":
			k.file.Format = "keras"
			keep(meta, "keras", texts[0])
		case "backend", "model_config":
			keep(meta, strings.TrimPrefix(name, "model_"), texts[0])
		case "name":
			if path.Base(g.Path) == "vars" {
				meta[layerPrefix+strings.TrimPrefix(path.Dir("/"+g.Path), "/")] = texts[0]
			}
		}
	}
	if path.Base(g.Path) == "vars" {
		k.file.Format = "keras"
	}
	return nil
}

// attributeBase takes the number off the name of a list that Keras has split, since it would be too long for one
// attribute: "layer_names0", "layer_names1".
func attributeBase(name string) (string, int) {
	base := strings.TrimRight(name, "0123456789")
	if base != "layer_names" && base != "weight_names" {
		return name, 0
	}
	part, _ := strconv.Atoi(name[len(base):])
	return base, min(part, 1<<20)
}

// compare orders tensors as Keras made them where the file says how, and else by name, numbers by their size.
func (k *kerasFile) compare(a, b Tensor) int {
	if len(k.place) == 0 {
		return naturally(a.Name, b.Name)
	}
	x, y := strings.Split(a.Name, "/"), strings.Split(b.Name, "/")
	for i := 0; i < min(len(x), len(y)); i++ {
		if x[i] == y[i] {
			continue
		}
		// A weight's own place is that of its whole path, a layer's that of its group.
		p, q := k.place[strings.Join(x[:i+1], "/")], k.place[strings.Join(y[:i+1], "/")]
		if p == 0 && q == 0 {
			p, q = k.place[a.Name], k.place[b.Name]
		}
		switch {
		case p != 0 && q != 0 && p != q:
			return p - q
		case p != 0 && q == 0:
			return -1
		case p == 0 && q != 0:
			return 1
		}
		break
	}
	return naturally(a.Name, b.Name)
}

var runsOfDigits = regexp.MustCompile(`[0-9]+|[^0-9]+`)

// naturally compares names so that conv2d_2 comes before conv2d_10.
func naturally(a, b string) int {
	x, y := runsOfDigits.FindAllString(a, -1), runsOfDigits.FindAllString(b, -1)
	for i := range min(len(x), len(y)) {
		m, merr := strconv.ParseUint(x[i], 10, 64)
		n, nerr := strconv.ParseUint(y[i], 10, 64)
		if merr == nil && nerr == nil && m != n {
			if m < n {
				return -1
			}
			return 1
		}
		if c := strings.Compare(x[i], y[i]); c != 0 {
			return c
		}
	}
	return len(x) - len(y)
}

func keep(meta map[string]string, key, value string) {
	if value != "" {
		meta[key] = value
	}
}

// Layer says to which layer a tensor of a file of Keras's belongs: its group, and its own name where the file says it.
// The variable is what is left of the path behind the group.
func (f *File) Layer(tensor string) (group, layer string, ok bool) {
	for group = path.Dir(tensor); group != "."; group = path.Dir(group) {
		if layer, ok := f.Meta[layerPrefix+group]; ok {
			return group, layer, true
		}
	}
	if layer, ok := f.Meta[layerPrefix]; ok && path.Dir(tensor) == "vars" { // variables of the model itself
		return "", layer, true
	}
	return "", "", false
}
