"""What the framework says of itself when it has been imported: release, build, devices, flags."""

import os
import sys

from .. import wire


def report(torch, config):
    """One event `torch`. Reads attributes and environment variables; initialises no device."""
    event = {"ev": "torch", "version": str(torch.__version__), "file": torch.__file__}
    version = getattr(torch, "version", None)
    event["git"] = getattr(version, "git_version", None)
    event["cuda"] = getattr(version, "cuda", None)
    event["hip"] = getattr(version, "hip", None)
    mps = getattr(getattr(torch, "backends", None), "mps", None)
    event["mps_built"] = bool(mps.is_built()) if mps is not None else False
    event["threads"] = torch.get_num_threads()
    event["interop_threads"] = torch.get_num_interop_threads()
    event["default_dtype"] = str(torch.get_default_dtype())
    # As it was when PyTorch read it: the flag has no effect when it is set after the import.
    event["fallback_at_import"] = os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK", "")
    wire.put(event)
    asked = config.get("on", "auto")
    if asked == "cpu" and mps is not None and event["mps_built"] and sys.platform == "darwin":
        _hide_mps(mps)


def _hide_mps(mps):
    """--on cpu: scripts that ask whether MPS is available hear no. CUDA is hidden by CUDA_VISIBLE_DEVICES."""
    import functools

    @functools.lru_cache  # as the original: torch._dynamo reads __wrapped__
    def is_available():
        """Return a bool indicating if MPS is currently available."""
        return False

    mps.is_available = is_available


def late():
    """At the end: MPS variables that were set after the import of torch, when nothing reads them any more."""
    then = _at_import.get("PYTORCH_ENABLE_MPS_FALLBACK", "")
    value = os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK", "")
    if value != then:
        wire.put({"ev": "late", "name": "PYTORCH_ENABLE_MPS_FALLBACK", "then": then, "now": value})


_at_import = dict((k, v) for k, v in os.environ.items() if "MPS" in k)
