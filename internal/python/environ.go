package python

import (
	_ "embed"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"assay/internal/evidence"
	"assay/internal/text"
)

// Variable is an environment variable that has a meaning for a training run, or is believed to have one.
type Variable struct {
	Name    string
	Since   string // first PyTorch release that reads it, where that matters; releases before 2.0 were not looked at
	System  string // darwin or linux where only that one reads it
	Unread  bool   // circulates, and nothing reads it
	Meaning string // what it does
	Source  string // how that is known

	check func(c *environCheck, v Variable, value string)
}

// lastRelease is the newest PyTorch whose macOS binaries the table was read from.
const lastRelease = "2.15"

// How the rows are known. The binaries' text constants show which names exist; the sources show how values are read.
const (
	fromBinaries = "text constants of the macOS arm64 binaries of PyTorch 2.0.1 to 2.15.0"
	fromFallback = fromBinaries + "; aten/src/ATen/mps/MPSFallback.mm (std::stoi in a static initialiser; issue #86195)"
	fromRatio    = fromBinaries + "; aten/src/ATen/mps/MPSAllocator.mm (strtod, set{High,Low}WatermarkRatio)"
	fromApple    = "Apple, Metal developer documentation"
)

// Variables is the table that CheckEnviron works from, in the order of its findings.
func Variables() []Variable { return slices.Clone(variables) }

