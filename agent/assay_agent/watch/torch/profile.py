"""Hot operators: torch.profiler's own engine over fifty steps after warm-up, written as a Chrome trace.

The trace is written by the engine in C++ and read by the supervisor: the training thread parses nothing. Where the
script profiles by itself, its profiler has the engine and this one stays out or ends at once.
"""

import os
import re
import sys
import threading
import time

from ... import guest, process, wire
from ...timeline import T
from . import numerics

WARMUP = 10  # steps before the window
STEPS = 50
ENOUGH, EXTRA = 20, 0.4  # where the engine slows the loop by so many seconds, fewer steps
SECONDS = 10.0  # a window of long steps ends here: a trace of minutes is no reader's friend

_torch = None
_path = None
_state = "waiting"  # waiting, on, done
_first = 0
_began = 0.0
_settled = _pace = 0.0  # when step 4 began; seconds a step from there to the window
_theirs = 0  # profilers that the script has made
_making = False


def install(torch, config):
    global _torch, _path, _state
    _torch = torch
    if config.get("profile", "auto") == "off":
        _state = "done"
        return
    _path = os.path.join(config["run"], "trace.json")
    from torch.autograd import profiler

    @guest.hook
    def made(*parameters):
        global _theirs
        if not _making:
            _theirs += 1
            if _state == "on":
                stop("the script started a profiler of its own")

    profiler.profile.__init__ = guest.around(profiler.profile.__init__, made, None)
    T.open_hooks.append(_open)
    T.close_hooks.append(_close)
    process.finisher(_finish)


def clear():
    """A forked child has no engine of its own to stop."""
    global _state
    _state, numerics.own_window = "done", False


def _open(number, timeline):
    global _state
    global _settled
    if _state == "on":
        return "profile"
    if number == 4:
        _settled = time.perf_counter()
    if _state != "waiting" or number <= WARMUP:
        return None
    why = _in_the_way(timeline)
    if why:
        _state = "done"
        wire.put({"ev": "profile", "missing": why})
        return None
    start(number)
    return "profile" if _state == "on" else None


def _in_the_way(timeline):
    """Why there is no window in this run, or an empty string."""
    if _theirs:
        return "the script uses torch.profiler itself"
    if timeline.owner != threading.main_thread().ident:
        return "the loop runs in a thread that is not the main one: the profiler's engine would complain on stderr"
    # A profiler that comes later would find the engine as this one left it, its messages off.
    try:
        with open(sys.modules["__main__"].__file__, "rb") as f:
            if re.search(rb"torch\.profiler|autograd\.profiler|emit_nvtx", f.read(4 << 20)):
                return "the script names torch.profiler: the engine is left to it"
    except (AttributeError, OSError):
        pass
    return ""


def start(number):
    global _state, _first, _began, _making, _pace
    from torch._C._autograd import _enable_profiler, _prepare_profiler
    from torch.autograd import profiler

    device = T.device.kind if T.device.kind in ("cuda", "xpu") else None
    _making = True
    try:
        try:
            handle = profiler.profile(use_kineto=True, use_device=device)
        except TypeError:  # 2.0 has use_cuda only
            handle = profiler.profile(use_kineto=True, use_cuda=device == "cuda")
    finally:
        _making = False
    # Noted first: whatever the script raises in the midst, the end of the window finds the engine and stops it.
    _state, _first, _began, numerics.own_window = "on", number, time.perf_counter(), True
    _pace = (_began - _settled) / (number - 4) if _settled else float("inf")
    try:
        config = handle.config()
        with _told(
            "KINETO_LOG_LEVEL", "99"
        ):  # read once, when the engine starts: it would write to the script's stderr
            _prepare_profiler(config, handle.kineto_activities)
            _enable_profiler(config, handle.kineto_activities)
    except Exception as err:
        guest.pass_on(err)
        _state, numerics.own_window = "done", False
        wire.put({"ev": "profile", "missing": "the profiler did not start: %s" % (str(err)[:200],)})


