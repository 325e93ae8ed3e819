"""JAX under the agent, here on a CPU. What a script gives is the oracle: the same without the agent."""

import types

import pytest

import pair
from assay_agent import timeline, wire
from assay_agent.watch.jax import calls, compiles, device, waits

PYTHON = pair.python_with("jax", "ASSAY_JAX_PYTHON")


def real(test):
    """With JAX: some seconds each."""
    reason = "jax and optax are not installed; ASSAY_JAX_PYTHON names a Python that has them"
    return pytest.mark.full_set(pytest.mark.skipif(PYTHON is None, reason=reason)(test))


# -- without JAX ----------------------------------------------------------------------------------------------------------


class Place(types.SimpleNamespace):
    __hash__ = object.__hash__


class Array:
    """A single number of JAX's, or an array."""

    def __init__(self, shape=(), kind="f", platform="cpu"):
        self.shape, self.dtype, self.platform = shape, types.SimpleNamespace(kind=kind), platform

    def devices(self):
        return {Place(id=0, platform=self.platform, device_kind=self.platform, memory_stats=dict)}


@pytest.fixture
def loop(monkeypatch):
    """The hooks on a timeline of their own, with a clock that the test sets."""
    clock = [0]
    fresh = timeline.Timeline()
    for module in (calls, compiles):
        monkeypatch.setattr(module, "T", fresh)
        monkeypatch.setattr(module, "now", lambda: clock[0])
    monkeypatch.setattr(timeline, "now", lambda: clock[0])
    fresh.reset()
    said = []
    monkeypatch.setattr(wire, "put", said.append)
    monkeypatch.setattr(wire, "wake", lambda: None)
    monkeypatch.setattr(calls, "_clean", lambda: True)
    monkeypatch.setattr(calls, "_array", Array)
    for name in ("_roles", "_alone", "scalars"):
        monkeypatch.setattr(calls, name, {})
    for name in ("_batches", "_losses"):
        monkeypatch.setattr(calls, name, [])
    for name in ("_updates", "_usual"):
        monkeypatch.setattr(calls, name, 0)
    monkeypatch.setattr(calls, "_gave", None)
    monkeypatch.setattr(calls, "_above", "")
    kept = []

    def function(role):
        def jitted():
            pass

        kept.append(jitted)

        def call(output=None, took=10):
            clock[0] += took
            calls.over(jitted, [lambda: jitted, role], output)

        return call

    return types.SimpleNamespace(T=fresh, clock=clock, said=said, function=function)


def rows(T):
    """(length, of it each phase, what belonged to no step) of each step."""
    T.finish()
    return [(row[2], row[3], row[-1]) for row in T.rows]


def test_a_function_that_updates_makes_the_steps(loop):
    step = loop.function(calls.GRADIENT | calls.UPDATE)
    loop.T.work_begin(0)
    for _ in range(4):
        step(Array(), took=7)
    assert [total for total, _, _ in rows(loop.T)] == [7, 7, 7, 7]
    assert {"ev": "trains", "framework": "jax", "backend": ""} in loop.said
    assert {"ev": "device", "type": "cpu", "queued": False} in loop.said
    assert [e for e in loop.said if e["ev"] == "unseen"][0]["phases"].keys() == {"forward", "backward", "optimizer"}


def test_gradients_and_updates_in_two_functions(loop):
    gradients, update = loop.function(calls.GRADIENT), loop.function(calls.UPDATE)
    loop.T.work_begin(0)
    for _ in range(5):
        gradients(took=6)
        update(took=3)
    # Only when the first update came was it known that the gradients are not the step.
    assert [total for total, _, _ in rows(loop.T)] == [9] * 5


def test_gradients_alone_make_the_steps(loop):
    """The update is written by hand: from the second call on nothing else can be the step, and the first was one."""
    step = loop.function(calls.GRADIENT)
    loop.T.work_begin(0)
    for _ in range(4):
        step(took=5)
    assert [total for total, _, _ in rows(loop.T)] == [5] * 4


def test_evaluation_between_two_updates_is_no_part_of_a_step(loop):
    gradients, update = loop.function(calls.GRADIENT), loop.function(calls.UPDATE)
    loop.T.work_begin(0)
    for _ in range(3):
        for _ in range(4):
            gradients(took=6)
            update(took=3)
        for _ in range(2):
            gradients(took=1000)  # of what it is evaluated on
    found = rows(loop.T)
    assert [total for total, _, _ in found] == [9] * 12 and all(sum(acc) == total for total, acc, _ in found)
    assert sum(outside for _, _, outside in found) == 5000, "what comes after the last is no step's either"