var variables = []Variable{
	{Name: "PYTORCH_ENABLE_MPS_FALLBACK", System: "darwin", Source: fromFallback, check: checkFallback,
		Meaning: "operators without an MPS kernel run on the CPU; a decimal integer, 0 is off, read once while torch is imported"},
	{Name: "PYTORCH_MPS_HIGH_WATERMARK_RATIO", System: "darwin", Source: fromRatio, check: checkWatermarks,
		Meaning: "hard limit of the allocator as a share of the recommended working set; 0 to 2, default 1.7, 0 is no limit"},
	{Name: "PYTORCH_MPS_LOW_WATERMARK_RATIO", System: "darwin", Source: fromRatio, check: checkWatermarks,
		Meaning: "soft limit, above which cached blocks are collected; 0 to the high ratio, default 1.4 (1.0 on discrete GPUs up to 2.12)"},
	{Name: "PYTORCH_DEBUG_MPS_ALLOCATOR", System: "darwin", Source: fromBinaries +
		"; MPSAllocator.mm (strtol, any base)", check: flagBits(31),
		Meaning: "bits: 1 profiling, 2 allocations, 4 recycled, 8 releases, 16 only large ones"},
	{Name: "PYTORCH_MPS_LOG_PROFILE_INFO", Since: "2.1", System: "darwin", Source: fromBinaries, check: flagBits(1023),
		Meaning: "bits: 1 operations, 2 copies, 4 fallbacks, 8 all statistics at exit, 16 to 64 single ones, 128 GPU times, 256 kernel times, 512 buffers"},
	{Name: "PYTORCH_MPS_TRACE_SIGNPOSTS", Since: "2.1", System: "darwin", Source: fromBinaries,
		check:   flagBits(math.MaxInt32),
		Meaning: "bits of tracing by OS signposts"},
	{Name: "PYTORCH_MPS_PREFER_METAL", Since: "2.3", System: "darwin", Source: fromBinaries +
		"; operations/LinearAlgebra.mm (has_env)", check: checkPresence,
		Meaning: "matrix products by Metal kernels instead of MPSGraph; being set turns it on, whatever the value"},
	{Name: "PYTORCH_MPS_FAST_MATH", Since: "2.5", System: "darwin", Source: fromBinaries +
		"; mps/OperationUtils.mm (any value but 0)", check: checkFastMath,
		Meaning: "compiles Metal kernels with fast math: results change, above all for NaN and infinity"},
	{Name: "PYTORCH_MPS_DISABLE_PREFILL_ATTENTION", Since: "2.13", System: "darwin", Source: fromBinaries,
		Meaning: "attention by the older path"},
	{Name: "PYTORCH_BINARY_FORCE_FLAVOR", Since: "2.13", System: "darwin", Source: fromBinaries, check: checkFlavor,
		Meaning: "developers' switch of elementwise kernels"},
	{Name: "PYTORCH_UNARY_FORCE_FLAVOR", Since: "2.13", System: "darwin", Source: fromBinaries +
		"; mps/OperationUtils.mm", check: checkFlavor, Meaning: "developers' switch of elementwise kernels"},
	{Name: "PYTORCH_MPS_METAL_VERSION", Since: "2.15", System: "darwin", Source: fromBinaries, check: checkMetalVersion,
		Meaning: "Metal language version: 3.1, 3.2 or 4.0"},

	{Name: "PYTORCH_MPS_LOG_LEVEL", Unread: true, Source: fromBinaries,
		Meaning: "PYTORCH_MPS_LOG_PROFILE_INFO and PYTORCH_DEBUG_MPS_ALLOCATOR are the ones that log"},
	{Name: "PYTORCH_MPS_ALLOCATOR_POLICY", Unread: true, Source: fromBinaries,
		Meaning: "the allocator is steered by the two watermark ratios"},
	{Name: "PYTORCH_MPS_ALLOCATOR_CACHE_SIZE", Unread: true, Source: fromBinaries,
		Meaning: "the allocator is steered by the two watermark ratios"},
	{Name: "PYTORCH_MPS_BACKEND", Unread: true, Source: fromBinaries, Meaning: "the device is chosen in the program"},
	{Name: "PYTORCH_ENABLE_MPS_CPU_FALLBACK", Unread: true, Source: fromBinaries,
		Meaning: "PYTORCH_ENABLE_MPS_FALLBACK is the one that is read"},

	{Name: "MTL_CAPTURE_ENABLED", System: "darwin", Source: fromApple +
		"; torch.mps.profiler.metal_capture asks for it", check: slowing("1"),
		Meaning: "lets a program capture its GPU work, which torch.mps.profiler.metal_capture needs; costs time while on"},
	{Name: "MTL_DEBUG_LAYER", System: "darwin", Source: fromApple, check: slowing("1"),
		Meaning: "Metal checks every call"},
	{Name: "MTL_SHADER_VALIDATION", System: "darwin", Source: fromApple, check: slowing("1"),
		Meaning: "Metal checks every memory access of a kernel"},
	{Name: "METAL_DEVICE_WRAPPER_TYPE", System: "darwin", Source: fromApple, check: slowing("1"),
		Meaning: "Metal checks every call"},
	{Name: "PYTORCH_CUDA_ALLOC_CONF", System: "linux",
		Source:  "PyTorch, CUDA semantics; no reference in the MPS allocator",
		Meaning: "settings of the CUDA allocator"},
	{Name: "CUBLAS_WORKSPACE_CONFIG", System: "linux", Source: "PyTorch, torch.use_deterministic_algorithms",
		check:   checkWorkspace,
		Meaning: ":4096:8 or :16:8 make cuBLAS repeatable"},
	{Name: "CUDA_VISIBLE_DEVICES", System: "linux", Source: "NVIDIA, CUDA programming guide", check: checkVisible,
		Meaning: "which NVIDIA GPUs a program sees"},
	{Name: "CUDA_LAUNCH_BLOCKING", System: "linux", Source: "NVIDIA, CUDA programming guide", check: slowing("1"),
		Meaning: "every kernel launch waits for its end"},

	{Name: "OMP_NUM_THREADS", Source: "OpenMP 5.2 §21.2", check: checkThreads,
		Meaning: "threads of OpenMP: PyTorch's CPU operators"},
	{Name: "MKL_NUM_THREADS", Source: "Intel oneMKL developer guide", check: checkThreads,
		Meaning: "threads of MKL, which Apple silicon builds do not have"},
	{Name: "VECLIB_MAXIMUM_THREADS", System: "darwin", Source: "Apple, Accelerate (vecLib)", check: checkThreads,
		Meaning: "threads of Accelerate"},
	{Name: "OPENBLAS_NUM_THREADS", Source: "OpenBLAS, USAGE.md", check: checkThreads,
		Meaning: "threads of OpenBLAS: NumPy and SciPy wheels"},
	{Name: "NUMEXPR_NUM_THREADS", Source: "numexpr user guide", check: checkThreads, Meaning: "threads of numexpr"},
	{Name: "KMP_DUPLICATE_LIB_OK", Source: "LLVM OpenMP runtime, error 15", check: checkDuplicate,
		Meaning: "lets two OpenMP runtimes live in one process; its own message calls that unsafe"},
	{Name: "TOKENIZERS_PARALLELISM", Source: "huggingface/tokenizers, parallelism.rs", check: checkTokenizers,
		Meaning: "threads of Hugging Face tokenizers; off for an empty value, 0, f, false, n, no, off"},

	{Name: "PYTHONPATH", Source: "Python, command line and environment", check: checkPythonPath,
		Meaning: "folders searched before the standard library and the installed packages"},
	{Name: "PYTHONHOME", Source: "Python, command line and environment", check: checkHome,
		Meaning: "where the standard library is taken from"},
	{Name: "PYTHONHASHSEED", Source: "Python, command line and environment", check: checkHashSeed,
		Meaning: "random, or 0 to 4294967295; the order of sets of strings follows it"},
	{Name: "PYTHONOPTIMIZE", Source: "Python, command line and environment", check: checkOptimize,
		Meaning: "assert statements are left out"},
	{Name: "PYTHONWARNINGS", Source: "Python, command line and environment", check: checkWarnings,
		Meaning: "filters of warnings"},
	{Name: "OBJC_DISABLE_INITIALIZE_FORK_SAFETY", System: "darwin", Source: "objc4, objc-initialize.mm",
		check: checkForkSafety, Meaning: "switches off the check that stops forked children from using Objective-C"},
	{Name: "DYLD_INSERT_LIBRARIES", System: "darwin", Source: "dyld(1)", check: checkPreload,
		Meaning: "libraries loaded into every program first"},
	{Name: "DYLD_LIBRARY_PATH", System: "darwin", Source: "dyld(1)", check: checkLibraryPath,
		Meaning: "folders searched for libraries first"},
	{Name: "DYLD_FALLBACK_LIBRARY_PATH", System: "darwin", Source: "dyld(1)", check: checkLibraryPath,
		Meaning: "folders searched for libraries last"},
	{Name: "DYLD_FRAMEWORK_PATH", System: "darwin", Source: "dyld(1)", check: checkLibraryPath,
		Meaning: "folders searched for frameworks first"},
	{Name: "LD_PRELOAD", System: "linux", Source: "ld.so(8)", check: checkPreload,
		Meaning: "libraries loaded into every program first"},
	{Name: "LD_LIBRARY_PATH", System: "linux", Source: "ld.so(8)", check: checkLibraryPath,
		Meaning: "folders searched for libraries first"},
}

