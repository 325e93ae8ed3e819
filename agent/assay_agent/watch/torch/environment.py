"""What PyTorch says of itself when it has been imported: build, devices, flags."""

import os
import sys

from ... import process, wire


def build(torch):
    """Of the event `framework`. Reads attributes and environment variables; initialises no device."""
    version = getattr(torch, "version", None)
    return {
        "file": torch.__file__,
        "git": getattr(version, "git_version", None),
        "cuda": getattr(version, "cuda", None),
        "hip": getattr(version, "hip", None),
        "mps_built": _mps_built(torch),
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "default_dtype": str(torch.get_default_dtype()),
        # As it was when PyTorch read it: the flag has no effect when it is set after the import.
        "fallback_at_import": os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK", ""),
    }


def _mps_built(torch):
    mps = getattr(getattr(torch, "backends", None), "mps", None)
    return bool(mps.is_built()) if mps is not None else False


def install(torch, config):
    if config.get("on", "auto") == "cpu" and sys.platform == "darwin" and _mps_built(torch):
        _hide_mps(torch.backends.mps)
    process.finisher(late)


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
