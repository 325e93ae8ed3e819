"""What the script itself logs as curves: TensorBoard, MLflow, W&B, Lightning's loggers, Hugging Face's Trainer; and
what hooks of frameworks add in the same form (the learning rate).

Each is watched at its own door, a method of the logger that has the values as Python's numbers where it has one. No
tensor is read that would make the host wait for a device: readers say which can be read for nothing. What goes from one
door through another (a Trainer's into TensorBoard) is kept once, under the outer one's name.
"""

import _thread
import math
import struct
import sys

from .. import guest, process, wire
from .imports import when_imported

SERIES = 128  # names that a process tells of
FLAT = 3  # levels of dictionaries within dictionaries

readers = []  # (value) -> float, or None where it is not theirs to read or would have to be waited for
_series = {}  # (door, name) -> [steps, own steps, values], not sent yet
_names = set()
_unread = {}  # (door, name) -> values that were not read
_turned_away = 0  # values under names beyond SERIES
_of_thread = _thread._local()


def install(config):
    for module, hook in _DOORS:
        when_imported(module, hook)
    wire.source(_gather)
    process.after_fork(clear)


def clear():
    """A forked child tells its own."""
    global _turned_away
    _series.clear()
    _names.clear()
    _unread.clear()
    _turned_away = 0


# -- what is told ------------------------------------------------------------------------------------------------------


def number(value):
    """The value as a float; None where it is no number, or one that only a device knows."""
    kind = type(value)
    if kind is float or kind is int or kind is bool:
        return _float(value)
    if kind.__module__ == "numpy":  # a scalar, or an array that holds one
        if getattr(value, "size", 0) == 1 and getattr(value, "dtype", None) is not None and value.dtype.kind in "fiub":
            return _float(value.item())
        return None
    for reader in readers:
        found = reader(value)
        if found is not None:
            return found
    return None


def _float(value):
    try:
        return float(value)
    except OverflowError:  # an integer beyond a float's range
        return None


def _whole(value):
    """A step of the script's as an integer; None where it is none, or too long for a reader."""
    found = number(value) if value is not None else None
    return int(found) if found is not None and abs(found) < 1 << 53 and found == int(found) else None


def step():
    """The step of the timeline that was last worked on; 0 before the first."""
    timeline = sys.modules.get(__package__.rpartition(".")[0] + ".timeline")
    if timeline is None:
        return 0
    t = timeline.T
    return t.number + (1 if t.step.opts or t.step.backwards else 0)


def told(door, name, value, own=None, at=None):
    """Keep a value that was logged under a name. own: the script's step; at: the timeline's, where it is not the present
    one."""
    global _turned_away
    key = door, name[:200]
    if key not in _names:
        if len(_names) >= SERIES:
            _turned_away += 1
            return
        _names.add(key)
    rows = _series.get(key)
    if rows is None:
        rows = _series.setdefault(key, ([], [], []))
    rows[0].append(step() if at is None else at)
    rows[1].append(own)
    rows[2].append(value)


def _gather():
    global _turned_away
    while _series:
        (door, name), (steps, own, values) = _series.popitem()
        # columns of one length: another thread may be in the midst of adding a row
        n = len(values)
        event = {"ev": "logged", "door": door, "name": name, "step": steps[:n],
                 "value": [v if math.isfinite(v) else repr(v) for v in values[:n]]}
        if any(at is not None for at in own):
            event["own"] = own[:n]
        wire.put(event)
    while _unread:
        (door, name), count = _unread.popitem()
        wire.put({"ev": "logged_unread", "door": door, "name": name, "count": count})
    if _turned_away:
        n, _turned_away = _turned_away, 0
        wire.put({"ev": "logged_unread", "door": "", "name": "", "count": n})


# -- doors -------------------------------------------------------------------------------------------------------------


class _Call:
    """A door's call that is under way, on its thread: what it logs, and which of that is not known yet."""

    __slots__ = ("door", "own", "known", "open")

    def __init__(self, door, values, own):
        self.door, self.own, self.known, self.open = door, own, {}, set()
        for name, value in values.items():
            if type(name) is not str:
                continue
            found = number(value)
            if found is not None:
                self.known[name] = found
            elif _scalar(value):
                self.open.add(name)

    def over(self):
        at = step()
        for name, value in self.known.items():
            told(self.door, name, value, self.own, at)
        for name in self.open:
            _not_read(self.door, name)


def _scalar(value):
    """Whether a value that could not be read is one number all the same: a tensor's on a device. A picture, a table or a
    text is none."""
    kind = type(value)
    if kind.__name__ not in ("Tensor", "Parameter"):
        return False
    shape = getattr(value, "shape", None)
    return shape is not None and all(size == 1 for size in shape)


def _not_read(door, name):
    if len(_unread) < SERIES:
        key = door, name[:200]
        _unread[key] = _unread.get(key, 0) + 1


def _outer():
    return getattr(_of_thread, "call", None)


def _enter(door, values, own):
    """A call through which others go begins; whether it is to be told when it is over."""
    if _outer() is not None or not isinstance(values, dict):
        return False
    _of_thread.call = _Call(door, values, own)
    return True


def _leave(error):
    call, _of_thread.call = _outer(), None
    if error is None and call is not None:
        call.over()


def _logs(door, name, value, own):
    """A value comes through a door that has it as a number, or never will: told at once, or handed to the call around
    it."""
    if type(name) is not str:
        return
    found, outer = number(value), _outer()
    if outer is not None:
        if found is not None and name in outer.open:
            outer.open.discard(name)
            outer.known[name] = found
    elif found is not None:
        told(door, name, found, own)
    elif _scalar(value):
        _not_read(door, name)


