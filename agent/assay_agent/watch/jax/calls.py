"""Steps: calls of the compiled function that updates.

Nothing stands around a compiled function: `jax.jit` gives what it gives without us. JAX itself calls a hook after each
call of one (its check for NaN is made so), and that is where we listen. The first call of a function, and each that
compiles, does not come that way but through `_get_fastpath_data`.

Which function updates is learned while it is traced: what differentiates (`ad.linearize`, by which jax.grad,
value_and_grad and vjp go) or updates (optax.apply_updates) is remembered with the outermost function under way. Where
functions that update are called, they make the steps, and those that only differentiate are batches; where none is
(the update is written by hand, or in the same function), what differentiates makes them.
"""

import sys
import weakref
from _thread import get_ident
from itertools import zip_longest

from ... import guest, place, wire
from ...timeline import REST, T, now
from ..imports import when_imported
from . import device

GRADIENT, UPDATE = 1, 2
WHOLE = "a step of JAX's is a call of a compiled function, and nobody outside sees forward, backward and update apart"

_roles = {}  # id of a function that was jitted -> [weak reference to it, GRADIENT | UPDATE]
_clean = None  # () -> whether nothing is being traced
_array = None  # the class of arrays
_state = None  # where JAX keeps the hook
_alone = {}  # of what differentiates: key -> the moment of its first call, or True where it makes the steps itself
_updates = 0  # that were seen
_gave = None  # what the last function that differentiated gave, until an update follows it
_batches = []  # of each that was called since the last update: the open step's acc when it was over
_usual = 0  # how many there were before the last update
scalars = {}  # id of an array that a step gave -> (weak reference to it, step): a loss, if the script reads it
SCALARS = 4096


def install(jax, config):
    global _clean, _array, _state
    from jax._src import api, core, pjit
    from jax._src.interpreters import ad

    _clean = core.trace_state_clean
    _array = arrays(jax)
    if not hasattr(api, "_post_hook_state"):
        wire.trouble("JAX %s is older than what is watched, 0.10: its steps are not seen" % jax.__version__)
        return
    for function in (ad.linearize, pjit._get_fastpath_data):
        code = function.__code__
        _places.update((name, at) for at, name in enumerate(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]))
    ad.linearize = guest.around(ad.linearize, differentiates, None)
    api.VJP.__call__ = guest.around(api.VJP.__call__, _pulls_back, _pulled_back)
    pjit._get_fastpath_data = guest.around(pjit._get_fastpath_data, _first_call, None)
    _state = api._post_hook_state
    _listen(_state.get_global, _state.set_global)
    for name in ("debug_nans", "debug_infs"):
        _share(getattr(api.config, name))
    T.update_hooks.append(_of_another)
    when_imported("optax", _optax)
    when_imported("equinox", _equinox)


_places = {}  # parameter of a function of JAX's that is watched -> its place: releases move them


def arrays(jax):
    """The class of JAX's arrays."""
    from jax._src.array import ArrayImpl

    return ArrayImpl


def clear():
    """A forked child tells its own."""
    _alone.clear()
    _batches.clear()
    scalars.clear()


def _optax(optax):
    from optax._src import update

    watched = guest.around(update.apply_updates, applies, None)
    for module in (update, optax):
        if getattr(module, "apply_updates", None) is not watched:
            module.apply_updates = watched


def _equinox(equinox):
    watched = guest.around(equinox.apply_updates, applies, None)
    for module in (sys.modules.get("equinox._update"), equinox):
        if hasattr(module, "apply_updates"):
            module.apply_updates = watched


# -- JAX's hook -----------------------------------------------------------------------------------------------------------


def _listen(get, put):
    """Have JAX call us, and we whom it would have called."""
    before = get()
    if getattr(before, "__func__", None) is not _Listener.called:
        put(_Listener(before).called)


