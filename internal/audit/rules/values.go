package rules

import "assay/internal/abstract"

// isTrue reports a constant True that nobody can change from outside.
func isTrue(v *abstract.Value) bool { return v != nil && v.Kind == abstract.Bool && v.Yes && !v.Soft }

// number is an argument that is a number in the source.
func number(v *abstract.Value) (float64, bool) {
	if v == nil || v.Kind != abstract.Number || v.Text == "" {
		return 0, false
	}
	return v.Num, true
}

func overLoader(v *abstract.Value) bool {
	switch {
	case v.Kind == abstract.Loader:
		return true
	case v.Kind == abstract.Seq && (v.Form == abstract.Enumerated || v.Form == abstract.Zipped):
		for _, i := range v.Items {
			if overLoader(i) {
				return true
			}
		}
	}
	return false
}
