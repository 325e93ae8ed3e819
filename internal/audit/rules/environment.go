package rules

import (
	"maps"
	"slices"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// settings are the calls that set an environment variable.
var settings = []string{"os.environ.__setitem__", "os.environ.setdefault", "os.putenv", "os.environ.update"}

// eachSetting calls look for each variable that a call sets, with its value, "" where that is not known:
// os.environ.update sets several.
func eachSetting(look func(p *audit.Pass, c *abstract.Call, name, value string)) audit.Look {
	return func(p *audit.Pass, c *abstract.Call) {
		one := func(name string, v *abstract.Value) {
			if v.Kind != abstract.Str || v.Soft {
				look(p, c, name, "")
				return
			}
			look(p, c, name, v.Text)
		}
		if last(c.Path) != "update" {
			if n, v := c.Arg(0), c.Arg(1); n != nil && v != nil && n.Kind == abstract.Str && !n.Soft {
				one(n.Text, v)
			}
			return
		}
		for _, a := range c.Args {
			if a.Kind == abstract.Dict {
				for _, name := range slices.Sorted(maps.Keys(a.Attrs)) {
					one(name, a.Attrs[name])
				}
			}
		}
		for _, n := range c.Named {
			one(n.Name, n.Value)
		}
	}
}

// importsTorch reports whether torch has been imported, by itself or by a package whose import brings it.
func importsTorch(p *audit.Pass) bool {
	return slices.ContainsFunc([]string{"torch", "torchvision", "torchaudio", "pytorch_lightning", "lightning", "timm",
		"accelerate", "torch_geometric", "kornia", "torchmetrics", "fastai",
		"ultralytics"}, p.Imported)
}
