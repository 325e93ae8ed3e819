"""A model of Keras 3's, on whichever backend, for a golden file. Weights are told in PyTorch's layout and names."""

import keras
from keras import ops

NAME, LAYOUT = "keras", "NCHW" if keras.config.image_data_format() == "channels_first" else "NHWC"

ATTRIBUTES = {"strides": "stride", "padding": "padding", "dilation_rate": "dilation", "groups": "groups",
               "epsilon": "epsilon", "momentum": "momentum", "rate": "rate", "pool_size": "kernel",
               "kernel_size": "kernel", "interpolation": "mode", "negative_slope": "slope", "size": "scale",
               "approximate": "approximate", "data_format": "data_format"}
_NAMES = {"kernel": "weight", "gamma": "weight", "beta": "bias", "moving_mean": "running_mean",
          "moving_variance": "running_var", "embeddings": "weight"}


def is_model(thing):
    return isinstance(thing, keras.layers.Layer)


def is_tensor(thing):
    return ops.is_tensor(thing)


def kind(layer):
    return type(layer).__name__


def wide():
    """Before the model is made: float64 from here on. Layers have their type from the start."""
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    if keras.config.backend() == "jax":
        import jax
        jax.config.update("jax_enable_x64", True)


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

    def widen(self):
        """wide() has done it."""

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

    def forward(self, inputs, calls):
        names = {id(layer): ".".join(self._path(layer)) for layer in self.model._flatten_layers()}
        Layer, call = keras.layers.Layer, keras.layers.Layer.__call__

        def __call__(layer, *args, **kwargs):
            output = call(layer, *args, **kwargs)
            if id(layer) in names:
                leaf = len(list(layer._flatten_layers(include_self=False))) == 0
                calls.ended(names[id(layer)], kind(layer), leaf, args, output)
            return output

        Layer.__call__ = __call__
        try:
            return self.call(self.model, inputs)
        finally:
            Layer.__call__ = call

    def _path(self, layer):
        path = (getattr(layer, "path", None) or layer.name).split("/")
        return path[1:] if path[0] == self.model.name else path

    def outputs(self, inputs):
        return self.call(self.model, inputs)

    def summed(self, tensor):
        return ops.sum(tensor)

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
        for layer in self.model._flatten_layers():
            yield ".".join(self._path(layer)) if layer is not self.model else "", layer, self.training

    def corrected(self, layer, values):
        if "momentum" in values:
            values["momentum"] = 1 - values["momentum"]  # of the new batch, as PyTorch and MLX have it
        activation = getattr(layer, "activation", None)
        if activation is not None and getattr(activation, "__name__", "linear") != "linear":
            values["activation"] = activation.__name__

    def memory(self):
        return None