def _watch(module, owner, method, begin, end=None):
    """Watch a method of a class in the module, where there are such."""
    cls = getattr(module, owner, None)
    function = vars(cls).get(method) if cls is not None else None
    if function is None:
        wire.trouble("%s has no %s.%s: what it logs is not seen" % (module.__name__, owner, method))
        return
    begin, end = guest.hook(begin, False), guest.hook(end) if end is not None else None
    inner = getattr(function, "__wrapped__", None)
    for cell in getattr(function, "__closure__", None) or () if inner is not None else ():
        if cell.cell_contents is inner:  # what a decorator holds is put where it holds it: no frame more
            cell.cell_contents = guest.around(inner, begin, end)
            return
    setattr(cls, method, guest.around(function, begin, end))


def _tensorboard(module):
    """torch.utils.tensorboard.writer, tensorboardX.writer: a summary is what they have made of a value."""
    _watch(module, "FileWriter", "add_summary", _summary)
    _watch(module, "SummaryWriter", "add_scalars", _scalars, _scalars_over)


def _scalars(writer, main_tag, tag_scalar_dict, *_):
    if type(main_tag) is str and isinstance(tag_scalar_dict, dict):
        # One summary for each of them, in their order, all under the same tag.
        _of_thread.tags = iter(["%s/%s" % (main_tag, tag) for tag in tag_scalar_dict])
        return True
    return False


def _scalars_over(error):
    _of_thread.tags = None


def _summary(writer, summary, global_step=None, *_):
    for value in getattr(summary, "value", ()):
        kind = value.WhichOneof("value")
        if kind == "simple_value":
            found = shortest(value.simple_value)
        elif kind == "tensor" and value.metadata.plugin_data.plugin_name == "scalars":
            if len(value.tensor.float_val) == 1:
                found = shortest(value.tensor.float_val[0])
            elif len(value.tensor.double_val) == 1:
                found = value.tensor.double_val[0]
            else:
                continue
        else:
            continue
        tags = getattr(_of_thread, "tags", None)
        _logs("TensorBoard", next(tags, value.tag) if tags is not None else value.tag, found, _whole(global_step))
    return False


def shortest(value):
    """The shortest decimal that is this number in single precision, as which TensorBoard keeps it: 0.1, not
    0.10000000149011612."""
    if not math.isfinite(value):
        return value
    for digits in (6, 7, 8):
        short = float("%.*g" % (digits, value))
        if struct.pack("<f", short) == struct.pack("<f", value):
            return short
    return value


def _mlflow(module):
    """mlflow.tracking._tracking_service.client: where the functions of the module and both kinds of client meet."""
    _watch(module, "TrackingServiceClient", "log_metric", _mlflow_metric)
    _watch(module, "TrackingServiceClient", "log_batch", _mlflow_batch)


def _mlflow_metric(client, run_id, key, value, timestamp=None, step=None, *_):
    _logs("MLflow", key, value, _whole(step))
    return False


def _mlflow_batch(client, run_id, metrics=(), *_):
    if isinstance(metrics, (list, tuple)):
        for metric in metrics:
            _logs("MLflow", metric.key, metric.value, _whole(metric.step))
    return False


def _wandb(module):
    _watch(module, "Run", "_log", _wandb_log)


def _wandb_log(run, data, step=None, *_):
    _wandb_values("", data, _whole(step), FLAT)
    return False


def _wandb_values(prefix, data, own, levels):
    if type(data) is not dict:
        return
    for name, value in list(data.items()):
        if type(name) is not str:
            continue
        if type(value) is dict and levels > 1:  # W&B joins the names by a point
            _wandb_values(prefix + name + ".", value, own, levels - 1)
        else:
            _logs("W&B", prefix + name, value, own)


def _lightning(module):
    _watch(module, "_LoggerConnector", "log_metrics", _lightning_metrics, _leave)


def _lightning_metrics(connector, metrics, step=None, *_):
    trainer = connector.trainer
    if not trainer.loggers or not isinstance(metrics, dict):
        return False
    if step is None:
        step = metrics.get("step")
    if step is None:
        step = trainer.fit_loop.epoch_loop._batches_that_stepped
    return _enter("Lightning", {name: value for name, value in metrics.items() if name != "step"}, _whole(step))


def _csv(module):
    """Lightning's own files of commas: with Fabric nothing of Lightning's stands around them."""
    _watch(module, "_ExperimentWriter", "log_metrics", _csv_metrics)


def _csv_metrics(writer, metrics_dict, step=None, *_):
    if isinstance(metrics_dict, dict):
        for name, value in metrics_dict.items():
            _logs("Lightning", name, value, _whole(step))
    return False


def _trainer(module):
    _watch(module, "Trainer", "log", _trainer_logs, _leave)


def _trainer_logs(trainer, logs, *_):
    return _enter("Trainer", logs, _whole(trainer.state.global_step))


_DOORS = (
    ("torch.utils.tensorboard.writer", _tensorboard),
    ("tensorboardX.writer", _tensorboard),
    ("mlflow.tracking._tracking_service.client", _mlflow),
    ("wandb.sdk.wandb_run", _wandb),
    ("lightning.pytorch.trainer.connectors.logger_connector.logger_connector", _lightning),
    ("pytorch_lightning.trainer.connectors.logger_connector.logger_connector", _lightning),
    ("lightning.fabric.loggers.csv_logs", _csv),
    ("lightning_fabric.loggers.csv_logs", _csv),
    ("transformers.trainer", _trainer),
)
