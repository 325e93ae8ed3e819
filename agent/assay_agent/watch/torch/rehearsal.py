"""--on double: the stand-in for MPS takes its place before anything is watched, and is told what goes on."""

from ... import guest, process
from ...timeline import T


def prepare(torch, config):
    if config.get("double"):
        from ...double import install as double

        made = double.install(torch, config["double"], config.get("releases", ()))
        if config.get("suite"):
            made.dispatch.tallies = False
        else:
            _account(torch, made.place)
        process.finisher(double.report)
        process.after_fork(double.clear)


def _account(torch, place):
    """Keep the account of a training's memory."""
    from .longest import Longest

    batches = Longest(torch)
    _tell(torch, place, batches)

    @process.finisher
    def look():
        place.ledger.batch = batches.tell()

    process.forgetter(batches.clear)


def _tell(torch, place, batches):
    """Have the ledger of the device's memory told of modules' calls, optimizers' steps and torch.save, and the batches
    of what is called and read."""
    from torch.optim import optimizer

    from . import dataloader, module, reached

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

    @guest.hook
    def called(module, grad, args, kwargs):
        ledger.called(module, grad)
        if grad:
            batches.called(args, kwargs)

    module.outermost = called
    dataloader.begins = guest.hook(batches.read)

    def save():
        ledger.save(place.account)

    reached.beside = save, lambda error: ledger.save_is_over()
