package abstract

import "strings"

// numpyFunctions are what functions of NumPy give, by their names behind "numpy.".
var numpyFunctions = byName(map[string]outcome{
	"zeros ones empty":            filledArray,
	"full":                        sizedFull,
	"linspace logspace geomspace": float64Array,
	"eye identity":                float64Array,
	"hanning hamming blackman":    float64Array,
	"bartlett kaiser":             float64Array,
	"array asarray ascontiguousarray asanyarray": arrayOfData,
	"arange":                                        arrayOfBounds,
	"random.randint":                                arrayOf("int64"),
	"random.permutation random.choice":              arrayOf(""),
	"random.rand random.randn":                      drawn(0),
	"random.random random.random_sample":            drawn(0),
	"random.standard_normal":                        drawn(0),
	"random.exponential":                            drawn(1),
	"random.normal random.uniform":                  drawn(2),
	"random.beta random.gamma":                      drawn(2),
	"ndarray.astype":                                retyped,
	"ndarray.mean ndarray.std ndarray.var":          averaged,
	"ndarray.argmax ndarray.argmin ndarray.argsort": ofSelf(arrayOf("int64")),
	"ndarray.tolist ndarray.item ndarray.tobytes":   ofSelf(nothingKnown),
	"ndarray.tofile ndarray.dump":                   ofSelf(nothingKnown),
	"ndarray.fill ndarray.sort ndarray.nonzero":     ofSelf(nothingKnown),
})

func numpyResult(in *Interp, c *Call, name string) *Value {
	gives := numpyFunctions[name]
	switch {
	case gives != nil:
	case strings.HasPrefix(name, "ndarray."):
		gives = ofSelf(alike)
	case lower(name) && !strings.Contains(name, "."):
		gives = arrayOfArguments
	default:
		return unknown
	}
	return gives(in, c, name)
}

// newArray is an array of the dtype that a call names, else of the one given.
func newArray(c *Call, dtype string) *Value {
	if d := c.Arg(-1, "dtype"); d != nil {
		dtype = typeOf(d)
	}
	return &Value{Kind: Array, Type: dtype}
}

// sizedArray is one whose size is the call's first argument.
func sizedArray(c *Call, dtype string) *Value {
	v := newArray(c, dtype)
	if len(c.Args) > 0 {
		v.Origin = Sized
	}
	return v
}

func arrayOf(dtype string) outcome {
	return func(_ *Interp, c *Call, _ string) *Value { return newArray(c, dtype) }
}

func sizedFull(_ *Interp, c *Call, _ string) *Value { return sizedArray(c, "") }

// ofSelf is what a method gives; of one that is called on the class nothing is known but that it is an array.
func ofSelf(gives outcome) outcome {
	return func(in *Interp, c *Call, name string) *Value {
		if c.Self == nil {
			return newArray(c, "")
		}
		return gives(in, c, name)
	}
}

func float64Array(_ *Interp, c *Call, _ string) *Value {
	if c.Open {
		return sizedArray(c, "")
	}
	return sizedArray(c, "float64")
}

// filledArray: dtype is the second argument.
func filledArray(in *Interp, c *Call, name string) *Value {
	if c.Arg(-1, "dtype") == nil && len(c.Args) > 1 {
		return &Value{Kind: Array, Type: typeOf(c.Args[1])}
	}
	return float64Array(in, c, name)
}

// drawn are numbers: one of Python's where no size is asked for, which is the parameter behind so many others.
func drawn(before int) outcome {
	return func(in *Interp, c *Call, name string) *Value {
		if len(c.Args) > before || c.Open || c.Arg(-1, "size") != nil {
			return float64Array(in, c, name)
		}
		for _, n := range c.Named {
			if n.Value.Kind != Number {
				return unknown
			}
		}
		for _, a := range c.Args { // arrays are drawn for element by element
			if a.Kind != Number {
				return unknown
			}
		}
		return &Value{Kind: Number, Type: "float", Soft: true}
	}
}

func arrayOfData(_ *Interp, c *Call, name string) *Value {
	if c.Arg(-1, "dtype") == nil && len(c.Args) > 1 {
		return &Value{Kind: Array, Type: typeOf(c.Args[1])}
	}
	dtype := ""
	if a := c.Arg(0, "object", "a"); a != nil && !c.Open {
		switch a.Kind {
		case Array, Tensor:
			dtype = a.Type
		case Seq:
			if item := arrayAmong(a); item != nil {
				dtype = item.Type
			} else {
				dtype = literalType(a, "float64", 0)
			}
		}
	}
	v := newArray(c, dtype)
	if name == "array" && len(c.Args) > 0 && c.Args[0].Kind == Seq && len(c.Args[0].Items) > 0 {
		v.Origin = Sized
	}
	return v
}

// arrayAmong is the first array of a sequence; nil if there is none.
func arrayAmong(v *Value) *Value {
	for _, i := range v.Items {
		if i.Kind == Array {
			return i
		}
	}
	return nil
}

func arrayOfBounds(_ *Interp, c *Call, _ string) *Value {
	dtype := ""
	for _, a := range c.Args {
		switch literalType(a, "float64", 0) {
		case "float64":
			dtype = "float64"
		case "int64":
			if dtype == "" {
				dtype = "int64"
			}
		}
	}
	return newArray(c, dtype)
}

// arrayOfArguments is what a function gives of which nothing else is known: of its argument's dtype.
func arrayOfArguments(_ *Interp, c *Call, _ string) *Value {
	dtype := ""
	if len(c.Args) > 0 {
		switch a := c.Args[0]; a.Kind {
		case Array:
			dtype = a.Type
		case Seq:
			if item := arrayAmong(a); item != nil {
				dtype = item.Type
			}
		}
	}
	return newArray(c, dtype)
}

func retyped(_ *Interp, c *Call, _ string) *Value {
	if c.Self == nil {
		return newArray(c, "")
	}
	return &Value{Kind: Array, Type: typeOf(c.Arg(0, "dtype"))}
}

func averaged(_ *Interp, c *Call, _ string) *Value {
	if c.Self == nil {
		return newArray(c, "")
	}
	if t := c.Self.Type; strings.HasPrefix(t, "int") || strings.HasPrefix(t, "uint") || t == "bool" {
		return newArray(c, "float64")
	}
	return newArray(c, c.Self.Type)
}

func alike(_ *Interp, c *Call, _ string) *Value { return newArray(c, c.Self.Type) }
