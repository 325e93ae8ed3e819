"""MLX under the agent: on a Mac's GPU or, as here, on a CPU. The oracle is what a script gives without the agent."""

import difflib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _python():
    """A Python that has mlx: this one, or the one that ASSAY_MLX_PYTHON names."""
    named = os.environ.get("ASSAY_MLX_PYTHON")
    if named:
        return named
    try:
        return sys.executable if importlib.util.find_spec("mlx.core") else None
    except ModuleNotFoundError:
        return None


PYTHON = _python()
pytestmark = pytest.mark.skipif(PYTHON is None, reason="mlx is not installed: ASSAY_MLX_PYTHON names a Python")

MODEL = """
import mlx.core as mx, mlx.nn as nn, mlx.optimizers as optim
from functools import partial
mx.random.seed(7)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 16), nn.Linear(16, 4)
    def __call__(self, x):
        return self.two(nn.gelu(self.one(x)))

def loss_of(model, x, y):
    return nn.losses.cross_entropy(model(x), y, reduction="mean")

def show(tree):
    from mlx.utils import tree_flatten
    for name, value in tree_flatten(tree):
        print(name, bytes(memoryview(value)).hex())

model, opt = Net(), optim.Adam(1e-2)
xs, ys = mx.random.normal((64, 8)), mx.random.randint(0, 4, (64,))
mx.eval(model.parameters(), xs, ys)
"""
# Fewer than after which blocks with the hooks off begin (watch/blocks.py), and enough for a step that is taken apart.
PLAIN = MODEL + """
grad = nn.value_and_grad(model, loss_of)
for step in range(38):
    at = 16 * (step % 4)
    loss, grads = grad(model, xs[at:at + 16], ys[at:at + 16])
    opt.update(model, grads)
    mx.eval(model.parameters(), opt.state, loss)  # evaluates
    if step % 10 == 0:
        print(step, float(loss).hex())  # prints
show(model.parameters())
show(opt.state)
"""
COMPILED = MODEL + """
state = [model.state, opt.state]

@partial(mx.compile, inputs=state, outputs=state)
def train(x, y):
    loss, grads = nn.value_and_grad(model, loss_of)(model, x, y)
    opt.update(model, grads)
    return loss

@partial(mx.compile, inputs=model.state)
def right(x, y):
    return mx.mean(mx.argmax(model(x), axis=1) == y)

for step in range(30):
    loss = train(xs[:16], ys[:16])
    mx.eval(state)
    if step % 10 == 9:
        print(step, loss.item().hex(), right(xs, ys).item().hex())
show(model.parameters())
"""


class Seen:
    def __init__(self, bare, watched, lines):
        self.bare, self.watched, self.events = bare, watched, [json.loads(line) for line in lines]

    def all(self, ev):
        return [e for e in self.events if e["ev"] == ev]

    def column(self, name):
        return [v for e in self.all("steps") for v in (e[name] if name in e else e["phases"][name])]

    def losses(self):
        return {s: v for e in self.all("loss") for s, v in zip(e["step"], e["value"])}

    def waits(self):
        return {(call, line.rpartition(":")[2]): (n, steps) for e in self.all("syncs")
                for call, line, _, n, _, _, steps in e["rows"]}


