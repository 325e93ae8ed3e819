"""A model of Keras 3's, on whichever backend, for a golden file. Weights are told in PyTorch's layout and names."""

import keras
from keras import ops

NAME, LAYOUT = "keras", "NCHW" if keras.config.image_data_format() == "channels_first" else "NHWC"

_ATTRIBUTES = {"strides": "stride", "padding": "padding", "dilation_rate": "dilation", "groups": "groups",
               "epsilon": "epsilon", "momentum": "momentum", "rate": "rate", "pool_size": "kernel",
               "kernel_size": "kernel", "interpolation": "mode", "negative_slope": "slope", "size": "scale",
               "approximate": "approximate", "data_format": "data_format"}
_NAMES = {"kernel": "weight", "gamma": "weight", "beta": "bias", "moving_mean": "running_mean",
          "moving_variance": "running_var", "embeddings": "weight"}


def is_model(thing):
    return isinstance(thing, keras.layers.Layer)


def kind(layer):
    return type(layer).__name__


def _turned(array, of, name):
    if name == "kernel" and of == "Dense":
        return array.T
    if name == "kernel" and of.startswith("Depthwise"):  # …IM -> (I·M)1…
        turned = array.transpose((array.ndim - 2, array.ndim - 1) + tuple(range(array.ndim - 2)))
        return turned.reshape((-1, 1) + turned.shape[2:])
    if name == "kernel" and of.startswith("Conv"):  # …IO -> OI…; of a transposed one …OI -> IO…
        return array.transpose((array.ndim - 1, array.ndim - 2) + tuple(range(array.ndim - 2)))
    return array


