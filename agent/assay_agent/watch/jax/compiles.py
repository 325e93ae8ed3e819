"""What was traced and compiled, by function: JAX says it of itself (jax.monitoring)."""

from ... import guest, wire
from ...timeline import T, now
from . import calls

# jax/_src/dispatch.py. Tracing, then lowering, then the compiler; a function within another is traced within it.
TRACE = ("/jax/core/compile/jaxpr_trace_duration", "/jax/core/compile/jaxpr_to_mlir_module_duration")
COMPILE = "/jax/core/compile/backend_compile_duration"
ROWS = 500

_compile = None  # the phase, once something was compiled within a step
_functions = {}  # name -> [times compiled, ns traced, ns compiled, the last step, changed]


def install(jax, config):
    jax.monitoring.register_event_duration_secs_listener(_heard)
    wire.source(_gather)
    wire.source(calls.gather)


def clear():
    """A forked child tells its own."""
    _functions.clear()


@guest.hook
def _heard(event, seconds, fun_name="", **_):
    if event != COMPILE and event not in TRACE or not T.on:
        return
    global _compile
    ns = round(seconds * 1e9)
    name = fun_name if type(fun_name) is str else ""
    if name.startswith("jit(") and name.endswith(")"):
        name = name[4:-1]
    known = _functions.get(name)
    if known is None:
        if len(_functions) >= ROWS:
            return
        known = _functions[name] = [0, 0, 0, 0, True]
    known[0] += event == COMPILE
    known[2 if event == COMPILE else 1] += ns
    known[3], known[4] = T.number + 1 + (T.snapshot is not None), True
    if T.opened and T.owner is not None and calls.ours() and T.mine() and not T.busy:
        if _compile is None:
            _compile = T.phase("compile", 64, "compile", "functions were traced and compiled")
        T.took(_compile, now() - ns)


def _gather():
    rows, training = [], None
    for name, known in list(_functions.items()):
        if known[4] and known[0]:
            known[4] = False
            training = calls.names() if training is None else training
            rows.append([name] + known[:4] + [name in training])
    if rows:
        wire.put({"ev": "compiles", "rows": rows})  # totals so far: the last row of a function counts
