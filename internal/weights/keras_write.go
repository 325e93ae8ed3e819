package weights

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/hdf5"
)

// kerasName is where Keras 3 looks for a variable: the group of its layer, and its number there.
var kerasName = regexp.MustCompile(`^(?:(.+)/)?vars/(0|[1-9][0-9]*)$`)

// planKeras is the plan of a .weights.h5 that Keras 3 loads, in the order in which elements follow the header. Names are Keras's, GROUP/vars/N, with N from 0 on in each group. Of meta it keeps what readHDF5 gives as
// "layer:GROUP", the layer's own name, for groups without variables as well; such a file has no place for the rest.
func planKeras(meta map[string]string, plan []Tensor) ([]Tensor, frames, error) {
	types := map[DType]string{}
	for name, dtype := range dtypesOfHDF5 {
		types[dtype] = name
	}
	list, err := planned(plan, "Keras's files hold", func(d DType) bool { return types[d] != "" })
	if err != nil {
		return nil, nil, err
	}
	// Larger elements first, so that each is aligned.
	slices.SortStableFunc(list, func(a, b Tensor) int { return int(b.DType.Size() - a.DType.Size()) })
	arrays := make([]hdf5.Array, 0, len(list))
	have, most := map[string]bool{}, map[string]int{}
	for _, t := range list {
		m := kerasName.FindStringSubmatch(t.Name)
		if m == nil {
			return nil, nil, fmt.Errorf("tensor %q: Keras 3 looks for names as layers/conv2d/vars/0", t.Name)
		}
		have[t.Name] = true
		most[m[1]]++
		arrays = append(arrays, hdf5.Array{Path: t.Name, Type: types[t.DType], Shape: t.Shape})
	}
	below := func(group string) string { return strings.TrimPrefix(group+"/vars", "/") }
	for group, n := range most {
		for i := range n {
			if name := fmt.Sprintf("%s/%d", below(group), i); !have[name] {
				return nil, nil, fmt.Errorf("%q has %d variables, and %q is none of them", group, n, name)
			}
		}
	}
	texts := map[string]map[string]string{}
	for key, name := range meta {
		if group, ok := strings.CutPrefix(key, layerPrefix); ok {
			texts[below(group)] = map[string]string{"name": name}
		}
	}
	head, err := hdf5.Head(arrays, texts)
	return list, &rows{header: head}, err
}
