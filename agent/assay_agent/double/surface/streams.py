"""Streams and events. Nothing runs asynchronously here: streams differ by number only, and what is recorded has
happened."""

import contextlib
import itertools
import threading
import time

import torch

from ..errors import cuda_error
from ..place import DEVICE
from .names import device_type, replace

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

_Base = torch.Stream
_KIND = 13  # c10::DeviceType::MPS
_numbers = itertools.count(1)
_thread = threading.local()


class Stream(_Base):
    """Wrapper around an MPS stream."""

    def __new__(cls, *args, stream_id=None, **kwargs):
        return _Base.__new__(cls, stream_id=next(_numbers) if stream_id is None else stream_id, device_index=0,
                             device_type=_KIND)

    def __init__(self, *args, **kwargs):
        pass

    def synchronize(self):
        """Wait for all the kernels in this stream to complete."""

    def query(self):
        return True

    def is_capturing(self):
        return False

    def wait_event(self, event):
        pass

    def wait_stream(self, stream):
        pass

    def record_event(self, event=None):
        event = _Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self):
        self._before = current_stream()
        set_stream(self)
        return self

    def __exit__(self, *error):
        set_stream(self._before)

    def __eq__(self, other):
        return isinstance(other, _Base) and (other.device, other.stream_id) == (DEVICE, self.stream_id)

    def __hash__(self):
        return hash(("mps", self.stream_id))

    def __repr__(self):
        return "<torch.mps.Stream stream_id=%d>" % self.stream_id


Stream.__module__ = "torch.mps.streams"


class _Event:
    """torch.Event on MPS."""

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        self.device, self._timing, self._at = DEVICE, enable_timing, 0

    @property
    def event_id(self):
        return id(self) if self._at else 0

    def record(self, stream=None):
        self._at = time.perf_counter_ns()

    def wait(self, stream=None):
        pass

    def query(self):
        return True

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        if not (self._timing and end._timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if not (self._at and end._at):
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end._at - self._at) * 1e-6

    def __repr__(self):
        return ("torch.Event device_type=mps, device_index=0, event_flag=%d, event_id=%d"
                % (not self._timing, self.event_id))


def default_stream():
    return Stream(stream_id=0)


def current_stream():
    return getattr(_thread, "stream", None) or default_stream()


def set_stream(stream):
    if stream is not None:
        _thread.stream = stream


@contextlib.contextmanager
def in_stream(stream):
    before = current_stream()
    set_stream(stream)
    try:
        yield
    finally:
        if stream is not None:
            set_stream(before)


def install(double):
    _put_either("Stream", _Base, Stream)
    if hasattr(torch, "Event"):
        _put_either("Event", torch.Event, _Event)


def _put_either(name, Base, Ours):
    """torch.NAME makes ours for MPS, and for no device, as the accelerator is MPS."""
    class Meta(type(Base)):
        def __instancecheck__(cls, it):
            return isinstance(it, (Base, Ours)) if cls is Either else type.__instancecheck__(cls, it)

        def __subclasscheck__(cls, it):
            return issubclass(it, (Base, Ours)) if cls is Either else type.__subclasscheck__(cls, it)

    class Either(Base, metaclass=Meta):
        def __new__(cls, *args, **kwargs):
            kind = device_type(args[0] if args else kwargs.get("device"))
            if cls is Either and (kind == "mps" or kind is None and not ({"device_type", "stream_id"} & set(kwargs))):
                return Ours(*args, **kwargs)
            if kind == "cuda":
                raise cuda_error()
            return Base.__new__(cls, *args, **kwargs) if cls is not Either else Base(*args, **kwargs)

    Either.__name__ = Either.__qualname__ = name
    Either.__module__ = "torch"
    Either.__doc__ = Base.__doc__
    replace(Base, Either, name)
    setattr(torch, name, Either)
