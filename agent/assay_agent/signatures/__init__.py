"""`assay signatures record`: the distinct operator calls of a run (docs/signatures.md).

Loaded only where config["signatures"] asks for it. A guest like the rest of the agent: what the script computes, prints and raises stays.
"""

import threading

from .. import guest, process, wire
from ..watch.imports import when_imported

_recorder = None


def install(config):
    """Wait for torch. Threads that the script starts are prepared now: within a thread of the double's, the recorder's mode is to stand
    above the double's, which is put up later (double/install.py)."""
    bootstrap = threading.Thread._bootstrap_inner

    def _bootstrap_inner(self):
        recorder = _recorder
        if recorder is None or not recorder.enter_thread():
            return bootstrap(self)
        try:
            return bootstrap(self)
        finally:
            recorder.leave_thread()

    threading.Thread._bootstrap_inner = _bootstrap_inner
    when_imported("torch", lambda torch: _installed(torch, config))


def _installed(torch, config):
    global _recorder
    try:
        from .record import Recorder

        _recorder = Recorder(config)
        _recorder.begin()
    except Exception as err:
        guest.pass_on(err)
        wire.put({"ev": "signatures", "why": "the recording did not begin: %r" % (err,)})
        return
    wire.source(_recorder.gather)
    process.finisher(_recorder.finish)
    process.after_fork(_recorder.forked)
