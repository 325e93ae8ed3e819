package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"assay/internal/evidence"
	"assay/internal/sweep"
	"assay/internal/testkit"
	"assay/internal/testset"
)

// convolutions keeps a few hundred MiB for each row: on the double's 2.13 GiB some rows fit.
const convolutions = `import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.mps.set_per_process_memory_fraction(0.4)
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int)
args = parser.parse_args()
torch.manual_seed(0)
data = TensorDataset(torch.zeros(40, 3, 512, 512))
model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Conv2d(64, 8, 3)).to("mps")
optimizer = torch.optim.AdamW(model.parameters())
for (x,) in DataLoader(data, batch_size=args.batch):
    optimizer.zero_grad()
    model(x.to("mps")).square().mean().backward()
    optimizer.step()
`

// TestSweepAgainstAll: on the double, what a sweep finds is what rehearsing batch after batch finds.
func TestSweepAgainstAll(t *testing.T) {
	testset.FullOnly(t)
	dir, python, assay := t.TempDir(), testkit.Python(t), testkit.Assay(t)
	if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte(convolutions), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"OMP_NUM_THREADS=1"}
	target := []string{"--on", "double", "--torch", "2.8", "--chip", "m1-8gb", "--shape-only", "--logbook", "off"}
	largest := 0
	for batch := 1; batch < 40; batch++ {
		words := append(append([]string{assay, "run", "--quiet", "--steps", "4"}, target...), "--", python,
			"train.py", "--batch",
			strconv.Itoa(batch))
		if out := testkit.Execute(t, dir, environ, words...); out.Code != 0 {
			if !strings.Contains(out.Stderr, "out of memory") {
				t.Fatalf("batch %d: %s", batch, testkit.Tail(out.Stderr))
			}
			break
		}
		largest = batch
	}
	words := append(append([]string{assay, "sweep", "--json"}, target...), "--", python, "train.py", "--batch", "{}")
	out := testkit.Execute(t, dir, environ, words...)
	var d sweep.Document
	if err := json.Unmarshal([]byte(out.Stdout), &d); err != nil || len(d.Body.Answers) != 1 {
		t.Fatalf("%v: %s", err, testkit.Tail(out.Stderr))
	}
	a := d.Body.Answers[0]
	t.Logf("%d in %d trials; %s", a.Largest, a.Trials, a.RecommendedText)
	if largest == 0 || a.Largest != largest || a.Fails != largest+1 || a.Trials > 8 {
		t.Errorf("found %d in %d trials, and %d is the largest:\n%s", a.Largest, a.Trials, largest, out.Stderr)
	}
}

// TestSweepPage: the page has the answers, a plot of each, and no markup of a stranger's.
func TestSweepPage(t *testing.T) {
	num := func(v float64) *float64 { return &v }
	d := &sweep.Document{Envelope: evidence.NewEnvelope(sweep.Kind)}
	d.Body.Asked.Command = []string{"python", "<script>alert(1)</script>.py", "{}"}
	d.Body.Asked.Plan.Timed = true
	for i, b := range []int{8, 64, 100} {
		d.Body.Trials = append(d.Body.Trials, sweep.Trial{Ask: sweep.Ask{For: sweep.ForSearch, Batch: b}, Number: i + 1,
			Ending: sweep.EndedWell, Peak: num(float64(b) * 1e8), Limit: num(11e9), Rate: num(float64(b) * 3)})
	}
	d.Body.Trials = append(d.Body.Trials, sweep.Trial{Ask: sweep.Ask{For: sweep.ForSearch, Batch: 101}, Number: 4,
		Ending: sweep.EndedByMemory, Text: "<img src=x>"})
	d.Body.Answers = []sweep.Answer{{Largest: 100, Fails: 101, LargestText: "100 fits, and 101 does not",
		Limit: num(11e9)}}
	var page bytes.Buffer
	if err := sweepReport(d).Write(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{`id="c-peak"`, `id="c-rate"`, "100 fits, and 101 does not", "limit",
		"&lt;img src=x&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(text, "<img src=x>") || strings.Contains(text, "<script>alert") {
		t.Error("markup of a stranger's")
	}
}
