"""What computes for Keras: its name, and the device that a model's variables are on."""

import sys

from ...device import Device
from ...timeline import T


_name = []


def name():
    """As KERAS_BACKEND has it; it stays what it was when Keras was imported."""
    if not _name:
        _name.append(sys.modules["keras"].config.backend())
    return _name[0]


def whole():
    """Whether a step of this backend's is one call, in which nobody outside sees forward, backward and update."""
    return name() != "torch"


WHOLE = "on this backend a step of Keras's is one compiled call, and nobody outside sees forward, backward and update apart"


def leads(variables=(), eager=False):
    """Keras trains; variables: some of those that it does it with; eager: its steps are not compiled."""
    T.lead("keras", name(), WHOLE if whole() and not eager else "")
    if not T.device.kind and whole():
        for variable in variables:
            device = of(variable)
            if device is not None:
                T.use(device)
                return


def of(variable):
    """The device of a variable of TensorFlow's; None of another. JAX's and MLX's own hooks tell theirs."""
    value = getattr(variable, "_value", variable)
    backend = name()
    if backend == "tensorflow" and isinstance(getattr(value, "device", None), str):
        return _tensorflow(value.device)
    return None


def _tensorflow(place):
    """place: /job:localhost/replica:0/task:0/device:GPU:0. TensorFlow calls every maker's GPU so; what it was built for
    tells which."""
    kind, _, number = place.rpartition("/device:")[2].partition(":")
    kind = kind.lower()
    if kind != "gpu":
        return Device(kind or "cpu")
    tf = sys.modules["tensorflow"]
    if tf.test.is_built_with_rocm():
        kind = "rocm"
    elif tf.test.is_built_with_cuda():
        kind = "cuda"
    elif sys.platform == "darwin":
        kind = "metal"  # by tensorflow-metal
    number = number or "0"
    details = {}
    gpus = tf.config.list_physical_devices("GPU")
    if number.isdigit() and int(number) < len(gpus):
        details = tf.config.experimental.get_device_details(gpus[int(number)])

    def memory():
        info = tf.config.experimental.get_memory_info("GPU:" + number)
        return info["current"], info["current"]

    def peak():
        info = tf.config.experimental.get_memory_info("GPU:" + number)
        return info["peak"], info["peak"], "tf.config.experimental.get_memory_info"

    return Device(kind, details.get("device_name", ""), memory=memory if kind == "cuda" else None,
                  peak=peak if kind == "cuda" else None)
