package weights

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"assay/internal/fault"
	"assay/internal/pickle"
)

// Bounds of what is named: a value may stand in many places of a pickle, each of which is a place of its own.
const (
	maxPlaces   = 1 << 20
	maxNames    = 256 // of one tensor
	maxDepth    = 100
	maxMeta     = 2000     // values kept as text
	maxMetaText = 200      // bytes of each
	maxName     = 1000     // bytes of a tensor's name
	maxPaths    = 64 << 20 // bytes of the names of all places
)

// A torchWalk goes through what a pickle holds, and names its tensors by where they stand.
type torchWalk struct {
	file    *File
	names   map[string]bool
	on      map[pickle.Value]bool // on the way to where the walk is
	barren  map[pickle.Value]bool // gone through before, and without a tensor in it
	named   map[pickle.Value]int  // in how many places a tensor stands
	places  int
	paths   int // bytes
	left    int // values that are not kept as text
	classes map[string]int
}

// nameTensors names the tensors that lie in root, by dotted paths; one that is root itself has the file's name. What is
// no tensor is kept as text.
func nameTensors(root pickle.Value, name string, file *File) (*File, error) {
	w := &torchWalk{file: file, names: map[string]bool{}, on: map[pickle.Value]bool{}, barren: map[pickle.Value]bool{},
		named: map[pickle.Value]int{}, classes: map[string]int{}}
	path := ""
	switch root.(type) {
	case *torchView, *torchStrange, *pickle.Array:
		path = name
	}
	if err := w.walk(path, root, 0, ""); err != nil {
		return nil, err
	}
	if w.left > 0 {
		file.Notes = append(file.Notes, fmt.Sprintf("%d values that are no tensors are not shown", w.left))
	}
	if len(w.classes) > 0 {
		names := slices.Sorted(maps.Keys(w.classes))
		more := ""
		if len(names) > 20 {
			names, more = names[:20], fmt.Sprintf(" and %d more", len(names)-20)
		}
		file.Notes = append(file.Notes, "objects of these classes were read by their attributes, and nothing of them "+
			"was run: "+strings.Join(names, ", ")+more)
	}
	return file, nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// walk names what lies in v. note is what is to be said of a tensor there.
func (w *torchWalk) walk(path string, v pickle.Value, depth int, note string) error {
	if w.places++; w.places > maxPlaces {
		return fmt.Errorf("its values stand in more than %d places", maxPlaces)
	}
	if w.paths += len(path); w.paths > maxPaths {
		return fmt.Errorf("the names of its values have more than %d MiB", maxPaths>>20)
	}
	if len(path) > maxName {
		return fmt.Errorf("a name in it has more than %d bytes", maxName)
	}
	if depth > maxDepth {
		return fmt.Errorf("its values lie more than %d deep in one another", maxDepth)
	}
	switch v := v.(type) {
	case *torchView, *pickle.Array:
		if w.named[v]++; w.named[v] > maxNames {
			return fmt.Errorf("one of its tensors stands in more than %d places", maxNames)
		}
		if view, ok := v.(*torchView); ok {
			w.addView(path, view, note)
		} else {
			w.addArray(path, v.(*pickle.Array))
		}
		return nil
	case *torchStrange:
		w.note(path + " is a " + v.kind + ": left out")
		w.file.leave(path, v.kind)
		return nil
	case *pickle.Dict, *pickle.List, *pickle.Tuple, *pickle.Set, *pickle.Object:
		if w.on[v] || w.barren[v] { // it refers to itself
			return nil
		}
		w.on[v] = true
		before := len(w.file.Tensors)
		err := w.walkInside(path, v, depth+1, note)
		delete(w.on, v)
		w.barren[v] = len(w.file.Tensors) == before
		return err
	case *torchType:
		for name, known := range torchTypes {
			if known == *v {
				w.meta(path, "torch."+name)
			}
		}
		return nil
	case *torchWord:
		w.meta(path, v.name)
		return nil
	case *torchStorage:
		w.note(join(path, "a storage without a tensor: left out"))
		return nil
	}
	if text, ok := pickle.Text(v, maxMetaText); ok {
		w.meta(path, text)
	}
	return nil
}

func (w *torchWalk) walkInside(path string, v pickle.Value, depth int, note string) error {
	switch v := v.(type) {
	case *pickle.Dict:
		for i, key := range v.Keys {
			if err := w.walk(join(path, keyText(key)), v.Values[i], depth, note); err != nil {
				return err
			}
		}
		// what an OrderedDict was given as attributes: _metadata of a state dict says versions of modules
		if more, ok := v.Attributes.(*pickle.Dict); ok {
			for i, key := range more.Keys {
				if key == "_metadata" {
					continue
				}
				if err := w.walk(join(path, keyText(key)), more.Values[i], depth, "an attribute"); err != nil {
					return err
				}
			}
		}
		return nil
	case *pickle.List:
		return w.walkItems(path, v, v.Items, depth, note)
	case *pickle.Tuple:
		return w.walkItems(path, v, v.Items, depth, note)
	case *pickle.Set:
		return w.walkItems(path, v, v.Items, depth, note)
	case *pickle.Object:
		return w.walkObject(path, v, depth, note)
	}
	return nil
}

func (w *torchWalk) walkItems(path string, whole pickle.Value, items []pickle.Value, depth int,
	note string) error {
	if text, ok := pickle.Text(whole, maxMetaText); ok { // plain values alone
		w.places += len(items)
		w.meta(path, text)
		return nil
	}
	for i, item := range items {
		if err := w.walk(join(path, strconv.Itoa(i)), item, depth, note); err != nil {
			return err
		}
	}
	return nil
}

// walkObject goes through the attributes of an object whose class is unknown. Those of a torch.nn.Module are named as
// its state_dict would: parameters, buffers, then the modules in it.
func (w *torchWalk) walkObject(path string, o *pickle.Object, depth int, note string) error {
	if !strings.HasPrefix(o.Class, "__torch__.") && len(w.classes) < 1000 { // TorchScript's own are told of already
		w.classes[text200(o.Class)]++
	}
	if o.Class == "torch.ScriptObject" {
		w.file.leave(path, "TorchScript object, in which quantised layers keep their weights")
	}
	done := map[string]bool{}
	_, isModule := o.Attribute("_modules")
	if isModule {
		w.file.Meta[join(path, "__class__")] = text200(o.Class) // its kind says what its weights are
		fleeting := map[string]bool{}
		if names, found := o.Attribute("_non_persistent_buffers_set"); found {
			if set, ok := names.(*pickle.Set); ok {
				for _, name := range set.Items {
					fleeting[pickleText(name)] = true
				}
			}
			done["_non_persistent_buffers_set"] = true
		}
		done["_flat_weights"] = true // of an LSTM or GRU: its parameters once more
		for _, part := range []string{"_parameters", "_buffers", "_modules"} {
			done[part] = true
			held, _ := o.Attribute(part)
			named, ok := held.(*pickle.Dict)
			if !ok {
				continue
			}
			for i, key := range named.Keys {
				if named.Values[i] == nil { // a bias that there is not
					continue
				}
				note := note
				if part == "_buffers" && fleeting[pickleText(key)] {
					note = "a buffer that state_dict leaves out"
				}
				if err := w.walk(join(path, keyText(key)), named.Values[i], depth, note); err != nil {
					return err
				}
			}
		}
	}
	states := []pickle.Value{o.State}
	if pair, ok := o.State.(*pickle.Tuple); ok {
		states = pair.Items
	}
	for _, state := range states {
		attributes, ok := state.(*pickle.Dict)
		if !ok {
			continue
		}
		for i, key := range attributes.Keys {
			name := keyText(key)
			if done[name] {
				continue
			}
			note := note
			if isModule {
				if _, plain := pickle.Text(attributes.Values[i], 1); plain && strings.HasPrefix(name, "_") {
					continue // _is_full_backward_hook: torch's own, which says nothing of weights
				}
				note = "an attribute that state_dict leaves out"
			}
			if err := w.walk(join(path, name), attributes.Values[i], depth, note); err != nil {
				return err
			}
		}
	}
	if o.Items != nil {
		if err := w.walk(path, o.Items, depth, note); err != nil {
			return err
		}
	}
	if o.List != nil {
		if err := w.walk(path, o.List, depth, note); err != nil {
			return err
		}
	}
	if o.State == nil && o.Items == nil && o.List == nil {
		if text, ok := pickle.Text(&pickle.Tuple{Items: o.Args}, maxMetaText); ok { // pathlib.PosixPath('a', 'b')
			w.meta(path, o.Class+text)
			return nil
		}
	}
	for i, arg := range o.Args {
		if err := w.walk(join(path, "args."+strconv.Itoa(i)), arg, depth, note); err != nil {
			return err
		}
	}
	return nil
}

// keyText is how a key stands in a path.
func keyText(key pickle.Value) string {
	switch k := key.(type) {
	case string:
		return printable(k)
	case *pickle.Object:
		return "<" + text200(k.Class) + ">"
	}
	if text, ok := pickle.Text(key, maxMetaText); ok {
		return printable(text)
	}
	return "<key>"
}

func text200(s string) string { return printable(s[:min(len(s), 200)]) }

// printable is a name as text that is valid: what is not UTF-8 is marked.
func printable(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func (w *torchWalk) meta(path, text string) {
	if path == "" {
		path = "value"
	}
	if len(w.file.Meta) >= maxMeta {
		w.left++
		return
	}
	if _, taken := w.file.Meta[path]; !taken {
		w.file.Meta[path] = printable(text)
	}
}

// note is kept of a hundred; the last says that there are more.
func (w *torchWalk) note(text string) {
	switch n := len(w.file.Notes); {
	case n < 100:
		w.file.Notes = append(w.file.Notes, text)
	case n == 100:
		w.file.Notes = append(w.file.Notes, "more of the kind are not listed")
	}
}

func (w *torchWalk) addView(path string, v *torchView, note string) {
	notes := []string{note}
	t := Tensor{DType: v.dtype, Shape: v.shape}
	if v.odd != "" {
		t.Where = "nowhere"
		notes = append(notes, v.odd+", without data")
		odd := v.odd
		t.Open = func() (io.ReadCloser, error) {
			return nil, fault.Hint(fmt.Errorf("it is a %s: %w", odd, ErrNoData),
				"load and save it with torch")
		}
		w.add(path, t, notes)
		return
	}
	n, _ := Product(v.shape)
	t.Bytes = n * v.size
	record := v.storage.record
	begin := v.storage.start + v.offset*v.size
	t.Where = record.where
	if begin > 0 {
		t.Where += fmt.Sprintf(" + %d", begin)
	}
	if !contiguous(v.shape, v.strides) {
		notes = append(notes, fmt.Sprintf("a view with strides %v", v.strides))
	}
	if record.big {
		notes = append(notes, "big-endian")
	}
	if record.stream != nil {
		notes = append(notes, "compressed")
	}
	if n > 0 {
		if record.users != "" {
			notes = append(notes, "shares its storage with "+record.users)
		} else {
			record.users = path
		}
	}
	t.Open = func() (io.ReadCloser, error) { return v.open(record, begin, t.Bytes) }
	w.add(path, t, notes)
}

func (w *torchWalk) addArray(path string, a *pickle.Array) {
	kind, ok := numpyType(a)
	if !ok {
		w.note(path + " is a numpy array of type " + a.DType.String() + ": left out")
		w.file.leave(path, "numpy array of type "+a.DType.String())
		return
	}
	notes := []string{"a numpy array"}
	v := &torchView{torchType: kind, shape: a.Shape, strides: make([]int64, len(a.Shape))}
	step := int64(1)
	for i := range a.Shape {
		at := len(a.Shape) - 1 - i
		if a.Fortran {
			at = i
		}
		v.strides[at] = step
		step *= a.Shape[at]
	}
	if a.Fortran && !contiguous(v.shape, v.strides) {
		notes = append(notes, "in Fortran order")
	}
	record := &torchRecord{big: a.DType.Big, at: bytes.NewReader(a.Data), size: int64(len(a.Data)), known: true}
	if record.big {
		notes = append(notes, "big-endian")
	}
	t := Tensor{DType: kind.dtype, Shape: a.Shape, Bytes: record.size, Where: "the pickle"}
	t.Open = func() (io.ReadCloser, error) { return v.open(record, 0, t.Bytes) }
	w.add(path, t, notes)
}

func (w *torchWalk) add(path string, t Tensor, notes []string) {
	t.Name = path
	for n := 2; w.names[t.Name]; n++ { // keys that differ only as values, such as 1 and "1"
		t.Name = fmt.Sprintf("%s#%d", path, n)
	}
	if t.Name != path {
		notes = append(notes, "another tensor has this name")
	}
	w.names[t.Name] = true
	t.Note = strings.Join(slices.DeleteFunc(notes, func(s string) bool { return s == "" }), "; ")
	w.file.Tensors = append(w.file.Tensors, t)
}

func contiguous(shape, strides []int64) bool {
	want := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] == 0 {
			return true
		}
		if shape[i] != 1 && strides[i] != want {
			return false
		}
		want *= shape[i]
	}
	return true
}

