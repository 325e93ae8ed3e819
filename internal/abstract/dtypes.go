package abstract

import (
	"strings"
)

// dtypes that torch knows, by all their names.
var dtypeNames = map[string]string{
	"float64": "float64", "double": "float64", "float32": "float32", "float": "float32", "float16": "float16",
	"half": "float16", "bfloat16": "bfloat16",
	"complex64": "complex64", "cfloat": "complex64", "complex128": "complex128", "cdouble": "complex128",
	"complex32": "complex32", "chalf": "complex32",
	"int64": "int64", "long": "int64", "int32": "int32", "int": "int32", "int16": "int16", "short": "int16",
	"int8": "int8", "uint8": "uint8", "bool": "bool",
	"uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "float8_e4m3fn": "float8_e4m3fn",
	"float8_e5m2": "float8_e5m2",
}

// numpyTypes are numpy's names where they mean something else than torch's, or torch has none.
var numpyTypes = map[string]string{
	"float": "float64", "float_": "float64", "int": "int64", "int_": "int64", "complex": "complex128",
	"complex_": "complex128", "single": "float32",
	"longdouble": "float64", "f8": "float64", "f4": "float32", "i8": "int64", "i4": "int32", "d": "float64",
	"f": "float32", "bool_": "bool", "intp": "int64",
}

func numpyType(name string) string {
	if t := numpyTypes[name]; t != "" {
		return t
	}
	return dtypeNames[name]
}

// legacyType reads torch.cuda.FloatTensor and its kind.
func legacyType(name string) string {
	name = strings.TrimSuffix(name[strings.LastIndexByte(name, '.')+1:], "Tensor")
	return dtypeNames[strings.ToLower(name)]
}
