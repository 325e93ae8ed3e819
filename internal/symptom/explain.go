package symptom

import (
	"assay/internal/facts"
	"fmt"
	"slices"
	"strings"

	"assay/internal/atlas"
)

// explain fills a rule in with what its pattern read.
func (s *scanner) explain(r *Rule, groups map[string]string, own bool, line string) Symptom {
	sym := Symptom{Rule: r.Name, Topic: r.Topic, Severity: r.Severity, Title: fill(r.Title, groups),
		Cause: fill(r.Cause, groups), Code: fill(r.Code, groups),
		Source: r.Source, After: r.After, Likely: r.Likely, Remedy: []string{}}
	for _, line := range r.Remedy {
		sym.Remedy = append(sym.Remedy, fill(line, groups))
	}
	if r.Releases != "" {
		sym.Releases = append(sym.Releases, fill(r.Releases, groups))
	}
	s.ofAtlas(r, &sym, own, line)
	switch r.Reads {
	case "operator":
		s.atlas.torch(groups["op"], s.rep.Context.Torch, &sym)
	case "tensorflow operator":
		s.atlas.tensorflow(groups["op"], &sym)
	case "mps memory":
		mpsMemory(groups, s.rep.Context, &sym)
	case "cuda memory":
		cudaMemory(groups, s.rep.Context, &sym)
	case "one buffer":
		oneBuffer(groups, s.rep.Context, &sym)
	case "overflowed size":
		overflowedSize(groups, &sym)
	}
	if sym.Severity == "error" && r.After {
		sym.Severity = "note"
	}
	return sym
}

// fill puts what the groups matched into a text; … where this form of the message does not say it.
func fill(text string, groups map[string]string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	return hole.ReplaceAllStringFunc(text, func(name string) string {
		value, ok := groups[name[1:len(name)-1]]
		switch {
		case !ok:
			return name
		case strings.TrimSpace(value) == "":
			return "…"
		}
		return strings.TrimSpace(value)
	})
}