type environCheck struct {
	environ []string
	release string // of torch, or ""
	goos    string
	cores   int
	dir     string
	found   []evidence.Finding
	ratios  bool // the two watermark rows are judged together, once
	forMac  bool // what a Mac alone reads is judged as if this were one
}

// CheckEnviron judges the environment that a training run would start in: values that PyTorch would refuse or misread,
// names that nothing reads, and settings that change what is measured. torchRelease is the installed one ("2.15.0"), or
// empty when it is not known; goos is the system that the run is for. It reads the folders of PYTHONPATH, and nothing
// else outside its arguments but the number of cores. "Set too late" is seen by the agent, at run time.
func CheckEnviron(environ []string, torchRelease string, goos string) []evidence.Finding {
	dir, _ := os.Getwd()
	c := environCheck{environ: environ, release: torchRelease, goos: goos, cores: runtime.NumCPU(), dir: dir}
	return c.run()
}

// CheckEnvironForMac is CheckEnviron for a run here, and for the Mac that the project aims at: where here is no Mac, a
// variable that only a Mac reads is judged as one would read it, and the finding says so. What depends on the Mac's
// files or cores is not judged.
func CheckEnvironForMac(environ []string, torchRelease, here string) []evidence.Finding {
	dir, _ := os.Getwd()
	c := environCheck{environ: environ, release: torchRelease, goos: here, cores: runtime.NumCPU(), dir: dir,
		forMac: here != "darwin"}
	return c.run()
}

