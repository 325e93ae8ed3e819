package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// CUDAFunction finds functions of torch.cuda that raise where there is no CUDA. Those that answer all the same
// (is_available, device_count, empty_cache, memory_allocated, manual_seed…) are left alone: tried with PyTorch 2.3.1
// and 2.8.0 without a GPU.
var CUDAFunction = &audit.Rule{Name: "cuda-function", Title: "a function of torch.cuda that fails without CUDA",
	Severity: audit.Error, Fixable: true, Doc: audit.Doc{
		Why: "The function needs a CUDA device and raises without one: AssertionError (\"Torch not compiled with CUDA " +
			"enabled\"), or AttributeError where PyTorch was built " +
			"without CUDA. Others of torch.cuda (empty_cache, memory_allocated, manual_seed_all, is_available) do " +
			"nothing or answer 0, and are not found.",
		Bad:    "torch.cuda.synchronize()\n",
		Good:   "if device.type == \"mps\":\n    torch.mps.synchronize()\n",
		Source: "torch/cuda/__init__.py and torch/cuda/memory.py; tried with 2.3.1 and 2.8.0",
	}, Calls: asks(raises, noCUDA(func(p *audit.Pass, c *abstract.Call) {
		rest := strings.TrimPrefix(c.Path, "torch.cuda.")
		if c.Node == nil || rest == "is_bf16_supported" && p.Target.Since("2.4") {
			return
		}
		// None, or less than 0, does nothing
		if d := c.Arg(0, "device"); rest == "device" && (d == nil || d.Kind != abstract.Number &&
			d.Kind != abstract.Str ||
			d.Soft) {
			return
		}
		f := audit.Finding{Sure: true, Text: "torch.cuda." + rest + "() fails: " + noCUDAText,
			Source: "torch/cuda/__init__.py"}
		switch {
		case neutral[rest] != "" && p.Target.Since("2.9"):
			f.Hint = neutral[rest] + " works on every device"
		case rest == "synchronize":
			f.Hint = "torch.mps.synchronize() waits for the GPU of a Mac"
			if p.Target.Device == "mps" {
				f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write torch.mps.synchronize()",
					Edits: []audit.Edit{replace(c.Node, "torch.mps.synchronize()")}}
			}
		case strings.Contains(rest, "memory") || rest == "mem_get_info":
			f.Hint = "torch.mps.current_allocated_memory() and torch.mps.driver_allocated_memory() tell the memory of " +
				"MPS; a peak is measured by assay run"
		default:
			f.Hint = "ask torch.cuda.is_available() first"
		}
		p.Report(c.At, f)
	}))}

var neutral = map[string]string{"synchronize": "torch.accelerator.synchronize()",
	"current_device": "torch.accelerator.current_device_index()"}

// raises reports a function or class that needs a CUDA device, in some release.
func raises(path string) bool {
	rest, ok := strings.CutPrefix(path, "torch.cuda.")
	return ok && raising[rest]
}

var raising = set(`synchronize reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached
	reset_accumulated_memory_stats memory_summary mem_get_info get_device_name get_device_properties
	get_device_capability set_device current_device initial_seed get_rng_state set_rng_state init ipc_collect
	Stream current_stream default_stream Event FloatTensor LongTensor HalfTensor DoubleTensor IntTensor
	ByteTensor BoolTensor BFloat16Tensor utilization device set_per_process_memory_fraction
	can_device_access_peer CUDAGraph graph temperature power_draw nvtx.range_push nvtx.range_pop nvtx.mark
	is_bf16_supported`)
