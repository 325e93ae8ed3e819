package abstract

import (
	"maps"
	"slices"
	"strings"

	"assay/internal/pyast"
)

// effects are calls that the interpreter itself follows, by their dotted names. They come before anybody is shown the
// call.
var effects = byName(map[string]effect{
	"builtins.enumerate": enumerated,
	"builtins.zip":       zipped,
	"builtins.next":      nextElement,
	"builtins.range":     counted,
	"builtins.str":       asText,
	"builtins.bool":      asBool,
	"builtins.dict":      asDict,
	"builtins.getattr":   getAttribute,
	"builtins.hasattr":   hasAttribute,
	"builtins.exec":      execute,
	"builtins.eval":      gives(unknown),
	"functools.partial":  partial,

	"builtins.isinstance torch.is_tensor":                           isInstance,
	"builtins.iter builtins.reversed builtins.sorted":               itsArgument,
	"builtins.list builtins.tuple itertools.islice itertools.cycle": itsArgument,
	"tqdm.tqdm tqdm.auto.tqdm tqdm.notebook.tqdm tqdm.std.tqdm":     itsArgument,
	"tqdm.tqdm_notebook rich.progress.track":                        itsArgument,
	"tqdm.trange tqdm.auto.trange":                                  counted,
	"copy.deepcopy copy.copy":                                       copied,
	"sys.exit os._exit builtins.exit builtins.quit":                 gives(never),
	"pytest.skip pytest.exit unittest.TestCase.skipTest":            gives(never),
	"os.environ.get os.getenv":                                      variable,
	"argparse.ArgumentParser transformers.HfArgumentParser":         argumentParser,
	"argparse.ArgumentParser.add_argument_group":                    parser(itself),
	"argparse.ArgumentParser.add_mutually_exclusive_group":          parser(itself),
	"argparse.ArgumentParser.add_argument":                          parser(addArgument),
	"argparse.ArgumentParser.set_defaults":                          parser(setDefaults),
	"argparse.ArgumentParser.parse_args":                            parser(parseArguments),
	"argparse.ArgumentParser.parse_known_args":                      parser(parseKnownArguments),

	"dict.get":                            of(Dict, dictGet),
	"dict.values":                         of(Dict, dictValues),
	"dict.items dict.keys":                gives(unknown),
	"list.append list.extend list.insert": of(Seq, listAppend),
	"str.lower":                           of(Str, textLower),
	"str.strip str.upper":                 of(Str, textKept),
	"str.startswith":                      of(Str, textStartsWith),
	"str.format":                          of(Str, textFormat),

	"torch.utils.data.DataLoader.__iter__": itself,
	"torch.set_default_device":             setDefaultDevice,
	"torch.set_default_dtype":              setDefaultType,
	"torch.set_default_tensor_type":        setDefaultTensorType,
	"torch.nn.Module.register_buffer":      registerBuffer,
})

// of is the effect of a method, of a value of the kind that has it: dict.get(d, key) names the class's own function,
// which is none.
func of(kind Kind, do effect) effect {
	return func(in *Interp, c *Call) *Value {
		if c.Self == nil || c.Self.Kind != kind {
			return unknown
		}
		return do(in, c)
	}
}

// parser is the effect of a method of an argument parser.
func parser(do effect) effect {
	return func(in *Interp, c *Call) *Value {
		if c.Self == nil || c.Self.Options == nil {
			return unknown
		}
		return do(in, c)
	}
}

func gives(v *Value) effect                 { return func(*Interp, *Call) *Value { return v } }
func itself(_ *Interp, c *Call) *Value      { return c.Self }
func nextElement(_ *Interp, c *Call) *Value { return element(c.argument(0)) }

func enumerated(_ *Interp, c *Call) *Value {
	return &Value{Kind: Seq, Form: Enumerated, Items: []*Value{c.argument(0)}}
}

func zipped(_ *Interp, c *Call) *Value { return &Value{Kind: Seq, Form: Zipped, Items: c.Args} }

func counted(_ *Interp, c *Call) *Value {
	// range(torch.cuda.device_count())
	if n := c.argument(0); len(c.Args) == 1 && n.Kind == Number && n.Num == 0 && !n.Soft {
		return &Value{Kind: Seq, Form: Empty}
	}
	return &Value{Kind: Seq, Form: Counted, Items: []*Value{{Kind: Number, Type: "int", Soft: true}}}
}

