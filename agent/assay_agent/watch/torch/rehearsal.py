"""--on double: the stand-in for MPS takes its place before anything is watched, and is told what goes on."""

from ... import guest, process
from ...timeline import T


def prepare(torch, config):
    if config.get("double"):
        from ...double import install as double

        _tell(torch, double.install(torch, config["double"]).place)
        process.finisher(double.report)
        process.after_fork(double.clear)


def _tell(torch, place):
    """Have the ledger of the device's memory told of modules' calls, optimizers' steps and torch.save."""
    from torch.optim import optimizer

    from . import module

    ledger = place.ledger
    ledger.step = lambda: T.number + 1

    @guest.hook
    def begin(stepping, args, kwargs):
        ledger.optimizer_steps(stepping, place.live)

    @guest.hook
    def end(stepping, args, kwargs):
        ledger.optimizer_stepped(place.live, place.account)

    optimizer.register_optimizer_step_pre_hook(begin)
    optimizer.register_optimizer_step_post_hook(end)
    module.outermost = ledger.called

    @guest.hook
    def save(*_):
        ledger.save(place.account)
        return True

    @guest.hook
    def saved(error):
        ledger.save_is_over()

    torch.save = torch.serialization.save = guest.around(torch.serialization.save, save, saved)
