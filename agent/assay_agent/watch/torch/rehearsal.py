"""--on double: the stand-in for MPS takes its place before anything is watched."""

from ... import process


def prepare(torch, config):
    if config.get("double"):
        from ...double import install as double

        double.install(torch, config["double"])
        process.finisher(double.report)
        process.after_fork(double.clear)