def test_batches_gathered_for_one_update(loop):
    gradients, update = loop.function(calls.GRADIENT), loop.function(calls.UPDATE)
    loop.T.work_begin(0)
    for _ in range(4):
        for _ in range(3):
            gradients(took=2)
        update(took=1)
    # Before the first update nothing tells batches from steps.
    assert [(total, outside) for total, _, outside in rows(loop.T)][-3:] == [(7, 0)] * 3


def test_two_functions_that_update_in_turn_are_one_step(loop):
    one, other = loop.function(calls.UPDATE), loop.function(calls.UPDATE)
    loop.T.work_begin(0)
    for _ in range(5):
        one(took=4)
        other(took=2)
    assert [total for total, _, _ in rows(loop.T)] == [6] * 5


def test_what_another_framework_tells_whole_is_not_counted_twice(loop):
    step = loop.function(calls.GRADIENT)
    loop.T.telling = (lambda: None).__code__

    def fit():
        for _ in range(3):
            step(Array())

    loop.T.telling = fit.__code__
    fit()
    assert rows(loop.T) == [] and loop.T.device.kind == "cpu", "but where it computes is said"
    assert loop.T.in_whole() is False and loop.T.telling is None, "it may have ended by an exception"


def test_losses_that_the_script_reads(loop):
    step, kept = loop.function(calls.GRADIENT | calls.UPDATE), []
    loop.T.work_begin(0)
    for output in ((Array((4, 4)), Array()), {"accuracy": Array(), "loss": Array()}, (Array((2,)), (Array(), {})),
                   (Array(kind="i"),)):
        kept.append(output)
        step(output)
    losses = kept[0][1], kept[1]["loss"], kept[2][1][0]
    for value, array in zip((3.0, 2.0, float("nan")), losses):
        calls.read(array, value)
        calls.read(array, value)  # a second look is no second loss
    calls.read(Array(), 7.0)
    calls.read(kept[1]["accuracy"], 0.5)
    calls.gather()
    assert loop.said[-1] == {"ev": "loss", "step": [1, 2, 3], "value": [3.0, 2.0, "nan"],
                             "what": "as the script read it"}


def test_the_loss_of_a_step_is_that_of_its_gradients(loop):
    gradients, update = loop.function(calls.GRADIENT), loop.function(calls.UPDATE)
    loop.T.work_begin(0)
    kept = [Array() for _ in range(6)]
    for i in (0, 1, 2):
        gradients((None, kept[i]))
        update()
    gradients((None, kept[3]))  # evaluation
    gradients((None, kept[4]))
    update()
    for i, array in enumerate(kept):
        calls.read(array, float(i))
    assert calls._losses == [(1, 0.0), (2, 1.0), (3, 2.0), (4, 4.0)]


def test_what_is_compiled(loop, monkeypatch):
    monkeypatch.setattr(compiles, "_functions", {})
    monkeypatch.setattr(compiles, "_compile", None)
    step = loop.function(calls.GRADIENT | calls.UPDATE)
    loop.T.work_begin(0)
    loop.T.mine()
    loop.clock[0] = 100
    compiles._heard(compiles.TRACE[0], 30e-9, fun_name="train")
    loop.clock[0] = 160
    compiles._heard(compiles.COMPILE, 50e-9, fun_name="jit(train)")
    compiles._heard("/jax/another", 1.0)
    step(took=11)
    step(took=11)
    compiles._gather()
    assert loop.said[-1] == {"ev": "compiles", "rows": [["train", 1, 30, 50, 1, False]]}
    said = len(loop.said)
    compiles._gather()
    assert len(loop.said) == said, "once"
    names = [p.name for p in loop.T.phases]
    assert [acc[names.index("compile")] for _, acc, _ in rows(loop.T)] == [80, 0]


@pytest.mark.parametrize("platform, version, kind", [
    ("cpu", "", "cpu"), ("gpu", "cuda 13020", "cuda"), ("gpu", "rocm 60", "rocm"), ("mps", "jax-mps", "mps"),
    ("METAL", "", "metal")])