def _share(setting):
    """jax_debug_nans and jax_debug_infs put a hook of JAX's own in, or None, for all threads or for one: ours comes
    back."""
    everywhere, here = setting._update_global_hook, setting._update_thread_local_hook

    def both(value):
        everywhere(value)
        _listen(_state.get_global, _state.set_global)

    def one(value):
        here(value)
        _listen(_state.get_local, _state.set_local)

    setting._update_global_hook, setting._update_thread_local_hook = both, one


class _Listener:
    __slots__ = ("before",)

    def __init__(self, before):
        self.before = before

    def called(self, function, args, kwargs, output):
        """JAX has called a compiled function."""
        if self.before is not None:
            try:
                self.before(function, args, kwargs, output)
            except BaseException:
                guest.hide()
                raise
        try:
            role = _roles.get(id(function._fun))
        except AttributeError:
            return
        if role is not None and T.on:
            over(function._fun, role, output)


@guest.hook
def _first_call(*given):
    """The first call of a compiled function is over, or one that JAX's quick way does not take."""
    if given[_places["executable"]] is None or not T.on:
        return False
    frame = sys._getframe(2)
    for _ in range(4):
        if frame is None or frame.f_code.co_name == "cache_miss":
            break
        frame = frame.f_back
    function = frame.f_locals.get("fun") if frame is not None else None
    role = _roles.get(id(function))
    if role is not None:
        over(function, role, given[_places["out_tree"]].unflatten(given[_places["out_flat"]]))
    return False


@guest.hook
def over(function, role, output):
    """A call of a function that has a role in training is over."""
    if role[0]() is not function or not T.mine() or not _clean():
        return
    if not T.device.kind:
        leaf = _leaf(output)
        if leaf is not None:
            T.use(device.of(leaf))
    if not mine():
        return
    key = id(function)
    if role[1] & UPDATE:
        updated(key, role[0], output if role[1] & GRADIENT else None)
    else:
        differentiated(key, output)


# -- what was traced ------------------------------------------------------------------------------------------------------


@guest.hook
def differentiates(*given):
    if T.on and given[_places["is_vjp"]] and not learn(GRADIENT) and mine() and not T.device.kind:
        leaf = _leaf(list(given[_places["primals_ft"]]))
        if leaf is not None:
            T.use(device.of(leaf))
    return False


@guest.hook
def _pulls_back(*_):
    return T.on and mine()


@guest.hook
def _pulled_back(error):
    """Gradients were computed by a function that is not compiled."""
    if error is None and mine():
        differentiated(place.key(3))


@guest.hook
def applies(*_):
    if T.on and not learn(UPDATE) and mine():
        updated(place.key(3), None)
    return False


def mine():
    """Whether what happens now does, in the training thread, and is no part of what another hook watches."""
    return _clean() and T.mine() and not T.in_whole() and T.free()


def learn(role):
    """The outermost function that is being traced has that role: whether there is one."""
    if not (T.owner is None or T.owner == get_ident()):
        return True
    if not T.opened and not T.busy and not T.in_whole():
        T.mine()
        T.work_begin(T.mark)  # the first step begins where its function is made
    function = traced()
    if function is not None:
        known = _roles.get(id(function))
        if known is None or known[0]() is not function:
            try:
                known = _roles[id(function)] = [weakref.ref(function), 0]
            except TypeError:
                known = _roles[id(function)] = [lambda: function, 0]
        known[1] |= role
        return True
    return False


def traced():
    """The outermost function that jax.jit is tracing, or None."""
    found, frame = None, sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_name
        if name == "cache_miss" and "fun" in frame.f_code.co_freevars:
            found = frame.f_locals.get("fun")
        elif name == "jit_trace":
            found = getattr(frame.f_locals.get("jit_func"), "_fun", None)
        frame = frame.f_back
    return found


def names():
    """Of the functions that have a role in training."""
    return {getattr(known[0](), "__name__", None) for known in list(_roles.values())}