// ofTheMac says whether a variable is judged for the Mac aimed at though this is none.
func (c *environCheck) ofTheMac(v Variable) bool {
	return c.forMac && v.System == "darwin" && !strings.HasPrefix(v.Name, "DYLD_") && v.Name != "VECLIB_MAXIMUM_THREADS"
}

func (c *environCheck) run() []evidence.Finding {
	known := map[string]bool{}
	for _, v := range variables {
		known[v.Name] = true
		value, set := lookup(c.environ, v.Name)
		if !set {
			continue
		}
		switch {
		case v.Unread:
			c.add("env-unread", evidence.Warning, v.Name, value,
				"no PyTorch release from 2.0 to "+lastRelease+" reads it: it does nothing", v.Meaning)
			continue
		case v.System != "" && v.System != c.goos && !c.ofTheMac(v):
			c.add("env-no-effect", evidence.Note, v.Name, value,
				"has no effect on "+systemName(c.goos)+" ("+v.Meaning+")", "")
			continue
		case v.Since != "" && c.release != "" && compareVersions(c.release, v.Since) < 0:
			c.add("env-unread", evidence.Warning, v.Name, value,
				fmt.Sprintf("torch %s does not read it: it came with %s", c.release, v.Since), "")
			continue
		}
		before := len(c.found)
		if v.check != nil {
			v.check(c, v, value)
		} else {
			c.add("env-set", evidence.Note, v.Name, value, v.Meaning, "")
		}
		if c.ofTheMac(v) {
			for i := range c.found[before:] {
				c.found[before+i].Text += " (on the Mac aimed at)"
			}
			if len(c.found) == before {
				c.add("env-no-effect", evidence.Note, v.Name, value,
					"has no effect on "+systemName(c.goos)+" ("+v.Meaning+")", "")
			}
		}
	}
	c.strangers(known)
	c.threadsTogether()
	return c.found
}

func systemName(goos string) string {
	switch goos {
	case "darwin":
		return "a Mac"
	case "linux":
		return "Linux"
	}
	return goos
}

func (c *environCheck) add(name string, sev evidence.Severity, variable, value, text, hint string) {
	if len(value) > 200 {
		value = value[:200] + "…"
	}
	c.found = append(c.found, evidence.Finding{Name: name, Severity: sev, Text: variable + "=" + value + ": " + text,
		Hint: hint, Basis: evidence.Derived})
}

// strangers finds names that mean to be one of the table's.
func (c *environCheck) strangers(known map[string]bool) {
	var names []string
	for _, e := range c.environ {
		if name, _, ok := strings.Cut(e, "="); ok && !known[name] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		value := getenv(c.environ, name)
		near, distance := nearest(name)
		words := strings.Split(name, "_")
		aboutMPS := slices.Contains(words, "MPS") && (strings.HasPrefix(name, "PYTORCH_") ||
			strings.Contains(name, "WATERMARK") || strings.Contains(name, "FALLBACK"))
		switch {
		case distance <= 1 || aboutMPS && (distance <= 3 || sameWords(name, near)):
			hint := "did you mean " + near + "?"
			if v := c.row(near); v != nil && v.Unread {
				hint = v.Meaning
			}
			c.add("env-near-miss", evidence.Warning, name, value, "nothing reads a variable of this name", hint)
		case aboutMPS:
			c.add("env-unread", evidence.Warning, name, value,
				"no PyTorch release from 2.0 to "+lastRelease+" reads it: it does nothing", "")
		}
	}
}

func (c *environCheck) row(name string) *Variable {
	for i := range variables {
		if variables[i].Name == name {
			return &variables[i]
		}
	}
	return nil
}