// ofAtlas adds what the atlas says of the conditions behind a text: cause and remedy where the rule has none, releases
// and sources in any case.
func (s *scanner) ofAtlas(r *Rule, sym *Symptom, own bool, line string) {
	if len(r.atlas) == 0 {
		return
	}
	rows := r.atlas
	if own { // those whose text this line has
		var these []*facts.Fact
		for i, c := range rows {
			if r.texts[i].MatchString(line) {
				these = append(these, c)
			}
		}
		rows = these
	}
	if v := s.rep.Context.Torch; v != "" {
		if held := slices.DeleteFunc(slices.Clone(rows),
			func(c *facts.Fact) bool { return !c.Holds(v) }); len(held) > 0 {
			rows = held
		}
	}
	var sources []string
	if sym.Source != "" {
		sources = strings.Split(sym.Source, "; ")
	}
	for _, c := range rows {
		add := func(list *[]string, text string) {
			if text != "" && !slices.Contains(*list, text) {
				*list = append(*list, text)
			}
		}
		for part := range strings.SplitSeq(c.Source, "; ") {
			if part != "binary text" || c.Source == part {
				add(&sources, part)
			}
		}
		if r.Releases == "" && r.Reads != "operator" {
			add(&sym.Releases, span(c))
		}
		if !own {
			add(&sym.Remedy, sentence(c.Remedy))
		}
	}
	if !own {
		var causes []string
		for _, c := range rows[:min(3, len(rows))] {
			text := c.When
			if about := operatorsOf(c); about != "" {
				text = about + ": " + text
			}
			if !slices.Contains(causes, text) {
				causes = append(causes, text)
			}
		}
		sym.Cause = strings.Join(causes, "; or ") + outcomeOf(rows[0])
		if r.Likely {
			sym.Cause = "On MPS these words mean this; a CPU or another library may print them for a reason of its own. " + sym.Cause
		}
		if len(sym.Remedy) == 0 {
			sym.Remedy = append(sym.Remedy, byKind[rows[0].Kind])
			if sym.Remedy[0] == "" {
				sym.Remedy[0] = byKind["stub"]
			}
		}
	}
	sym.Source = strings.Join(sources, "; ")
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

func operatorsOf(c *facts.Fact) string {
	if len(c.Meets) == 0 || c.Meets[0] == "*" {
		return ""
	}
	n := min(4, len(c.Meets))
	text := strings.Join(c.Meets[:n], ", ")
	if n < len(c.Meets) {
		text += fmt.Sprintf(" and %d more", len(c.Meets)-n)
	}
	return text
}

func outcomeOf(c *facts.Fact) string {
	switch c.Outcome {
	case "cpu":
		return ". It runs on the CPU, with copies there and back."
	case "wrong":
		return ". What comes out is wrong: " + c.Wrong + "."
	case "ignored":
		return ". It goes on, without what was asked for."
	case "slow":
		return ". It runs, slowly."
	}
	return "."
}

// byKind is what can be done where the atlas names no remedy for a refusal.
var byKind = map[string]string{
	"dtype": "Convert the operands to a type that the backend has (float32, or int32 for indices) before the call, or compute this call " +
		"on the CPU: op(x.cpu()).to(\"mps\").",
	"size":        "Split the tensor, or lower the batch or the resolution.",
	"shape":       "Change the sizes, or compute this call on the CPU: op(x.cpu()).to(\"mps\").",
	"rank":        "Merge dimensions by reshape before the call, or compute this call on the CPU.",
	"value":       "Choose another value for this argument, or compute this call on the CPU: op(x.cpu()).to(\"mps\").",
	"mode":        "Choose another mode for this argument, or compute this call on the CPU: op(x.cpu()).to(\"mps\").",
	"layout":      "Make the tensor dense or contiguous (x.to_dense(), x.contiguous()), or compute this call on the CPU.",
	"device":      "Move all operands to one device.",
	"macos":       "Update macOS, or choose a release of PyTorch that does not ask for a newer one.",
	"grad":        "Detach this input, or compute this call on the CPU where its gradient is needed.",
	"environment": "Correct the setting that the message names.",
	"stub":        "Compute this call on the CPU: op(x.cpu()).to(\"mps\"); `assay ops NAME` says which releases have a kernel.",
}

// span says in which releases a condition was seen.
func span(c *facts.Fact) string {
	text := ""
	switch {
	case c.Until != "" && c.Until == c.From:
		text = "PyTorch " + c.From
	case c.Until != "":
		text = "PyTorch " + c.From + " to " + c.Until
	case c.From != "":
		text = "PyTorch from " + c.From + " on"
	}
	if c.Fixed != "" {
		text += ", right from " + c.Fixed + " on"
	}
	if c.MacOS != "" && text != "" {
		text += ", on macOS " + c.MacOS
	}
	return text
}

// operators answers from the atlas since when one has a kernel.
type operators struct{ a atlas.Atlas }

func (o *operators) torch(name, release string, sym *Symptom) {
	op, ok := o.a.Operator(name)
	if !ok {
		if found := o.a.Find(name); len(found) > 0 {
			op, ok = found[0], true
			for _, f := range found { // aten::sum without its overload: the one that lacks a kernel
				if f.NativeFrom() == "" {
					op = f
				}
			}
		}
	}
	if !ok {
		sym.Releases = append(sym.Releases,
			fmt.Sprintf("not known: the atlas does not have %s, which is no operator of torch, torchvision or "+
				"torchaudio; its own package has to bring a kernel for MPS", name))
		sym.Remedy = append(sym.Remedy, "Ask the package that defines "+name+" for MPS, or take its plain PyTorch path where it has one.")
		return
	}
	list := o.a.Releases(op.Package)
	newest := list[len(list)-1].Version
	show := "`assay ops " + strings.TrimPrefix(name, "aten::") + "`"
	since := op.NativeFrom()
	for _, r := range list {
		if r.Column == since {
			since = r.Version
			break
		}
	}
	mine := op.Package == "torch" && release != ""
	switch {
	case strings.HasPrefix(name, "c10d::"):
		sym.Cause = "torch.distributed has no collectives for MPS: " + name + " was given a tensor on it."
		sym.Remedy = []string{"A collective does not fall back to the CPU. Give it CPU tensors under the backend gloo, or train in one process."}
		sym.Code = ""
	case since == "":
		sym.Releases = append(sym.Releases,
			fmt.Sprintf("%s has no kernel for MPS in any release up to %s %s (derived: %s)", name, op.Package, newest,
				show))
		sym.Remedy = append([]string{"No upgrade helps. Replace the operator, or compute it on the CPU."},
			sym.Remedy...)
	case since == list[0].Version || mine && atlas.CompareReleases(release, since) >= 0:
		sym.Releases = append(sym.Releases,
			fmt.Sprintf("%s has a kernel for MPS from %s %s on (derived: %s): the release that printed this is an "+
				"older one or another build, or another overload of it was called", name, op.Package, since, show))
	default:
		text := fmt.Sprintf("%s has a kernel for MPS from %s %s on (derived: %s)", name, op.Package, since, show)
		if mine {
			text += "; this log says PyTorch " + release
		}
		sym.Releases = append(sym.Releases, text)
		sym.Remedy = append([]string{fmt.Sprintf("Upgrade: pip install '%s>=%s'.", op.Package, since)}, sym.Remedy...)
	}
}

func (o *operators) tensorflow(name string, sym *Symptom) {
	op, ok := o.a.Operator("tf::" + name)
	if !ok {
		sym.Releases = append(sym.Releases,
			"No release of tensorflow-metal up to 1.2.0 has a GPU kernel for "+name+" (derived).")
		return
	}
	if since := op.NativeFrom(); since != "" {
		text := fmt.Sprintf("tensorflow-metal has a GPU kernel for %s from %s on (derived)", name, since)
		if types := o.a.Types("tf::"+name, op.Columns[len(op.Columns)-1]); len(types) > 0 {
			text += ", in " + op.Columns[len(op.Columns)-1] + " for the types " + strings.Join(types, ", ")
		}
		sym.Releases = append(sym.Releases, text+".")
	}
}
