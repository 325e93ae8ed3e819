package guest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// longEpoch has an epoch of a million steps, of which it runs the first; with an argument below a progress bar.
const longEpoch = `
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Long(Dataset):
    def __len__(self):
        return 8_000_000

    def __getitem__(self, index):
        return torch.zeros(8)


model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Long(), batch_size=8)
print("begun", flush=True)
batches = iter(loader)
if len(sys.argv) > 1:
    from tqdm import tqdm

    batches = tqdm(batches, total=len(loader))
for step, batch in enumerate(batches, 1):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    if step == 3000:
        break
print("done", flush=True)
`

// TestAhead: that an epoch is long is said while the script runs, once, on a terminal that nobody else draws on; and
// nowhere else: a file gets the script's bytes alone. Wherever it is not said it is kept.
func TestAhead(t *testing.T) {
	testset.FullOnly(t)
	run := func(t *testing.T, script string, terminal bool, flags ...string) (shown string) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "run")
		args := append([]string{"run", "--profile=off", "--warn-epoch", "5s", "--logbook", "off", "--out", out},
			flags...)
		args = append(args, "--", testkit.Python(t))
		cmd := exec.Command(testkit.Assay(t), append(args, strings.Fields(script)...)...)
		cmd.Dir = t.TempDir()
		if err := os.WriteFile(filepath.Join(cmd.Dir, "ahead.py"), []byte(longEpoch), 0o600); err != nil {
			t.Fatal(err)
		}
		var seen bytes.Buffer
		if terminal {
			far, screen := testkit.Terminal(t)
			testkit.OnTerminal(cmd, screen)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			screen.Close()
			_, _ = io.Copy(&seen, far) // ends with EIO when the last one has closed the terminal
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, &seen)
			}
		} else {
			cmd.Stdout, cmd.Stderr = &seen, &seen
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, &seen)
			}
		}
		events, err := os.ReadFile(filepath.Join(out, "events.jsonl"))
		if err != nil || !bytes.Contains(events, []byte(`{"ev":"estimate","of":"epoch","steps":1000000,`)) {
			t.Errorf("no estimate is kept: %v", err)
		}
		shown = strings.ReplaceAll(seen.String(), "\r\n", "\n")
		whole, _, _ := strings.Cut(shown, "done\n")
		return strings.ReplaceAll(whole, "\n  ", " ") + "done\n"
	}
	const said = "assay: an epoch will take about "
	if shown := run(t, "ahead.py", true); strings.Count(shown, said) != 1 ||
		!strings.Contains(shown, "longer than 5.00 s") || !strings.HasPrefix(shown, "begun\n\n"+said) {
		t.Errorf("on a terminal: %q", shown)
	}
	if shown := run(t, "ahead.py", true, "-q"); shown != "begun\ndone\n" {
		t.Errorf("quiet: %q", shown)
	}
	if shown := run(t, "ahead.py", false); shown != "begun\ndone\n" {
		t.Errorf("into a file: %q", shown)
	}
	if shown := run(t, "ahead.py bar", true); strings.Contains(shown, said) {
		t.Errorf("below a bar: %q", shown)
	}
}
