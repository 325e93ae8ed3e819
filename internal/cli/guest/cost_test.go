package guest

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/evidence"
	"assay/internal/testkit"
	"assay/internal/testset"
)

// costly trains by a clock that the script moves: a step takes 8 ms of it, and the hook of the outermost module 400 µs
// whenever it is called. There is some noise, it logs every ten steps and saves every fifty.
const costly = `
import random, time, torch
import assay_agent.timeline as timeline
from assay_agent.watch import blocks
from assay_agent.watch.torch import module
torch.set_num_threads(1)
clock, draw, seen = [time.perf_counter_ns()], random.Random(4), [0, 0]
def spend(ns):
    clock[0] += int(ns)
timeline.now = blocks.now = lambda: clock[0]
def shapes(*_):
    seen[0] += 1
    spend(400_000)
module._shapes = shapes
class Model(torch.nn.Linear):
    def forward(self, x):
        spend(4_000_000 * (1 + 0.05 * draw.gauss(0, 1)))
        return super().forward(x)
model = Model(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
timeline.T.mark = timeline.T.step.start = clock[0]
batches = [torch.ones(2, 4)] * 40
for epoch in range(100):
    for x in batches:
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
        seen[1] += 1
        spend(4_000_000)
        if seen[1] % 10 == 0:
            spend(2_000_000)
        if seen[1] % 50 == 0:
            spend(10_000_000)
assert seen[0] < seen[1] / 2, "the hooks were off most of the time"
`

// TestCostIsMeasured: the interval that is printed holds what the hooks do cost, and the steady step is what the loop
// takes without them.
func TestCostIsMeasured(t *testing.T) {
	testset.FullOnly(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "costly.py")
	if err := os.WriteFile(script, []byte(costly), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "run")
	done := testkit.Execute(t, dir, nil, testkit.Assay(t), "run", "--quiet", "--profile=off", "--out", out, "--",
		testkit.Python(t), script)
	if done.Code != 0 {
		t.Fatalf("%+v", done)
	}
	run := testkit.LoadRun(t, out)
	step := run.Figure("agent.step")
	if step.Basis != evidence.Measured || step.Low == nil || step.N < 15 {
		t.Fatalf("%+v", step)
	}
	// One interval in twenty does not hold it; one in a hundred thousand lies so far off.
	if slack := 1.2 * (*step.High - *step.Low); *step.Low-slack > 4e-4 || *step.High+slack < 4e-4 {
		t.Errorf("%g to %g", *step.Low, *step.High)
	}
	if width := *step.High - *step.Low; width > 8e-4 {
		t.Errorf("%g to %g: %g wide", *step.Low, *step.High, width)
	}
	t.Logf("%g to %g, %d pairs", *step.Low, *step.High, step.N)
	if fig := run.Figure("step.time"); math.Abs(*fig.Value-0.008) > 1e-4 {
		t.Errorf("step.time %g", *fig.Value)
	}
	if len(run.Steps.Number) != 4000 || run.Steps.Watched == 0 || run.Steps.Watched > 2000 {
		t.Errorf("%d steps, %d watched", len(run.Steps.Number), run.Steps.Watched)
	}
}
