"""batch: rows of a batch of the training, by the DataLoader; frameworks.py has those that have an option for it."""

from . import frameworks, loaders, tell

rows = 0  # as asked for
_FEWER = "the data has %d rows, fewer than a batch of %d"


def install(torch, asked):
    global rows
    rows = int(asked["batch"])
    loaders.install(torch)
    frameworks.install(torch, asked)
    loaders.change.append(_change)
    loaders.give_back.append(_give_back)
    loaders.reading.append(_reading)


def _change(made):
    loader = made.loader()
    sampler = loaders.batches(loader)
    if frameworks.batches:  # the loaders that it makes are as it wants them
        made.kept["batch"] = getattr(sampler, "batch_size", None), "the framework's option has it"
        made.kept["rows"] = loaders.rows_of(loader)
        return
    made.kept["batch"] = before, why = getattr(sampler, "batch_size", None), _refused(loader)
    if why is None and before != rows:
        loaders.set_rows(loader, rows)


def _refused(loader):
    why = loaders.own_sampler(loader)
    if why is None:
        there = loaders.rows_of(loader)
        if there is not None and there < rows:
            why = _FEWER % (there, rows)
    return why


def _give_back(made):
    before, why = made.kept.pop("batch", (None, "never changed"))
    if why is None:
        loaders.set_rows(made.loader(), before)


def _reading(made):
    if "batch" not in made.kept:
        return
    before, why = made.kept["batch"]
    where = loaders.named(made)
    if frameworks.batches:
        there = made.kept.get("rows")
        if made.shuffles and there is not None and there < rows:
            tell("batch", False, where=where, why=_FEWER % (there, rows))
        elif made.shuffles and before not in (None, frameworks.given):
            tell("batch", False, where=where, why="it gives batches of %d rows, and does not go by %s" % (before, frameworks.batches))
    elif why is not None:
        tell("batch", False, where=where, why=why)
    else:
        tell("batch", True, **{"where": where, "from": before, "to": rows})
