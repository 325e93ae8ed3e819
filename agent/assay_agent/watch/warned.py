"""Warnings that say an operator ran on the CPU, with the user's line; the warning itself goes on as it would."""

import functools
import re
import warnings

from .. import guest, place, wire

# PyTorch, aten/src/ATen/mps/MPSFallback.mm; the text is the same from 2.0 to 2.15. One warning a process: later operators
# fall back without a word.
_fallback = re.compile(r"The operator '([^']+)' is not currently supported on the MPS backend and will fall back to run on the CPU")
_detour = re.compile(r"(?i)(\S+?):? .*(?:falling back (?:to|on) (?:the )?cpu)")


def install(torch, config):
    show = warnings._showwarnmsg

    @functools.wraps(show)
    def watched(msg):
        try:
            text = str(msg.message)
            found = _fallback.search(text)
            if found is not None or _detour.search(text):
                user, via = place.where(2)
                name = found.group(1) if found is not None else text.split(".")[0][:120]
                wire.put({"ev": "fallback", "operator": name, "where": user, "via": via, "count": 1,
                          "source": "warning", "text": text[:500]})
        except Exception:
            pass
        try:
            return show(msg)
        except BaseException:
            guest.hide()
            raise

    warnings._showwarnmsg = watched
