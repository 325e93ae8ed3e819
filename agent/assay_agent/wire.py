"""Events to the supervisor: JSON lines over a Unix socket, batched by one thread, never waited for by the script.

The format of each event is described in docs/formats/events.md. Loss of the socket costs evidence and nothing else.
"""

import _signal
import _thread
import json
import os
import platform
import socket
import sys
import time

from . import guest

INTERVAL = 0.25  # seconds between batches: the most that a SIGKILL can lose
LIMIT = 100_000  # events waiting; beyond it news is dropped and counted
_NOSIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)  # a script may have put SIGPIPE back to its default, which kills
_SO_NOSIGPIPE = 0x1022  # macOS, sys/socket.h

config = {}
_queue = []
_sources = []  # functions called before each batch: they put what has gathered since the last one
_sock = None
_inode = None
_dropped = 0
_running = False  # the thread is there
_stop = False
_native = 0
_closed = False
_hello = None
_cpu_ns = 0  # CPU time of the sender thread so far
_lock = _thread.allocate_lock()
_tick = _thread.allocate_lock()  # held; released to end the thread's pause at once
_tick.acquire()
silent = False  # a forked child that has not trained yet
sent_bytes = 0


def open(settings, version):
    """Connect and say hello: the first line of every stream. The supervisor refuses a version that it does not speak."""
    global config, _hello
    config = settings
    _hello = {
        "ev": "hello",
        "token": os.urandom(8).hex(),  # of this life of the process: a stream that breaks goes on under the same token
        "version": version,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "path": [p for p in sys.path if p],
        "argv": list(getattr(sys, "orig_argv", [])) or list(getattr(sys, "argv", [])),
        "rank": os.environ.get("RANK", ""),
        "local_rank": os.environ.get("LOCAL_RANK", ""),
        "world": os.environ.get("WORLD_SIZE", ""),
        "machine": platform.machine(),
        "translated": _translated(),
    }
    _connect()


def _translated():
    """1 under Rosetta, 0 native, None where the question has no meaning (xnu: sysctl.proc_translated)."""
    if sys.platform != "darwin":
        return None
    try:
        import ctypes

        value, size = ctypes.c_int(), ctypes.c_size_t(4)
        libc = ctypes.CDLL(None)
        if libc.sysctlbyname(b"sysctl.proc_translated", ctypes.byref(value), ctypes.byref(size), None, 0) == 0:
            return value.value
    except Exception as err:
        guest.pass_on(err)
    return None


def _connect():
    global _sock, _inode
    _sock = None
    s = None
    try:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(2.0)
        if sys.platform == "darwin":
            s.setsockopt(socket.SOL_SOCKET, _SO_NOSIGPIPE, 1)
        s.connect(config["socket"])
        os.set_inheritable(s.fileno(), False)
        st = os.fstat(s.fileno())
        _sock, _inode = s, (st.st_dev, st.st_ino)
        _hello["pid"], _hello["ppid"] = os.getpid(), os.getppid()
        _hello["wall"], _hello["clock"] = time.time(), time.perf_counter_ns()
        return _write([_hello])
    except Exception as err:
        if s is not None and _sock is not s:
            _drop(s)
        guest.pass_on(err)
        if isinstance(err, (ConnectionRefusedError, FileNotFoundError)):
            _give_up()
        return False


def _drop(sock, ours=True):
    """Be rid of a socket: closed, or, where its descriptor is somebody else's now, forgotten. One that is left to the collector warns."""
    try:
        if ours:
            sock.close()
        else:
            sock.detach()
    except OSError:
        pass


def _give_up():
    """Nobody listens any more: assay has ended before the script. What is waiting is let go, and nothing more is gathered."""
    global _closed
    _closed = True
    _queue[:] = []


def _ours():
    """Whether the descriptor is still our socket: a script may close every descriptor and open files under its number."""
    try:
        st = os.fstat(_sock.fileno())
        return (st.st_dev, st.st_ino) == _inode
    except OSError:
        return False


