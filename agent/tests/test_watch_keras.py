"""Keras under the agent. Without Keras: what its fit tells its callbacks is told by a double of few lines. With it
(ASSAY_KERAS_PYTHON): TensorFlow, JAX and PyTorch compute, and what a script gives is the oracle."""

import subprocess
import sys
import textwrap

import pytest

import pair

PYTHON = pair.python_with("keras", "ASSAY_KERAS_PYTHON")


# -- without Keras --------------------------------------------------------------------------------------------------------

FILES = {
    "keras/__init__.py": """
        __version__ = "3.15.1"
        from keras.src.trainer import Model
        class config:
            @staticmethod
            def backend(): return "toy"
        """,
    "keras/src/__init__.py": "",
    "keras/src/callbacks/__init__.py": "",
    "keras/src/optimizers/__init__.py": "",
    "keras/src/callbacks/callback_list.py": """
        class CallbackList:
            def __init__(self, callbacks, model, **params):
                self.callbacks, self._model, self.params = callbacks, model, params
            def on_train_begin(self, logs=None):
                pass
            def on_train_end(self, logs=None):
                pass
            def on_epoch_begin(self, epoch, logs=None):
                pass
            def on_epoch_end(self, epoch, logs=None):
                pass
            def on_train_batch_begin(self, batch, logs=None):
                pass
            def on_train_batch_end(self, batch, logs=None):
                self._on_train_batch_end(batch, logs)
            def _on_train_batch_end(self, batch, logs=None):
                for callback in self.callbacks:
                    callback(batch, {name: float(value) for name, value in logs.items()})
        """,
    "keras/src/optimizers/base_optimizer.py": """
        class BaseOptimizer:
            def apply(self, grads, trainable_variables=None):
                return 7
            def stateless_apply(self, optimizer_variables, grads, trainable_variables):
                return self.apply(grads)
        """,
    "keras/src/trainer.py": """
        from keras.src.callbacks.callback_list import CallbackList
        class Data:
            batch_size = 16
        class Epochs:
            data_adapter = Data()
            def __iter__(self):
                return iter(range(4))
        class Model:
            trainable_variables = ()
            calls = 0
            def train_function(self):
                self.calls += 1
                return {"loss": self.calls / 4}
            def fit(self, epochs, callbacks=(), validate=False):
                epoch_iterator = Epochs()
                callbacks = CallbackList(list(callbacks), self, steps=4)
                callbacks.on_train_begin()
                for epoch in range(epochs):
                    callbacks.on_epoch_begin(epoch)
                    for batch in epoch_iterator:
                        callbacks.on_train_batch_begin(batch)
                        logs = self.train_function()
                        callbacks.on_train_batch_end(batch, logs)
                    callbacks.on_epoch_end(epoch)
                callbacks.on_train_end()
            def train_on_batch(self, x):
                return self.train_function()["loss"]
        """,
}


@pytest.fixture(scope="module")
def see(tmp_path_factory):
    """see(code): a script of the double's bare and under the agent."""
    folder = tmp_path_factory.mktemp("keras")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text).lstrip("\n"))
    return lambda code: pair.see(sys.executable, "import keras\n" + textwrap.dedent(code), PYTHONPATH=str(folder))


def test_fit_tells_its_steps_and_epochs(see):
    seen = see("""
        m = keras.Model()
        m.fit(3, [lambda batch, logs: print(batch, logs)])
        """)
    assert seen.column("epoch") == [1] * 4 + [2] * 4 + [3] * 4 and seen.column("number") == list(range(1, 13))
    assert seen.losses() == [(n, n / 4) for n in range(1, 13)]
    assert {e["what"] for e in seen.all("loss")} == {"as Keras logs it: the mean of the epoch so far"}
    assert [(e["framework"], e["backend"]) for e in seen.all("trains")] == [("keras", "toy")]
    (loader,) = seen.all("loader")
    assert (loader["loader"], loader["dataset"], loader["batch"], loader["batches"]) == ("keras.Model.fit", "Data", 16, 4)
    assert [e["number"] for e in seen.all("epoch")] == [1, 2, 3]
    phases = seen.all("steps")[-1]["phases"]
    assert set(phases) == {"train", "callbacks", "rest"}
    assert list(map(sum, zip(*(seen.column(name) for name in phases)))) == seen.column("total")
    assert "one compiled call" in seen.all("unseen")[-1]["phases"]["backward"]