def test_the_device(platform, version, kind):
    stats = {"bytes_in_use": 5, "peak_bytes_in_use": 9, "bytes_limit": 100, "pool_bytes": 8, "peak_pool_bytes": 10}
    place = Place(id=0, platform=platform, device_kind="A name", memory_stats=lambda: stats,
                                  client=types.SimpleNamespace(platform_version=version))
    found = device.of(types.SimpleNamespace(devices=lambda: {place}))
    assert (found.kind, found.name, found.synchronize) == (kind, "A name", None)
    assert found.memory() == (5, 8) and found.limit == (100, "jax.Device.memory_stats")
    assert found.peak() == (9, 10, "jax.Device.memory_stats")


def test_a_device_that_counts_no_memory():
    def fails():
        raise NotImplementedError

    for stats in (lambda: None, fails):
        place = Place(id=0, platform="cpu", device_kind="cpu", memory_stats=stats)
        found = device.of(types.SimpleNamespace(devices=lambda place=place: {place}))
        assert (found.kind, found.name, found.memory, found.limit, found.peak) == ("cpu", "", None, None, None)


# -- with it --------------------------------------------------------------------------------------------------------------

HEAD = """
import jax, jax.numpy as jnp, numpy as np, optax
def loss_fn(p, x, y):
    return jnp.mean((jnp.tanh(x @ p["one"]) @ p["two"] - y) ** 2)
rng = np.random.default_rng(0)
p = {"one": jnp.asarray(rng.normal(size=(8, 16)).astype("f")), "two": jnp.asarray(rng.normal(size=(16, 1)).astype("f"))}
x = rng.normal(size=(32, 8)).astype("f"); y = x.sum(1, keepdims=True)
"""


@real
def test_a_compiled_update():
    seen = pair.see(PYTHON, HEAD + """
@jax.jit
def update(p, x, y):
    loss, g = jax.value_and_grad(loss_fn)(p, x, y)
    return jax.tree.map(lambda a, b: a - 0.01 * b, p, g), loss
for i in range(40):
    p, loss = update(p, x, y)
    if i % 10 == 9:
        print(i, float(loss).hex())  # reads
for name in p: print(name, np.asarray(p[name]).tobytes().hex())
""")
    assert seen.column("number") == list(range(1, 41)) and seen.compiled()["update"] == 1
    assert [(s, v.hex()) for s, v in seen.losses()] == [
        (int(line.split()[0]) + 1, line.split()[1]) for line in seen.printed[:4]]
    assert seen.waits()["float(array)", 15] == (4, 4)
    assert seen.column("compile")[0] > 0 and sum(seen.column("compile")[1:]) == 0
    assert [e["framework"] for e in seen.all("trains")] == ["jax"]


@real
def test_optax_in_and_outside_of_a_compiled_function():
    for jit in ("jax.jit", ""):
        seen = pair.see(PYTHON, HEAD + """
tx = optax.adam(1e-2); s = tx.init(p)
wrap = %s
def step(p, s, x, y):
    loss, g = jax.value_and_grad(loss_fn)(p, x, y)
    u, s = tx.update(g, s, p)
    return optax.apply_updates(p, u), s, loss
step = wrap(step) if wrap else step
for i in range(12):
    p, s, loss = step(p, s, x, y)
print(loss.item().hex(), np.asarray(p["one"]).tobytes().hex())
""" % (jit or "None"))
        assert seen.column("number") == list(range(1, 13)), jit


@real
def test_gradients_and_update_in_two_compiled_functions_and_evaluation():
    """As flax/examples/mnist has it: the evaluation calls the function that computes gradients."""
    seen = pair.see(PYTHON, HEAD + """
tx = optax.sgd(0.05, 0.9); s = tx.init(p)
@jax.jit
def apply_model(p, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(p, x, y)
    return grads, loss
@jax.jit
def update_model(p, s, grads):
    u, s = tx.update(grads, s, p)
    return optax.apply_updates(p, u), s
for epoch in range(3):
    losses = []
    for i in range(8):
        grads, loss = apply_model(p, x, y)
        p, s = update_model(p, s, grads)
        losses.append(loss)
    _, test = apply_model(p, x[:16], y[:16])
    print(np.mean(losses), test)
""")
    assert seen.column("number") == list(range(1, 25)) and [s for s, _ in seen.losses()] == list(range(1, 25))
    assert sum(1 for outside in seen.column("outside") if outside) == 2


