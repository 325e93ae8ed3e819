"""Warnings that say an operator ran on the CPU, with the user's line; the warning itself goes on as it would."""

import re
import warnings

from ... import guest, place, wire

# PyTorch, aten/src/ATen/mps/MPSFallback.mm; the text is the same from 2.0 to 2.15. One warning a process: later
# operators fall back without a word.
_fallback = re.compile(
    r"The operator '([^']+)' is not currently supported on the MPS backend and will fall back to run on the CPU"
)
_detour = re.compile(r"(?i)(\S+?):? .*(?:falling back (?:to|on) (?:the )?cpu)")


def install(torch, config):
    warnings._showwarnmsg = guest.around(warnings._showwarnmsg, _shown, None)


@guest.hook
def _shown(msg):
    if type(msg.message).__str__ is not Exception.__str__:
        return  # what it says of itself is the script's own code
    text = str(msg.message)
    found = _fallback.search(text)
    if found is not None or _detour.search(text):
        user, via = place.where(4)  # from the caller of _showwarnmsg on
        name = found.group(1) if found is not None else text.split(".")[0][:120]
        wire.put(
            {
                "ev": "fallback",
                "operator": name,
                "where": user,
                "via": via,
                "count": 1,
                "source": "warning",
                "text": text[:500],
            }
        )