def test_train_on_batch_is_a_step(see):
    seen = see("""
        m = keras.Model()
        for i in range(5):
            print(m.train_on_batch(i))
        """)
    assert seen.column("number") == [1, 2, 3, 4, 5] and seen.losses() == []


def test_what_fit_tells_ends_with_it(see):
    """A callback ends fit by an exception that the script catches: its own steps afterwards are seen."""
    seen = see("""
        m = keras.Model()
        def enough(batch, logs):
            if batch == 2: raise KeyboardInterrupt
        try:
            m.fit(1, [enough])
        except KeyboardInterrupt as error:
            print(repr(error))
        for i in range(4):
            m.train_on_batch(i)
        """)
    assert seen.column("number") == list(range(1, 8))


def test_a_list_of_callbacks_in_a_loop_of_the_scripts_own(see):
    """Its steps are those of the optimizer, and are not counted twice."""
    seen = see("""
        from keras.src.callbacks.callback_list import CallbackList
        from keras.src.optimizers.base_optimizer import BaseOptimizer
        told, opt = CallbackList([], None), BaseOptimizer()
        told.on_train_begin()
        for batch in range(6):
            told.on_train_batch_begin(batch)
            print(opt.apply([1.0]))
            told.on_train_batch_end(batch, {})
        told.on_train_end()
        for batch in range(3):
            print(opt.stateless_apply([], [1.0], []))
        """)
    assert seen.column("number") == list(range(1, 10))
    assert "optimizer" in seen.all("steps")[-1]["phases"]


def test_nothing_of_ours_is_seen(see):
    see("""
        import inspect, traceback
        from keras.src.callbacks.callback_list import CallbackList
        def callback(batch, logs):
            print([(f.name, f.lineno) for f in traceback.extract_stack()])
            raise ValueError(batch)
        print(inspect.signature(CallbackList.on_epoch_end), CallbackList.on_epoch_end.__qualname__, sorted(vars(CallbackList)))
        keras.Model().fit(1, [callback])
        """)


# -- with it --------------------------------------------------------------------------------------------------------------

FIT = """
import numpy as np, keras
keras.utils.set_random_seed(1)
r = np.random.default_rng(0)
x = r.normal(size=(160, 8)).astype("f"); y = (x.sum(1) > 0).astype("i")
m = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.1), keras.layers.Dense(2)])
m.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
class Mine(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None): self.model.seen = sorted(logs)
for callbacks in ([], [Mine()]):
    h = m.fit(x, y, batch_size=32, epochs=3, validation_split=0.2, verbose=0, callbacks=callbacks)
    print({k: [float(v).hex() for v in vs] for k, vs in h.history.items()}, h.params, [type(c).__name__ for c in callbacks])
for i in range(3): print(float(m.train_on_batch(x[:32], y[:32])[0]).hex())
for w in m.get_weights(): print(w.tobytes().hex()[:80])
"""