# -- steps ----------------------------------------------------------------------------------------------------------------


def updated(key, ref, output=None):
    """An update is over; output: of the function that computed the gradients as well."""
    global _updates, _gave, _usual
    _updates += 1
    _alone.clear()
    _usual = len(_batches)
    _batches.clear()
    _stepped(key, ref, output if output is not None else _gave)
    _gave = None


def differentiated(key, output=None):
    """Gradients were computed, and no update was seen with them: once more than before, and none since, and what
    computed them makes the steps itself. Where updates are seen, it is a batch of the next of them, or evaluation."""
    global _gave
    _gave = output
    if _updates:
        T.settle(now(), T.base)
        _batches.append(list(T.step.acc))
        if _usual and len(_batches) > _usual:
            # One more than the update before took: the first of them was evaluation.
            before = _batches.pop(0)
            T.leave_out(before)
            _batches[:] = [[a - b + c for a, b, c in zip_longest(acc, before, T.opt_over[1], fillvalue=0)]
                           for acc in _batches]
        return
    _lead()
    known = _alone.get(key)
    if known is None:
        T.backward_begin(REST)
        T.backward_end(REST)
        _alone[key] = T.mark, list(T.step.acc), T.step.start
        _keep_scalar(output)
        return
    if known is not True:
        _alone[key] = True
        T.stepped_at(key, known)
    _stepped(key, None, output)


def _stepped(key, ref, output):
    _lead()
    T.backward_begin(REST)
    T.backward_end(REST)
    T.optimizer_begin(REST, key, ref)
    T.optimizer_end(REST)
    _keep_scalar(output)


def ours():
    """Whether the loop is JAX's, as far as is known."""
    return "jax" in T.led or not T.led[0]


def _lead():
    if _above:
        T.lead(_above, "jax", WHOLE)
    else:
        T.lead("jax", "", WHOLE)


_above = ""  # the framework that computes by JAX, where one does


def _of_another(framework):
    """A framework that computes by JAX updates: whether that is only being traced."""
    global _above
    _above = framework
    return learn(UPDATE)


# -- what a step gives ----------------------------------------------------------------------------------------------------


def _leaf(output, depth=0):
    """An array in a function's output: the first that is found not far down."""
    if isinstance(output, _array):
        return output
    values = output.values() if type(output) is dict else output if isinstance(output, (tuple, list)) else ()
    if depth == 0 and not values and hasattr(output, "__dict__"):
        values = vars(output).values()
    for value in list(values)[:8]:
        leaf = _leaf(value, depth + 1) if depth < 6 else None
        if leaf is not None:
            return leaf
    return None


def _keep_scalar(output):
    """Remember the loss among what a step gave: in a tuple the first single number, in a dictionary what bears the
    name."""
    items = output if isinstance(output, (tuple, list)) else (output,)
    for item in items[:16]:
        if type(item) is tuple and item:
            item = item[0]  # (loss, auxiliaries)
        if type(item) is dict:
            named = [value for name, value in item.items() if type(name) is str and "loss" in name.lower()]
            item = named[0] if len(named) == 1 else item.get("loss")
        if isinstance(item, _array) and item.shape == () and item.dtype.kind == "f":
            if len(scalars) >= SCALARS:
                scalars.clear()
            scalars[id(item)] = weakref.ref(item), T.number + 1
            return


_losses = []  # (step, float)


def read(array, value):
    """The script has read a single number: was it a step's loss?"""
    known = scalars.pop(id(array), None)
    if known is not None and known[0]() is array:
        _losses.append((known[1], value))


def gather():
    """For the wire: the losses that the script has read."""
    rows, _losses[:] = _losses[:], []
    if rows:
        wire.put(
            {
                "ev": "loss",
                "step": [step for step, _ in rows],
                "value": [value if value - value == 0 else repr(value) for _, value in rows],
                "what": "as the script read it",
            }
        )