class Side:
    def __init__(self, numpy, model, device, training):
        self.numpy, self.model, self.training = numpy, model, training
        self.backend = keras.config.backend()
        self.release = "%s on %s" % (keras.__version__, self.backend)
        self.device = "as %s has it" % self.backend if device == "auto" else device
        self.saved = None

    def tensor(self, array):
        return ops.convert_to_tensor(array)

    def array(self, tensor):
        return self.numpy.asarray(ops.convert_to_numpy(tensor))

    def call(self, model, inputs, training=None):
        training = self.training if training is None else training
        if len(inputs) > 1 and len(getattr(model, "inputs", None) or ()) == len(inputs):
            return model(list(inputs), training=training)
        return model(*inputs, training=training)

    def build(self, inputs):
        self.call(self.model, inputs, training=False)  # makes the weights, and moves no running statistics
        self.saved = self.model.get_weights()

    def restore(self):
        self.model.set_weights(self.saved)

    def _holders(self):
        holders = {}
        for layer in self.model._flatten_layers():
            for variable in layer._trainable_variables + layer._non_trainable_variables:
                holders.setdefault(id(variable), layer)
        return holders

    def _name(self, variable):
        path = variable.path.split("/")
        if len(path) > 1 and path[0] == self.model.name:
            path = path[1:]
        return ".".join(path[:-1] + [_NAMES.get(path[-1], path[-1])])

    def _named(self, pairs):
        holders = self._holders()
        return {self._name(v): _turned(self.array(value), kind(holders[id(v)]) if id(v) in holders else "", v.name)
                for v, value in pairs}

    def _variables(self):
        return [v for v in self.model.variables if "seed_generator" not in v.path]

    def weights(self):
        return self._named((v, v.value) for v in self._variables())

    def kinds(self):
        holders = self._holders()
        return {self._name(v): kind(holders[id(v)]) for v in self._variables() if id(v) in holders}

    def forward(self, inputs):
        calls, born, kept = [], {}, []
        names = {id(layer): ".".join(self._path(layer)) for layer in self.model._flatten_layers()}
        Layer, call = keras.layers.Layer, keras.layers.Layer.__call__

        def __call__(layer, *args, **kwargs):
            output = call(layer, *args, **kwargs)
            first = next((t for t in _tensors(output)), None)
            if id(layer) not in names or first is None:
                return output
            told = {"module": names[id(layer)], "kind": kind(layer),
                    "leaf": len(list(layer._flatten_layers(include_self=False))) == 0, "output": self.array(first)}
            fed = next((t for t in _tensors(args)), None)
            if fed is not None:
                told["from"] = born.get(id(fed), -1)
                if told["from"] < 0:
                    told["input"] = self.array(fed)
                kept.append(fed)
            kept.append(first)
            born[id(first)] = len(calls)
            calls.append(told)
            return output

        Layer.__call__ = __call__
        try:
            output = self.call(self.model, inputs)
        finally:
            Layer.__call__ = call
        return calls, [self.array(t) for t in _tensors(output)]

    def _path(self, layer):
        path = (getattr(layer, "path", None) or layer.name).split("/")
        return path[1:] if path[0] == self.model.name else path

    def weighted(self, weights):
        def loss(model, *inputs):
            outputs = [t for t in _tensors(self.call(model, inputs)) if "float" in keras.backend.standardize_dtype(t.dtype)]
            return sum(ops.sum(t * w) for t, w in zip(outputs, weights))
        return loss

    def gradients(self, loss_of, inputs, read=True):
        variables = self.model.trainable_variables
        if self.backend == "tensorflow":
            import tensorflow as tf
            with tf.GradientTape() as tape:
                loss = loss_of(self.model, *inputs)
            grads = tape.gradient(loss, [v.value for v in variables])
        elif self.backend == "torch":
            self.model.zero_grad()
            loss = loss_of(self.model, *inputs)
            loss.backward()
            grads = [v.value.grad for v in variables]
        elif self.backend == "jax":
            import jax
            others = self.model.non_trainable_variables

            def of(values):
                with keras.StatelessScope(state_mapping=list(zip(variables, values))) as scope:
                    loss = loss_of(self.model, *inputs)
                    return loss, [scope.get_current_value(v) for v in others]

            (loss, after), grads = jax.value_and_grad(of, has_aux=True)([v.value for v in variables])
            for v, value in zip(others, after):
                if value is not None:
                    v.assign(value)
        else:
            raise NotImplementedError("gradients of Keras on %s" % self.backend)
        self.grads = [(v, g) for v, g in zip(variables, grads) if g is not None]
        if not read:
            return None, {}
        return float(self.array(loss)), self._named(self.grads)

    def update(self, optimizer):
        grads = [g for _, g in self.grads]
        if self.backend == "torch":
            import torch
            with torch.no_grad():
                optimizer.apply(grads, [v for v, _ in self.grads])
        else:
            optimizer.apply(grads, [v for v, _ in self.grads])
        return self.model.trainable_variables[-1].value if self.model.trainable_variables else None

    def wait(self, value):
        if value is not None:
            self.array(value)

    def optimizer(self, rate):
        return keras.optimizers.Adam(learning_rate=rate)

    def told(self, optimizer):
        told = {"class": type(optimizer).__name__, "rate": float(self.array(optimizer.learning_rate)),
                "epsilon": getattr(optimizer, "epsilon", None), "momentum": getattr(optimizer, "momentum", None),
                "weight_decay": getattr(optimizer, "weight_decay", None)}
        if hasattr(optimizer, "beta_1"):
            told.update(beta1=optimizer.beta_1, beta2=optimizer.beta_2, bias_correction=True,
                        epsilon_after_correction=False)
        if told["weight_decay"]:
            told["decay_decoupled"] = True
        return {k: v for k, v in told.items() if v is not None}

    def modules(self):
        told = []
        for layer in self.model._flatten_layers():
            values = {}
            for attribute, word in _ATTRIBUTES.items():
                value = getattr(layer, attribute, None)
                if isinstance(value, (bool, int, float, str)):
                    values[word] = value
                elif isinstance(value, (tuple, list)) and all(isinstance(v, int) for v in value):
                    values[word] = list(value)
            if "momentum" in values:
                values["momentum"] = 1 - values["momentum"]  # of the new batch, as PyTorch and MLX have it
            activation = getattr(layer, "activation", None)
            if activation is not None and getattr(activation, "__name__", "linear") != "linear":
                values["activation"] = activation.__name__
            told.append({"module": ".".join(self._path(layer)) if layer is not self.model else "", "kind": kind(layer),
                         "values": values, "training": self.training})
        return told

    def memory(self):
        return None


def _tensors(thing):
    if ops.is_tensor(thing):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from _tensors(value)
    elif isinstance(thing, (tuple, list)):
        for value in thing:
            yield from _tensors(value)