def backends():
    if PYTHON is None:
        return []
    probe = "import importlib.util as u; print(*(n for n in ('tensorflow', 'jax', 'torch') if u.find_spec(n)))"
    return subprocess.run([PYTHON, "-c", probe], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.full_set
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_fit_on_each_backend(backend):
    if backend not in backends():
        pytest.skip("keras and %s are not installed; ASSAY_KERAS_PYTHON names a Python that has them" % backend)
    seen = pair.see(PYTHON, FIT, KERAS_BACKEND=backend)
    assert seen.column("number") == list(range(1, 28)), "two calls of fit, four steps an epoch, and three more"
    assert seen.column("epoch")[:24] == [e for e in range(1, 7) for _ in range(4)]
    assert [(e["framework"], e["backend"]) for e in seen.all("trains")][-1] == ("keras", backend)
    phases = seen.all("steps")[-1]["phases"]
    assert ("backward" in phases) == (backend == "torch") and ("train" in phases) == (backend != "torch")
    assert len(seen.losses()) >= 24 and seen.all("device")[-1]["type"] == "cpu"


TAPE = """
import os, numpy as np, tensorflow as tf, keras
keras.utils.set_random_seed(1)
r = np.random.default_rng(0); x = r.normal(size=(160, 8)).astype("f"); y = (x.sum(1) > 0).astype("i")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
m = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)])
opt, loss_fn = keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
def step(x, y):
    with tf.GradientTape() as tape: loss = loss_fn(y, m(x, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, m.trainable_weights), m.trainable_weights)); return loss
if not os.environ.get("EAGER"): step = tf.function(step)
for epoch in range(3):
    for bx, by in data: loss = step(bx, by)
    print(epoch, float(loss).hex())
"""


@pytest.mark.full_set
@pytest.mark.parametrize("eager", ["", "1"])
def test_a_loop_of_ones_own_on_tensorflow(eager):
    if "tensorflow" not in backends():
        pytest.skip("keras and tensorflow are not installed; ASSAY_KERAS_PYTHON names a Python that has them")
    seen = pair.see(PYTHON, TAPE, KERAS_BACKEND="tensorflow", EAGER=eager)
    assert seen.column("epoch") == [e for e in (1, 2, 3) for _ in range(5)]
    phases = seen.all("steps")[-1]["phases"]
    assert ("backward" in phases) == bool(eager) and seen.all("device")[-1]["type"] == "cpu"
    assert bool(seen.all("unseen")) != bool(eager), "where it is compiled there is no split, and it is said why"


STATELESS = """
import jax, numpy as np, keras
keras.utils.set_random_seed(1)
r = np.random.default_rng(0); x = r.normal(size=(160, 8)).astype("f"); y = (x.sum(1) > 0).astype("i")
m = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)])
opt, loss_fn = keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
def loss(tv, ntv, x, y):
    p, ntv = m.stateless_call(tv, ntv, x, training=True); return loss_fn(y, p), ntv
@jax.jit
def train_step(state, x, y):
    tv, ntv, ov = state
    (l, ntv), g = jax.value_and_grad(loss, has_aux=True)(tv, ntv, x, y); tv, ov = opt.stateless_apply(ov, g, tv)
    return l, (tv, ntv, ov)
opt.build(m.trainable_variables)
state = tuple([v.value for v in vs] for vs in (m.trainable_variables, m.non_trainable_variables, opt.variables))
for i in range(20): l, state = train_step(state, x[:32], y[:32])
print(float(l).hex())
"""


@pytest.mark.full_set
def test_a_stateless_loop_on_jax():
    if "jax" not in backends():
        pytest.skip("keras and jax are not installed; ASSAY_KERAS_PYTHON names a Python that has them")
    seen = pair.see(PYTHON, STATELESS, KERAS_BACKEND="jax")
    assert seen.column("number") == list(range(1, 21)) and [step for step, _ in seen.losses()] == [20]
    assert [(e["framework"], e["backend"]) for e in seen.all("trains")] == [("keras", "jax")]


@pytest.mark.full_set
def test_a_loop_of_pytorchs_with_an_optimizer_of_keras():
    if "torch" not in backends():
        pytest.skip("keras and torch are not installed; ASSAY_KERAS_PYTHON names a Python that has them")
    seen = pair.see(PYTHON, """
import torch, numpy as np, keras
keras.utils.set_random_seed(1)
x = torch.randn(64, 8); y = (x.sum(1) > 0).long()
m = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)]); opt = keras.optimizers.Adam(1e-2)
for i in range(12):
    l = torch.nn.functional.cross_entropy(m(x), y); m.zero_grad(); l.backward()
    w = m.trainable_weights
    with torch.no_grad(): opt.apply([v.value.grad for v in w], w)
print(float(l.detach()).hex())
""", KERAS_BACKEND="torch")
    assert seen.column("number") == list(range(1, 13)) and min(seen.column("optimizer")) > 0
    assert [(e["framework"], e["backend"]) for e in seen.all("trains")][-1] == ("keras", "torch")
