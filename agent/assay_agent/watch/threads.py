"""Exceptions that end a thread and not the script: told with the user's line; what is printed of them stays as it is."""

import sys

from .. import guest, place, process, wire
from .imports import when_imported

TOLD = 20  # of a process

_told = 0


def install(config):
    when_imported("threading", _threading)
    process.after_fork(clear)


def clear():
    """A forked child tells its own."""
    global _told
    _told = 0


def _threading(module):
    show = module.excepthook

    def excepthook(args):
        _ended(args.exc_type, args.exc_value, args.thread)
        if sys.version_info < (3, 11) and args.exc_value is not None:
            guest.strip(args.exc_value)
            args = module.ExceptHookArgs((args.exc_type, args.exc_value, args.exc_value.__traceback__, args.thread))
        return show(args)

    module.excepthook = excepthook


@guest.hook
def _ended(kind, error, thread):
    global _told
    if kind is SystemExit or error is None or _told >= TOLD:
        return
    _told += 1
    name, text = process.said(error)
    wire.put({"ev": "thread_error", "thread": str(getattr(thread, "_name", ""))[:200], "type": name, "text": text,
              "where": place.of_error(error)})
