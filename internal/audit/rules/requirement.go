package rules

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"assay/internal/atlas"
	"assay/internal/audit"
	"assay/internal/python"
	mac "assay/internal/target"
)

// Requirement finds requirements that a Mac cannot meet.
var Requirement = &audit.Rule{Name: "requirement", Title: "a requirement that cannot be met on a Mac",
	Severity: audit.Error, Doc: audit.Doc{
		Why: "Some packages have no wheel for macOS on arm64 (CUDA's libraries, builds with +cu in their version); some " +
			"pairs of versions do not exist or do not load together (torchvision for another torch, tensorflow-metal for " +
			"another TensorFlow).",
		Bad: "torch==2.8.0+cu126\n", Good: "torch==2.8.0\n",
		Source: "the releases on PyPI; the atlas's table of releases",
	}, Text: func(t *audit.Text) []audit.Finding {
		if t.Target.Device == "cuda" {
			return nil
		}
		var found []audit.Finding
		versions := map[string]string{}
		places := map[string][2]int{}
		for _, r := range requirements(t) {
			if r.marker != "" && mac.KeptFromMac(r.marker) {
				continue
			}
			at := func(sure bool, severity audit.Severity, text, hint, source string) {
				switch {
				case severity == audit.Notice:
				case otherSystem.MatchString(filepath.Base(t.Path)):
					sure, text = false, text+", if this file is one for Macs"
				case r.extra:
					sure, text = false, text+", if this extra or group is asked for"
				}
				found = append(found, audit.Finding{Severity: severity, Sure: sure, From: r.from, To: r.to, Text: text,
					Hint: hint, Source: source})
			}
			if r.name == "--index" {
				if strings.Contains(r.text, "/whl/cu") {
					at(true, audit.Error, "this index holds builds for CUDA: none for macOS",
						"PyPI's own torch is the one for Macs", "")
				}
				continue
			}
			if strings.Contains(r.version, "+cu") || strings.Contains(r.version, "+rocm") {
				at(true, audit.Error, fmt.Sprintf("%s %s is a build for GPUs that a Mac does not have", r.name,
					r.version),
					"leave the part behind + out", "")
			}
			instead, noBuild := noWheel[r.name]
			switch {
			case strings.Contains(r.text, ".whl") && !strings.Contains(r.text, "macosx") &&
				(strings.Contains(r.text, "linux_") || strings.Contains(r.text, "manylinux") ||
					strings.Contains(r.text, "-win_")):
				at(true, audit.Error, "a wheel for another system", "name the release, or the wheel for macosx", "")
			case strings.HasPrefix(r.name, "nvidia-") && r.name != "nvidia-ml-py":
				at(true, audit.Error, r.name+" has no build for macOS",
					"leave it out, or add: ; sys_platform == \"linux\"", "")
			case noBuild:
				at(true, audit.Error, r.name+" has no build for macOS",
					strings.TrimPrefix(instead+"; or add: ; sys_platform == \"linux\"", "; "), "")
			case r.name == "bitsandbytes" && r.exact != "" && atlas.CompareReleases(r.exact, "0.42") > 0 &&
				atlas.CompareReleases(r.exact, "0.49") < 0:
				at(true, audit.Error, "bitsandbytes "+r.exact+" has no build for macOS",
					"0.49 and later have one; or add: ; sys_platform == \"linux\"", "the releases' files on PyPI")
			case r.name == "tensorflow-gpu":
				at(true, audit.Error, "tensorflow-gpu is no package any more",
					"tensorflow, and tensorflow-metal for the GPU of a Mac", "")
			case r.name == "tensorflow-macos":
				at(true, audit.Notice, "tensorflow-macos ended with 2.16; tensorflow itself has wheels for Macs since 2.13",
					"tensorflow", "")
			}
			if r.exact != "" {
				versions[r.name], places[r.name] = r.exact, [2]int{r.from, r.to}
			}
		}
		pair := func(a, b, text, hint string) {
			found = append(found, audit.Finding{Severity: audit.Error, Sure: true, From: places[b][0], To: places[b][1],
				Text: text, Hint: hint, Source: "the releases' metadata on PyPI"})
		}
		// of earlier ones the atlas knows nothing
		if torch := versions["torch"]; torch != "" && atlas.CompareReleases(strings.Split(torch, "+")[0], "2.0") >= 0 {
			for _, pkg := range []string{"torchvision", "torchaudio"} {
				have := versions[pkg]
				if have == "" {
					continue
				}
				want, ok := t.Target.Atlas.Beside(pkg, strings.Split(torch, "+")[0])
				if ok && atlas.Series(want.Version) != atlas.Series(have) {
					pair("torch", pkg, fmt.Sprintf("%s %s does not go with torch %s", pkg, have, torch),
						fmt.Sprintf("%s %s does", pkg, want.Version))
				}
			}
		}
		if tf, metal := versions["tensorflow"], versions["tensorflow-metal"]; metal != "" {
			if tf == "" {
				tf = versions["tensorflow-macos"]
			}
			if fails, source := python.MetalPairFails(tf, metal); fails {
				pair("tensorflow", "tensorflow-metal", fmt.Sprintf("tensorflow-metal %s does not go with tensorflow %s",
					metal, tf), "the last pair that Apple names is tensorflow 2.18 with tensorflow-metal 1.2.0")
				found[len(found)-1].Source = source
			}
		}
		return found
	}}

// otherSystem are names of files that are for other systems than Macs: requirements-linux.txt, requirements_cuda.txt,
// environment.rocm.yml.
var otherSystem = regexp.MustCompile(`(?i)(^|[-_.])(linux|ubuntu|windows|win(32|64)?|cuda|cu\d+|gpu|rocm|` +
	`xpu|npu|hpu|tpu|docker|colab|kaggle|runpod|jetson)([-_.\d]|$)`)

