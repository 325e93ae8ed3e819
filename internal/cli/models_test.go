package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"assay/internal/fault"
	"assay/internal/models"
	"assay/internal/testkit"
	"assay/internal/testset"
)

// TestModelsTriedAgain: of architectures of which one runs, one lacked an operator, and one carries values and comes
// out wrong, what the table says of a release is what `assay try` finds there: another way to the model, with inputs
// of its own, without the loss, and with nothing that was computed for another release.
func TestModelsTriedAgain(t *testing.T) {
	testset.FullOnly(t)
	table := models.Open()
	for _, c := range []struct{ in, name, torch, outcome, operator string }{
		{"torchvision.models", "resnet18", "2.8.0", "ok", ""},
		{"torchvision.models.video", "s3d", "2.8.0", "missing operator", "aten::max_pool3d_with_indices"},
		{"torchvision.models.video", "s3d", "2.9.1", "ok", ""},
		{"torchvision.models.detection", "fasterrcnn_mobilenet_v3_large_320_fpn", "2.8.0", "wrong",
			"torchvision::_roi_align_backward"},
	} {
		m := table.Find(c.name)[0]
		var span models.Span
		for _, s := range m.Spans {
			if releaseWithin(table.Releases, c.torch, s) {
				span = s
			}
		}
		if span.Outcome != c.outcome || span.Operator != c.operator {
			t.Errorf("%s on %s: the table has %+v", c.name, c.torch, span)
		}
		var out, errs bytes.Buffer
		env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: os.Environ(), Dir: t.TempDir()}
		args := []string{"try", c.in + ":" + c.name, "--args", "weights=None", "--torch", c.torch, "--json", "--python",
			testkit.Python(t)}
		if m.Carried == "values" {
			args = append(args, "--args", "weights_backbone=None")
		} else {
			args = append(args, "--shape-only")
		}
		status := Main(env, args)
		if want := map[bool]int{true: fault.OK, false: fault.GateFailed}[c.outcome == "ok"]; status != want {
			t.Errorf("%s on %s: status %d\n%s", c.name, c.torch, status, &errs)
			continue
		}
		var record struct {
			Body struct {
				Models []struct {
					Outcome    string `json:"outcome"`
					Operator   string `json:"operator"`
					Parameters int64  `json:"parameters"`
				} `json:"models"`
			} `json:"body"`
		}
		if err := json.Unmarshal(out.Bytes(), &record); err != nil || len(record.Body.Models) != 1 {
			t.Fatalf("%v: %s", err, &out)
		}
		if got := record.Body.Models[0]; got.Outcome != span.Outcome || got.Operator != span.Operator ||
			got.Parameters != m.Parameters {
			t.Errorf("%s on %s: tried %+v, and the table has %+v of %d parameters", c.name, c.torch, got, span, m.Parameters)
		}
	}
}

// releaseWithin: a release is one of a span's.
func releaseWithin(releases []string, release string, s models.Span) bool {
	within := false
	for _, r := range releases {
		if r == s.From {
			within = true
		}
		if within && r == release {
			return true
		}
		if r == s.To {
			return false
		}
	}
	return false
}