// maxInflated is how much of a compressed record is held where a view of it is not contiguous: torch.save compresses
// none, and who zipped a file again had small ones.
const maxInflated = 256 << 20

// open gives the elements of a view that begins at this byte of the record.
func (v *torchView) open(record *torchRecord, begin, size int64) (io.ReadCloser, error) {
	if size == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	var r io.ReadCloser
	switch at, base := record.at, record.offset+begin; {
	case at != nil && contiguous(v.shape, v.strides):
		r = &exactly{io.NopCloser(io.NewSectionReader(at, base, size)), size}
	case at != nil:
		r = newStrided(at, base, v.size, v.shape, v.strides)
	default:
		from, err := record.stream()
		if err != nil {
			return nil, err
		}
		if contiguous(v.shape, v.strides) {
			if _, err := io.CopyN(io.Discard, from, begin); err != nil {
				from.Close()
				return nil, fmt.Errorf("reading a compressed record: %w", err)
			}
			r = &exactly{from, size}
			break
		}
		defer from.Close()
		if record.size > maxInflated {
			return nil, fmt.Errorf("it is a view with strides of a compressed record of %d bytes; up to %d are held",
				record.size, maxInflated)
		}
		whole, err := io.ReadAll(io.LimitReader(from, record.size))
		if err != nil {
			return nil, fmt.Errorf("reading a compressed record: %w", err)
		}
		r = newStrided(bytes.NewReader(whole), begin, v.size, v.shape, v.strides)
	}
	if record.big && v.unit > 1 {
		r = closing{&swapped{from: r, unit: int(v.unit)}, r}
	}
	return r, nil
}

// exactly gives so many bytes of what it reads: fewer are an error.
type exactly struct {
	io.ReadCloser
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.ReadCloser.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if e.left > 0 && errors.Is(err, io.EOF) {
		return n, io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.EOF) {
		err = nil // the next says it
	}
	return n, err
}
