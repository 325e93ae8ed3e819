package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"assay/internal/convert"
	"assay/internal/fault"
	"assay/internal/layout"
	"assay/internal/weights"
)

// createConverted writes the tensors of a plan to a file, in the format that its ending names.
func createConverted(p *convert.Plan, out string, outs []weights.Tensor) error {
	lower := strings.ToLower(out)
	meta := p.Meta
	switch filepath.Ext(lower) {
	case ".h5":
		if !strings.HasSuffix(lower, ".weights.h5") {
			return fault.Hint(fmt.Errorf("no whole model is written, and %s is the name of one", filepath.Base(out)),
				"Keras's files of weights end in .weights.h5")
		}
		return weights.WriteKeras(out, outs, p.Layers)
	case ".pt", ".pth", ".bin":
		if p.To != layout.Torch {
			return fault.Hint(fmt.Errorf("%s is the name of a file of PyTorch's, and its layout is not", filepath.Base(out)),
				"write .safetensors, or convert --to torch")
		}
		return weights.WriteTorch(out, outs)
	case ".npz":
		meta = nil // it has no place for any
	}
	w, err := weights.Create(out, meta, outs)
	if err != nil {
		return err
	}
	defer w.Remove()
	return convert.Write(outs, w)
}