@real
def test_nothing_stands_around_a_compiled_function():
    pair.see(PYTHON, HEAD + """
import inspect, pickle, sys, warnings
from functools import partial
@partial(jax.jit, static_argnames="twice", donate_argnums=0)
def f(x, twice=False): return x * (2 if twice else 1)
print(type(f), str(f)[:30], inspect.signature(f), sorted(vars(f)), f.__name__, f.__module__)
print(f.lower(jnp.ones(3)).as_text()[:60], f.trace(jnp.ones(3)).jaxpr, f.eval_shape(jnp.ones(3)))
c = f.lower(jnp.ones(3)).compile(); print(c(jnp.ones(3)), c(jnp.ones(3)))
print(jax.vmap(f)(jnp.ones((2, 3))), jax.grad(lambda x: f(x).sum())(jnp.ones(2)), f(jnp.ones(2), twice=True))
print(jax.tree.structure({"f": f}), f._cache_size()); f.clear_cache(); print(f._cache_size())
print(optax.apply_updates.__qualname__, optax.apply_updates.__module__, pickle.loads(pickle.dumps(optax.apply_updates)) is optax.apply_updates)
for name in "item tolist __float__ __array__ block_until_ready".split():
    print(name, getattr(jax.Array, name, None) is not None, type(jnp.ones(()).__class__.__dict__.get(name)).__name__ == "x")
print(jax.block_until_ready((jnp.ones(2), 3)), jax.device_get({"a": jnp.ones(2)}), jnp.ones(()).block_until_ready().item())
x = jnp.ones(2); x.delete()
for call in (lambda: float(x), lambda: x.block_until_ready(), lambda: float(jnp.ones(3)), lambda: jax.jit(float)(1.0)):
    try: call()
    except Exception as e: print(type(e).__name__, str(e)[:80], [l.tb_frame.f_code.co_name for l in [e.__traceback__]])
with jax.debug_nans(True):
    try: jax.jit(jnp.log)(jnp.asarray(-1.0))
    except FloatingPointError as e: print(e)
jax.config.update("jax_debug_nans", True)
try: jax.jit(lambda x: jnp.log(x))(jnp.asarray(-1.0))
except FloatingPointError as e: print(e)
jax.config.update("jax_debug_nans", False)
@jax.jit
def update(p): return jax.tree.map(lambda a, b: a - b, p, jax.grad(lambda p: loss_fn(p, np.ones((2, 8), "f"), 0.0))(p))
for i in range(6): p = update(p)
print(np.asarray(p["one"]).tobytes().hex())
jax.jit(lambda x: 1 / 0)(1.0)
""")


@real
def test_steps_are_heard_of_after_the_check_for_nan_was_on():
    seen = pair.see(PYTHON, HEAD + """
@jax.jit
def update(p): return jax.tree.map(lambda a, b: a - 0.1 * b, p, jax.grad(loss_fn)(p, x, y))
for i in range(5): p = update(p)
with jax.debug_nans(True):
    for i in range(5): p = update(p)
jax.config.update("jax_debug_nans", True)
for i in range(5): p = update(p)
jax.config.update("jax_debug_nans", False)
for i in range(5): p = update(p)
print(np.asarray(p["one"]).tobytes().hex())
""")
    assert len(seen.column("number")) == 20


@real
def test_compiled_over_and_over():
    seen = pair.see(PYTHON, HEAD + """
@jax.jit
def update(p, x): return jax.tree.map(lambda a, b: a - 0.1 * b, p, jax.grad(loss_fn)(p, x, 0.0))
for i in range(1, 9): p = update(p, x[:i])
print(np.asarray(p["one"]).tobytes().hex())
""")
    rows = {row[0]: row for e in seen.all("compiles") for row in e["rows"]}
    assert rows["update"][1] == 8 and rows["update"][5] is True and len(seen.column("number")) == 8


def test_what_is_switched_off(monkeypatch):
    """The methods are the class's own again; what the script has put there stays, and so does what reads losses."""

    class Owner:
        def wait(self):
            pass

        def other(self):
            pass

        def item(self):
            pass

    theirs = {name: Owner.__dict__[name] for name in ("wait", "other", "item")}
    monkeypatch.setattr(waits, "_put", [])
    ours = {name: (lambda self: None) for name in theirs}
    for name, made in ours.items():
        waits._watch(Owner, name, made)
    scripts = Owner.other = lambda self: 1
    waits.switch(False)
    assert (Owner.wait, Owner.other, Owner.item) == (theirs["wait"], scripts, ours["item"])
    waits.switch(True)
    waits.switch(True)
    assert (Owner.wait, Owner.other, Owner.item) == (ours["wait"], scripts, ours["item"])
