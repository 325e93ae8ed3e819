package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
)

// TypeNotOnMPS finds other dtypes that MPS does not have.
var TypeNotOnMPS = &audit.Rule{Name: "dtype-not-on-mps", Title: "a dtype that MPS does not have", Severity: audit.Error,
	Doc: audit.Doc{
		Why: "MPS has no complex128 and no float8, and bfloat16 only from macOS 14 on; complex64 came with PyTorch 2.1. " +
			"Making or moving such a tensor raises TypeError; one of float8, or a copy of " +
			"complex128 (before PyTorch 2.12 any), can lie there, and operations on it raise.",
		Bad:    "x = torch.zeros(3, dtype=torch.complex128, device=\"mps\")\n",
		Good:   "x = torch.zeros(3, dtype=torch.complex64, device=\"mps\")\n",
		Source: "aten/src/ATen/mps/EmptyTensor.cpp, native/mps/OperationUtils.mm",
	}, Calls: asks(under("torch."), mpsOnly(func(p *audit.Pass, c *abstract.Call) {
		dtype, sure := arriving(p, c)
		if f := refusedType(p, dtype); f != nil && dtype != "float64" { // which has a rule of its own
			p.Report(c.At, audit.Finding{Sure: sure, Text: dtype + " reaches MPS here, which does not have it: " +
				f.Error + " (" + f.When + ")", Hint: f.Remedy, Source: f.Source, Fact: f.Name})
			return
		}
		hint, kept := "", false // kept: bytes may lie there, and kernels do not take them
		switch dtype {
		case "complex128":
			hint = "complex64 is there"
			switch last(c.Path) {
			case "to", "tensor", "as_tensor", "asarray":
				// a copy makes its place by empty_strided, which looks at float64 alone
				kept = true
			default:
				kept = !p.Target.Since("2.12")
			}
		case "complex64":
			if p.Target.Since("2.1") {
				return
			}
			hint = "complex64 is on MPS from torch 2.1 on"
		case "float8_e4m3fn", "float8_e5m2":
			hint = "keep such weights on the CPU, or in float16"
			kept = true
		default:
			return
		}
		// a conversion there is a kernel
		if kept && !(c.Self != nil && c.Self.Kind == abstract.Tensor && c.Self.Where.Surely(abstract.OnMPS)) {
			p.Report(c.At, audit.Finding{Sure: sure, Severity: audit.Warning,
				Text: dtype + " reaches MPS here: it can lie there, and almost every operation on it raises",
				Hint: hint})
			return
		}
		p.Report(c.At, audit.Finding{Sure: sure, Text: dtype + " reaches MPS here, which does not have it: TypeError",
			Hint: hint})
	}))}