def _write(events):
    """Send the events. True when they went out; a partial line never stays behind, since the stream is given up."""
    global _sock, sent_bytes
    if _sock is None:
        return False
    if not _ours():
        _drop(_sock, False)  # the number belongs to somebody else now
        _sock = None
        return False
    data = "".join([json.dumps(e, separators=(",", ":"), default=str) + "\n" for e in events]).encode("utf-8", "replace")
    try:
        view = memoryview(data)
        while view:
            view = view[_sock.send(view, _NOSIGNAL) :]
        sent_bytes += len(data)
        return True
    except Exception as err:
        _drop(_sock, _ours())
        _sock = None
        guest.pass_on(err)
        return False


def put(event):
    """Queue one event. Costs an append; the thread starts with the first one."""
    global _dropped
    if _closed or silent:
        return
    if len(_queue) >= LIMIT:
        _dropped += 1
        return
    _queue.append(event)
    if not _running:
        _spawn()


def say(event):
    """Send one event now: for the rare news that must be out before the script goes on."""
    put(event)
    flush()


def trouble(what):
    """A failure of the agent's own, as a line of evidence."""
    put({"ev": "trouble", "what": str(what)[:2000]})


guest.trouble = lambda what: trouble(what)


def source(gather):
    """Have gather() called before each batch."""
    _sources.append(gather)


def wake():
    """Start the thread when there is none: a forked or quiet process starts it with its first news."""
    global silent
    silent = False
    if not _running and not _closed:
        _spawn()


def flush(last=False):
    """Send everything now, on the calling thread."""
    global _dropped
    if silent:
        return False
    if not _lock.acquire(True, 2.0):
        return False
    try:
        for gather in list(_sources):
            try:
                gather()
            except Exception as err:
                guest.pass_on(err)
                _queue.append({"ev": "trouble", "what": "gather: %r" % (err,)})
        events, _queue[:] = _queue[:], []
        if _dropped:
            events.append({"ev": "dropped", "count": _dropped})
            _dropped = 0
        if not events:
            return True
        if _sock is None and not _connect():
            if not last and not _closed and len(events) < LIMIT:
                _queue[:0] = events  # a new socket may be had
            return False
        if _write(events):
            return True
        if _connect():  # once: descriptors closed under us
            return _write(events)
        return False
    finally:
        _lock.release()


def _spawn():
    global _running, _stop
    _running, _stop = True, False
    try:
        # Not threading.Thread: the script's threading.enumerate() stays its own.
        _thread.start_new_thread(_loop, ())
    except Exception as err:
        _running = False
        guest.pass_on(err)


def _loop():
    global _running, _native, _cpu_ns
    # A signal is to interrupt what the script's own threads wait in, as it would without this one.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    _native = _thread.get_native_id()
    base = _cpu_ns
    try:
        while not _stop and not _closed:
            _tick.acquire(True, INTERVAL)
            flush()
            _cpu_ns = base + time.thread_time_ns()
    except BaseException:
        pass
    finally:
        _running = False


def sender_ns():
    """CPU time that the sender thread has used, in nanoseconds."""
    return _cpu_ns


def before_fork():
    """End the thread: from Python 3.12 on, os.fork() warns in a process that has more than one."""
    global _stop
    flush()
    if not _running:
        return
    _stop = True
    try:
        _tick.release()
    except RuntimeError:
        pass
    deadline = time.monotonic() + 0.6
    task = "/proc/self/task/%d" % _native
    while time.monotonic() < deadline and (_running or os.path.exists(task)):
        time.sleep(0.001)


def after_fork_in_child():
    """A fresh stream for the child, opened with its first event."""
    global _sock, _running, _dropped, _lock, _tick, _cpu_ns, silent
    if _sock is not None:
        _drop(_sock, _ours())
    _sock, _running, _dropped, _cpu_ns, silent = None, False, 0, 0, True
    _queue[:] = []
    _lock = _thread.allocate_lock()
    _tick = _thread.allocate_lock()
    _tick.acquire()
    if _hello is not None:
        _hello["token"] = os.urandom(8).hex()


def close(event):
    """The last event of the stream."""
    global _closed, _sock
    if _closed:
        return
    _queue.append(event)
    flush(last=True)
    _closed = True
    if _sock is not None:
        _drop(_sock, _ours())
        _sock = None
