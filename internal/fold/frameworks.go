package fold

import (
	"slices"
	"strings"
)

// frameworkWords are what is said of a framework where it is another thing than of the others. A framework that has no
// row is spoken of as PyTorch is.
type frameworkWords struct {
	name     string // the module, as the event framework names it
	title    string // as its makers write it
	step     string // how a step of it is recognised
	noStep   string // why there is none where gradients were seen
	noLoader string // why no loader tells its epochs
	noLimit  string // why the size that a process may have of the device is not known
	loss     string // what the losses are
	noLoss   string // why there is none
	unread   string // why a loss was not read
	// reading is when the allocator's counters are read
	reading string
	sampled string // what is done in a step that is taken apart
	apart   string // why none was
	needed  string // a call that waits, and without which nothing would be computed
	profile string // why there is no table of operators
}

var frameworks = []frameworkWords{
	{name: "torch", title: "PyTorch",
		step:     "a step is recognised by torch.optim.Optimizer.step, forward by nn.Module calls or by what stands before backward",
		noStep:   "backward passes were seen, but no step of a torch.optim.Optimizer: the loop's shape was not recognised",
		noLoader: "the loop reads no torch DataLoader",
		noLimit:  "this release does not say the recommended maximum (torch.mps.recommended_max_memory is there from 2.5 on)",
		loss:     "as passed to backward, unscaled",
		noLoss:   "no scalar was passed to backward",
		unread:   "the script never waited for the device while they were held",
		reading:  "highest of the readings at the start of each backward pass",
		sampled:  "with the device waited for at each phase boundary",
		apart:    "the device is asynchronous and no step was synchronised: the run was shorter than twenty steps"},
	{name: "mlx", title: "MLX",
		step: "a step is recognised by mx.value_and_grad, or what mx.compile has made of it, and the update of an " +
			"mlx.optimizers.Optimizer",
		noStep:   "gradients were seen, but no update of an mlx.optimizers.Optimizer: the loop's shape was not recognised",
		noLoader: "MLX has no loader that would tell where a pass over the data begins",
		noLimit:  "MLX names no recommended maximum for this device (max_recommended_working_set_size of mx.device_info)",
		loss:     "as the function gave it whose gradient was taken",
		noLoss:   "no scalar loss was seen to be evaluated",
		unread:   "the script evaluates without them, and reading one would compute it",
		reading:  "highest of the readings when a step's graphs had been made",
		sampled:  "with loss, gradients and parameters evaluated one after the other",
		apart: "MLX computes where the script evaluates, and no step was evaluated in pieces: the run was " +
			"shorter than twenty steps",
		needed:  "mx.eval",
		profile: "MLX has no profiler of operators; mx.metal.start_capture writes a trace for Xcode"},
	{name: "jax", title: "JAX",
		step: "a step is recognised by a function of jax.jit within which gradients or updates (optax.apply_updates) are " +
			"computed, and by gradients taken outside of one",
		noStep:   "no call was seen that computes gradients or updates: the loop's shape was not recognised",
		noLoader: "JAX has no loader that would tell where a pass over the data begins",
		noLimit:  "the device does not say how much a process can have of it (memory_stats)",
		loss:     "as the script read it",
		noLoss:   "the script read no single number of what a step gave",
		unread:   "the script did not read them",
		reading:  "highest of the readings when a step was issued",
		profile:  "its operators are compiled into one: jax.profiler.trace writes a trace of the device"},
	{name: "keras", title: "Keras",
		step: "a step is recognised by a batch of fit, by train_on_batch, and by the update of a keras.optimizers.Optimizer",
		noStep: "neither fit nor train_on_batch was called, and no keras.optimizers.Optimizer updated: the loop's shape " +
			"was not recognised",
		noLoader: "the loop is the script's own, and reads no loader that tells where a pass begins",
		noLimit:  "the backend does not say how much a process can have of the device",
		loss:     "as Keras logs it: the mean of the epoch so far",
		noLoss:   "Keras logged no loss of a step",
		unread:   "Keras did not make numbers of them",
		reading:  "highest of the readings when a step was issued",
		profile:  "its operators are compiled into one: the TensorBoard callback's profile_batch writes a trace"},
}

// words of the process's framework.
func (p *process) words() frameworkWords {
	if p.framework != nil {
		i := slices.IndexFunc(frameworks, func(w frameworkWords) bool { return w.name == p.framework.Name })
		if i >= 0 {
			w := frameworks[i]
			if backend, _ := p.backend(); backend == "torch" { // PyTorch's hooks see all but the update
				w = frameworks[0]
				w.step, w.noStep = frameworks[i].step, frameworks[i].noStep
			}
			if p.lossWhat != "" {
				w.loss = p.lossWhat
			}
			return w
		}
	}
	return frameworks[0]
}

// watched are the frameworks that the agent knows: "PyTorch, MLX".
func watched() string {
	var titles []string
	for _, w := range frameworks {
		titles = append(titles, w.title)
	}
	return strings.Join(titles, ", ")
}
