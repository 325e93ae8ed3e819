package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// CUDATensorType finds torch.cuda.FloatTensor as a type.
var CUDATensorType = &audit.Rule{Name: "cuda-tensor-type", Title: "a tensor type of CUDA", Severity: audit.Error,
	Doc: audit.Doc{
		Why: "torch.cuda.FloatTensor and its kind name CUDA's tensors; as a default type, or in .type(), they raise " +
			"without CUDA.",
		Bad:    "torch.set_default_tensor_type(\"torch.cuda.FloatTensor\")\n",
		Good:   "torch.set_default_device(device)\n",
		Source: "torch/__init__.py, set_default_tensor_type",
	}, Calls: asks(named("torch.set_default_tensor_type", "torch.Tensor.type", "?.type"),
		noCUDA(func(p *audit.Pass, c *abstract.Call) {
			v := c.Arg(0, "dtype", "t")
			if v == nil || v.Soft {
				return
			}
			if v.Kind == abstract.Str && strings.HasPrefix(v.Text, "torch.cuda.") &&
				strings.HasSuffix(v.Text, "Tensor") ||
				v.Kind == abstract.API && strings.HasPrefix(v.Path, "torch.cuda.") &&
					strings.HasSuffix(v.Path, "Tensor") {
				p.Report(c.At, audit.Finding{Sure: true, Text: "a tensor type of CUDA: " + noCUDAText,
					Hint: "say device and dtype apart: torch.set_default_device(device), .to(device, dtype)"})
			}
		}))}