func itsArgument(_ *Interp, c *Call) *Value {
	if v := c.Arg(0, "iterable", "sequence"); v != nil {
		return v
	}
	return unknown
}

func asText(_ *Interp, c *Call) *Value {
	switch a := c.argument(0); a.Kind {
	case Str, Device:
		return a
	case Number:
		return &Value{Kind: Str, Text: a.Text, Soft: a.Soft || a.Text == ""}
	}
	return unknown
}

func asBool(_ *Interp, c *Call) *Value {
	if yes, known := c.argument(0).Truth(); known {
		return boolean(yes)
	}
	return unknown
}

func asDict(_ *Interp, c *Call) *Value {
	d := &Value{Kind: Dict, Attrs: map[string]*Value{}}
	for _, n := range c.Named {
		d.Attrs[n.Name] = n.Value
	}
	return d
}

func getAttribute(in *Interp, c *Call) *Value {
	name := c.argument(1)
	if name.Kind != Str || name.Soft || c.Node == nil {
		return unknown
	}
	v := in.attribute(c.argument(0), &pyast.Attribute{Attr: name.Text})
	if v.Kind == API && v.Mod == nil && len(c.Args) > 2 {
		return unknown
	}
	return v
}

// hasAttribute knows what releases of PyTorch have.
func hasAttribute(in *Interp, c *Call) *Value {
	of, name := c.argument(0), c.argument(1)
	if of.Kind != API || name.Kind != Str {
		return unknown
	}
	switch of.Path + "." + name.Text {
	case "torch.mps", "torch.backends.mps":
		return trueVal
	case "torch.accelerator":
		if in.world.Since("2.6") {
			return trueVal
		}
	}
	return unknown
}

func isInstance(_ *Interp, c *Call) *Value {
	v, class := c.argument(0), "torch.Tensor"
	if len(c.Args) > 1 {
		class = c.Args[1].Path
	}
	if v.Soft || v.OrNone || class != "torch.Tensor" && class != "numpy.ndarray" {
		return unknown
	}
	switch v.Kind {
	case Tensor:
		return boolean(class == "torch.Tensor")
	case Array:
		return boolean(class == "numpy.ndarray")
	}
	return unknown
}

// execute: the text may set every name anew.
func execute(in *Interp, _ *Call) *Value {
	for name, v := range in.env.all {
		switch v.Kind {
		case Str, Number, Bool, Device:
			in.env.put(name, v.softened())
		}
	}
	return unknown
}

func partial(_ *Interp, c *Call) *Value {
	f := c.argument(0)
	switch {
	case f.Kind != Function && f.Kind != ClassDef && f.Kind != API:
		return unknown
	case len(c.Named) == 0:
		return f
	}
	g := *f
	g.bound = append(slices.Clone(c.Named), f.bound...)
	return &g
}

func copied(_ *Interp, c *Call) *Value {
	a := c.argument(0)
	if a.Kind != Module {
		return a
	}
	m := *a
	return &m
}

func variable(_ *Interp, c *Call) *Value {
	if d := c.Arg(1, "default"); d != nil && d.Kind == Str {
		return d.softened()
	}
	return unknown
}

func argumentParser(_ *Interp, c *Call) *Value {
	return &Value{Kind: Made, Path: c.Path, Options: map[string]*Value{}, Made: c}
}

func setDefaults(_ *Interp, c *Call) *Value {
	for _, n := range c.Named {
		c.Self.Options[n.Name] = n.Value.softened()
	}
	return noneVal
}

func parseArguments(_ *Interp, c *Call) *Value {
	return &Value{Kind: Parsed, Attrs: maps.Clone(c.Self.Options)}
}

func parseKnownArguments(in *Interp, c *Call) *Value {
	return &Value{Kind: Seq, Items: []*Value{parseArguments(in, c), unknown}}
}

func dictGet(_ *Interp, c *Call) *Value {
	if a := c.argument(0); a.Kind == Str {
		if v := c.Self.Attrs[a.Text]; v != nil {
			return v
		}
	}
	if len(c.Args) > 1 {
		return c.Args[1].softened()
	}
	return unknown
}

func dictValues(_ *Interp, c *Call) *Value {
	d := &Value{Kind: Seq, Form: Loose}
	for _, v := range c.Self.Attrs {
		d.Items = append(d.Items, v)
	}
	return d
}

