"""Proves one framework's device by computing on it. Prints a line of JSON at every stage, so that a crash still tells how
far it came; the last line counts. The name of the framework is the only argument."""
import importlib.util
import json
import platform
import sys

said = {"stage": "start", "installed": False, "devices": []}


def say(stage, **more):
    said.update(more, stage=stage)
    sys.stdout.write("\nassay " + json.dumps(said) + "\n")
    sys.stdout.flush()


def judge(name, on, got, want):
    """got and want are lists of numbers from the device and from the CPU."""
    finite = all(abs(g) < float("inf") for g in got)  # false for NaN too, which max() would step over
    worst = max(abs(g - w) for g, w in zip(got, want)) if finite else -1.0
    largest = max(abs(w) for w in want)
    # 1e-3: half-precision multiplication inside a float32 product stays below it, a wrong kernel does not.
    agrees = len(got) == len(want) and finite and worst <= 1e-3 * largest
    return {"name": name, "on": on, "agrees": agrees, "finite": finite, "worst": worst, "largest": largest}


def attempt(name, f):
    try:
        said["devices"].append(f())
    except Exception as e:
        said["devices"].append({"name": name, "error": "%s: %s" % (type(e).__name__, str(e).strip().split("\n")[0][:300])})
    say("tried " + name)


def numbers():
    return [[((i * 31 + j * 17) % 29 - 14) / 8.0 for j in range(64)] for i in range(64)]


def torch_gate():
    import torch

    mps = getattr(torch.backends, "mps", None)
    say("imported", version=torch.__version__, built=bool(mps and mps.is_built()))
    say("asked", mps_available=bool(mps and mps.is_available()), cuda_available=bool(torch.cuda.is_available()))

    def prove(name):
        a = torch.tensor(numbers(), dtype=torch.float32)
        b = a.t().contiguous()
        want = (a @ b).flatten().tolist()
        got = a.to(name) @ b.to(name)
        if got.device.type != name:
            raise RuntimeError("the result is on " + str(got.device))
        return judge(name, str(got.device), got.cpu().flatten().tolist(), want)

    for name in ("mps", "cuda"):
        if said[name + "_available"]:
            say("trying " + name)
            attempt(name, lambda name=name: prove(name))
    if said["cuda_available"]:
        said["name"] = torch.cuda.get_device_name(0)


def mlx_gate():
    import mlx.core as mx

    device = mx.default_device()
    kind = "gpu" if device == mx.Device(mx.gpu) or str(device).startswith("Device(gpu") else "cpu"
    say("imported", version=getattr(mx, "__version__", ""), default=str(device), kind=kind)

    def prove():
        rows = numbers()
        a = mx.array(rows, dtype=mx.float32)
        got = mx.matmul(a, mx.transpose(a))  # on the default device
        mx.eval(got)
        # Exact in Python's floats: the numbers are eighths. MLX's own CPU would be no other opinion where it is the device.
        want = [sum(x * y for x, y in zip(one, other)) for one in rows for other in rows]
        return judge("mlx", str(device), mx.flatten(got).tolist(), want)

    say("trying mlx")
    attempt("mlx", prove)


def tensorflow_gate():
    import tensorflow as tf

    say("imported", version=tf.__version__)
    gpus = tf.config.list_physical_devices("GPU")
    say("asked", gpus=[g.name for g in gpus])
    if not gpus:
        return
    tf.config.set_soft_device_placement(False)  # otherwise the CPU answers for a kernel that is missing

    def prove():
        a = tf.constant(numbers(), dtype=tf.float32)
        with tf.device("/CPU:0"):
            want = tf.matmul(a, a, transpose_b=True)
        with tf.device("/GPU:0"):
            got = tf.matmul(a, a, transpose_b=True)
        if "GPU" not in got.device:
            raise RuntimeError("the result is on " + got.device)
        return judge("tensorflow", got.device, tf.reshape(got, [-1]).numpy().tolist(), tf.reshape(want, [-1]).numpy().tolist())

    say("trying tensorflow")
    attempt("tensorflow", prove)


def product(rows):
    """rows times their own transpose, exact in Python's floats: the numbers are eighths."""
    return [sum(x * y for x, y in zip(one, other)) for one in rows for other in rows]


def jax_gate():
    import jax

    say("imported", version=jax.__version__)
    device = jax.devices()[0]  # of the default backend; a plug-in that fails to load leaves the CPU
    say("asked", default=device.platform, name=device.device_kind)

    def prove():
        a = jax.device_put(jax.numpy.asarray(numbers(), dtype="float32"), device)
        got = jax.jit(lambda a: jax.numpy.matmul(a, a.T, precision="highest"))(a)
        if got.devices() != {device}:
            raise RuntimeError("the result is on " + str(got.devices()))
        return judge("jax", str(device), [x for row in got.tolist() for x in row], product(numbers()))

    say("trying jax")
    attempt("jax", prove)


def keras_gate():
    import os
    import tempfile

    if "KERAS_HOME" not in os.environ and not os.path.exists(os.path.expanduser("~/.keras/keras.json")):
        home = tempfile.TemporaryDirectory()  # Keras leaves its settings in its home when it is imported
        os.environ["KERAS_HOME"] = home.name
    import keras

    say("imported", version=keras.__version__)
    if int(keras.__version__.split(".")[0]) < 3:
        raise RuntimeError("Keras 2 computes by TensorFlow alone: see the gate tensorflow")
    backend = keras.config.backend()
    say("asked", default=backend)

    def place(value):
        if backend == "mlx":
            return str(sys.modules["mlx.core"].default_device())
        devices = getattr(value, "devices", None)
        return ", ".join(sorted(map(str, devices()))) if callable(devices) else str(getattr(value, "device", "a device that cannot be asked"))

    def prove():
        a = keras.ops.convert_to_tensor(numbers(), dtype="float32")
        got = keras.ops.matmul(a, keras.ops.transpose(a))
        where = place(got)
        values = keras.ops.convert_to_numpy(got).flatten().tolist()
        return judge("keras", where, values, product(numbers()))

    say("trying keras on " + backend)
    attempt("keras", prove)


def main(framework):
    # The folder that assay was called in is no part of a script's import path; a checkout of torch may lie there.
    sys.path[:] = [p for p in sys.path if p != ""]
    try:
        found = importlib.util.find_spec(framework) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        say("absent")
        return
    say("importing", installed=True, machine=platform.machine())
    try:
        {"torch": torch_gate, "mlx": mlx_gate, "tensorflow": tensorflow_gate, "jax": jax_gate, "keras": keras_gate}[framework]()
    except BaseException as e:
        say("failed", failed_at=said["stage"], error="%s: %s" % (type(e).__name__, str(e).strip().split("\n")[0][:300]))
        return
    say("done")


main(sys.argv[1])
