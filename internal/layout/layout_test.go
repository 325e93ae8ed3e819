package layout

import (
	"testing"

	"assay/internal/weights"
)

func named(name string, shape ...int64) weights.Tensor {
	return weights.Tensor{Name: name, DType: weights.F32, Shape: shape}
}

func file(format string, meta map[string]string, tensors ...weights.Tensor) *weights.File {
	return &weights.File{Format: format, Meta: meta, Tensors: tensors}
}

var pt = map[string]string{"format": "pt"}

// What is sure, what is not, and by what. The orders are those of the frameworks' documentation.
func TestOneTensor(t *testing.T) {
	for _, c := range []struct {
		what    string
		file    *weights.File
		order   string
		certain Certainty
		kind    Kind
	}{
		{"a bias tells", file("npz", nil, named("a.weight", 512, 256, 3, 3), named("a.bias", 512)), "OIHW", Sure,
			Conv2D},
		{"a bias tells", file("npz", nil, named("a.weight", 512, 3, 3, 256), named("a.bias", 512)), "OHWI", Sure, ""},
		{"a bias tells", file("npz", nil, named("a/kernel", 3, 3, 256, 512), named("a/bias", 512)), "HWIO", Sure,
			Conv2D},
		{"a norm tells", file("npz", nil, named("l.conv1.weight", 64, 32, 3, 3), named("l.bn1.running_mean", 64)),
			"OIHW", Sure,
			Conv2D},
		{"a norm tells", file("npz", nil, named("l.0.weight", 64, 32, 3, 3), named("l.1.running_mean", 64)), "OIHW",
			Sure, Conv2D},
		{"one by one deceives", file("npz", nil, named("a.weight", 1, 1, 1, 1), named("a.bias", 1)), "", Unknown, ""},
		{"small deceives", file("npz", nil, named("a.weight", 64, 3, 3, 3), named("a.bias", 64)), "", Unknown, ""},
		{"square deceives", file("npz", nil, named("a.weight", 64, 64, 3, 3), named("a.bias", 64)), "", Unknown, ""},
		{"a shape is never sure", file("npz", nil, named("a.weight", 512, 256, 3, 3)), "", Unknown, ""},
		{"a square of a pickle", file("torch", nil, named("a.weight", 64, 64, 3, 3), named("a.bias", 64)), "",
			Unknown, ""},
		{"a small one of a pickle", file("torch", nil, named("a.weight", 64, 3, 3, 3), named("a.bias", 64)), "OIHW",
			Sure, ""},
		{"of Keras's", file("keras", nil, named("layers/c/vars/0", 3, 3, 3, 64), named("layers/c/vars/1", 64)),
			"HWIO", Sure, Conv2D},
		{"a transposed one", file("torch", nil, named("up.weight", 256, 128, 2, 2), named("up.bias", 128)), "IOHW",
			Sure,
			ConvTranspose2D},
		{"of one dimension", file("npz", nil, named("a.weight", 512, 256, 3), named("a.bias", 512)), "OIK", Sure,
			Conv1D},
		{"of three", file("npz", nil, named("a.weight", 96, 64, 3, 3, 3), named("a.bias", 96)), "OIDHW", Sure, Conv3D},
		{"dense", file("torch", nil, named("a.weight", 10, 20), named("a.bias", 10)), "OI", Sure, Dense},
		{"dense, square", file("npz", nil, named("a.weight", 10, 10), named("a.bias", 10)), "", Unknown, Dense},
		{"a vector", file("npz", nil, named("a", 7)), "-", Sure, Vector},
	} {
		g := Judge(c.file, nil).Tensors[0]
		if g.Order != c.order || g.Certain != c.certain || c.kind != "" && g.Kind != c.kind {
			t.Errorf("%s: %v is %q (%s), a %q; want %q (%s), %q: %s", c.what, g.Shape, g.Order, g.Certain, g.Kind,
				c.order, c.certain,
				c.kind, g.Why)
		}
		if g.Why == "" || g.Certain == Unknown && g.Tell == "" {
			t.Errorf("%s: %+v says not why, or not what would tell", c.what, g)
		}
		if g.Kind == ConvTranspose2D && g.KindIs == Sure {
			t.Errorf("%s: a transposed convolution without a name is never sure", c.what)
		}
	}
}

// A file as a whole.
func TestWhole(t *testing.T) {
	for _, c := range []struct {
		what    string
		file    *weights.File
		verdict Verdict
		layout  Framework
		named   string
	}{
		{"pickle", file("torch", nil, named("a.weight", 64, 64, 3, 3), named("a.bias", 64)), One, Torch, ""},
		{"metadata", file("safetensors", pt, named("a.weight", 64, 3, 3, 3)), One, Torch, ""},
		{"one that tells", file("npz", nil, named("a.weight", 64, 3, 3, 3), named("b.weight", 128, 64, 3, 3),
			named("b.bias", 128)),
			One, Torch, ""},
		{"none that tells", file("npz", nil, named("a.weight", 64, 3, 3, 3), named("a.bias", 64)), Untold, "", ""},
		{"converted, and says pt", file("safetensors", pt, named("a.weight", 128, 3, 3, 64), named("a.bias", 128)),
			Converted, MLX,
			""},
		{"mixed", file("npz", nil, named("a.weight", 128, 64, 3, 3), named("a.bias", 128), named("c.weight", 99, 64,
			3, 3),
			named("c.bias", 99), named("b.weight", 128, 3, 3, 64), named("b.bias", 128)), Mixed, "", "b.weight"},
		// of the others each can be of several frameworks: the one that is certain is not the most
		{"one of others that deceive", file("npz", nil, named("a.weight", 64, 3, 3, 3), named("a.bias", 64),
			named("s.weight", 64, 64, 3, 3), named("s.bias", 64), named("t.weight", 32, 32, 5, 5), named("t.bias", 32),
			named("b.weight", 128, 3, 3, 64), named("b.bias", 128)), Mixed, "", "b.weight"},
		{"one of a pickle transposed", file("torch", nil, named("a.weight", 128, 64, 3, 3), named("a.bias", 128),
			named("b.weight", 3, 3, 64, 128), named("b.bias", 128)), Mixed, "", "b.weight"},
		{"twice", file("safetensors", pt, named("a.weight", 128, 3, 64, 3), named("a.bias", 128)), Twice, "",
			"a.weight"},
		{"twice, to Keras", file("npz", nil, named("a.weight", 3, 64, 128, 3), named("a.bias", 128)), Twice, "",
			"a.weight"},
		{"vectors", file("npz", nil, named("a", 3)), None, "", ""},
		{"ours", file("safetensors", map[string]string{"assay.layout": "mlx", "format": "pt"}, named("a.weight", 64,
			3, 3, 3)), One,
			MLX, ""},
	} {
		r := Judge(c.file, nil)
		if r.Verdict != c.verdict || r.Layout != c.layout || c.named != "" && (len(r.Named) != 1 ||
			r.Named[0] != c.named) {
			t.Errorf("%s: %s %q %v (%s); want %s %q %q", c.what, r.Verdict, r.Layout, r.Named, r.Why, c.verdict,
				c.layout, c.named)
		}
		if r.Why == "" || r.Verdict == Untold && r.Tell == "" {
			t.Errorf("%s: %+v says not why, or not what would tell", c.what, r)
		}
	}
}
