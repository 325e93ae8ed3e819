package abstract

import (
	"strings"
)

// fact is what a program that asks where it runs is told.
type fact struct {
	attribute bool // it is asked as a name, without a call
	value     func(device string) *Value
}

// only is true on one device.
func only(on string) func(string) *Value {
	return func(device string) *Value { return boolean(device == on) }
}

// unless gives a value on every device but one, where nothing is known.
func unless(on string, v *Value) func(string) *Value {
	return func(device string) *Value {
		if device == on {
			return nil
		}
		return v
	}
}

// onMac is a text that is sure where the target is a Mac's GPU.
func onMac(s string) func(string) *Value {
	return func(device string) *Value {
		if device == "mps" {
			return text(s)
		}
		return nil
	}
}

func always(v *Value) func(string) *Value { return func(string) *Value { return v } }

// facts about the target, by the dotted names that ask for them.
var facts = map[string]fact{
	"torch.cuda.is_available":             {value: only("cuda")},
	"torch.cuda.is_initialized":           {value: only("cuda")},
	"torch.cuda.is_bf16_supported":        {value: only("cuda")},
	"torch.cuda.device_count":             {value: unless("cuda", &Value{Kind: Number})},
	"torch.backends.cuda.is_built":        {value: only("cuda")},
	"torch.backends.cudnn.is_available":   {value: only("cuda")},
	"torch.distributed.is_nccl_available": {value: only("cuda")},
	"torch.version.cuda":                  {attribute: true, value: unless("cuda", noneVal)},
	"torch.version.hip":                   {attribute: true, value: unless("cuda", noneVal)},
	"torch.xpu.is_available":              {value: always(falseVal)},
	"torch.npu.is_available":              {value: always(falseVal)},
	"torch.hpu.is_available":              {value: always(falseVal)},
	"torch.mtia.is_available":             {value: always(falseVal)},
	"torch.backends.mps.is_available":     {value: only("mps")},
	"torch.backends.mps.is_built":         {value: only("mps")},
	"torch.has_mps":                       {attribute: true, value: only("mps")},
	"torch.mps.is_available":              {value: only("mps")},
	"torch.mps.device_count":              {value: always(&Value{Kind: Number, Num: 1})},
	"torch.accelerator.is_available":      {value: func(device string) *Value { return boolean(device != "cpu") }},
	"torch.accelerator.current_accelerator": {value: func(device string) *Value {
		return &Value{Kind: Device,
			Where: deviceOf(device)}
	}},
	"sys.platform":     {attribute: true, value: onMac("darwin")},
	"platform.system":  {value: onMac("Darwin")},
	"platform.machine": {value: onMac("arm64")},
	"os.name":          {attribute: true, value: always(text("posix"))},
}

// known is what a call of a name gives on the target where it tells a program where it runs; nil for all others.
func (in *Interp) known(path string) *Value {
	if f, ok := facts[path]; ok {
		return f.value(in.world.Device)
	}
	return nil
}

// alias is a place where PyTorch keeps what it documents under a shorter name.
type alias struct {
	under string // what the name begins with, or is as a whole
	as    string // what stands before its last part instead
	class bool   // classes alone
	dots  int    // names with so many dots alone; 0: with any number
}

var torchAliases = []alias{
	{under: "nn.modules.", as: "torch.nn.", class: true},
	{under: "nn.parameter.Parameter", as: "torch.nn."},
	{under: "distributions.", as: "torch.distributions.", class: true, dots: 2},
	{under: "serialization.load", as: "torch."},
	{under: "serialization.save", as: "torch."},
	{under: "functional.", as: "torch."},
	{under: "optim.lr_scheduler.", class: true, dots: 2}, // documented where they are
	{under: "optim.swa_utils.", class: true, dots: 2},
	{under: "optim.", as: "torch.optim.", class: true, dots: 2},
	{under: "utils.data.", as: "torch.utils.data.", class: true, dots: 3},
	{under: "distributed.distributed_c10d.", as: "torch.distributed."},
	{under: "amp.autocast_mode.", as: "torch.amp."},
	{under: "amp.grad_scaler.", as: "torch.amp."},
	{under: "cuda.amp.autocast_mode.", as: "torch.cuda.amp."},
	{under: "cuda.amp.grad_scaler.", as: "torch.cuda.amp."},
}

// canonical is the name under which an API is documented.
func canonical(path string) string {
	pkg, rest, _ := strings.Cut(path, ".")
	switch pkg {
	case "torch":
		last := lastPart(rest)
		for _, a := range torchAliases {
			whole := !strings.HasSuffix(a.under, ".")
			switch {
			case whole && rest != a.under, !whole && !strings.HasPrefix(rest, a.under):
			case a.class && lower(last), a.dots > 0 && strings.Count(rest, ".") != a.dots:
			case a.as == "":
				return path
			default:
				return a.as + last
			}
		}
	case "tensorflow":
		for _, keras := range []string{"keras", "python.keras"} {
			if after, found := strings.CutPrefix(rest, keras); found && (after == "" || after[0] == '.') {
				return "keras" + after
			}
		}
	}
	return path
}

// builtinValues are the names that need no import.
var builtinValues = func() map[string]*Value {
	values := map[string]*Value{}
	for _, name := range strings.Fields(`print len range enumerate zip float int bool str list tuple dict set sum
		min max abs sorted open map filter isinstance hasattr getattr setattr super property staticmethod
		classmethod type repr format round iter next any all reversed divmod id input exit quit object complex
		bytes vars globals locals eval exec compile __import__ Exception RuntimeError ValueError ImportError
		NotImplementedError`) {
		values[name] = &Value{Kind: API, Path: "builtins." + name}
	}
	return values
}()

func builtin(name string) *Value {
	if v := builtinValues[name]; v != nil {
		return v
	}
	return unknown
}

// apiMember is a name of an API, as an import binds it.
func (in *Interp) apiMember(base, name, path string) *Value {
	if facts[path].attribute {
		if v := in.known(path); v != nil {
			return v
		}
	}
	if dtype := dtypeNames[name]; dtype != "" && base == "torch" {
		return &Value{Kind: DType, Type: dtype, Path: path}
	}
	if base == "numpy" && (dtypeNames[name] != "" || numpyTypes[name] != "") {
		return &Value{Kind: DType, Type: numpyType(name), Path: path}
	}
	return &Value{Kind: API, Path: path}
}
