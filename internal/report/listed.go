package report

import (
	"math"
	"reflect"
	"strings"

	"assay/internal/evidence"
)

// listed returns a copy of the run that JSON and its schema can hold. No list or map is nil: they become [] and {},
// but for those that are absent where nobody looked (omitzero).
// What is not finite has no value: a figure becomes unknown, and says so.
func listed(run *evidence.Run) *evidence.Run {
	out := fill(reflect.ValueOf(*run)).Interface().(evidence.Run)
	return &out
}

func fill(v reflect.Value) reflect.Value {
	switch x := v.Interface().(type) {
	case evidence.Figure:
		if notFinite(x.Value) {
			return reflect.ValueOf(evidence.Unknown(x.Name, x.Unit, "computed to a number that is not finite"))
		}
		if notFinite(x.Low) || notFinite(x.High) {
			x.Low, x.High = nil, nil
		}
		return reflect.ValueOf(x)
	case *float64:
		if notFinite(x) {
			return reflect.Zero(v.Type())
		}
		return v
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || v.Type().Elem().Kind() != reflect.Struct {
			return v
		}
		out := reflect.New(v.Type().Elem())
		out.Elem().Set(fill(v.Elem()))
		return out
	case reflect.Struct:
		if v.Type().PkgPath() != reflect.TypeFor[evidence.Run]().PkgPath() {
			return v // time.Time and the like keep their own JSON
		}
		out := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if strings.HasSuffix(field.Tag.Get("json"), ",omitzero") && v.Field(i).IsZero() {
				continue // not looked for, which an empty list would not say
			}
			out.Field(i).Set(fill(v.Field(i)))
		}
		return out
	case reflect.Slice:
		if v.IsNil() {
			return reflect.MakeSlice(v.Type(), 0, 0)
		}
		if k := v.Type().Elem().Kind(); k != reflect.Struct && k != reflect.Pointer {
			return v
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(fill(v.Index(i)))
		}
		return out
	case reflect.Map:
		if v.IsNil() {
			return reflect.MakeMap(v.Type())
		}
	}
	return v
}

func notFinite(v *float64) bool { return v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) }