class _told:
    """An environment variable that the engine reads, set for as long; os.environ, which the script sees, stays as it
    is."""

    def __init__(self, name, value):
        self.name, self.value = name, value

    def __enter__(self):
        self.put = self.name not in os.environ
        if self.put:
            os.putenv(self.name, self.value)

    def __exit__(self, *_):
        if self.put:
            os.unsetenv(self.name)


def _close(number, step, timeline):
    if _state != "on":
        return
    elapsed, steps = time.perf_counter() - _began, number - _first + 1
    if steps >= STEPS or elapsed > SECONDS:
        stop("", number)
    elif steps >= ENOUGH and timeline.device.kind == "cuda" and elapsed - steps * _pace > EXTRA:
        stop("its steps took %.1f s more than those before, and %d are enough" % (elapsed - steps * _pace, ENOUGH), number)


def stop(why, number=None):
    global _state
    if _state != "on":
        return
    from torch._C._autograd import _disable_profiler, _profiler_enabled

    t = time.perf_counter()
    result = None
    if not _profiler_enabled():  # asked to end twice, the engine gives what cannot be read
        pass
    elif T.device.kind == "cuda" and T.on:
        with _told("TEARDOWN_CUPTI", "1"):
            before = _tasks()
            result = _disable_profiler()
            _let_go(before)
    else:
        result = _disable_profiler()
    _state, numerics.own_window = "done", False
    if result is None:
        wire.put({"ev": "profile", "missing": "the profiler was interrupted as it started or ended"})
        return
    path = _free(_path)
    temporary = path + ".part"
    result.save(temporary)
    os.replace(temporary, path)
    last = number if number is not None else T.number
    wire.put(
        {
            "ev": "profile",
            "first": _first,
            "last": last,
            "file": os.path.basename(path),
            "why": why,
            "seconds": time.perf_counter() - t,
            "kernels": _missing_kernels(result),
        }
    )


def _free(path):
    """The path, or one beside it where another process of the run has written there: each has its own window."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        path = "%s-%d%s" % (path[: -len(".json")], os.getpid(), ".json")
    return path


def _tasks():
    return set(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else set()


def _let_go(before):
    """Have the engine let go of CUDA. It would stay subscribed to every call of the driver, and slow the rest of the
    run.

    Told so (TEARDOWN_CUPTI), it leaves that to a thread of its own, which waits for the next call of CUDA's, and for
    ever where none comes: the process could not end (kineto, libkineto/src/CuptiActivityApi.cpp, teardownContext). So
    calls are made until it is gone.
    """
    deadline = time.monotonic() + 2.0
    while _tasks() - before and time.monotonic() < deadline:
        if not _torch.cuda.is_current_stream_capturing():  # which itself is a call, allowed at any time
            T.device.synchronize()
        time.sleep(0.001)


def _missing_kernels(result):
    """Operators of the window that this build of PyTorch has no MPS kernel for: on MPS they ran on the CPU.

    Asked of the dispatcher itself, since PyTorch warns about the first fallback of a process only.
    """
    if T.device.kind != "mps":
        return []
    has = _torch._C._dispatch_has_kernel_for_dispatch_key
    counts = {}
    for event in result.events():
        name = event.name()
        if name.startswith("aten::"):
            counts[name] = counts.get(name, 0) + 1
    missing = []
    for name, count in counts.items():
        try:
            composite = has(name, "CompositeImplicitAutograd") or has(name, "CompositeExplicitAutograd")
            if not composite and not has(name, "MPS") and has(name, "CPU"):
                missing.append([name, count])
        except RuntimeError:
            continue
    return missing


def _finish():
    if _state == "on":
        stop("the run ended inside the window")
    elif _state == "waiting" and T.number:
        wire.put({"ev": "profile", "missing": "the run ended before step %d, where the window starts" % (WARMUP + 1)})
