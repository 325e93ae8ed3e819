package report

import (
	"reflect"

	"assay/internal/evidence"
)

// listed returns a copy of the run in which no list or map is nil: they become [] and {} in JSON, as the schema says.
func listed(run *evidence.Run) *evidence.Run {
	out := fill(reflect.ValueOf(*run)).Interface().(evidence.Run)
	return &out
}

func fill(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type().PkgPath() != reflect.TypeFor[evidence.Run]().PkgPath() {
			return v // time.Time and the like keep their own JSON
		}
		out := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			out.Field(i).Set(fill(v.Field(i)))
		}
		return out
	case reflect.Slice:
		if v.IsNil() {
			return reflect.MakeSlice(v.Type(), 0, 0)
		}
		if k := v.Type().Elem().Kind(); k != reflect.Struct && k != reflect.Slice {
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
