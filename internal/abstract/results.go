package abstract

import "strings"

// packages whose functions and classes are known, by the first part of their names.
var packages = map[string]outcome{
	"torch":                       torchResult,
	"numpy":                       numpyResult,
	"torchvision":                 torchvisionResult,
	"timm":                        created,
	"segmentation_models_pytorch": segmentationModel,
	"transformers":                pretrained,
	"diffusers":                   pretrained,
	"sentence_transformers":       pretrained,
	"os":                          nothingKnown,
	"sys":                         nothingKnown,
	"platform":                    nothingKnown,
	"mlx":                         mlxArray,
	"accelerate":                  madeObject,
}

// result is what a call of an API gives, as far as it matters here.
func (in *Interp) result(c *Call) *Value {
	if v := in.known(c.Path); v != nil {
		return v
	}
	pkg, name, _ := strings.Cut(c.Path, ".")
	if gives := packages[pkg]; gives != nil {
		if v := gives(in, c, name); v != nil {
			return v
		}
	}
	if last := lastPart(c.Path); last != "" && !lower(last) {
		return madeObject(in, c, name)
	}
	return unknown
}

// Result is what a call gives, without its having been made.
func (in *Interp) Result(c *Call) *Value {
	if c.Result != nil {
		return c.Result
	}
	if c.Self != nil && c.Self.Kind == Module { // would move it
		m := *c.Self
		d := *c
		d.Self = &m
		return in.result(&d)
	}
	return in.result(c)
}

func torchvisionResult(in *Interp, c *Call, name string) *Value {
	last := lastPart(name)
	switch {
	case strings.HasPrefix(name, "models.") && (lower(last) || !strings.HasSuffix(last, "_Weights")):
		return madeModule(in, c, name)
	case strings.HasPrefix(name, "ops.") && lower(last):
		return &Value{Kind: Tensor, Where: orOpen(c.Tensors())}
	case strings.HasPrefix(name, "ops."):
		return madeModule(in, c, name)
	}
	return nil
}

func created(in *Interp, c *Call, name string) *Value {
	if strings.HasSuffix(name, "create_model") {
		return madeModule(in, c, name)
	}
	return nil
}

func segmentationModel(in *Interp, c *Call, name string) *Value {
	if strings.HasSuffix(name, "create_model") || !lower(name) {
		return madeModule(in, c, name)
	}
	return nil
}

// pretrained knows AutoModel.from_pretrained and the like.
func pretrained(_ *Interp, c *Call, name string) *Value {
	class, method, ok := strings.Cut(name, ".from_")
	if !ok || !strings.Contains(method, "pretrained") && method != "config" {
		return nil
	}
	if !strings.Contains(class, "Model") && !strings.Contains(class, "For") && !strings.HasSuffix(class, "Pipeline") {
		return nil
	}
	pkg, _, _ := strings.Cut(c.Path, ".")
	return &Value{Kind: Module, Path: pkg + "." + class, Where: OnCPU, Made: c,
		Type: typeOf(c.Arg(-1, "torch_dtype", "dtype"))}
}

func mlxArray(_ *Interp, c *Call, name string) *Value {
	if strings.HasPrefix(name, "core.") {
		return &Value{Where: Open, Made: c}
	}
	return nil
}
