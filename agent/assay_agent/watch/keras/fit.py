"""`fit` and `train_on_batch`: steps, epochs, losses.

`fit` tells its list of callbacks what it does, whatever callbacks there are. We listen to the list's own methods, and
add none: the list, the history and the way in which callbacks are called (in a thread, where all of them allow it) are
as without us.
"""

import sys

from ... import guest, place, wire
from ...timeline import T, now
from . import backend

_callbacks = None  # phases, once a step was seen
_train = None
_epoch = 0  # passes so far, over all calls of fit
_begun = 0  # when the train function was called; 0: none is under way
_ending = 0  # when the callbacks of a batch were called
_logs = {}  # id of what a step logged -> its step, until it is read
_losses = []  # (step, float)
_fits = 0  # calls of fit


def install(keras, config):
    from keras.src.callbacks.callback_list import CallbackList
    for name, begin, end in (
        ("on_train_begin", _fit_begins, None),
        ("on_epoch_begin", _epoch_begins, None),
        ("on_epoch_end", _epoch_ends, None),
        ("on_train_batch_begin", _called, _batch_begins),
        ("on_train_batch_end", _batch_ends, _callbacks_over),
        ("_on_train_batch_end", _reads, None),
        ("on_train_end", _fit_ends, None),
    ):
        _watch(CallbackList, name, begin, end)
    trainer = next((c for c in keras.Model.__mro__ if "train_on_batch" in c.__dict__), None)
    if trainer is not None and backend.whole():
        _watch(trainer, "train_on_batch", _on_batch, _on_batch_over)
    wire.source(_gather)


def clear():
    """A forked child tells its own."""
    _logs.clear()
    _losses[:] = []


def _watch(cls, name, begin, end):
    setattr(cls, name, guest.around(cls.__dict__[name], begin, end))


def _phases():
    """Those of a step of Keras's, declared when the first one comes."""
    global _callbacks, _train
    if _callbacks is None:
        _callbacks = T.phase("callbacks", 63, "callbacks", "Keras's callbacks and its progress bar")
    if _train is None and backend.whole():
        _train = T.phase("train", 35, "train function",
                         "forward, backward and update in one call, and the wait for the batch that it reads")


def _whole():
    return T.on and T.mine() and backend.whole() and T.in_whole()


@guest.hook
def _fit_begins(callbacks, logs=None):
    global _fits
    frame = _fit() if T.on and T.mine() else None
    if frame is None:
        return False
    _fits += 1
    backend.leads(_variables(callbacks))
    _phases()
    T.telling = frame.f_code
    if backend.whole():
        _tell_data(callbacks, frame.f_locals["epoch_iterator"])
        if not T.opened:
            T.fetch_begin(new_pass=True)
            T.fetch_end(_train, None)
    return False


def _variables(callbacks):
    model = callbacks.__dict__.get("_model")
    return (getattr(model, "trainable_variables", None) or ())[:1] if model is not None else ()


def _fit():
    """The frame of Keras's fit that has called the hook; None where a script tells a list of callbacks of its own
    loop."""
    frame = sys._getframe(3)
    for _ in range(4):
        if frame is None or frame.f_code.co_name == "fit" and "epoch_iterator" in frame.f_code.co_varnames:
            return frame
        frame = frame.f_back
    return None


def _tell_data(callbacks, data):
    """What fit says of itself: how many batches an epoch has."""
    data = getattr(data, "data_adapter", None)
    batch, batches = getattr(data, "batch_size", None), (callbacks.params or {}).get("steps")
    wire.put(
        {
            "ev": "loader",
            "id": _fits,
            "loader": "keras.Model.fit",
            "dataset": type(data).__name__ if data is not None else "",
            "batch": batch if type(batch) is int else None,
            "workers": 0,
            "length": None,
            "batches": batches if type(batches) is int else None,
            "paths": [],
        }
    )


@guest.hook
def _epoch_begins(callbacks, epoch, logs=None):
    """The time since the last step, of validation and of what is saved then, belongs to none."""
    global _epoch
    if _whole() and T.free():
        _epoch += 1
        T.fetch_begin(new_pass=True)
        T.fetch_end(_train, None)
    return False


@guest.hook
def _epoch_ends(callbacks, epoch, logs=None):
    if T.on and T.mine() and T.in_whole():
        # Keras counts the batches, and does not read its loader to the end: PyTorch's hooks do not hear of it.
        T.pass_ended(T.batch if backend.whole() else (0, T.primary_pass))
    return False


@guest.hook
def _called(*_):
    return _whole()


@guest.hook
def _batch_begins(error):
    """The callbacks have been told that a batch begins: the train function is next."""
    global _begun
    if error is None:
        _begun = now()


@guest.hook
def _batch_ends(callbacks, batch, logs=None):
    global _begun, _ending
    if not T.on or not T.mine() or not T.in_whole():
        return False
    if backend.whole():
        if not _begun:
            return False
        T.took(_train, _begun)
        _begun = 0
        if not T.device.kind:
            backend.leads(_variables(callbacks))  # a model may be built by its first batch
        if len(_logs) > 1000:
            _logs.clear()
        _logs[id(logs)] = T.number + 1
    _ending = now()
    return True


@guest.hook
def _callbacks_over(error):
    global _ending
    T.took(_callbacks, _ending)
    if backend.whole():
        T.step_over("fit", batch=(_fits, _epoch))


@guest.hook
def _reads(callbacks, batch, logs=None):
    """Keras makes numbers of what a step logged, at once after this: to read one of them first costs nothing more."""
    step = _logs.pop(id(logs), None)
    if step is not None and type(logs) is dict and T.on:
        loss = logs.get("loss")
        if loss is not None and getattr(loss, "shape", ()) == ():
            quiet = T.mine()  # else it is a thread for callbacks, which no other hook watches
            T.on = T.on and not quiet
            try:
                _losses.append((step, float(loss)))
            finally:
                T.on = T.on or quiet
    return False


@guest.hook
def _fit_ends(callbacks, logs=None):
    global _begun
    T.telling, _begun = None, 0
    return False


# -- train_on_batch -------------------------------------------------------------------------------------------------------

_batch_began = []  # when train_on_batch was called: the outermost


@guest.hook
def _on_batch(model, *_):
    if not T.on or not T.mine() or T.in_whole() or not T.free():
        return False
    backend.leads((getattr(model, "trainable_variables", None) or ())[:1])
    _phases()
    if not T.opened:
        T.work_begin(now())
    T.telling = sys._getframe(2).f_code  # train_on_batch, as guest.around has made it
    _batch_began.append(now())
    return True


@guest.hook
def _on_batch_over(error):
    T.telling = None
    began = _batch_began.pop()
    if error is None:
        T.took(_train, began)
        T.step_over(place.key()[:2], batch=T.batch)


def _gather():
    rows, _losses[:] = sorted(_losses), []  # they come from several threads
    if rows:
        wire.put(
            {
                "ev": "loss",
                "step": [step for step, _ in rows],
                "value": [value if value - value == 0 else repr(value) for _, value in rows],
                "what": "as Keras logs it: the mean of the epoch so far",
            }
        )
