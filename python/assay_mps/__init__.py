"""Whether and how deep-learning code runs on an Apple GPU: the program `assay` for this interpreter, and a plugin for pytest.

The program stands by itself. This package finds it (`binary`), and its plugin (`pytest_plugin`) has pytest run under it.
"""

import os
import sys

__all__ = ["binary"]  # and __version__

_NAME = "assay-mps"  # of the distribution
_PROGRAM = "assay"


def __getattr__(name):
    """`__version__`: of the installed distribution, as 1.2.0; "0" where this is a checkout."""
    if name == "__version__":
        from importlib import metadata

        try:
            return metadata.version(_NAME)
        except metadata.PackageNotFoundError:
            return "0"
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


def binary():
    """Path of the program: beside the scripts of this interpreter, where the wheel puts it; else on PATH.
    FileNotFoundError where it is nowhere."""
    import shutil  # here, since each pytest imports this package for its plugin

    for folder in _folders():
        path = os.path.join(folder, _PROGRAM)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    path = shutil.which(_PROGRAM)
    if path is None:
        raise FileNotFoundError(
            "find the program assay: it is neither beside the scripts of %s nor on PATH; "
            "install it with: pip install %s" % (sys.executable, _NAME)
        )
    return os.path.abspath(path)


def _folders():
    """Folders of scripts, those that belong to this interpreter first: its own, its user's, and `bin` beside the package
    (pip install --target)."""
    import sysconfig

    folders = [sysconfig.get_path("scripts")]
    user = "osx_framework_user" if sys.platform == "darwin" and getattr(sys, "_framework", "") else os.name + "_user"
    if user in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", user))
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    return folders