// nearest is the table's name with the smallest edit distance; a name with the same words in another order comes first.
func nearest(name string) (string, int) {
	best, distance := "", math.MaxInt
	for _, v := range variables {
		if len(v.Name) < 8 || v.System == "linux" && strings.HasPrefix(v.Name, "LD_") {
			continue
		}
		if !v.Unread && sameWords(name, v.Name) {
			return v.Name, text.Distance(name, v.Name, len(v.Name))
		}
		if d := text.Distance(name, v.Name, len(v.Name)); d < distance {
			best, distance = v.Name, d
		}
	}
	return best, distance
}

// sameWords: PYTORCH_MPS_ENABLE_FALLBACK for PYTORCH_ENABLE_MPS_FALLBACK, MPS_HIGH_WATERMARK_RATIO without its prefix.
func sameWords(a, b string) bool {
	fold := func(s string) []string {
		words := slices.DeleteFunc(strings.Split(s, "_"), func(w string) bool { return w == "PYTORCH" || w == "TORCH" })
		slices.Sort(words)
		return words
	}
	return strings.Contains(a, "MPS") && slices.Equal(fold(a), fold(b))
}

// leadingInteger is what std::stoi and strtol accept: white space, a sign, digits; the rest is not looked at.
var leadingInteger = regexp.MustCompile(`^[ \t\n\v\f\r]*([+-]?[0-9]+)(.*)`)

func checkFallback(c *environCheck, v Variable, value string) {
	m := leadingInteger.FindStringSubmatch(value)
	if m == nil {
		c.add("env-breaks-import", evidence.Error, v.Name, value,
			"does not start with a number: the exception leaves a static initialiser, and importing torch fails",
			"set it to 1 or 0")
		return
	}
	n, err := strconv.ParseInt(m[1], 10, 32)
	if err != nil {
		c.add("env-breaks-import", evidence.Error, v.Name, value, "is outside a 32-bit integer: importing torch fails",
			"set it to 1 or 0")
		return
	}
	if m[2] != "" {
		c.add("env-misread", evidence.Warning, v.Name, value, fmt.Sprintf("is read as %d", n), "set it to 1 or 0")
	}
	if n != 0 {
		c.add("env-fallback-on", evidence.Note, v.Name, value,
			"operators without an MPS kernel run on the CPU; torch warns once for each of them",
			"`assay run` counts them by line")
	}
}

// leadingFloat is what strtod accepts.
var leadingFloat = regexp.MustCompile(`(?i)^[ \t\n\v\f\r]*([+-]?(?:inf(?:inity)?|nan|0x[0-9a-f]+(?:\.[0-9a-f]*)?(?:p[+-]?[0-9]+)?|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?))(.*)`)

