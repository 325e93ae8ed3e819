"""A model of PyTorch's, for a golden file."""

import torch

NAME, LAYOUT = "torch", "NCHW"

# attribute -> what it is called in golden files
ATTRIBUTES = {"stride": "stride", "padding": "padding", "dilation": "dilation", "groups": "groups", "eps": "epsilon",
               "momentum": "momentum", "p": "rate", "kernel_size": "kernel", "mode": "mode",
               "align_corners": "align_corners", "negative_slope": "slope", "approximate": "approximate",
               "padding_mode": "padding_mode", "ceil_mode": "ceil", "scale_factor": "scale",
               "normalized_shape": "shape", "num_groups": "norm_groups"}


def is_model(thing):
    return isinstance(thing, torch.nn.Module)


def is_tensor(thing):
    return isinstance(thing, torch.Tensor)


def kind(module):
    return type(module).__name__


class Side:
    def __init__(self, numpy, model, device, training):
        self.numpy, self.model, self.release = numpy, model, torch.__version__
        if device == "auto":
            device = "mps" if torch.backends.mps.is_available() else "cuda" if torch.cuda.is_available() else "cpu"
        self.device = device
        model.to(device).train(training)
        self.saved = None

    def widen(self):
        """Makes the model one of float64, or says why not."""
        if self.device.startswith("mps"):
            return "an Apple GPU has no float64 (PyTorch on MPS): record it with --device cpu"
        self.model.double()  # only now, so that a model that draws its weights draws the same
        torch.set_default_dtype(torch.float64)

    def tensor(self, array):
        return torch.from_numpy(array.copy()).to(self.device)

    def array(self, tensor):
        tensor = tensor.detach().cpu()
        if tensor.dtype in (torch.bfloat16,):
            tensor = tensor.float()
        return tensor.numpy().copy()  # a layer that writes in place, as ReLU(inplace=True), would change it

    def build(self, inputs):
        self.saved = {name: value.clone() for name, value in self.model.state_dict().items()}

    def restore(self):
        self.model.load_state_dict(self.saved)

    def weights(self):
        return {name: self.array(value) for name, value in self.model.state_dict().items()
                if not name.endswith("num_batches_tracked")}

    def kinds(self):
        """Weight -> kind of the module that holds it."""
        modules = dict(self.model.named_modules())
        return {name: kind(modules.get(name.rpartition(".")[0], self.model)) for name in self.model.state_dict()
                if not name.endswith("num_batches_tracked")}

    def forward(self, inputs, calls):
        handles = [module.register_forward_hook(
            lambda module, args, output, name=name: calls.ended(name, kind(module), not list(module.children()), args, output))
            for name, module in self.model.named_modules()]
        try:
            with torch.no_grad():
                return self.model(*inputs)
        finally:
            for handle in handles:
                handle.remove()

    def outputs(self, inputs):
        return self.model(*inputs)

    def summed(self, tensor):
        return tensor.sum()

    def gradients(self, loss_of, inputs, read=True):
        self.model.zero_grad(set_to_none=True)
        loss = loss_of(self.model, *inputs)
        loss.backward()
        if not read:
            return None, {}
        return float(loss.detach()), {name: self.array(p.grad) for name, p in self.model.named_parameters()
                                      if p.grad is not None}

    def update(self, optimizer):
        optimizer.step()

    def wait(self, _):
        if self.device != "cpu":
            getattr(torch, self.device.split(":")[0]).synchronize()

    def optimizer(self, rate):
        return torch.optim.Adam(self.model.parameters(), lr=rate)

    def told(self, optimizer):
        group = optimizer.param_groups[0]
        told = {"class": type(optimizer).__name__, "rate": group.get("lr"), "epsilon": group.get("eps"),
                "momentum": group.get("momentum"), "weight_decay": group.get("weight_decay")}
        if "betas" in group:
            told["beta1"], told["beta2"] = group["betas"]
            told["bias_correction"], told["epsilon_after_correction"] = True, True
        if told["weight_decay"]:
            told["decay_decoupled"] = type(optimizer).__name__ == "AdamW" or bool(group.get("decoupled_weight_decay"))
        return {k: v for k, v in told.items() if v is not None}

    def modules(self):
        for name, module in self.model.named_modules():
            yield name, module, module.training

    def corrected(self, module, values):
        if "Dropout" not in kind(module):
            values.pop("rate", None)

    def memory(self):
        """Bytes that the device's allocator had at most, where it says so."""
        if self.device.startswith("cuda"):
            return torch.cuda.max_memory_allocated()
        if self.device.startswith("mps"):
            return torch.mps.driver_allocated_memory()
        return None

