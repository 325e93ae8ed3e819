"""What the script sets MLX's allocator: memory, cache and wired limits, by its line."""

import sys

from ... import guest, place, wire

NAMES = {"set_memory_limit": "memory", "set_cache_limit": "cache", "set_wired_limit": "wired"}

_places = guest.Places()
by_lever = False  # a trial's lever is setting one (levers/mlx.py): what is set now is not the script's
set_by_script = {}  # limit -> (bytes, where)


def install(mx, config):
    for owner in (mx, mx.metal):
        for name, limit in NAMES.items():
            if name in vars(owner):
                _places.put(owner, name, guest.stand_in(vars(owner)[name], _setter(limit)))


def clear():
    """A forked child tells its own."""
    set_by_script.clear()


def _setter(limit):
    def bind(original, about):
        @guest.hook
        def end(begun, args, result):
            size = args[0] if args else None
            if not by_lever and type(size) is int and set_by_script.get(limit, (None,))[0] != size and len(set_by_script) < 64:
                where = place.where(4)[0]
                set_by_script[limit] = (size, where)
                wire.put({"ev": "allocator", "limit": limit, "bytes": size, "where": where})

        return guest.at_caller(sys._getframe(3), _begin, original, end, guest.hide_site)

    return bind


def _begin():
    return None
