"""Loops of one's own on TensorFlow: functions made by tf.function, and gradients taken eagerly.

A function that updates is known by what is met while it is traced. A call of it is a step; the forward pass, the
gradients and the update within it nobody outside sees.
"""

import sys
import weakref

from ... import guest
from ...timeline import REST, T, now
from . import backend

_step = None  # phases, once seen
_backward = None
_calls = []  # [function, when it was called] of the outermost call of a tf.function that is under way
_depth = 0
_updating = {}  # id of a function -> weak reference to it: it updates


def install(keras, config):
    if backend.name() != "tensorflow":
        return
    from tensorflow.python.data.ops import iterator_ops
    from tensorflow.python.eager import backprop
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    function = polymorphic_function.Function
    function._call = guest.around(function._call, _begins, _ends)
    iterator_ops.OwnedIterator.__next__ = guest.around(iterator_ops.OwnedIterator.__next__, _fetches, _fetched)
    backprop.GradientTape.gradient = guest.around(backprop.GradientTape.gradient, _gradient, _gradients)


def traced(variables):
    """An optimizer applies gradients to variables: whether it is only being traced. The function under way is one that
    updates."""
    if not _calls or sys.modules["tensorflow"].executing_eagerly():
        return False
    function = _calls[0][0]
    if not T.device.kind:
        backend.leads(variables)
    _updating[id(function)] = weakref.ref(function)
    return True


@guest.hook
def _begins(function, *_):
    global _depth
    if not T.on or not (T.owner is None or T.mine()) or T.in_whole():
        return False
    _depth += 1
    if _depth == 1:
        if not T.opened and not T.busy:
            T.work_begin(now())  # the first step begins where its function is made
        _calls[:] = [(function, now())]
    return True


@guest.hook
def _ends(error):
    global _depth, _step
    _depth -= 1
    if _depth or not _calls:
        return
    (function, began), _calls[:] = _calls[0], []
    known = _updating.get(id(function))
    if error is not None or known is None or known() is not function or not T.mine() or not T.free():
        return
    backend.leads()
    if _step is None:
        _step = T.phase("train", 35, "train function",
                        "forward, backward and update in one call, and the wait for the batch that it reads")
    T.took(_step, began)
    T.backward_begin(REST)
    T.backward_end(REST)
    T.optimizer_begin(REST, id(function), known)
    T.optimizer_end(REST)


# -- batches --------------------------------------------------------------------------------------------------------------

_data = None  # the phase, once a batch was fetched
_fetching = None  # the iterator
_pass = [None, 0]  # weak reference to the iterator that gave the last batch, and its number


@guest.hook
def _fetches(iterator):
    global _data, _fetching
    if not T.on or not (T.owner is None or T.mine()) or T.in_whole() or not T.free():
        return False
    if _data is None:
        _data = T.phase("data", 10, "data", "waiting for the loader")
    T.fetch_begin()
    _fetching = iterator
    return True


@guest.hook
def _fetched(error):
    global _fetching
    iterator, _fetching = _fetching, None
    if _pass[0] is None or _pass[0]() is not iterator:
        _pass[:] = [weakref.ref(iterator), _pass[1] + 1]
    batch = ("tf.data", _pass[1])
    T.fetch_end(_data, batch if error is None else None)
    if error is not None:  # OutOfRangeError, of which a StopIteration is made
        T.pass_ended(batch)


# -- gradients taken eagerly ----------------------------------------------------------------------------------------------


@guest.hook
def _gradient(tape, target, *_):
    global _backward
    if not T.on or _depth or not sys.modules["tensorflow"].executing_eagerly():
        return False
    if not T.mine() or T.in_whole() or not T.free():
        return False
    if _backward is None:
        _backward = T.phase("backward", 40, "backward", "gradients")
        T.phase("forward", 30, "forward", "model and loss")
    T.backward_begin(T.phase("forward", 30, "", ""))
    return True


@guest.hook
def _gradients(error):
    T.backward_end(_backward)
