package symptom

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"assay/internal/unit"
)

// size reads a size as the allocators print it: "9.57 GiB", "896.00 MB", "256 bytes". PyTorch's KB, MB and GB mean
// powers of 1024.
func size(text string) (float64, bool) {
	number, letters, _ := strings.Cut(strings.TrimSpace(text), " ")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || v < 0 || math.IsInf(v, 0) {
		return 0, false
	}
	power := 0
	if letters != "" {
		power = strings.IndexByte("bKMGT", letters[0])
	}
	if power < 0 {
		return 0, false
	}
	return v * math.Pow(1024, float64(power)), true
}

const ratio = 1.7 // PYTORCH_MPS_HIGH_WATERMARK_RATIO, where it is not set

func mpsMemory(g map[string]string, c Context, sym *Symptom) {
	allocated, ok1 := size(g["allocated"])
	other, ok2 := size(g["other"])
	tried, ok3 := size(g["tried"])
	limit, limited := size(g["limit"])
	if !ok1 || !ok2 || !ok3 {
		return
	}
	wants := allocated + other + tried
	var advice []string
	switch {
	case limited && wants < limit*0.98-0.02*(1<<30): // more than what two decimals of a GB may hide
		sym.Cause = fmt.Sprintf("By its own numbers the memory was not full: %s held, %s beside it and %s asked for are %s, where %s is allowed. It was Metal that gave "+
			"no buffer. This is reported of virtual machines (the macOS runners of GitHub), whose GPU is not a whole one, and where other processes hold the memory.",
			unit.Bytes(allocated), unit.Bytes(other), unit.Bytes(tried), unit.Bytes(wants), unit.Bytes(limit))
		sym.Likely, sym.Title = true, "Metal gave no buffer, though MPS was not full"
		sym.Source += "; actions/runner-images issue 9918"
		sym.Remedy = []string{"No batch is small enough where nothing can be had: train on the CPU there (torch.device(\"cpu\")), or on a Mac that is no virtual machine.",
			"assay doctor proves whether MPS computes at all.",
			"On a Mac of your own: close what holds Metal memory, and restart."}
		sym.Code = ""
		return
	case limited && limit <= 0:
		sym.Cause = fmt.Sprintf("Metal allows this process %s: no memory of a GPU can be had here. That is so in virtual machines and sessions without access to the GPU.",
			unit.Bytes(limit))
		sym.Likely = true
		sym.Remedy = []string{"assay doctor proves whether MPS computes at all; train on the CPU where it does not."}
		sym.Code = ""
		return
	}
	if limited {
		sym.Cause = fmt.Sprintf("PyTorch's allocator held %s, Metal %s beside it (MPSGraph, kernels, other libraries of this process), and %s more "+
			"was asked for: %s in all, where %s is allowed. "+
			"That is %s or %s too much.", unit.Bytes(allocated), unit.Bytes(other), unit.Bytes(tried),
			unit.Bytes(wants), unit.Bytes(limit),
			unit.Bytes(max(0, wants-limit)), percent(max(0, wants/limit-1)))
		sym.Cause += fmt.Sprintf(" Unless PYTORCH_MPS_HIGH_WATERMARK_RATIO was set, the limit is %.1f times the working set that Metal recommends, "+
			"here %s: past that macOS compresses and swaps.", ratio, unit.Bytes(limit/ratio))
		switch { // limit is above 0 here
		case tried > limit:
			advice = append(advice, "This one request is larger than the limit: no other tensor is to blame. Split it, or lower batch, sequence "+
				"length or resolution.")
		case other > limit/2:
			advice = append(advice, fmt.Sprintf("Most is not PyTorch's: %s lies outside its allocator. A smaller batch frees little of it. Shapes "+
				"that change from step to step make MPSGraph keep a graph for each: pad to a few sizes; "+
				"update PyTorch and macOS; look for another framework in the same process.", unit.Bytes(other)))
		case tried < limit/100:
			advice = append(advice, "The request itself is small: the memory was full already, and the line that failed is not the one that filled "+
				"it. Where the use grows with each step, tensors are kept: losses added up without .item(), outputs gathered in a list, retain_graph.")
		}
		if limit > other && tried <= limit {
			advice = append(advice, batchAdvice(c, allocated+tried, limit-other))
		}
	} else {
		sym.Cause = fmt.Sprintf("The limit was switched off (PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0), and Metal itself gave no more: PyTorch's "+
			"allocator held %s, Metal %s beside it, and %s more was asked for.",
			unit.Bytes(allocated), unit.Bytes(other), unit.Bytes(tried))
		advice = append(advice, "Take PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 away again: without a limit the whole machine runs out of memory.")
	}
	if g["pool"] == "shared" {
		advice = append(advice, "The shared pool holds what CPU and GPU both see (scalars, small copies): it is full because all is full.")
	}
	sym.Remedy = append(advice, sym.Remedy...)
}

