"""DataLoader: every fetch is data wait, from the call of next() to its return, and the start of workers with it."""

import functools
import weakref

from .. import guest, wire
from ..timeline import T

_serial = 0
_loaders = weakref.WeakKeyDictionary()  # loader -> serial
_passes = weakref.WeakKeyDictionary()  # iterator -> (loader serial, iterator serial)
takeover = None  # set by watch.only: called with (iterator, original next) once the loop is known


def _next_serial():
    global _serial
    _serial += 1
    return _serial


def install(torch, config):
    from torch.utils.data import dataloader as module

    loader_class = module.DataLoader
    base = module._BaseDataLoaderIter
    make, fetch = loader_class.__iter__, base.__next__

    @functools.wraps(make)
    def __iter__(self):
        watch = T.on and not T.busy and _training_thread()
        if watch:
            T.fetch_begin(new_pass=True)
        try:
            iterator = make(self)
        except BaseException:
            if watch:
                T.fetch_end(None)
            guest.hide()
            raise
        if not watch:
            return iterator
        T.fetch_end(None)
        try:
            _register(self, iterator)
        except Exception as err:
            wire.trouble("loader: %r" % (err,))
        return iterator

    @functools.wraps(fetch)
    def __next__(self):
        watch = T.on and not T.busy and _training_thread()
        if watch:
            if takeover is not None:
                takeover(self, fetch)
            T.fetch_begin()
        try:
            item = fetch(self)
        except BaseException as err:
            if watch:
                T.fetch_end(None)
                if isinstance(err, StopIteration):
                    T.pass_ended(_passes.get(self))
            guest.hide()
            raise
        if watch:
            T.fetch_end(_passes.get(self, (0, 0)))
        return item

    loader_class.__iter__ = __iter__
    base.__next__ = __next__


def _training_thread():
    """A loader may be read by a prefetching thread; before anybody has trained, any thread may be the one."""
    return T.owner is None or T.mine()


def _register(loader, iterator):
    serial = _loaders.get(loader)
    if serial is None:
        serial = _loaders[loader] = _next_serial()
        wire.put(describe(loader, serial))
    _passes[iterator] = (serial, _next_serial())


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
    }
    from torch.utils.data import IterableDataset

    if isinstance(dataset, IterableDataset):
        event["length"] = event["batches"] = None  # len() of an iterable dataset is user code that may count by reading
    else:
        for key, thing in (("length", dataset), ("batches", loader)):
            try:
                event[key] = len(thing)
            except Exception:
                event[key] = None
    return event


def _name(kind):
    return kind.__module__ + "." + kind.__qualname__


def _paths(dataset, depth=0):
    """Files or folders that a dataset names in the attributes that datasets commonly use; never reads them."""
    found = []
    if dataset is None or depth > 3:
        return found
    values = getattr(dataset, "__dict__", {})
    for name in ("root", "root_dir", "data_dir", "path", "folder", "directory", "img_dir", "image_dir", "file", "filename",
                 "csv_file", "h5_file", "file_path", "files", "paths", "samples", "imgs", "image_paths", "filenames"):
        value = values.get(name)
        if isinstance(value, (list, tuple)):
            for item in value[:2000]:
                item = item[0] if isinstance(item, (list, tuple)) and item else item
                if hasattr(item, "__fspath__") or isinstance(item, str):
                    found.append(str(item))
        elif hasattr(value, "__fspath__") or isinstance(value, str):
            found.append(str(value))
    for name in ("dataset", "datasets", "data_source"):  # Subset, ConcatDataset and other wrappers
        inner = values.get(name)
        for item in (inner if isinstance(inner, (list, tuple)) else [inner])[:20]:
            if hasattr(item, "__getitem__") or hasattr(item, "__iter__"):
                found.extend(_paths(item, depth + 1))
    cache = values.get("_data_files")  # Hugging Face datasets: the Arrow files behind a table
    if isinstance(cache, (list, tuple)):
        found.extend(str(f.get("filename")) for f in cache[:2000] if isinstance(f, dict) and f.get("filename"))
    return found[:2000]
