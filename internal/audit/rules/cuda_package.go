package rules

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// packages that exist for CUDA alone, and what a Mac has instead. MLX and MPS have what the last column says.
var cudaPackages = map[string]string{
	"flash_attn":            "torch.nn.functional.scaled_dot_product_attention",
	"apex":                  "torch.amp and torch.optim",
	"tensorrt":              "Core ML (coremltools)",
	"torch_tensorrt":        "Core ML (coremltools)",
	"cupy":                  "numpy, or torch tensors on MPS",
	"pycuda":                "",
	"pynvml":                "assay run, which samples the GPU of a Mac",
	"nvidia_smi":            "assay run, which samples the GPU of a Mac",
	"nvidia":                "",
	"triton":                "torch.compile, or kernels in Metal",
	"numba.cuda":            "",
	"cudf":                  "pandas",
	"cuml":                  "scikit-learn",
	"cugraph":               "networkx",
	"auto_gptq":             "mlx-lm's quantization",
	"transformer_engine":    "",
	"fused_dense_lib":       "",
	"mamba_ssm":             "",
	"causal_conv1d":         "",
	"MinkowskiEngine":       "",
	"spconv":                "",
	"torch_tensorrt.dynamo": "",
}

// cudaKernels are functions and classes of packages that can be imported on a Mac, and what of them has kernels for
// other devices alone. bitsandbytes: backends/*/ops.py of 0.50.2, where optimizer_update_8bit_blockwise is registered
// for cuda and xpu; functional.get_paged is CUDA's managed memory. xformers: device_types in ops/fmha of 0.0.35.
func cudaKernels(path string) (what, instead string) {
	rest, name := "", last(path)
	switch {
	case strings.HasPrefix(path, "bitsandbytes.optim."):
		rest = strings.TrimPrefix(path, "bitsandbytes.optim.")
		if strings.Contains(rest, ".") && lower(name) {
			return "", ""
		}
		if strings.HasSuffix(name, "8bit") {
			return "8-bit optimizers of bitsandbytes have kernels for CUDA and XPU alone: the first step fails",
				"torch.optim"
		}
		if strings.HasPrefix(name, "Paged") {
			return "paged optimizers of bitsandbytes take CUDA's managed memory", "torch.optim"
		}
	case path == "xformers.ops.memory_efficient_attention":
		return "memory_efficient_attention of xformers has no kernel for MPS: NotImplementedError",
			"torch.nn.functional.scaled_dot_product_attention"
	}
	return "", ""
}

func lower(name string) bool { return name != "" && name[0] >= 'a' && name[0] <= 'z' }

// CUDAPackage finds imports of packages that need CUDA.
var CUDAPackage = &audit.Rule{Name: "cuda-package", Title: "a package that needs CUDA", Severity: audit.Error,
	Doc: audit.Doc{
		Why: "The package has no build for macOS, or none that uses its GPU: the import fails on a Mac. An import in " +
			"a `try` with `except ImportError` is fine.",
		Bad:    "from flash_attn import flash_attn_func\n",
		Good:   "import torch.nn.functional as F\nout = F.scaled_dot_product_attention(q, k, v)\n",
		Source: "the packages' own pages: Linux or Windows with NVIDIA GPUs",
	}, Calls: []audit.Ask{
		on(under("import "), noCUDA(cudaImport)),
		on(hasCUDAKernels, noCUDA(func(p *audit.Pass, c *abstract.Call) {
			if what, instead := cudaKernels(c.Path); c.Node != nil {
				p.Report(c.At, audit.Finding{Sure: !p.Maybe() && p.FromTop(), Text: what, Hint: "a Mac has " + instead,
					Source: "the packages' sources"})
			}
		})),
		on(named("torch.utils.cpp_extension.CUDAExtension"), noCUDA(cudaExtension)),
		on(named("torch.utils.cpp_extension.load_inline"), noCUDA(func(p *audit.Pass, c *abstract.Call) {
			if c.Arg(-1, "cuda_sources") != nil {
				cudaExtension(p, c)
			}
		})),
		on(named("torch.utils.cpp_extension.load"), noCUDA(func(p *audit.Pass, c *abstract.Call) {
			if namesKernels(c.Arg(1, "sources")) {
				cudaExtension(p, c)
			}
		})),
	}}

func hasCUDAKernels(path string) bool {
	what, _ := cudaKernels(path)
	return what != ""
}

func cudaExtension(p *audit.Pass, c *abstract.Call) {
	p.Report(c.At, audit.Finding{Sure: true, Text: "an extension in CUDA cannot be built on a Mac",
		Hint:   "build CppExtension there, or write the kernel in Metal (torch.mps.compile_shader, from 2.7 on)",
		Source: "torch/utils/cpp_extension.py"})
}

func cudaImport(p *audit.Pass, c *abstract.Call) {
	name := strings.TrimPrefix(c.Path, "import ")
	top, _, _ := strings.Cut(name, ".")
	instead, known := cudaPackages[name]
	if !known {
		if instead, known = cudaPackages[top]; !known {
			return
		}
		name = top // `from flash_attn.layers import x` is told once, for the package
	}
	if p.Guarded() || p.Under(func(test pyast.Expr) bool { // if IS_SPCONV_AVAILABLE, if find_spec("triton")
		text := strings.ToLower(p.Text(test))
		return strings.Contains(text, "avail") || strings.Contains(text, "installed") ||
			strings.Contains(text, "find_spec") || strings.HasPrefix(text, "has_")
	}) {
		return
	}
	f := audit.Finding{Sure: !p.Maybe() && p.Func() == nil,
		Text: fmt.Sprintf("%s needs CUDA: it cannot be used on a Mac", name), Source: "the package's requirements"}
	if !f.Sure {
		f.Severity = audit.Warning
		f.Text = fmt.Sprintf("%s needs CUDA: this import fails on a Mac if it is reached", name)
	}
	if instead != "" {
		f.Hint = "a Mac has " + instead
	}
	p.Report(c.At, f)
}

// namesKernels reports whether a list of sources has one in CUDA.
func namesKernels(v *abstract.Value) bool {
	if v == nil {
		return false
	}
	return v.Kind == abstract.Str && strings.HasSuffix(v.Text, ".cu") || slices.ContainsFunc(v.Items, namesKernels)
}