func percent(v float64) string {
	if v > 0 && v < 0.01 {
		return fmt.Sprintf("%.1f %%", 100*v)
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}

// batchAdvice turns memory wanted and memory there into a batch. Weights, gradients and the optimizer's state do not
// shrink with the batch, so that what proportion gives is an upper bound.
func batchAdvice(c Context, wanted, room float64) string {
	share := room / wanted
	if share >= 1 {
		share = 1
	}
	if c.Batch <= 0 {
		return fmt.Sprintf("What grows with the batch has to shrink by %s or more (derived: the batch is not named here, and if all that PyTorch "+
			"holds grew with it, %s of it would fit; weights and optimizer state do not, so take less). Begin with half the batch.",
			percent(1-share), percent(share))
	}
	bound := int(math.Floor(float64(c.Batch) * share))
	if bound >= c.Batch {
		bound = c.Batch - 1
	}
	if bound < 1 {
		return fmt.Sprintf("No batch fits (derived from batch %d, %s): even one sample is too much. Checkpoint activations, use a smaller model or "+
			"half precision, or a Mac with more memory.", c.Batch, c.BatchFrom)
	}
	start := 1
	for start*2 <= bound {
		start *= 2
	}
	return fmt.Sprintf("Batch %d at most instead of %d (derived: %s names the batch; %d × %s available / %s wanted, as if all that PyTorch "+
		"holds grew with the batch). Weights, gradients and optimizer state do not shrink, and the step had not ended: "+
		"begin with %d, and accumulate gradients over %d batches to keep the effective one.", bound, c.Batch,
		c.BatchFrom, c.Batch, unit.Bytes(room),
		unit.Bytes(wanted), start, int(math.Ceil(float64(c.Batch)/float64(start))))
}

// cudaMemory reads both forms of CUDA's message, that of PyTorch to 2.0 and the one since.
func cudaMemory(g map[string]string, c Context, sym *Symptom) {
	for _, name := range []string{"total", "free", "allocated"} {
		if g[name] == "" {
			g[name] = g[name+"2"]
		}
	}
	tried, ok := size(g["tried"])
	total, ok2 := size(g["total"])
	free, ok3 := size(g["free"])
	if !ok || !ok2 || !ok3 {
		return
	}
	if tried <= free {
		sym.Cause = fmt.Sprintf("The GPU has %s, of which %s was free, and %s was asked for: there was enough, and not in one piece, or another process took it meanwhile.",
			unit.Bytes(total), unit.Bytes(free), unit.Bytes(tried))
		sym.Likely = true
		return
	}
	sym.Cause = fmt.Sprintf("The GPU has %s, of which %s was free, and %s more was asked for: %s too much.",
		unit.Bytes(total), unit.Bytes(free),
		unit.Bytes(tried), unit.Bytes(max(0, tried-free)))
	if used, ok := size(g["allocated"]); ok && used > 0 {
		sym.Remedy = append([]string{batchAdvice(c, used+tried, used+free)}, sym.Remedy...)
	}
}

func oneBuffer(g map[string]string, c Context, sym *Symptom) {
	refused, ok := size(g["asked2"])
	if ok { // an older MLX, which does not say why
		sym.Cause = fmt.Sprintf("Metal gave no buffer of %s: it is larger than any that this machine grants, or the memory was full.", unit.Bytes(refused))
		sym.Likely = true
		return
	}
	asked, ok := size(g["asked"])
	if !ok {
		return
	}
	limit, ok := size(g["most"])
	if ok && asked <= limit { // what it says of itself cannot be
		return
	}
	if !ok || limit <= 0 {
		if asked == 0 {
			return
		}
		sym.Cause = fmt.Sprintf("One tensor of %s was asked for, and Metal grants no single buffer of that size on this machine, however much "+
			"memory is free.", unit.Bytes(asked))
		return
	}
	sym.Cause = fmt.Sprintf("One array of %s was asked for; the largest buffer that Metal grants here is %s: %s too much, however much memory "+
		"is free.", unit.Bytes(asked), unit.Bytes(limit), percent(asked/limit-1))
	if c.Batch > 1 {
		if n := int(float64(c.Batch) * limit / asked); n >= 1 && n < c.Batch {
			sym.Remedy = append([]string{fmt.Sprintf("Batch %d at most instead of %d, if this array grows with the batch (derived: %d × %s / %s; %s "+
				"names the batch).", n, c.Batch, c.Batch, unit.Bytes(limit), unit.Bytes(asked), c.BatchFrom)},
				sym.Remedy...)
		}
	}
}

// overflowedSize says what number was meant where a count of bytes is near 2^64: a negative one, read without its sign.
func overflowedSize(g map[string]string, sym *Symptom) {
	v, err := strconv.ParseUint(g["asked"], 10, 64)
	if err != nil || v < 1<<63 {
		return
	}
	sym.Cause += fmt.Sprintf(" Read with its sign, %d is %d bytes.", v, int64(v))
}
