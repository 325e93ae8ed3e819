package rules

import (
	"maps"
	"slices"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// settings are the calls that set an environment variable.
var settings = []string{"os.environ.__setitem__", "os.environ.setdefault", "os.putenv", "os.environ.update"}

// eachSetting calls look for each variable that a call sets: os.environ.update sets several.
func eachSetting(look audit.Look) audit.Look {
	return func(p *audit.Pass, c *abstract.Call) {
		if c.Path != "os.environ.update" {
			look(p, c)
			return
		}
		one := func(name string, v *abstract.Value) {
			d := *c
			d.Path, d.Args, d.Named = "os.environ.__setitem__", []*abstract.Value{{Kind: abstract.Str, Text: name}, v}, nil
			look(p, &d)
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
	return slices.ContainsFunc([]string{"torch", "torchvision", "torchaudio", "pytorch_lightning", "lightning", "timm", "accelerate", "torch_geometric", "kornia", "torchmetrics", "fastai",
		"ultralytics"}, p.Imported)
}

// setting is an environment variable that a call sets.
func setting(c *abstract.Call) (name, value string, ok bool) {
	if !slices.Contains(settings, c.Path) {
		return "", "", false
	}
	n, v := c.Arg(0), c.Arg(1)
	if n == nil || v == nil || n.Kind != abstract.Str || n.Soft {
		return "", "", false
	}
	if v.Kind == abstract.Str && !v.Soft {
		return n.Text, v.Text, true
	}
	return n.Text, "", true
}
