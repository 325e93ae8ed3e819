package weights

import (
	"fmt"
	"io"
	"regexp"

	"assay/internal/file"
	"assay/internal/hdf5"
)

// kerasName is where Keras 3 looks for a variable: the group of its layer, and its number there.
var kerasName = regexp.MustCompile(`^(?:(.+)/)?vars/(0|[1-9][0-9]*)$`)

// WriteKeras writes a .weights.h5 that Keras 3 loads, whole or not at all. Names are those of Keras 3, GROUP/vars/N,
// with N from 0 on in each group; layers gives, by group, the layer's own name, for groups without variables as well.
// Tensors are read one after the other, as they stand.
func WriteKeras(path string, tensors []Tensor, layers map[string]string) error {
	names := map[DType]string{}
	for name, dtype := range dtypesOfHDF5 {
		names[dtype] = name
	}
	sources := make([]hdf5.Source, 0, len(tensors))
	have, most := map[string]bool{}, map[string]int{}
	for _, t := range tensors {
		m := kerasName.FindStringSubmatch(t.Name)
		if m == nil {
			return fmt.Errorf("writing %s: %q is no name of Keras 3's, as layers/conv2d/vars/0", path, t.Name)
		}
		if names[t.DType] == "" {
			return fmt.Errorf("writing %s: %s is %s, which Keras's files do not have", path, t.Name, t.DType)
		}
		have[t.Name] = true
		most[m[1]]++
		sources = append(sources, hdf5.Source{Path: t.Name, Type: names[t.DType], Shape: t.Shape, Open: t.Open})
	}
	texts := map[string]map[string]string{}
	below := func(group string) string {
		if group == "" {
			return "vars"
		}
		return group + "/vars"
	}
	for group, n := range most {
		for i := range n {
			if name := fmt.Sprintf("%s/%d", below(group), i); !have[name] {
				return fmt.Errorf("writing %s: %s has %d variables, and %q is none of them", path, group, n, name)
			}
		}
	}
	for group, name := range layers {
		texts[below(group)] = map[string]string{"name": name}
	}
	err := file.Write(path, 0o644, func(w io.Writer) error { return hdf5.Write(w, sources, texts) })
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
