"""The names of torch.mps."""

import contextlib
import functools
import sys
import types

import torch

from .names import have, hide, is_torch
from .streams import Stream, current_stream, default_stream, in_stream, set_stream

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    mps, C, series = torch.mps, torch._C, double.series

    def function(name, call):
        def make():
            call.__name__ = call.__qualname__ = name
            call.__module__ = "torch.mps"
            return call
        return make

    def device_count():
        return int(C._has_mps and C._mps_is_available())

    def is_available():
        return device_count() > 0

    def recommended_max_memory():
        return C._mps_recommendedMaxMemory()

    def compile_shader(source):
        return C._mps_compileShader(source)

    def load_metallib(source):
        return C._mps_loadMetalllib(source)

    def _host_alias_storage(storage):
        return C._mps_host_alias_storage(storage)

    # Streams: the installed ones, where there are any, are made of a class that a Linux build does not have.
    C._mps_getCurrentStream, C._mps_setStream = current_stream, set_stream
    for name, call in (("Stream", Stream), ("stream", in_stream), ("current_stream", current_stream),
                       ("set_stream", set_stream), ("default_stream", default_stream)):
        call.__module__ = "torch.mps.streams" if name == "Stream" else "torch.mps"
        installed = name in vars(mps) and not isinstance(vars(mps)[name], types.ModuleType)
        if installed or series >= (2, 15):
            setattr(mps, name, call)
            if series >= (2, 15) and name not in mps.__all__:
                mps.__all__.append(name)
        if series < (2, 15):
            hide(mps, name)

    have(double, mps, "device_count", (2, 4), function("device_count", device_count))
    have(double, mps, "recommended_max_memory", (2, 5), function("recommended_max_memory", recommended_max_memory))
    have(double, mps, "is_available", (2, 5), function("is_available", is_available))
    have(double, mps, "load_metallib", (2, 13), function("load_metallib", load_metallib))
    have(double, mps, "_host_alias_storage", (2, 13), function("_host_alias_storage", _host_alias_storage))
    if series >= (2, 7):
        hide(mps, "_compile_shader")
        have(double, mps, "compile_shader", (2, 7), function("compile_shader", compile_shader))
    else:
        hide(mps, "compile_shader")
        have(double, mps, "_compile_shader", (2, 6), function("_compile_shader", compile_shader))
    if series < (2, 4):
        # The device argument came in 2.4.
        def get_rng_state():
            return mps._get_default_mps_generator().get_state()

        def set_rng_state(new_state):
            mps._get_default_mps_generator().set_state(new_state)

        inner_get, inner_set = mps.get_rng_state, mps.set_rng_state

        def by_caller(public, inner):
            @functools.wraps(public)
            def call(*args, **kwargs):
                inward = is_torch(sys._getframe(1).f_globals.get("__name__")) and (args or kwargs)
                return inner(*args, **kwargs) if inward else public(*args, **kwargs)
            return call

        mps.get_rng_state, mps.set_rng_state = by_caller(get_rng_state, inner_get), by_caller(set_rng_state, inner_set)
    elif not mps.get_rng_state.__code__.co_argcount:
        def get_rng_state(device="mps"):
            return mps._get_default_mps_generator().get_state()

        def set_rng_state(new_state, device="mps"):
            mps._get_default_mps_generator().set_state(new_state.clone(memory_format=torch.contiguous_format))

        mps.get_rng_state = functools.wraps(mps.get_rng_state)(get_rng_state)
        mps.set_rng_state = functools.wraps(mps.set_rng_state)(set_rng_state)

    profiler = mps.profiler

    @contextlib.contextmanager
    def metal_capture(fname):
        try:
            C._mps_startCapture(fname)
            yield
        finally:
            C._mps_stopCapture()

    have(double, profiler, "metal_capture", (2, 7), lambda: metal_capture)
    have(double, profiler, "is_metal_capture_enabled", (2, 7), lambda: lambda: C._mps_isCaptureEnabled())
    have(double, profiler, "is_capturing_metal", (2, 7), lambda: lambda: C._mps_isCapturing())
    if series >= (2, 15) and "Event" in vars(mps):
        record, wait = mps.Event.record, mps.Event.wait

        def default_only(call):
            @functools.wraps(call)
            def checked(self):
                if current_stream() != default_stream():
                    raise NotImplementedError("Non-default streams are not yet supported.")
                return call(self)
            return checked

        mps.Event.record, mps.Event.wait = default_only(record), default_only(wait)
