package handoff

import (
	"slices"
	"strings"
)

// debugging is a variable that leaves debugging or profiling on: it is right while somebody looks for a fault, and
// makes a training slow or loud afterwards.
type debugging struct {
	name string
	on   func(value string) bool
	what string
}

func set(value string) bool { return value != "" }

func notZero(value string) bool {
	return !slices.Contains([]string{"", "0", "false", "off", "no"}, strings.ToLower(value))
}

func oneOf(words ...string) func(string) bool {
	return func(value string) bool {
		return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(value), func(r rune) bool {
			return r == ',' ||
				r == ':'
		}),
			func(w string) bool { return slices.Contains(words, strings.TrimSpace(w)) })
	}
}

func contains(parts ...string) func(string) bool {
	return func(value string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(strings.ToLower(value), p) })
	}
}

// debuggings is the table. Sources: Python's page of its command line and environment; PyTorch's pages torch.logging,
// CUDA environment variables and MPS environment variables; Apple's Metal pages; NCCL's page of its environment
// variables; malloc(3) of macOS and mallopt(3) of Linux; JAX's page of its configuration options.
var debuggings = []debugging{
	{name: "TORCH_LOGS", on: set, what: "torch writes logs of its compiler and dispatcher"},
	{name: "TORCH_TRACE", on: set, what: "torch.compile writes a trace"},
	{name: "TORCH_COMPILE_DEBUG", on: notZero, what: "torch.compile writes what it makes to files"},
	{name: "TORCH_DISTRIBUTED_DEBUG", on: oneOf("info", "detail"), what: "collectives are checked and logged"},
	{name: "TORCH_CPP_LOG_LEVEL", on: oneOf("info", "0", "1"), what: "torch's C++ side logs"},
	{name: "TORCH_SHOW_DISPATCH_TRACE", on: notZero, what: "every operator's dispatch is printed"},
	{name: "PYTORCH_DEBUG_MPS_ALLOCATOR", on: notZero, what: "the MPS allocator logs every allocation"},
	{name: "PYTORCH_MPS_LOG_PROFILE_INFO", on: notZero, what: "the MPS profiler logs operations"},
	{name: "PYTORCH_MPS_TRACE_SIGNPOSTS", on: notZero, what: "MPS operations are traced by signposts"},
	{name: "PYTORCH_NO_CUDA_MEMORY_CACHING", on: notZero,
		what: "CUDA's allocator keeps nothing: each tensor is a call of the driver"},
	{name: "MTL_DEBUG_LAYER", on: notZero, what: "Metal checks every call"},
	{name: "METAL_DEVICE_WRAPPER_TYPE", on: notZero, what: "Metal checks every call"},
	{name: "MTL_SHADER_VALIDATION", on: notZero, what: "Metal checks every memory access of a kernel"},
	{name: "MTL_CAPTURE_ENABLED", on: notZero, what: "Metal's capture of GPU work is on"},
	{name: "MTL_HUD_ENABLED", on: notZero, what: "Metal draws its counters"},
	{name: "CUDA_LAUNCH_BLOCKING", on: notZero, what: "every kernel launch waits for its end"},
	{name: "NCCL_DEBUG", on: oneOf("info", "trace"), what: "NCCL logs"},
	{name: "TF_CPP_MIN_VLOG_LEVEL", on: notZero, what: "TensorFlow's C++ side logs"},
	{name: "TF_CPP_MAX_VLOG_LEVEL", on: notZero, what: "TensorFlow's C++ side logs"},
	{name: "TF_CPP_VMODULE", on: set, what: "TensorFlow's C++ side logs"},
	{name: "JAX_DEBUG_NANS", on: notZero, what: "JAX looks for NaN after each operation"},
	{name: "JAX_DISABLE_JIT", on: notZero, what: "JAX compiles nothing"},
	{name: "JAX_LOG_COMPILES", on: notZero, what: "JAX logs what it compiles"},
	{name: "XLA_FLAGS", on: contains("dump"), what: "XLA writes its programs to files"},
	{name: "PYTHONDEVMODE", on: set,
		what: "Python's development mode: debug hooks of memory, asyncio's checks, all warnings"},
	{name: "PYTHONMALLOC", on: contains("debug"), what: "Python checks each block of memory"},
	{name: "PYTHONTRACEMALLOC", on: notZero, what: "Python keeps the place of each allocation"},
	{name: "PYTHONPROFILEIMPORTTIME", on: notZero, what: "Python prints the time of each import"},
	{name: "PYTHONVERBOSE", on: notZero, what: "Python prints each import"},
	{name: "PYTHONASYNCIODEBUG", on: notZero, what: "asyncio checks itself"},
	{name: "MALLOC_CHECK_", on: notZero, what: "the C library checks its heap"},
	{name: "MALLOC_PERTURB_", on: notZero, what: "the C library overwrites freed memory"},
	{name: "MallocStackLogging", on: notZero, what: "macOS keeps the stack of each allocation"},
	{name: "MallocScribble", on: notZero, what: "macOS overwrites freed memory"},
	{name: "MallocGuardEdges", on: notZero, what: "macOS puts guard pages round large blocks"},
	{name: "LD_PRELOAD", on: contains("libasan", "libtsan", "valgrind", "heaptrack", "tcmalloc_debug"),
		what: "a checker of memory is loaded into every program"},
	{name: "DYLD_INSERT_LIBRARIES", on: contains("asan", "tsan", "gmalloc"),
		what: "a checker of memory is loaded into every program"},
	{name: "TRANSFORMERS_VERBOSITY", on: oneOf("debug", "info"), what: "transformers logs"},
	{name: "HF_DEBUG", on: notZero, what: "the hub's client logs each request"},
}
