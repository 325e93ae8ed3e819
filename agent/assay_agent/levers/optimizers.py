"""foreach_off and fused_off: optimizers whose class chooses between ways of computing an update take the plain one.

foreach computes all parameters at once and needs room for lists of them; fused does in one kernel what else takes several.
"""

from .. import guest, place
from . import missed, tell


def install(torch, asked):
    levers = [name for name in ("foreach", "fused") if asked.get(name + "_off")]
    for name in levers:
        missed[name + "_off"] = "no optimizer was made"

    @guest.hook
    def begin(optimizer, params, defaults):
        where = "%s at %s" % (type(optimizer).__qualname__, place.where(3)[0])
        for name in levers:
            if name not in defaults:
                tell(name + "_off", False, where=where, why="it has no option %s" % name)
            else:
                defaults[name] = False  # of every group that does not say itself; the class fills groups from here
                tell(name + "_off", True, where=where)
        return False

    optimizer = torch.optim.Optimizer
    optimizer.__init__ = guest.around(optimizer.__init__, begin, None)
