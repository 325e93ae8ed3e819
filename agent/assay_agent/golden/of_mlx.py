"""A model of MLX's, for a golden file. Weights are told in PyTorch's layout."""

import mlx.core as mx
from mlx import nn, optimizers
from mlx.utils import tree_flatten, tree_map

NAME, LAYOUT = "mlx", "NHWC"

_ATTRIBUTES = {"stride": "stride", "padding": "padding", "dilation": "dilation", "groups": "groups", "eps": "epsilon",
               "momentum": "momentum", "_p_1": "keep", "_kernel_size": "kernel", "_stride": "stride",
               "_padding": "padding", "mode": "mode", "align_corners": "align_corners", "scale_factor": "scale",
               "_negative_slope": "slope", "_approx": "approximate", "num_groups": "norm_groups"}


def is_model(thing):
    return isinstance(thing, nn.Module)


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

    def tensor(self, array):
        return mx.array(array)

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

    def forward(self, inputs):
        calls, born, kept = [], {}, []
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
                after(module, args, output)
                return output
            return __call__

        def after(module, args, output):
            first = next(_arrays(output), None)
            if first is None:
                return
            told = {"module": names[id(module)], "kind": kind(module), "leaf": not module.leaf_modules(),
                    "output": first}
            fed = next(_arrays(args), None)
            if fed is not None:
                told["from"] = born.get(id(fed), -1)
                if told["from"] < 0:
                    told["input"] = fed
                kept.append(fed)
            kept.append(first)
            born[id(first)] = len(calls)
            calls.append(told)

        for c, call in kept_calls.items():
            c.__call__ = watched(call)
        try:
            output = self.model(*inputs)
        finally:
            for c, call in kept_calls.items():
                c.__call__ = call
        for told in calls:
            for part in ("output", "input"):
                if part in told:
                    told[part] = self.array(told[part])
        return calls, [self.array(a) for a in _arrays(output)]

    def weighted(self, weights):
        def loss(model, *inputs):
            outputs = [a for a in _arrays(model(*inputs)) if mx.issubdtype(a.dtype, mx.floating)]
            return sum((a * w).sum() for a, w in zip(outputs, weights))
        return loss

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
        told = []
        for name, module in self.model.named_modules():
            values = {}
            for attribute, word in _ATTRIBUTES.items():
                value = getattr(module, attribute, None)
                if isinstance(value, (bool, int, float, str)):
                    values[word] = value
                elif isinstance(value, (tuple, list)) and all(isinstance(v, int) for v in value):
                    values[word] = list(value)
            if "keep" in values:
                values["rate"] = 1 - values.pop("keep")
            told.append({"module": name, "kind": kind(module), "values": values, "training": module.training})
        return told

    def memory(self):
        return mx.get_peak_memory()


def _arrays(thing):
    if isinstance(thing, mx.array):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from _arrays(value)
    elif isinstance(thing, (tuple, list)):
        for value in thing:
            yield from _arrays(value)
