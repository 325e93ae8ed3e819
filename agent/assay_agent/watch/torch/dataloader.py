"""DataLoader: every fetch is data wait, from the call of next() to its return, and the start of workers with it."""

import os
import weakref

from ... import guest, place, wire
from ...timeline import T
from . import reached

DATA = T.phase("data", 10, "data", "waiting for the loader")
_serial = 0
_loaders = {}  # id -> (weak reference to the loader, serial)
_passes = {}  # id -> (weak reference to the iterator, (loader serial, iterator serial))
# Times that a pass gives each sample, and samples of a pass where it is not known how many there are: whoever asks for
# more wants it to go on.
ENDLESS, ENDLESS_SAMPLES = 1000, 10**9
begins = None  # called with a loader when a pass of it begins, set by rehearsal.py
takeover = None  # set by only.py: called with (iterator, original next) once the loop is known


def _next_serial():
    global _serial
    _serial += 1
    return _serial


def _known(table, thing):
    """What the table holds of a thing. No WeakKeyDictionary: its callbacks are Python code, and what a signal handler
    raises in one is lost."""
    held = table.get(id(thing))
    return held[1] if held is not None and held[0]() is thing else None


def _keep(table, thing, value):
    if len(table) > 1000:
        for key, held in list(table.items()):
            if held[0]() is None:
                del table[key]
    table[id(thing)] = weakref.ref(thing), value


def install(torch, config):
    from torch.utils.data import dataloader as module

    loader_class = module.DataLoader
    base = module._BaseDataLoaderIter
    fetch = base.__next__

    @guest.hook
    def begin_pass(loader):
        global _starting
        if not _watched():
            return False
        if T.bare and not torch.is_grad_enabled():
            reached.arm()
        T.fetch_begin(new_pass=True)
        _starting = [loader, None]
        return True

    @guest.hook
    def made(iterator, loader, *_):
        if _starting is not None and _starting[0] is loader:
            _starting[1] = iterator
        return False

    @guest.hook
    def end_pass(error):
        global _starting
        T.fetch_end(DATA, None)
        (loader, iterator), _starting = _starting, None
        if iterator is None:
            iterator = loader.__dict__.get("_iterator")  # persistent workers: that of the first pass
        if iterator is not None:
            _register(loader, iterator)

    @guest.hook
    def begin(iterator):
        global _fetching
        if T.lean and T.on and T.mine():
            _fetching = iterator
            return True
        if not _watched():
            return False
        if takeover is not None:
            takeover(iterator, fetch)
        T.fetch_begin()
        _fetching = iterator
        return True

    @guest.hook
    def end(error):
        global _fetching
        iterator, _fetching = _fetching, None
        if T.lean:  # of a pass in a lean stretch its end is told, or what ended it
            if isinstance(error, StopIteration):
                T.pass_ended(_known(_passes, iterator))
            return
        if T.trained() and not T.mine():
            return  # a thread that reads ahead had begun before the first step was made: it has been given up
        if error is None:
            # What is read without gradients is no batch of a training step.
            T.fetch_end(DATA, _known(_passes, iterator) or (0, 0) if torch.is_grad_enabled() else None)
        else:
            T.fetch_end(DATA, None)
            if isinstance(error, StopIteration):
                T.pass_ended(_known(_passes, iterator))

    loader_class.__iter__ = guest.around(loader_class.__iter__, begin_pass, end_pass)
    base.__next__ = guest.around(fetch, begin, end)
    base.__init__ = guest.around(base.__init__, made, None)


_fetching = None  # the iterator whose next() is under way
_starting = None  # [loader, the iterator that was made for it] while its iter() is under way


def _watched():
    """A loader may be read by a prefetching thread; before anybody has trained, any thread may be the one."""
    return T.on and (not T.trained() or T.mine()) and T.free()


def _register(loader, iterator):
    """A pass begins."""
    if begins is not None:
        begins(loader)
    serial = _known(_loaders, loader)
    if serial is None:
        serial = _next_serial()
        _keep(_loaders, loader, serial)
        event = describe(loader, serial)
        if event["endless"]:
            T.endless.add(serial)
        wire.put(event)
    _keep(_passes, iterator, (serial, _next_serial()))


