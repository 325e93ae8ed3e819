package fold

import "slices"

// frameworkWords are what is said of a framework where it is another thing than of the others. A framework that has no
// row is spoken of as PyTorch is.
type frameworkWords struct {
	name    string // the module, as the event framework names it
	step    string // how a step of it is recognised
	noLimit string // why the size that a process may have of the device is not known
	loss    string // what the losses are
	noLoss  string // why there is none
	unread  string // why a loss was not read
	// reading is when the allocator's counters are read
	reading string
	sampled string // what is done in a step that is taken apart
	apart   string // why none was
	needed  string // a call that waits, and without which nothing would be computed
	profile string // why there is no table of operators
}

var frameworks = []frameworkWords{
	{name: "torch",
		step:    "a step is recognised by torch.optim.Optimizer.step, forward by nn.Module calls or by what stands before backward",
		noLimit: "this release does not say the recommended maximum (torch.mps.recommended_max_memory is there from 2.5 on)",
		loss:    "as passed to backward, unscaled",
		noLoss:  "no scalar was passed to backward",
		unread:  "the script never waited for the device while they were held",
		reading: "highest of the readings at the start of each backward pass",
		sampled: "with the device waited for at each phase boundary",
		apart:   "the device is asynchronous and no step was synchronised: the run was shorter than twenty steps"},
	{name: "mlx",
		step: "a step is recognised by mx.value_and_grad, or what mx.compile has made of it, and the update of an " +
			"mlx.optimizers.Optimizer",
		noLimit: "MLX names no recommended maximum for this device (max_recommended_working_set_size of mx.device_info)",
		loss:    "as the function gave it whose gradient was taken",
		noLoss:  "no scalar loss was seen to be evaluated",
		unread:  "the script evaluates without them, and reading one would compute it",
		reading: "highest of the readings when a step's graphs had been made",
		sampled: "with loss, gradients and parameters evaluated one after the other",
		apart: "MLX computes where the script evaluates, and no step was evaluated in pieces: the run was " +
			"shorter than twenty steps",
		needed:  "mx.eval",
		profile: "MLX has no profiler of operators; mx.metal.start_capture writes a trace for Xcode"},
}

// words of the process's framework.
func (p *process) words() frameworkWords {
	if p.framework != nil {
		i := slices.IndexFunc(frameworks, func(w frameworkWords) bool { return w.name == p.framework.Name })
		if i >= 0 {
			return frameworks[i]
		}
	}
	return frameworks[0]
}