// strtod is C's: text that does not start with a number is 0.
func strtod(value string) (x float64, whole bool) {
	m := leadingFloat.FindStringSubmatch(value)
	if m == nil {
		return 0, false
	}
	text := strings.ToLower(m[1])
	if strings.Contains(text, "0x") && !strings.Contains(text, "p") {
		text += "p0"
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(x, 0) {
		return 0, false
	}
	return x, m[2] == ""
}

// checkWatermarks follows setHighWatermarkRatio and setLowWatermarkRatio: the high one first, then the low one against
// it.
func checkWatermarks(c *environCheck, _ Variable, _ string) {
	if c.ratios {
		return
	}
	c.ratios = true
	const highName, lowName = "PYTORCH_MPS_HIGH_WATERMARK_RATIO", "PYTORCH_MPS_LOW_WATERMARK_RATIO"
	read := func(name string, otherwise float64) (x float64, value string, set bool) {
		value, set = lookup(c.environ, name)
		if !set {
			return otherwise, "", false
		}
		x, whole := strtod(value)
		if !whole {
			c.add("env-misread", evidence.Warning, name, value,
				fmt.Sprintf("is read as %g, up to the first character that belongs to no number", x), "write it as 0.9")
		}
		return x, value, true
	}
	high, highText, highSet := read(highName, 1.7)
	low, lowText, lowSet := read(lowName, 1.4)
	if !(high >= 0 && high <= 2) { // NaN too
		c.add("env-range", evidence.Error, highName, highText,
			fmt.Sprintf("the first allocation on MPS raises `invalid high watermark ratio %g`; valid are 0 to 2", high),
			"leave it unset: the default is 1.7")
		return
	}
	if highSet && high == 0 {
		c.add("env-no-limit", evidence.Warning, highName, highText,
			"no memory limit: where a run would have raised out of memory, macOS swaps or kills it",
			"0.9 to 1.7, with "+lowName+" not above it")
	}
	limit := high
	if high == 0 {
		limit = 2
	}
	switch {
	case lowSet && !(low >= 0 && low <= limit):
		c.add("env-range", evidence.Error, lowName, lowText,
			fmt.Sprintf("the first allocation on MPS raises `invalid low watermark ratio %g`; valid are 0 to %g", low,
				limit), "")
	case !lowSet && low > limit:
		c.add("env-range", evidence.Error, highName, highText,
			"it is below the default of the low ratio: the first allocation on MPS raises `invalid low watermark ratio 1.4`", "set "+lowName+" as well, not above it")
	case lowSet && low == 0:
		c.add("env-set", evidence.Note, lowName, lowText, "collection of cached blocks and adaptive commit are off", "")
	}
}

// flagBits checks a number made of bits, as strtol with base 0 reads it.
func flagBits(all int64) func(*environCheck, Variable, string) {
	return func(c *environCheck, v Variable, value string) {
		n, err := strconv.ParseInt(strings.TrimSpace(value), 0, 64)
		switch {
		case err != nil:
			c.add("env-misread", evidence.Warning, v.Name, value,
				"is no number (decimal, 0x or 0 in front): what it starts with is read, or 0", v.Meaning)
		case n < 0 || n > all:
			c.add("env-range", evidence.Warning, v.Name, value, fmt.Sprintf("has bits beyond %d", all), v.Meaning)
		case n != 0:
			c.add("env-slows", evidence.Note, v.Name, value, "logging or tracing is on and costs time ("+v.Meaning+")",
				"")
		}
	}
}

func checkPresence(c *environCheck, v Variable, value string) {
	if value == "0" || value == "" || strings.EqualFold(value, "false") {
		c.add("env-misread", evidence.Warning, v.Name, value, "turns it on: only whether it is set is looked at",
			"unset it")
		return
	}
	c.add("env-set", evidence.Note, v.Name, value, v.Meaning, "")
}

func checkFastMath(c *environCheck, v Variable, value string) {
	switch value {
	case "0":
	case "1":
		c.add("env-set", evidence.Note, v.Name, value, v.Meaning, "")
	default:
		c.add("env-misread", evidence.Warning, v.Name, value, "turns fast math on: every value but 0 does",
			"set it to 1 or unset it")
	}
}

func checkFlavor(c *environCheck, v Variable, value string) {
	c.add("env-set", evidence.Warning, v.Name, value, v.Meaning+": measured times are not those of an ordinary run",
		"unset it")
}

func checkMetalVersion(c *environCheck, v Variable, value string) {
	if value != "3.1" && value != "3.2" && value != "4.0" {
		c.add("env-range", evidence.Warning, v.Name, value, "torch warns and ignores it", "3.1, 3.2 or 4.0")
		return
	}
	c.add("env-set", evidence.Note, v.Name, value, v.Meaning, "")
}

// slowing: a diagnostic that must be off while times are measured.
func slowing(on string) func(*environCheck, Variable, string) {
	return func(c *environCheck, v Variable, value string) {
		if value == on {
			c.add("env-slows", evidence.Warning, v.Name, value,
				"times measured now are not those of an ordinary run ("+v.Meaning+")", "unset it when you measure")
		}
	}
}

var workspaceForm = regexp.MustCompile(`^(:[0-9]+:[0-9]+)+$`)

func checkWorkspace(c *environCheck, v Variable, value string) {
	switch {
	case value == ":4096:8" || value == ":16:8":
	case workspaceForm.MatchString(value):
		c.add("env-range", evidence.Note, v.Name, value,
			"torch.use_deterministic_algorithms(True) accepts :4096:8 and :16:8 only", "")
	default:
		c.add("env-range", evidence.Warning, v.Name, value, "is not of the form :SIZE:COUNT", ":4096:8")
	}
}

func checkVisible(c *environCheck, v Variable, value string) {
	if value == "" || strings.HasPrefix(value, "-1") {
		c.add("env-set", evidence.Note, v.Name, value, "hides every NVIDIA GPU", "")
	}
}

// checkThreads: OMP_NUM_THREADS may be a list, one number a nesting level.
func checkThreads(c *environCheck, v Variable, value string) {
	first, _, _ := strings.Cut(value, ",")
	n, err := strconv.Atoi(strings.TrimSpace(first))
	switch {
	case err != nil || n < 1:
		c.add("env-range", evidence.Warning, v.Name, value,
			"is no positive whole number: it is ignored, or the runtime complains", "")
	case n > c.cores:
		c.add("env-threads", evidence.Warning, v.Name, value,
			fmt.Sprintf("more threads than the %d cores of this machine: they get in each other's way", c.cores), "")
	case n == 1 && c.cores > 1 && v.Name == "OMP_NUM_THREADS":
		c.add("env-threads", evidence.Note, v.Name, value, fmt.Sprintf("PyTorch's CPU operators use one of %d cores",
			c.cores), "")
	}
}

// threadsTogether: PyTorch built with MKL lets MKL_NUM_THREADS win for matrix products, OMP_NUM_THREADS elsewhere.
func (c *environCheck) threadsTogether() {
	omp, ok1 := lookup(c.environ, "OMP_NUM_THREADS")
	mkl, ok2 := lookup(c.environ, "MKL_NUM_THREADS")
	if ok1 && ok2 && omp != mkl && c.goos == "linux" {
		c.add("env-contradiction", evidence.Note, "OMP_NUM_THREADS", omp,
			"and MKL_NUM_THREADS="+mkl+": matrix products and other CPU operators use different numbers of threads", "")
	}
}

func checkDuplicate(c *environCheck, v Variable, value string) {
	switch strings.ToLower(value) {
	case "true", "1", "yes", "on", "t", "y", ".t.", ".true.", "enabled":
		c.add("env-duplicate-openmp", evidence.Warning, v.Name, value,
			"hides that two OpenMP runtimes were loaded, which can crash or give wrong results without a word",
			"find the second libomp: mixed conda and pip packages are the usual cause")
	}
}

func checkTokenizers(c *environCheck, v Variable, value string) {
	switch strings.ToLower(value) {
	case "", "off", "false", "f", "no", "n", "0", "on", "true", "t", "yes", "y", "1":
	default:
		c.add("env-misread", evidence.Note, v.Name, value, "counts as on", "true or false")
	}
}

//go:embed stdlib.txt
var stdlibText string

var stdlibNames = sortedWords(stdlibText)

func sortedWords(text string) []string {
	var words []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			words = append(words, strings.Fields(line)...)
		}
	}
	slices.Sort(words)
	return words
}