def _run(path, environ):
    done = subprocess.run([PYTHON, path], env=dict(os.environ, **environ), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def see(code, **more):
    """The script bare and under the agent, with more settings of its; without such both must give the same."""
    with tempfile.TemporaryDirectory(prefix="mlx") as folder:
        script = os.path.join(folder, "train.py")
        with open(script, "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(code))
        bare = _run(script, {})
        path, lines = os.path.join(folder, "s"), []
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen(4)

        def read():
            connection, _ = server.accept()
            with connection, connection.makefile("r", encoding="utf-8") as stream:
                lines.extend(stream)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        settings = {"socket": path, "run": folder, "on": "auto", "profile": "off", "wall": time.time(), **more}
        watched = _run(script, {"PYTHONPATH": os.path.join(ROOT, "boot"), "ASSAY_AGENT": json.dumps(settings)})
        reader.join(60)
        server.close()
    for one, other in zip(bare, watched) if not more else ():  # output, exit status and what is written of errors
        assert one == other, "\n".join(difflib.unified_diff(str(one).splitlines(), str(other).splitlines(), lineterm=""))
    return Seen(bare, watched, lines)


@pytest.fixture(scope="module")
def plain():
    return see(PLAIN)


@pytest.fixture(scope="module")
def compiled():
    return see(COMPILED)


PHASES = ("forward", "graph", "backward", "optimizer", "evaluation", "rest")


def assert_sums(seen):
    """The parts of a step add up to it; of one with the hooks off none is told."""
    sums = [sum(parts) for parts in zip(*(seen.column(p) for p in PHASES))]
    for whole, total, kind in zip(sums, seen.column("total"), seen.column("kind")):
        assert whole == (0 if kind in ("bare", "edge") else total)


def test_a_plain_loop(plain):
    assert plain.bare[0] == 0 and not plain.all("trouble")
    assert plain.all("framework")[0]["name"] == "mlx"
    assert plain.column("number") == list(range(1, 39))
    assert_sums(plain)


def test_a_sampled_step_is_taken_apart_and_no_other(plain):
    kinds = dict(zip(plain.column("number"), plain.column("kind")))
    sampled = {n for n, kind in kinds.items() if kind == "sync"}
    assert 1 <= len(sampled) < 20
    for name in ("forward", "backward", "optimizer"):
        for n, t in zip(plain.column("number"), plain.column(name)):
            assert (t > 0) == (n in sampled), (name, n)
    assert plain.all("device")[0]["queued"] is True


def test_every_loss_that_was_evaluated_is_read(plain):
    losses, printed = plain.losses(), [line.split() for line in plain.bare[1].splitlines()[:4]]
    assert sorted(losses) == list(range(1, 39))
    for step, text in printed:
        assert losses[int(step) + 1] == float.fromhex(text)
    assert all(finite for e in plain.all("gradients") for finite in e["finite"])


def test_waits_by_line(plain):
    lines = {line.rpartition("# ")[2]: str(n) for n, line in enumerate(PLAIN.splitlines(), 1) if "  # " in line}
    waits = plain.waits()
    assert waits["mx.eval", lines["evaluates"]] == (38, 38) and waits["float(array)", lines["prints"]] == (4, 4)


def test_inputs_and_memory(plain):
    shape = plain.all("shape")[0]
    assert shape["model"] == "Net" and shape["inputs"] == "float32[16, 8] on cpu, int32[16] on cpu"
    live, pool = plain.column("live"), plain.column("pool")
    assert all(0 < a <= b for a, b in zip(live, pool) if a >= 0) and any(a > 0 for a in live)


def test_a_compiled_step(compiled):
    assert compiled.bare[0] == 0 and not compiled.all("trouble")
    assert compiled.column("number") == list(range(1, 31)), "each call once, and the evaluation's none"
    for name in ("forward", "backward", "optimizer"):
        assert not any(compiled.column(name))
        assert "compiled" in compiled.all("unseen")[-1]["phases"][name]
    assert all(t > 0 for t in compiled.column("evaluation"))
    assert compiled.all("device")[-1]["queued"] is False and set(compiled.column("kind")) == {""}
    assert set(compiled.losses()) == {10, 20, 30}, "those that the script asks for: the others are never evaluated"


@pytest.mark.parametrize("named", ["", "update="])
def test_accumulation_in_a_compiled_step(named):
    """As mlx-lm's trainer does it: one compiled function that updates in every second call."""
    seen = see(MODEL + """
    state = [model.state, opt.state]
    grad = nn.value_and_grad(model, loss_of)
    from mlx.utils import tree_map

    @partial(mx.compile, inputs=state, outputs=state)
    def train(x, y, before, update):
        loss, grads = grad(model, x, y)
        if before is not None:
            grads = tree_map(lambda a, b: a + b, grads, before)
        if update:
            opt.update(model, grads)
            grads = None
        return loss, grads

    kept = None
    for step in range(24):
        loss, kept = train(xs[:16], ys[:16], kept, NAMEDstep % 2 == 1)
        mx.eval(state, loss, kept)
    show(model.parameters())
    """.replace("\n    ", "\n").replace("NAMED", named))
    assert seen.column("number") == list(range(1, 13)) and set(seen.column("micro")) == {2}
    assert len([v for e in seen.all("loss") for v in e["value"]]) == 24


def test_functional_loops_by_hand():
    seen = see("""
    import mlx.core as mx
    w = mx.zeros((4,))
    x, y = mx.random.normal((32, 4), key=mx.random.key(1)), mx.ones((32,))
    def loss(w, x, y):
        return ((x @ w - y) ** 2).mean()
    step = mx.value_and_grad(loss)
    for i in range(30):
        value, grad = step(w, x, y)
        w = w - 0.1 * grad
        mx.eval(w, value)
    print(w.tolist(), value.item())
    """)
    assert not seen.all("trouble")
    assert sorted(seen.losses()) and len(seen.losses()) >= 1


def test_a_script_that_reads_the_allocator_is_left_alone():
    seen = see(PLAIN.replace("show(model.parameters())", "assert mx.get_peak_memory() > 0", 1))
    assert "sync" not in seen.column("kind") and "reads the memory" in seen.all("unseen")[-1]["phases"]["forward"]
    assert sorted(seen.losses()) == list(range(1, 39))


def test_limits_of_a_trial():
    """MLX itself says what its limits were before the script sets others; the wired one holds on a GPU alone."""
    asked = {"memory_limit": 3 << 30, "cache_limit": 0, "wired_limit": 1 << 20}
    seen = see("import mlx.core as mx\nprint(mx.get_memory_limit(), mx.set_cache_limit(5))\n", levers={"mlx": asked})
    assert seen.watched[1].split() == [str(3 << 30), "0"] and seen.watched[0] == 0
    told = [(e["lever"], e["done"], e.get("to"), e.get("why")) for e in seen.all("lever")]
    assert told[:2] == [("memory_limit", True, 3 << 30, None), ("cache_limit", True, None, None)]
    assert told[-1] == ("cache_limit", False, None, "the script sets it to 5 bytes itself")
    assert told[2][0] == "wired_limit" and seen.all("trouble") == []
    if not told[2][1]:
        assert told[2][3] == "it has no effect here: MLX has no GPU, or macOS is older than 15"
    assert [e["limit"] for e in seen.all("allocator")] == ["cache"], "the script's own alone"


def test_limits_without_mlx():
    seen = see("print(1)\n", levers={"mlx": {"cache_limit": 1}})
    assert [(e["lever"], e["done"], e["why"]) for e in seen.all("lever")] == [("cache_limit", False, "MLX was not imported")]


def test_limits_are_told():
    seen = see(MODEL + "mx.set_cache_limit(1 << 20)\nmx.set_memory_limit(1 << 30)\n")
    assert [(e["limit"], e["bytes"]) for e in seen.all("allocator")] == [("cache", 1 << 20), ("memory", 1 << 30)]


def test_what_scripts_ask_of_functions_in_c():
    """Names, kinds, texts, copies, pickles, signatures, and what fails: as without the agent."""
    see(MODEL + """
    import copy, inspect, pickle, re, sys, traceback, warnings
    from mlx.core import eval as mine
    def hide(text):
        return re.sub("0x[0-9a-f]+", "0x", text)
    compiled, gradient = mx.compile(lambda a, b=1: a * 2), mx.value_and_grad(lambda a: a.sum())
    for f in (mx.eval, mx.compile, mx.value_and_grad, mx.grad, mx.synchronize, mx.set_cache_limit, compiled, gradient):
        print(hide(repr(f)), f.__name__, f.__module__, f.__doc__ and len(f.__doc__), len(dir(f)), callable(f), f.__class__, f.__class__.__module__, type(f))
        for ask in (pickle.dumps, copy.copy, inspect.signature, lambda f: setattr(f, "x", 1), lambda f: f.absent, hash,
                    lambda f: isinstance(f, f.__class__), lambda f: f == f, inspect.isbuiltin, inspect.isfunction):
            try:
                got = ask(f)
                print(type(got) if isinstance(got, int) and got > 1 else hide(repr(got)))
            except Exception as error:
                print(type(error), hide(str(error)))
    print(mine is mx.eval, type(mx.array.item), mx.array.item.__name__)
    class Holder:
        f = compiled
        e = mx.eval
    print(Holder.f is compiled, Holder().f(mx.array(3)), Holder().e(mx.array(1)))
    def depth():
        return [(f.function, f.lineno) for f in inspect.stack()]
    def loss(w):
        warnings.warn("seen from its caller", stacklevel=2)
        return (w * w).sum()
    step = mx.value_and_grad(loss)
    for i in range(25):
        value, g = step(mx.ones((3,)))
        mx.eval(value, g)
    for wrong in (lambda: mx.eval(mx.value_and_grad(lambda w: 1 / 0)(mx.array(1.0))), lambda: mx.array([1.0, 2.0]).item(),
                  lambda: mx.compile(lambda a: mx.eval(a))(mx.array(1.0)), lambda: bool(mx.ones((2,))),
                  lambda: mx.compile(), lambda: mx.eval(mx.ones((2,)) + object())):
        try:
            wrong()
        except Exception as error:  # before 3.11 a script that prints it by itself sees our frames
            print(hide(traceback.format_exc()) if sys.version_info >= (3, 11) else hide(str(error)))
    mx.value_and_grad(lambda w: w.nothing)(mx.array(1.0))
    """.replace("\n    ", "\n"))


def test_signals_and_exits_within_a_step():
    see(MODEL + """
    import os, signal, sys
    def handler(number, frame):
        print("handled", frame.f_code.co_name)
        raise KeyboardInterrupt
    signal.signal(signal.SIGUSR1, handler)
    def loss(model, x, y):
        os.kill(os.getpid(), signal.SIGUSR1)
        return loss_of(model, x, y)
    grad = nn.value_and_grad(model, loss)
    for i in range(3):
        try:
            grad(model, xs, ys)
        except KeyboardInterrupt:
            print("caught")
    plain = nn.value_and_grad(model, loss_of)
    for i in range(5):
        value, grads = plain(model, xs, ys)
        opt.update(model, grads)
        mx.eval(model.parameters())
    print(value.item())
    sys.exit(3)
    """.replace("\n    ", "\n"))


SWITCH = """
def switch(on):
    import sys
    for name in ("gradient", "compiled", "optimizer", "wait"):
        hook = sys.modules.get("assay_agent.watch.mlx." + name)
        if hook is not None:
            hook.switch(on)
    if hook is not None:
        assert (mx.eval is vars(hook)["_places"].rows[0][2]) == (not on)
        assert (type(vars(mx.array)["item"]).__name__ == "nb_method") == (not on)
"""


HALF = COMPILED.replace("""    opt.update(model, grads)
    return loss
""", """    return loss, grads
""").replace("    loss = train(xs[:16], ys[:16])\n", """    loss, grads = train(xs[:16 + step % 3], ys[:16 + step % 3])  # traced again
    opt.update(model, grads)
""")


@pytest.mark.parametrize("code", [PLAIN, COMPILED, HALF])
def test_hooks_off_and_on_again(code):
    """Steps go on being marked; what is looked at in them is not, and the framework has its own functions back."""
    off = "    if step in (10, 20):\n        switch(step == 20)\n"
    head, _, tail = code.partition("for step in range(")
    first, _, rest = tail.partition("\n")
    seen = see(head + SWITCH + "for step in range(" + first + "\n" + off + rest)
    assert seen.bare[0] == 0 and not seen.all("trouble")
    steps = int(first.partition(")")[0])
    assert seen.column("number") == list(range(1, steps + 1)) and set(seen.column("micro")) == {1}
    assert_sums(seen)
    waited = [t > 0 for t in seen.column("evaluation")]
    assert not any(waited[10:19]) and all(waited[:9]) and all(waited[21:])
    evaluated = {10, 20, 30} if code is not PLAIN else set(range(1, 39))
    assert set(seen.losses()) <= evaluated and len(set(seen.losses())) > len(evaluated) / 2


def test_compiling_disabled():
    """mlx-lm's users do so to look for an error: the functions then run as they are written."""
    seen = see(COMPILED.replace("state = [", "mx.disable_compile()\nstate = ["))
    assert seen.column("number") == list(range(1, 31)) and "sync" in seen.column("kind")
    assert any(seen.column("forward")) and "forward" not in seen.all("unseen")[-1]["phases"]


def test_two_models_in_turn():
    """A GAN's loop: each model its own gradient and optimizer, one round a step."""
    seen = see(MODEL + """
    other, rate = Net(), optim.SGD(1e-3)
    one, two = nn.value_and_grad(model, loss_of), nn.value_and_grad(other, loss_of)
    for step in range(38):
        a, grads = one(model, xs[:16], ys[:16])
        opt.update(model, grads)
        b, grads = two(other, xs[:16], ys[:16])
        rate.update(other, grads)
        mx.eval(model.parameters(), opt.state, other.parameters(), rate.state)
    show(model.parameters())
    show(other.parameters())
    """.replace("\n    ", "\n"))
    assert not seen.all("trouble") and seen.column("number") == list(range(1, 39))
    assert set(seen.column("opts")) == {2}


@pytest.mark.parametrize("step", [
    "loss, grads = grad(model, xs, ys); opt.update(model, grads); mx.async_eval(model.parameters(), opt.state, loss)",
    "loss, grads = grad(model, xs, ys); model.update(opt.apply_gradients(grads, model)); mx.eval(model.parameters())",
    "loss, grads = grad(model, xs, ys); grads, n = optim.clip_grad_norm(grads, 1.0); opt.update(model, grads); loss.item()",
    "grads = gradient(model.trainable_parameters()); opt.update(model, grads); mx.eval(model.state)",
    "loss, grads = grad(model, xs, ys); both.update(model, grads); mx.eval(model.parameters(), both.state)",
    "loss, grads = again(model, xs, ys); opt.update(model, grads); mx.eval(model.parameters())",
    "loss, grads = halves(xs, ys); opt.update(model, grads); mx.eval(model.parameters())",
])
def test_other_plain_loops(step):
    seen = see(MODEL + """
    grad = nn.value_and_grad(model, loss_of)
    def alone(params):
        model.update(params)
        return loss_of(model, xs, ys)
    gradient = mx.grad(alone)
    both = optim.MultiOptimizer([optim.SGD(1e-2), optim.Adam(1e-3)], [lambda name, weight: "one" in name])
    def penalty(model, x, y):  # a gradient within the function of another
        return loss_of(model, x, y) + mx.grad(lambda z: loss_of(model, z, y))(x).square().sum()
    again = nn.value_and_grad(model, penalty)
    compiled = mx.compile(lambda x, y: grad(model, x, y), inputs=model.state, outputs=model.state)
    def halves(x, y):  # only the gradient is compiled
        return compiled(x, y)
    for i in range(38):
        STEP
    show(model.parameters())
    """.replace("\n    ", "\n").replace("STEP", step))
    assert seen.bare[0] == 0, seen.bare[2]
    assert not seen.all("trouble")
    assert seen.column("number") == list(range(1, 39)) and set(seen.column("micro")) == {1}, step
    split = [t for name in ("forward", "backward", "optimizer") for t in seen.column(name)]
    whole = seen.all("unseen")[-1]["phases"].get("forward", "")
    assert any(split) == (whole == "") or "apply_gradients" in whole


def _has(module):
    found = subprocess.run([PYTHON, "-c", "import " + module], capture_output=True, check=False)
    return found.returncode == 0


@pytest.mark.full_set
def test_the_trainer_of_mlx_lm():
    """Unmodified: it compiles its step, evaluates the model now and then, and prints what a clock says, which is left out here."""
    if not _has("mlx_lm"):
        pytest.skip("mlx-lm is not installed")
    seen = see("""
    import contextlib, hashlib, io, tempfile
    import mlx.core as mx, mlx.optimizers as optim
    import numpy as np
    from mlx_lm.models import llama
    from mlx_lm.tuner import TrainingArgs, linear_to_lora_layers, train
    from mlx_lm.tuner.callbacks import TrainingCallback
    from mlx_lm.tuner.datasets import CacheDataset

    mx.random.seed(1)
    np.random.seed(1)
    model = llama.Model(llama.ModelArgs(
        model_type="llama", hidden_size=32, num_hidden_layers=2, intermediate_size=64, num_attention_heads=2,
        num_key_value_heads=2, rms_norm_eps=1e-5, vocab_size=100, head_dim=16))
    model.freeze()
    linear_to_lora_layers(model, 2, {"rank": 4, "dropout": 0.0, "scale": 10.0})

    class Tokens:
        def __init__(self, n):
            self.rows = [list(map(int, np.random.randint(1, 100, 20))) for _ in range(n)]
        def __len__(self):
            return len(self.rows)
        def __getitem__(self, i):
            return self.rows[i]
        def process(self, row):
            return row, 0

    class Losses(TrainingCallback):
        told = []
        def on_train_loss_report(self, info):
            self.told.append((info["iteration"], info["train_loss"]))
        def on_val_loss_report(self, info):
            self.told.append((info["iteration"], info["val_loss"]))

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        args = TrainingArgs(batch_size=2, iters=30, val_batches=2, steps_per_report=10, steps_per_eval=10,
                            adapter_file=folder + "/adapters.safetensors", max_seq_length=32)
        train(model, optim.Adam(1e-3), CacheDataset(Tokens(16)), CacheDataset(Tokens(4)), args,
              training_callback=Losses())
        with open(folder + "/adapters.safetensors", "rb") as f:
            weights = hashlib.sha256(f.read()).hexdigest()
    print(weights, [(n, float(loss).hex()) for n, loss in Losses.told])
    """)
    assert seen.bare[0] == 0, seen.bare[2]
    assert not seen.all("trouble") and seen.column("number") == list(range(1, 31))
    assert sorted(seen.losses()) == list(range(1, 31))
    assert any("trainer.py" in via for e in seen.all("syncs") for _, _, via, *_ in e["rows"])
