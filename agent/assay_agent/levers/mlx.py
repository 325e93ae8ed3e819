"""memory_limit, cache_limit and wired_limit of MLX's allocator, in bytes, set when the script has imported mlx.core and before its next line."""

from .. import process
from ..watch.mlx import limits
from . import tell

LIMITS = ("memory_limit", "cache_limit", "wired_limit")


def install(mx, asked):
    """asked: limit -> bytes."""
    done = {}
    for name in LIMITS:
        if name not in asked:
            continue
        size, where = int(asked[name]), "mlx.core.set_" + name
        change = getattr(mx, "set_" + name, None) or getattr(getattr(mx, "metal", None), "set_" + name, None)  # before 0.22 there
        if change is None:
            tell(name, False, where=where, why="this release of MLX has no such function")
            continue
        limits.by_lever = True
        try:
            before = change(size)
            holds = change(size) == size
        except (RuntimeError, ValueError, TypeError) as err:
            tell(name, False, where=where, why=str(err).splitlines()[0][:300])
            continue
        finally:
            limits.by_lever = False
        if not holds:
            tell(name, False, where=where, why="it has no effect here: MLX has no GPU, or macOS is older than 15")
            continue
        done[name] = size
        tell(name, True, **{"where": where, "from": before, "to": size})

    def look():
        for name, size in done.items():
            theirs, where = limits.set_by_script.get(name.partition("_")[0], (size, ""))
            if theirs != size:
                tell(name, False, where=where, why="the script sets it to %d bytes itself" % theirs)

    process.finisher(look)