// maxEntries bounds what is read of a folder on PYTHONPATH.
const maxEntries = 4096

func checkPythonPath(c *environCheck, v Variable, value string) {
	if value == "" {
		return // Python takes an empty value as none
	}
	var seen []string
	for _, entry := range strings.Split(value, string(filepath.ListSeparator)) {
		if slices.Contains(seen, entry) {
			continue
		}
		seen = append(seen, entry)
		folder := entry
		switch {
		case entry == "":
			c.add("env-import-path", evidence.Warning, v.Name, value,
				"an empty entry is the folder that the run is started in: what is imported depends on it",
				"remove the stray colon")
			folder = c.dir
		case !filepath.IsAbs(entry):
			c.add("env-import-path", evidence.Note, v.Name, value,
				"the entry "+entry+" is relative: what is imported depends on the folder that the run is started in",
				"")
			folder = filepath.Join(c.dir, entry)
		}
		st, err := os.Stat(folder)
		if err != nil {
			c.add("env-import-path", evidence.Note, v.Name, value, "there is no "+folder, "")
			continue
		}
		if !st.IsDir() {
			continue // an archive
		}
		var standard, packages []string
		for _, name := range modulesIn(folder) {
			if _, ok := slices.BinarySearch(stdlibNames, name); ok {
				standard = append(standard, name)
			}
			if slices.Contains([]string{"torch", "torchvision", "numpy", "mlx", "tensorflow"}, name) {
				packages = append(packages, name)
			}
		}
		if len(standard) > 0 {
			c.add("env-shadows-stdlib", evidence.Warning, v.Name, value,
				folder+" hides modules of the standard library: "+strings.Join(standard, ", "),
				"rename them, or take the folder off PYTHONPATH")
		}
		if len(packages) > 0 {
			c.add("env-shadows-package", evidence.Warning, v.Name, value,
				folder+" comes before the installed packages and has "+strings.Join(packages, ", "),
				"the environment's own packages are not the ones imported")
		}
	}
}

