"""Rehearses the models of zoo.py on doubles of several releases of PyTorch: the Python side of tools/models.

    python rehearse.py ATTEMPT.PY < REQUEST

REQUEST is {"doubles": [settings, oldest first], "values": [the same, with values], "models": [names, none for all],
"done": [names], "limit": seconds, "sizes": [GiB]}; docs/formats/double.md has the settings. For each model a line on standard output: what zoo.py says of it, the peaks, and for each release the answer that `assay try`'s
attempt.py gives, as docs/formats/attempts.md has it. A model has a process of its own, forked after the imports, and is built once there;
each release is a fork of that. What only differs by the release is so computed once.
"""

import contextlib
import functools
import gc
import importlib.metadata
import importlib.util
import json
import os
import signal
import sys
import time

BATCH = 2  # of the attempts: normalisation over a batch of one is refused by PyTorch itself
PEAKS = (1, 8)  # batches whose peak is asked for
ROOMY = {"memory": 1 << 40, "recommended": 1 << 40}  # bytes: what a model needs is asked, whatever a Mac has


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_nested = False  # in a model's process: its attempts are of its group, so that all end with it


def forked(work, limit):
    """What work() gives, as JSON, of a process of its own; a text where it gave nothing."""
    global _nested
    import select
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        code = 1
        try:
            if not _nested:
                os.setpgid(0, 0)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _nested = True
            said = json.dumps(work())
            with os.fdopen(write, "w") as out:
                out.write(said)
            code = 0
        except BaseException as error:
            print("%s: %s" % (type(error).__name__, error), file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(write)
    if not _nested:  # whoever ends this process ends the model's with it
        signal.signal(signal.SIGTERM, lambda *_: (os.killpg(pid, signal.SIGKILL), os._exit(143)))
    data, until = b"", time.monotonic() + limit
    while True:
        ready, _, _ = select.select([read], [], [], max(0, until - time.monotonic()))
        chunk = os.read(read, 1 << 16) if ready else b""
        data += chunk
        if not chunk:
            break
    os.close(read)
    late = not ready
    if late:
        (os.kill if _nested else os.killpg)(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if not _nested:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        return json.loads(data.decode())
    except ValueError:
        return "not done within %g s" % limit if late else "its process ended with status %d" % status


@contextlib.contextmanager
def unfilled(torch):
    """Random initial values are left out: shapes do not need them, and a gigabyte of them takes half a minute."""
    names = ("normal_", "uniform_", "erfinv_", "exponential_")
    before = {n: getattr(torch.Tensor, n) for n in names}
    truncated = torch.nn.init.trunc_normal_
    for n in names:
        setattr(torch.Tensor, n, lambda self, *args, **kwargs: self)
    torch.nn.init.trunc_normal_ = lambda tensor, *args, **kwargs: tensor
    try:
        yield
    finally:
        for n, function in before.items():
            setattr(torch.Tensor, n, function)
        torch.nn.init.trunc_normal_ = truncated


def remember(torch, shapes, inside):
    """Has what an operator gives for shapes alone computed once for the same arguments: PyTorch does it in Python, and every release asks the same.
    Of operators alone that write to no argument and whose results are no views."""
    compute, known, plain = shapes.computed, {}, {}
    Tensor = torch.Tensor

    def functional(func):
        s = func._schema
        return all(a.alias_info is None for a in s.arguments) and s.returns and all(r.alias_info is None and str(r.type) == "Tensor" for r in s.returns)

    def told(v):
        if isinstance(v, Tensor):
            return (v.dtype, v.shape, v.stride())
        if v.__class__ in (list, tuple):
            return tuple(map(told, v))
        return (v.__class__, v)

    def computed(func, args, kwargs):
        if func not in plain:
            plain[func] = functional(func)
        if not plain[func]:
            return compute(func, args, kwargs)
        try:
            key = (func, tuple(map(told, args)), tuple((k, told(v)) for k, v in kwargs.items()))
            found = known.get(key)
        except (TypeError, RuntimeError):  # a generator; a tensor without strides
            return compute(func, args, kwargs)
        if found is None:
            out = compute(func, args, kwargs)
            outs = out if isinstance(out, (tuple, list)) else (out,)
            if all(isinstance(o, Tensor) and o.layout is torch.strided and o.device.type == "meta" for o in outs):
                known[key] = isinstance(out, (tuple, list)), [(o.shape, o.stride(), o.dtype) for o in outs]
            return out
        several, outs = found
        with inside():
            outs = tuple(torch.empty_strided(size, stride, dtype=dtype, device="meta") for size, stride, dtype in outs)
        return outs if several else outs[0]
    shapes.computed = computed


def dispatch_of(torch, Dispatch, inside):
    """(a Dispatch that computes once what takes long, the memory that it goes by). Releases differ in what they refuse and fall back
    with, and hardly in the numbers: an operator whose arguments have the same sizes, types, layouts and values gives the same. Of
    operators alone that write to no argument, draw nothing, and whose results are no views."""
    class Memory:
        filling = False
        slow = {}  # (operator, what its arguments are) -> {fingerprints of their values: results}
        plain = {}  # operator -> whether it can be remembered
        weights = torch.ones(0)

    def functional(op, func):
        s = func._schema  # batch normalisation writes to its running statistics without its schema saying so
        return not op.draws and "batch_norm" not in s.name and all(a.alias_info is None for a in s.arguments) and s.returns and all(
            r.alias_info is None and str(r.type) == "Tensor" for r in s.returns)

    def told(v, tensors):
        if isinstance(v, torch.Tensor):
            if v.layout is not torch.strided:
                raise TypeError
            tensors.append(v)
            return (v.dtype, v.shape, v.stride())
        if v.__class__ in (list, tuple):
            return tuple(told(x, tensors) for x in v)
        return (v.__class__, v)

    def fingerprint(t):
        """Of a tensor's values: all of them, or of many the sum under fixed weights. Equal ones are computed by the same code of the same
        numbers, so that others hardly come to the same sum to the last bit."""
        flat = t.detach().reshape(-1)
        if flat.numel() < 1 << 12 or flat.dtype is not torch.float32:
            return flat.contiguous().view(torch.uint8).numpy().tobytes()
        if flat.numel() > Memory.weights.numel():
            Memory.weights = torch.rand(flat.numel(), generator=torch.Generator().manual_seed(0))
        return flat.dot(Memory.weights[:flat.numel()]).item()

    class Remembered:
        """An operator, as Dispatch calls it."""

        def __init__(self, func):
            self.func, self._schema = func, func._schema

        def __call__(self, *args, **kwargs):
            with inside():
                return self.remembered(args, kwargs)

        def remembered(self, args, kwargs):
            tensors = []
            try:
                what = (self.func, told(args, tensors), tuple((k, told(v, tensors)) for k, v in kwargs.items()))
                values = Memory.slow.get(what)
            except TypeError:  # a generator, a sparse tensor
                return self.func(*args, **kwargs)
            if values is None and not Memory.filling:
                return self.func(*args, **kwargs)
            if values is not None:
                found = values.get(tuple(map(fingerprint, tensors)))
                if found is not None:
                    several, outs = found
                    outs = tuple(o if o is None else torch.empty_strided(o.shape, o.stride(), dtype=o.dtype).copy_(o) for o in outs)
                    return outs if several else outs[0]
            began = time.perf_counter()
            out = self.func(*args, **kwargs)
            if Memory.filling and (values is not None or time.perf_counter() - began > 0.001):
                outs = out if isinstance(out, (tuple, list)) else (out,)
                kept = [o if o is None else torch.empty_strided(o.shape, o.stride(), dtype=o.dtype).copy_(o) for o in outs]
                Memory.slow.setdefault(what, {})[tuple(map(fingerprint, tensors))] = isinstance(out, (tuple, list)), kept
            return out

    class Remembering(Dispatch):
        def run(self, op, func, args, kwargs, fell, leaving):
            if self.shapes is None and (Memory.slow or Memory.filling):
                if func not in Memory.plain:
                    Memory.plain[func] = functional(op, func)
                if Memory.plain[func]:
                    func = Remembered(func)
            return super().run(op, func, args, kwargs, fell, leaving)
    return Remembering, Memory


class Rehearsal:
    def __init__(self, torch, zoo, attempt, Double, memory, request):
        self.torch, self.zoo, self.attempt, self.Double, self.memory, self.request = torch, zoo, attempt, Double, memory, request

    def model(self, entry):
        """All that is told of a model."""
        told = {"name": entry.name, "task": entry.task, "family": entry.family, "package": entry.package, "input": entry.says, "parameters": 0,
                "carried": self.zoo.SHAPES if entry.carry == self.zoo.VALUES else entry.carry, "peaks": {}, "whynot": {}, "answers": {}, "cpu": None, "seconds": 0}
        began = time.monotonic()
        if entry.carry != self.zoo.VALUES:
            shapes = forked(lambda: self.all(entry, False), self.request["limit"])
            if isinstance(shapes, dict) and not shapes.pop("asks"):
                told.update(shapes, seconds=time.monotonic() - began)
                return told
        told["carried"] = self.zoo.VALUES
        values = forked(lambda: self.all(entry, True), self.request["limit"])
        if isinstance(values, str):
            told["failed"] = values
        else:
            values.pop("asks")
            told.update(values)
        told["seconds"] = time.monotonic() - began
        return told

    def all(self, entry, values):
        """In the model's own process: built once, tried on each release, the peaks on the newest, and where the newest fails the CPU."""
        torch = self.torch
        torch.manual_seed(0)
        with contextlib.nullcontext() if values else unfilled(torch):
            model = entry.build().train()
            torch.manual_seed(0)
            before = entry.build().train()  # to be used up here, so that each fork knows what operators give
        told = {"parameters": sum(p.numel() for p in model.parameters()), "answers": {}, "peaks": {}, "whynot": {}, "asks": False, "cpu": None}
        doubles = self.request["values" if values else "doubles"]

        def once(settings, model=model):
            self.torch.manual_seed(0)
            settings = settings and dict(settings, **ROOMY)
            asked = {"device": "double" if settings else "cpu", "double": settings, "args": {}}
            tried = self.attempt._Attempt(torch, asked, entry.name, lambda: lambda: (model, _both(entry.inputs(BATCH))))
            if not settings:
                return tried.answer()
            with self.Double(settings).use():
                return tried.answer()
        self.memory.filling = values
        once(doubles[-1], before)
        self.memory.filling = False
        del before
        for o in gc.get_objects():  # what a package keeps of the first double's tensors is on no other's device
            if isinstance(o, functools._lru_cache_wrapper):
                o.cache_clear()
        gc.collect()
        for settings in reversed(doubles):
            a = forked(lambda s=settings: once(s), self.request["limit"])
            if isinstance(a, str):
                if not values:
                    told["asks"] = True
                    return told
                raise RuntimeError("%s on %s: %s" % (entry.name, settings["release"], a))
            ran = a["phase"] in ("forward", "backward")
            if not values and (a["stand_ins"] and entry.carry != self.zoo.ZEROS or a["error"] and a["refusal"] is None and not a["error"]["kind"] and ran):
                told["asks"] = True
                return told
            told["answers"][settings["release"]] = a
        if told["answers"][doubles[-1]["release"]]["error"]:
            a = forked(lambda: once(None), self.request["limit"])
            told["cpu"] = a if isinstance(a, dict) else None
        self.memory.slow.clear()
        for batch in PEAKS:
            a = forked(lambda b=batch: self.peak(entry, model, doubles[-1], b), self.request["limit"])
            if isinstance(a, str):
                told["whynot"][batch] = a
            elif a.get("why"):
                told["whynot"][batch] = a["why"]
            else:
                told["peaks"][batch] = a["peak"]
        return told

    def peak(self, entry, model, settings, batch):
        """The allocator's peak over two steps of AdamW: in the second, gradients and both moments are there while the activations are."""
        torch = self.torch
        double = self.Double(dict(settings, **ROOMY))
        double.fallback = True
        with double.use():
            try:
                model = model.to("mps")
                args, kwargs = entry.inputs(batch)
                move = self.attempt._moved
                args, kwargs = move(torch, list(args), "mps"), move(torch, kwargs, "mps")
                optimizer = torch.optim.AdamW(model.parameters())
                for _ in range(2):
                    optimizer.zero_grad()
                    model(*args, **kwargs).backward()
                    optimizer.step()
            except Exception as error:
                return {"why": "%s: %s" % (type(error).__name__, str(error).split("\n")[0][:160])}
            return {"peak": double.account.peak_driver}


def _both(inputs):
    """A factory's inputs, as attempt.py takes them: a tuple in order, or a dictionary by name."""
    args, kwargs = inputs
    return kwargs if kwargs else tuple(args)


def main():
    attempt = load("assay_attempt", sys.argv[1])
    request = json.load(sys.stdin)
    folder = os.path.dirname(os.path.abspath(__file__))
    here = sys.path[0]
    attempt.__file__ = os.path.abspath(sys.argv[1])
    attempt._agent()
    sys.path[0] = here
    import torch
    torch.set_num_threads(1)  # a pool of threads does not survive a fork
    torch.version.cuda = None  # torchaudio would compare it with the one that it was built for
    from assay_agent.double import allocator, install
    from assay_agent.double import shapes
    from assay_agent.double.current import inside
    from assay_agent.double.dispatch import Dispatch
    from assay_agent.double.double import Double
    remember(torch, shapes, inside)
    doubles = request["doubles"]
    print("%d of the releases are tried" % len(doubles), file=sys.stderr)
    zoo = load("zoo", os.path.join(folder, "zoo.py"))
    entries = {e.name: e for e in zoo.ENTRIES}
    wanted = request["models"] or list(entries)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    versions = {}
    for package in ["torch"] + sorted({e.package for e in zoo.ENTRIES}):
        name = package.replace("_", "-")
        try:
            versions[package] = importlib.metadata.version(name)
            if package != "ultralytics":
                __import__(package)
        except Exception as error:
            versions.pop(package, None)
            print("%s is left out: %s" % (package, error), file=sys.stderr)
    install.install(torch, request["values"][-1])
    Double.dispatch_class, memory = dispatch_of(torch, Dispatch, inside)
    rehearsal = Rehearsal(torch, zoo, attempt, Double, memory, request)
    done = set(request.get("done") or ())
    limits = []
    for gib in request["sizes"]:
        for macos in (13, 14, 15, 26):
            size, known = allocator.recommended_max(gib << 30, macos)
            if size:
                limits.append({"gib": gib, "macos": macos, "bytes": size, "known": known})
    json.dump({"versions": versions, "limits": limits}, out)
    out.write("\n")
    out.flush()
    for name in wanted:
        entry = entries.get(name)
        if entry is None:
            sys.exit("no model %s in zoo.py" % name)
        if name in done or entry.package not in versions:
            continue
        out.write(json.dumps(rehearsal.model(entry)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
