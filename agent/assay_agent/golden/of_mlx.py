"""A model of MLX's, for a golden file. Weights are told in PyTorch's layout."""

import mlx.core as mx
from mlx import nn, optimizers
from mlx.utils import tree_flatten, tree_map

NAME, LAYOUT = "mlx", "NHWC"

ATTRIBUTES = {"stride": "stride", "padding": "padding", "dilation": "dilation", "groups": "groups", "eps": "epsilon",
               "momentum": "momentum", "_p_1": "keep", "_kernel_size": "kernel", "_stride": "stride",
               "_padding": "padding", "mode": "mode", "align_corners": "align_corners", "scale_factor": "scale",
               "_negative_slope": "slope", "_approx": "approximate", "num_groups": "norm_groups"}


def is_model(thing):
    return isinstance(thing, nn.Module)


def is_tensor(thing):
    return isinstance(thing, mx.array)


def kind(module):
    return type(module).__name__


def _turned(array, of, name):
    """A kernel in PyTorch's layout."""
    if name != "weight" or not of.startswith("Conv") or array.ndim < 3:
        return array
    if of.startswith("ConvTranspose"):  # O…I -> IO…
        return array.transpose((array.ndim - 1, 0) + tuple(range(1, array.ndim - 1)))
    return array.transpose((0, array.ndim - 1) + tuple(range(1, array.ndim - 1)))


class Side:
    def __init__(self, numpy, model, device, training):
        self.numpy, self.model = numpy, model
        self.release = getattr(mx, "__version__", "")
        if device == "cpu":
            mx.set_default_device(mx.cpu)
        self.device = "cpu" if mx.default_device() == mx.Device(mx.cpu) else "gpu"
        model.train(training)
        self.saved = None

    def widen(self):
        """Makes the model one of float64, or says why not."""
        if self.device != "cpu":
            return "MLX has no float64 on a GPU: record it with --device cpu"
        own = {nn.Conv1d.__call__, nn.Conv2d.__call__, nn.Conv3d.__call__, nn.ConvTranspose1d.__call__,
               nn.ConvTranspose2d.__call__, nn.ConvTranspose3d.__call__}
        for name, module in self.model.named_modules():
            if type(module).__call__ in own:  # MLX 0.32.4: 3.8e-6 off, and "got unsupported data type" if dilated
                return ("%s is an nn.%s, and MLX computes a convolution of float64 with the precision of float32, or refuses "
                        "it: record this side without --float64" % (name, kind(module)))
        self.model.apply(lambda a: a.astype(mx.float64) if mx.issubdtype(a.dtype, mx.floating) else a)

    def tensor(self, array):
        return mx.array(array, mx.float64) if array.dtype == "float64" else mx.array(array)  # else it makes float32 of it

    def array(self, tensor):
        if tensor.dtype == mx.bfloat16:
            tensor = tensor.astype(mx.float32)
        return self.numpy.array(tensor)

    def build(self, inputs):
        mx.eval(self.model.parameters())
        self.saved = tree_map(lambda a: mx.array(a), self.model.parameters())
        mx.eval(self.saved)

    def restore(self):
        self.model.update(self.saved)

    def _named(self, tree):
        of = self.kinds()
        return {name: _turned(self.array(value), of.get(name, ""), name.rpartition(".")[2])
                for name, value in tree_flatten(tree)}

    def weights(self):
        return self._named(self.model.parameters())

    def kinds(self):
        modules = dict(self.model.named_modules())
        return {name: kind(modules.get(name.rpartition(".")[0], self.model))
                for name, _ in tree_flatten(self.model.parameters())}

    def forward(self, inputs, calls):
        names = {id(module): name for name, module in self.model.named_modules()}
        classes = {c for module in self.model.modules() for c in type(module).__mro__ if "__call__" in vars(c)}
        kept_calls = {c: vars(c)["__call__"] for c in classes}
        inside = []

        def watched(call):
            def __call__(module, *args, **kwargs):
                if id(module) in inside or id(module) not in names:  # a base's call within the class's own
                    return call(module, *args, **kwargs)
                inside.append(id(module))
                try:
                    output = call(module, *args, **kwargs)
                finally:
                    inside.pop()
                calls.ended(names[id(module)], kind(module), not module.leaf_modules(), args, output)
                return output
            return __call__

        for c, call in kept_calls.items():
            c.__call__ = watched(call)
        try:
            return self.model(*inputs)
        finally:
            for c, call in kept_calls.items():
                c.__call__ = call

    def outputs(self, inputs):
        return self.model(*inputs)

    def summed(self, array):
        return array.sum()

    def gradients(self, loss_of, inputs, read=True):
        loss, self.grads = nn.value_and_grad(self.model, loss_of)(self.model, *inputs)
        if not read:
            return None, {}
        return loss.item(), self._named(self.grads)

    def update(self, optimizer):
        optimizer.update(self.model, self.grads)
        mx.eval(self.model.parameters(), optimizer.state)

    def wait(self, _):
        mx.synchronize()

    def optimizer(self, rate):
        return optimizers.Adam(learning_rate=rate)

    def told(self, optimizer):
        told = {"class": type(optimizer).__name__, "rate": float(optimizer.learning_rate),
                "epsilon": getattr(optimizer, "eps", None), "momentum": getattr(optimizer, "momentum", None),
                "weight_decay": getattr(optimizer, "weight_decay", None)}
        if hasattr(optimizer, "betas"):
            told["beta1"], told["beta2"] = optimizer.betas
            told["bias_correction"] = bool(getattr(optimizer, "bias_correction", False))
            told["epsilon_after_correction"] = True
        if told["weight_decay"]:
            told["decay_decoupled"] = type(optimizer).__name__ == "AdamW"
        return {k: v for k, v in told.items() if v is not None}

    def modules(self):
        for name, module in self.model.named_modules():
            yield name, module, module.training

    def corrected(self, module, values):
        if "keep" in values:
            values["rate"] = 1 - values.pop("keep")

    def memory(self):
        return mx.get_peak_memory()