// maxItems bounds what is remembered of a list.
const maxItems = 64

func listAppend(_ *Interp, c *Call) *Value {
	if len(c.Args) > 0 && len(c.Self.Items) < maxItems {
		c.Self.Items = append(c.Self.Items, c.Args[len(c.Args)-1])
		c.Self.Form = Loose
	}
	return noneVal
}

func textKept(_ *Interp, c *Call) *Value {
	v := *c.Self
	return &v
}

func textLower(_ *Interp, c *Call) *Value {
	v := *c.Self
	v.Text = strings.ToLower(v.Text)
	return &v
}

func textStartsWith(_ *Interp, c *Call) *Value {
	if a := c.argument(0); a.Kind == Str && !c.Self.Soft {
		return boolean(strings.HasPrefix(c.Self.Text, a.Text))
	}
	return unknown
}

// textFormat knows "cuda:{:d}".format(rank).
func textFormat(_ *Interp, c *Call) *Value {
	if name, place, ok := strings.Cut(c.Self.Text, ":{"); ok && strings.HasSuffix(place, "}") && isDevice(name) {
		return text(name + ":0")
	}
	return unknown
}

func setDefaultDevice(in *Interp, c *Call) *Value {
	if len(c.Args) > 0 {
		in.defaultDevice = c.Args[0].Place()
		if c.Args[0].Kind == None {
			in.defaultDevice = 0
		}
	}
	return noneVal
}

func setDefaultType(in *Interp, c *Call) *Value {
	if t := typeOf(c.argument(0)); t != "" {
		in.defaultType = t
	}
	return noneVal
}

func setDefaultTensorType(in *Interp, c *Call) *Value {
	name := c.argument(0).Text
	if a := c.argument(0); a.Kind == API {
		name = a.Path
	}
	if t := legacyType(name); t != "" {
		in.defaultType = t
	}
	return noneVal
}

func registerBuffer(_ *Interp, c *Call) *Value {
	if a := c.argument(0); a.Kind == Str && c.Self != nil && len(c.Args) > 1 {
		if c.Self.Attrs == nil {
			c.Self.Attrs = map[string]*Value{}
		}
		v := c.Args[1]
		if v.Kind == Tensor {
			w := *v
			w.Role = Buffer
			v = &w
		}
		c.Self.Attrs[a.Text] = v
	}
	return noneVal
}

// addArgument notes an option's default under the name that parse_args gives it.
func addArgument(in *Interp, c *Call) *Value {
	dest := ""
	for _, a := range c.Args {
		if a.Kind == Str && (dest == "" || strings.HasPrefix(a.Text, "--")) {
			dest = strings.ReplaceAll(strings.TrimLeft(a.Text, "-"), "-", "_")
			if strings.HasPrefix(a.Text, "--") {
				break
			}
		}
	}
	if d := c.Arg(-1, "dest"); d != nil && d.Kind == Str {
		dest = d.Text
	}
	if dest == "" {
		return noneVal
	}
	v := unknown
	if d := c.Arg(-1, "default"); d != nil {
		v = d.softened()
		if v.Kind == None {
			v = unknown
		}
	} else if a := c.Arg(-1, "action"); a != nil && a.Kind == Str && strings.HasPrefix(a.Text, "store_") {
		v = &Value{Kind: Bool, Yes: a.Text == "store_false", Soft: true}
	}
	c.Self.Options[dest] = v
	return noneVal
}

// element is what a for loop gets of a value.
func element(v *Value) *Value {
	switch v.Kind {
	case Seq:
		if v.Form == Enumerated && len(v.Items) == 1 {
			return &Value{Kind: Seq, Items: []*Value{{Kind: Number, Type: "int", Soft: true}, element(v.Items[0])}}
		}
		if v.Form == Zipped {
			e := &Value{Kind: Seq}
			for _, i := range v.Items {
				e.Items = append(e.Items, element(i))
			}
			return e
		}
		var e *Value
		for _, i := range v.Items {
			if e == nil {
				e = i
			} else {
				e = join(e, i)
			}
		}
		if e != nil {
			return e
		}
	case Loader:
		return &Value{Kind: Tensor, Where: OnCPU, Origin: Batch, Made: v.Made}
	case Tensor, Array:
		return v
	case Dict:
		return &Value{Kind: Str, Soft: true}
	}
	return unknown
}
