package golden

import (
	"fmt"

	"assay/internal/weights"
)

// HowFar is the relative difference of two tensors' values in the Euclidean norm, 0 to 2. Neither may have more than
// most bytes.
func HowFar(a, b weights.Tensor, most int64) (float64, error) {
	x, y, err := two(a, b, most)
	if err != nil {
		return 0, err
	}
	if fmt.Sprint(x.shape) != fmt.Sprint(y.shape) {
		return apartAll, nil
	}
	return differ(x.values, y.values).Relative, nil
}

// InAnotherOrder says what makes b of a where its axes or its values are in another order, within a relative
// difference; "" where nothing does, or where one has more than most bytes.
func InAnotherOrder(a, b weights.Tensor, most int64, within float64) string {
	x, y, err := two(a, b, most)
	if err != nil {
		return ""
	}
	return inAnotherOrder(x, y, within)
}

func two(a, b weights.Tensor, most int64) (x, y array, err error) {
	for _, t := range []weights.Tensor{a, b} {
		if n, ok := t.Elements(); !ok || n > most/8 {
			return x, y, fmt.Errorf("%q has too many values to be compared", t.Name)
		}
	}
	if x, err = values("A", a); err != nil {
		return x, y, err
	}
	y, err = values("B", b)
	return x, y, err
}