// modulesIn lists what `import` would find in a folder: x.py, x.so, and folders with an __init__.py. A folder without
// one is a namespace package and gives way to the standard library, which comes later.
func modulesIn(folder string) []string {
	f, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxEntries)
	var names []string
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasSuffix(name, ".py"):
			names = append(names, strings.TrimSuffix(name, ".py"))
		case strings.HasSuffix(name, ".so"):
			names = append(names, before(name, "."))
		case isFile(filepath.Join(folder, name, "__init__.py")):
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func checkHome(c *environCheck, v Variable, value string) {
	if value != "" {
		c.add("env-import-path", evidence.Warning, v.Name, value,
			"every Python takes its standard library from there, virtual environments too", "unset it")
	}
}

func checkHashSeed(c *environCheck, v Variable, value string) {
	if value == "" || value == "random" {
		return
	}
	if _, err := strconv.ParseUint(value, 10, 32); err != nil {
		c.add("env-range", evidence.Error, v.Name, value, "Python refuses to start", "random, or 0 to 4294967295")
	}
}

func checkOptimize(c *environCheck, v Variable, value string) {
	if value != "" && value != "0" {
		c.add("env-set", evidence.Note, v.Name, value, v.Meaning, "")
	}
}

func checkWarnings(c *environCheck, v Variable, value string) {
	for _, filter := range strings.Split(value, ",") {
		parts := strings.Split(filter, ":")
		// ignore, or ignore::UserWarning: torch's messages about fallbacks are UserWarnings.
		if strings.HasPrefix("ignore", strings.TrimSpace(parts[0])) && strings.TrimSpace(parts[0]) != "" &&
			(len(parts) < 3 || parts[2] == "" || parts[2] == "UserWarning") && (len(parts) < 2 || parts[1] == "") {
			c.add("env-hides-warnings", evidence.Warning, v.Name, value,
				"hides torch's warnings, those about operators that fall back to the CPU among them", "")
			return
		}
	}
}

func checkForkSafety(c *environCheck, v Variable, value string) {
	c.add("env-set", evidence.Note, v.Name, value, v.Meaning+"; a forked worker that touches Metal can hang or crash",
		"start workers with spawn")
}

func checkPreload(c *environCheck, v Variable, value string) {
	if value == "" {
		return
	}
	var missing []string
	for _, lib := range strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ' ' }) {
		if filepath.IsAbs(lib) && !exists(lib) {
			missing = append(missing, lib)
		}
	}
	switch {
	case len(missing) > 0 && c.goos == "darwin":
		c.add("env-preload", evidence.Error, v.Name, value, "there is no "+strings.Join(missing,
			", ")+": dyld ends the program at its start", "unset it")
	case len(missing) > 0:
		c.add("env-preload", evidence.Warning, v.Name, value, "there is no "+strings.Join(missing, ", "), "unset it")
	default:
		c.add("env-preload", evidence.Warning, v.Name, value,
			"a library is loaded into the run that the environment does not have",
			"another machine will not show the same")
	}
}

func checkLibraryPath(c *environCheck, v Variable, value string) {
	if value == "" {
		return
	}
	text := "libraries may come from there instead of the packages"
	if c.goos == "darwin" {
		text += "; System Integrity Protection drops it when a program of the system, such as /bin/sh or /usr/bin/env, stands in between"
	}
	c.add("env-preload", evidence.Note, v.Name, value, text, "")
}