def describe(loader, serial):
    """The `loader` event: what is read, how, and where its files are, from plain attributes only."""
    dataset = getattr(loader, "dataset", None)
    event = {
        "ev": "loader",
        "id": serial,
        "loader": _name(type(loader)),
        "dataset": _name(type(dataset)),
        "batch": getattr(loader, "batch_size", None),
        "workers": getattr(loader, "num_workers", 0),
        "pin_memory": bool(getattr(loader, "pin_memory", False)),
        "persistent": bool(getattr(loader, "persistent_workers", False)),
        "drop_last": bool(getattr(loader, "drop_last", False)),
        "paths": _paths(dataset),
        "generator": _seed(loader),
        "worker_init": _function(getattr(loader, "worker_init_fn", None)),
        "length": None,
        "batches": None,
        "endless": False,
    }
    samples = getattr(getattr(loader, "sampler", None), "__dict__", {}).get("_num_samples")
    if type(samples) is int and samples >= ENDLESS_SAMPLES:
        event["endless"] = True
    if _counts(dataset):
        event["length"] = _length(dataset)
        sampler = getattr(loader, "batch_sampler", None)
        if all(_counts(thing) for thing in (loader, sampler or dataset, getattr(sampler, "sampler", None) or dataset)):
            event["batches"] = _length(loader)
            if event["length"] and event["batch"] and event["batches"]:
                event["endless"] = event["batches"] * event["batch"] > ENDLESS * event["length"]
    return event


def _seed(loader):
    """The seed of the loader's own generator, as text; None where it has none, or one that is not PyTorch's."""
    generator = getattr(loader, "generator", None)
    own = type(generator).__module__ == "torch._C"  # a subclass of the script's could do anything when it is asked
    return str(generator.initial_seed()) if own else None


def _function(function):
    """The name of a function; None where there is none."""
    if function is None:
        return None
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)[:200]


def _counts(thing):
    """Whether len() of a thing can do nothing but count: a method in C, one of the framework's, or one of the script's
    that calls len and the like and nothing else. What prints, reads a file or keeps a tally is not called on our
    account."""
    from torch.utils.data import IterableDataset

    if isinstance(thing, IterableDataset):
        return False
    method = getattr(type(thing), "__len__", None)
    code = getattr(method, "__code__", None)
    if code is None:
        return method is not None
    return not place.is_user(code) or _only_counts(code)


def _only_counts(code):
    import dis

    for at in dis.get_instructions(code):
        if at.opname.startswith("LOAD_GLOBAL") or at.opname == "LOAD_NAME":
            if at.argval not in ("len", "int", "min", "max", "sum", "range") and not at.argval.isupper():
                return False
        elif at.opname == "LOAD_METHOD" or at.opname == "LOAD_ATTR" and "NULL|self" in at.argrepr:  # 3.12 on
            return False
        elif at.opname.startswith(("STORE_", "DELETE_", "IMPORT_", "YIELD_", "RAISE_")) and not at.opname.startswith(
            "STORE_FAST"
        ):
            return False
    return True


def _length(thing):
    try:
        return len(thing)
    except Exception as err:
        guest.pass_on(err)
        return None


def _name(kind):
    return kind.__module__ + "." + kind.__qualname__


def _paths(dataset, depth=0):
    """Files or folders that a dataset names in the attributes that datasets commonly use; never reads them."""
    found = []
    if dataset is None or depth > 3:
        return found
    values = getattr(dataset, "__dict__", {})
    for name in (
        "root",
        "root_dir",
        "data_dir",
        "path",
        "folder",
        "directory",
        "img_dir",
        "image_dir",
        "file",
        "filename",
        "csv_file",
        "h5_file",
        "file_path",
        "files",
        "paths",
        "samples",
        "imgs",
        "image_paths",
        "filenames",
    ):
        value = values.get(name)
        if isinstance(value, (list, tuple)):
            for item in value[:2000]:
                item = item[0] if isinstance(item, (list, tuple)) and item else item
                if isinstance(item, (str, os.PathLike)):
                    found.append(str(item))
        elif isinstance(value, (str, os.PathLike)):
            found.append(str(value))
    for name in ("dataset", "datasets", "data_source"):  # Subset, ConcatDataset and other wrappers
        inner = values.get(name)
        for item in (inner if isinstance(inner, (list, tuple)) else [inner])[:20]:
            if hasattr(type(item), "__getitem__") or hasattr(type(item), "__iter__"):
                found.extend(_paths(item, depth + 1))
    cache = values.get("_data_files")  # Hugging Face datasets: the Arrow files behind a table
    if isinstance(cache, (list, tuple)):
        found.extend(str(f.get("filename")) for f in cache[:2000] if isinstance(f, dict) and f.get("filename"))
    return found[:2000]