// noWheel are packages without a wheel for macOS on arm64, and what there is instead.
var noWheel = map[string]string{
	"flash-attn": "torch.nn.functional.scaled_dot_product_attention", "tensorrt": "coremltools",
	"torch-tensorrt": "coremltools", "pycuda": "", "cupy-cuda12x": "numpy",
	"cupy-cuda11x": "numpy", "apex": "torch.amp", "cudf-cu12": "pandas", "cuml-cu12": "scikit-learn", "vllm": "mlx-lm",
	"onnxruntime-gpu": "onnxruntime",
	"faiss-gpu":       "faiss-cpu", "transformer-engine": "", "mamba-ssm": "", "causal-conv1d": "", "dgl-cu118": "dgl",
	"paddlepaddle-gpu": "paddlepaddle", "triton": "",
}

type requirementLine struct {
	name, version, exact, marker, text string
	from, to                           int
	extra                              bool // of pyproject's extras and groups
}

var (
	requirementForm = regexp.MustCompile(`^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*` +
		`((?:[=<>!~]=?=?\s*[^\s,;#]+\s*,?\s*)*)(?:;\s*([^#]*))?`)
	quotedForm = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"|'([^']*)'`)
	tableForm  = regexp.MustCompile(`^\s*"?([A-Za-z0-9][A-Za-z0-9._-]*)"?\s*=\s*["{]`)
)

// requirements reads the lines of a requirements file, the dependencies of a pyproject, or the packages of an
// environment.
func requirements(t *audit.Text) []requirementLine {
	var list []requirementLine
	at := 0
	inside, extra := false, false // of a list of dependencies; of extras
	for line := range strings.Lines(string(t.Src.Text)) {
		start := at
		at += len(line)
		body := strings.TrimRight(line, "\r\n")
		add := func(text string, from int) {
			text = strings.TrimSpace(text)
			m := requirementForm.FindStringSubmatch(text)
			if m == nil || text == "" || strings.Contains(m[1], "://") {
				return
			}
			r := requirementLine{name: normal(m[1]), version: strings.TrimSpace(m[2]), marker: m[3], text: text,
				from: from, to: from + len(text), extra: extra}
			if v, ok := strings.CutPrefix(r.version, "=="); ok && !strings.ContainsAny(v, ",*") {
				r.exact = strings.TrimSpace(strings.TrimPrefix(v, "="))
			}
			list = append(list, r)
		}
		trimmed := strings.TrimSpace(body)
		if strings.HasPrefix(trimmed, "#") {
			continue
		}
		switch t.Kind {
		case "requirements":
			if strings.HasPrefix(trimmed, "--index-url") || strings.HasPrefix(trimmed, "--extra-index-url") ||
				strings.HasPrefix(trimmed, "-i ") {
				list = append(list, requirementLine{name: "--index", text: trimmed, from: start, to: start + len(body)})
				continue
			}
			if strings.HasPrefix(trimmed, "-") {
				continue
			}
			add(body, start+len(body)-len(strings.TrimLeft(body, " \t")))
		case "environment":
			item, ok := strings.CutPrefix(trimmed, "- ")
			if !ok {
				continue
			}
			from := start + strings.Index(body, item)
			item = strings.Trim(item, `"'`)
			// conda writes one =
			if name, version, conda := strings.Cut(item, "="); conda && !strings.HasPrefix(version, "=") &&
				!strings.ContainsAny(name, "<>!~") {
				v, _, _ := strings.Cut(version, "=")
				item = name + "==" + v
				if normal(name) == "cudatoolkit" || normal(name) == "pytorch-cuda" {
					list = append(list, requirementLine{name: "nvidia-" + normal(name), from: from, to: from +
						len(item)})
					continue
				}
				if normal(name) == "pytorch" {
					item = "torch==" + v
				}
			}
			add(item, from)
		case "pyproject":
			if strings.HasPrefix(trimmed, "[") {
				inside = false
				extra = strings.HasPrefix(trimmed, "[project.optional-dependencies") ||
					strings.HasPrefix(trimmed, "[dependency-groups") || strings.HasPrefix(trimmed, "[tool.poetry.group")
			}
			if strings.Contains(trimmed, "dependencies") && strings.Contains(trimmed, "=") ||
				strings.HasPrefix(trimmed, "[project.optional-dependencies") ||
				strings.HasPrefix(trimmed, "[dependency-groups") {
				inside = true
			}
			if strings.HasPrefix(trimmed, "[tool.poetry") && strings.Contains(trimmed, "dependencies]") {
				inside = true
			}
			if !inside {
				continue
			}
			if m := tableForm.FindStringSubmatch(body); m != nil && !strings.Contains(body, "[") { // poetry
				v := quotedForm.FindStringSubmatch(body)
				version := ""
				if v != nil && len(v[1]) > 0 && v[1][0] >= '0' && v[1][0] <= '9' {
					version = "==" + v[1]
				}
				add(m[1]+version, start+strings.Index(body, m[1]))
				continue
			}
			for _, q := range quotedForm.FindAllStringSubmatchIndex(body, -1) {
				a, b := q[2], q[3]
				if a < 0 {
					a, b = q[4], q[5]
				}
				add(strings.ReplaceAll(body[a:b], `\"`, `"`), start+a)
			}
			if strings.Contains(body, "]") && !strings.Contains(body, "[") {
				inside = strings.HasPrefix(trimmed, "[")
			}
		}
	}
	return list
}

// normal is a package's name as PEP 503 writes it.
func normal(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(name))
}
