"""Records a training's first steps: every operator (a TorchDispatchMode, from PyTorch's import on), every module's call, gradients after backward,
weights after each step, losses.

Steps are counted by the timeline, which also ends the run. Which line a tensor comes from is kept by its storage: all that writes to one passes
here, so that a storage's last writer is known, and of a view the operator that made it.
"""

import contextlib
import json
import os
import platform
import threading
import time

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from .. import guest, process, wire
from ..timeline import T
from ..watch.torch import module as watched
from . import draws, start, tensors

UNFIT = 0.5  # share of the other side's weights that may find no place: with more it is another model
_SILENT = ("aten::detach", "aten::alias", "aten::lift_fresh", "aten::lift", "aten::set_", "aten::resize_", "aten::_local_scalar_dense")
_EMPTY = ("aten::empty", "aten::new_empty")
# Their schemas do not say that they write running statistics: here these are outputs, behind the others.
_HIDDEN = ("aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm")
_PLAIN = (torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter))  # a subclass may hold its data elsewhere
_UNREAD = ["other"]  # what nobody has written: its bytes say nothing


class _Storage:
    """What is known of a storage: who wrote it last, and of each view of it its line and T."""

    __slots__ = ("alive", "last", "views", "writes")

    def __init__(self, storage):
        self.alive, self.last, self.views, self.writes = StorageWeakRef(storage), None, {}, 0


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        r = RECORDER
        if not r.on or r.own:
            return func(*args, **kwargs)
        try:
            begun = r.operator_begins(func, args, kwargs)
            done, out = r.draw(func, args, kwargs) if torch.Tag.nondeterministic_seeded in func.tags else (False, None)
            if not done:
                out = func(*args, **kwargs)
            if begun is not None:
                r.operator_ends(func, args, kwargs, out, begun)
            return out
        except BaseException:
            guest.hide()
            raise


class Recorder:
    def __init__(self, asked):
        self.asked, self.out = asked, asked["out"]
        self.on = True  # False in a forked child, and when all is written
        self.own = 0  # within work of ours, whose operators are nobody's
        self.recording = False  # a training step has begun
        self.loading = False  # within a loader, whose data is recorded when it hands it out
        self.n, self.i = 0, 0
        self.phase, self.forwarding, self.updated = "other", False, False
        self.thread = threading.get_ident()
        self.stack = []  # (module's name, call) of the modules whose forward is under way
        self.calls = {}  # (name, step) -> calls
        self.names, self.kept = {}, []  # id of a module -> its name; those modules, so that ids stay theirs
        self.roots = []  # (prefix, module) of outermost modules with parameters
        self.storages = {}  # a storage's own number -> _Storage
        self.made_by = {}  # number of an autograd node -> (module, call)
        self.gradients = {}  # name -> (storage, writes) of the gradient that was told last
        self.fetched = self.fed = self.replaced = self.left = 0  # batches handed out, inputs taken; tensors replaced or not
        self.unfit, self.seconds, self.began, self.batch = [], [], None, None
        self.double = {k: v for k, v in asked["double"].items() if k != "table"} if asked.get("double") else None  # what the agent was told of the Mac that a rehearsal stands for
        self.why, self.policy, self.device, self.random = "", None, "", "cpu"
        self.lines = self.start = self.given = None
        self.later, self.waiting = tensors.Told(torch), []  # T of other devices, and lines that have some
        self.moves = ""
        if asked.get("from"):
            self.given = start.Reader(os.path.join(asked["from"], "start.safetensors"))
            if asked.get("moved"):
                floats = any(self.given.header[name]["dtype"] in ("F64", "F32", "F16", "BF16") for name in self.given.names("batch/"))
                self.moves = "batch/" if floats else "weight/"

    # -- lines --------------------------------------------------------------------------------------------------------

    def line(self, k, **fields):
        """Write a line; its number."""
        if self.lines is None:
            self.open()
        row = {"k": k, "i": self.i, "n": self.n}
        row.update(fields)
        self.waiting.append(row)
        self.i += 1
        if self.later.full() or not self.later.held:
            self.write()
        return self.i - 1

    def write(self):
        """Write the lines that wait for what other devices have."""
        self.later.done()
        rows, self.waiting = self.waiting, []
        for row in rows:
            self.lines.write(json.dumps(row, separators=(",", ":")) + "\n")

    def open(self):
        self.part = self.out + ".part"
        os.mkdir(self.part, 0o700)  # of several processes the first that trains is recorded
        self.lines = open(os.path.join(self.part, "lines"), "w", encoding="utf-8")
        self.start = start.Writer(os.path.join(self.part, "start.safetensors"))

    @contextlib.contextmanager
    def at_work(self):
        """Work of ours: no operator of it is recorded, and a failure is the recording's alone."""
        self.own += 1
        try:
            with torch.no_grad():
                yield
        except Exception as err:
            guest.pass_on(err)
            self.trouble(err)
        finally:
            self.own -= 1

    def trouble(self, err):
        at = err.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        where = "" if at is None else " (%s, line %d)" % (os.path.basename(at.tb_frame.f_code.co_filename), at.tb_lineno)
        if not self.why:
            self.why = "the recorder failed: %s: %s%s" % (type(err).__name__, str(err)[:300], where)
            wire.trouble("steps: " + self.why)
        self.recording = False

    # -- where tensors come from --------------------------------------------------------------------------------------

    def known(self, tensor, make=False):
        """(_Storage or None, geometry) of a tensor."""
        if tensor.layout != torch.strided or type(tensor) not in _PLAIN:
            return None, None
        storage = tensor.untyped_storage()
        held = self.storages.get(storage._cdata)
        if held is not None and held.alive.expired():
            held = None
        if held is None and make:
            held = self.storages[storage._cdata] = _Storage(storage)
        return held, (tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.is_neg(), tensor.is_conj())

    def told(self, tensor):
        """T of a tensor as it is now."""
        held, geometry = self.known(tensor, make=True)
        if held is None:
            return self.made(tensor)
        view = held.views.setdefault(geometry, [held.last, None])
        if view[1] is None:
            view[1] = self.made(tensor)
        return view[1]

    def made(self, tensor, before=None):
        """T of a tensor, where it lies elsewhere filled in by write; before where that is T of the same bytes."""
        return tensors.told(torch, tensor, before) if tensor.device.type == "cpu" else self.later.told(tensor)

    def source(self, tensor):
        """Where a tensor comes from, as lines have it."""
        held, geometry = self.known(tensor)
        origin = None
        if held is not None:
            view = held.views.get(geometry)
            origin = view[0] if view is not None else held.last
        if origin is None and tensor.device.type != "meta":
            return ["other", self.told(tensor)]
        return origin or _UNREAD

    def wrote(self, tensor, origin, t=None):
        """A tensor has been written: of its storage nothing else is known any more."""
        held, geometry = self.known(tensor, make=True)
        if held is not None:
            held.last, held.writes = origin, held.writes + 1
            held.views = {geometry: [origin, t]}

    # -- operators ----------------------------------------------------------------------------------------------------

    def draw(self, func, args, kwargs):
        self.own += 1
        try:
            return draws.drawn(torch, func, args, kwargs)
        finally:
            self.own -= 1

    def operator_begins(self, func, args, kwargs):
        """The sources of an operator's tensors; None where it is not recorded."""
        if not self.recording or self.loading or threading.get_ident() != self.thread and self.phase != "backward":
            return None
        if func._schema.name in _SILENT:
            return None
        found = None
        with self.at_work():
            found = [self.source(t) for t in _tensors((args, kwargs))]
        return found

    def operator_ends(self, func, args, kwargs, out, sources):
        with self.at_work():
            self._operator(func, args, kwargs, out, sources)

    def _operator(self, func, args, kwargs, out, sources):
        schema = func._schema
        name = schema.name
        outs = [t for t in _tensors(out) if t.device.type != "meta"]
        if name.startswith(_EMPTY):
            for t in outs:
                self.wrote(t, _UNREAD)
            return
        given = dict(zip((a.name for a in schema.arguments), args))
        given.update(kwargs)
        written = [t for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write for t in _tensors(given.get(a.name))]
        if name in _HIDDEN and given.get("training", given.get("train")):
            hidden = [given[a] for a in ("running_mean", "running_var") if given.get(a) is not None]
        else:
            hidden = []
        looks = not written and any(r.alias_info is not None for r in schema.returns) or name == "aten::_unsafe_view"
        if name == "aten::_to_copy" and len(outs) == 1 and isinstance(args[0], torch.Tensor) and args[0].dtype == outs[0].dtype:
            held, geometry = self.known(args[0])
            view = held.views.get(geometry) if held is not None else None
            self.wrote(outs[0], None if sources[0] == _UNREAD or sources[0][0] == "other" else sources[0], view[1] if view else None)
            return
        if written:
            for t in written:
                self.wrote(t, None)
            seen = {id(t) for t in written}
            outs = written + [t for t in outs if id(t) not in seen]
        else:
            # The workspaces of recurrent layers and reserves of batch norms: bytes that nobody set, of which backward knows which to read.
            scratch = [t for t in outs[1:] if t.dtype == torch.uint8 and not looks]
            for t in scratch:
                self.wrote(t, _UNREAD)
            outs = [t for t in outs if not any(t is s for s in scratch)]
            for t in outs:
                if not looks:
                    self.wrote(t, None)
        for t in hidden:
            self.wrote(t, None)
        outs = outs + hidden
        if not outs:
            return
        row = {"op": name, "phase": self._phase()}
        row["module"], row["call"] = self._module()
        if torch.Tag.nondeterministic_seeded in func.tags and (given.get("dropout_p", given.get("dropout")) or "dropout" not in str(schema)):
            row["random"] = True
            if outs[0].device.type != "cpu" and name.startswith(draws.WITHIN):
                self.random = "device"
        made = [self.told(t) for t in outs]
        i = self.line("op", **row, **{"in": sources, "out": made})
        for k, t in enumerate(outs):
            origin = ["op", i, k]
            if looks:
                held, geometry = self.known(t, make=True)
                if held is not None:
                    held.views[geometry] = [origin, made[k]]
            else:
                self.wrote(t, origin, made[k])

    def _phase(self):
        return "forward" if self.phase == "other" and self.forwarding else self.phase

    def _module(self):
        """The module that an operator belongs to: that of the forward under way, in backward that whose forward made the node."""
        if self.stack:
            found = self.stack[-1]
            if self.phase == "other":
                self.made_by.setdefault(torch._C._autograd._get_sequence_nr() - 1, found)  # one that makes no node is not the last one's
            return found
        if self.phase == "backward":
            node = torch._C._current_autograd_node()
            if node is not None:
                return self.made_by.get(node._sequence_nr(), ("", 0))
        return "", 0

    # -- steps --------------------------------------------------------------------------------------------------------

    def tick(self, anew=False):
        """Called where a step may have begun. The timeline has counted the one before, but in a loop without a loader: there it tells of a step
        in the update of the next one, and what begins is the first call behind an update (anew)."""
        if not self.recording:
            return
        n = T.number + 1
        if self.n and not self.fetched and anew and self.updated:
            n = self.n + 1
        if n <= self.n:
            return
        if self.n:
            self.step_over()
        if len(self.seconds) < self.asked["steps"]:
            self.step_begins(n)
        else:
            self.recording = False  # it is whole, and the timeline ends the run, if it was asked to

    def step_begins(self, n):
        self.n, self.began, self.forwarding, self.updated = n, time.perf_counter(), False, False
        self.made_by.clear()
        self.line("step", batch=self.batch)
        for key, held in list(self.storages.items()):
            if held.alive.expired():
                del self.storages[key]

    def step_over(self):
        self.seconds.append(round(time.perf_counter() - self.began, 6))
        self.weights()

    def begin(self):
        if not self.recording and self.on and not self.why and len(self.seconds) < self.asked["steps"]:
            if self.lines is None:
                self.open()
            self.recording = True
            self.tick()

    def weights(self, roots=None):
        later = []
        for prefix, module in self.roots if roots is None else roots:
            for name, t in _weights(module):
                held, geometry = self.known(t, make=True)
                before = held.views.get(geometry) if held is not None else None
                known = before[1] if before is not None else None
                made = self.made(t, known)  # hashed anew: what was written past PyTorch, as by NumPy, is seen here at the latest
                if "hash" not in made:
                    later.append((t, before, known, made))
                elif made is not known:
                    self.wrote(t, before[0] if before is not None and before[1] is None else None, made)
                self.line("weight", what=prefix + name, t=made)
        if later:
            self.write()
        for t, before, known, made in later:
            if known is None or known["hash"] != made["hash"]:
                self.wrote(t, before[0] if before is not None and known is None else None, made)

    # -- modules ------------------------------------------------------------------------------------------------------

    def module_begins(self, module, args, kwargs):
        """What module_ends is given; None where the call is not recorded."""
        if threading.get_ident() != self.thread and self.phase != "backward":
            return None
        if self.phase == "backward" and not self.stack and id(module) not in self.names:
            return None
        if not self.stack:
            self.outermost(module, args, kwargs)
        name = self.names.get(id(module))
        if name is None:  # made since the first call, or no part of the model: a loss within a module
            name = (self.stack[-1][0] + "." if self.stack and self.stack[-1][0] else "") + type(module).__qualname__
            self.name(module, name)
        key = name, self.n
        call = self.calls[key] = self.calls.get(key, 0) + 1
        self.stack.append((name, call))
        if not self.recording or self.phase == "backward":
            return (name, call, None, None)
        found = list(_tensors((args, kwargs)))
        with self.at_work():
            return name, call, [self.told(t) for t in found], [self.source(t) for t in found]
        return name, call, None, None

    def module_ends(self, module, begun, out):
        self.stack.pop()
        name, call, given, sources = begun
        if given is None or not self.recording:
            return
        with self.at_work():
            outs = [t for t in _tensors(out)]
            self.line("module", module=name, **{"class": type(module).__qualname__}, call=call, phase="forward", **{"in": given},
                      out=[self.told(t) for t in outs], in_from=sources, settings=_settings(module))
            for t in outs:
                if t.requires_grad and torch.is_tensor(t):
                    t.register_hook(self.gradient_of(module, name, call, len(outs)))

    def gradient_of(self, module, name, call, outs):
        step, kind = self.n, type(module).__qualname__

        def arrived(gradient):
            if self.on and self.recording and not self.own and self.n == step and isinstance(gradient, torch.Tensor):
                with self.at_work():
                    self.line("module", module=name, **{"class": kind}, call=call, phase="backward", **{"in": []}, out=[self.told(gradient)],
                              in_from=[])

        return arrived

    def name(self, module, name):
        self.names[id(module)] = name
        self.kept.append(module)

    def outermost(self, module, args, kwargs):
        """A call that no other module makes: of a model that is not known yet its weights are kept, or replaced."""
        grad = torch.is_grad_enabled()
        new = id(module) not in self.names
        if new and not any(True for _ in _weights(module)):
            self.name(module, type(module).__qualname__)  # most often a loss, which a script may make anew in each step
        elif new and not any(torch.nn.parameter.is_lazy(p) for p in module.parameters()):
            prefix = "%d/" % len(self.roots) if self.roots else ""
            for name, child in module.named_modules():
                if id(child) not in self.names:
                    self.name(child, (prefix + name).rstrip("/"))
            self.roots.append((prefix, module))
            refused = ""
            with self.at_work():
                refused = self.starts(prefix, module)
            if refused:
                self.why = refused
                T.stop(refused)
        if grad and any(root is module for _, root in self.roots) and self.phase != "backward":
            with self.at_work():
                self.begin()
                self.tick(anew=True)
                if self.recording and not self.fetched:
                    self.inputs(args, kwargs)
            self.forwarding = True

    def starts(self, prefix, module):
        """Keep a model's weights as they are, or first make them those of the recording that was given. Why not, where they do not fit."""
        if self.start is None:
            self.open()
        elsewhere = missing = 0
        n, self.n = self.n, 0
        for name, t in _weights(module):
            what = "weight/" + prefix + name
            if self.given is not None:
                theirs = self.given.tensor(torch, what)
                elsewhere += t.numel()
                if theirs is None or theirs.shape != t.shape:
                    missing += t.numel()
                    self.unfit.append(prefix + name)
                else:
                    if self.moves == "weight/":
                        theirs = start.moved(torch, theirs, len(self.unfit) + 1)
                    t.data.copy_(theirs)
            self.start.add(torch, what, t)
            self.wrote(t, ["weight", prefix + name])
        self.weights([(prefix, module)])
        if self.device == "":
            self.device = str(next((t.device for _, t in _weights(module)), "cpu"))
            self.policy = _policy(self.device)
        self.n = n
        if elsewhere and missing > UNFIT * elsewhere:
            return "its weights are not those of the recording that it was given: %d of %d elements of %s have no tensor of their name and " \
                   "shape there" % (missing, elsewhere, type(module).__qualname__)
        return ""

    # -- batches ------------------------------------------------------------------------------------------------------

    def batch_of(self, data):
        """What a loader hands out in a training: kept, or replaced by what the recording has. The data, in the structure that it had."""
        given, trains = data, torch.is_grad_enabled() and threading.get_ident() == self.thread
        with self.at_work():
            if trains:
                self.fetched += 1
                rows = next((t.shape[0] for t in _tensors(data) if t.dim()), None)
                self.batch = rows if self.batch is None else self.batch
                self.begin()
                self.tick()
                count = [0]

                def each(t):
                    theirs = self.other("batch/%d/%d" % (self.fetched, count[0]), t)
                    if theirs is not None:
                        t = theirs.pin_memory() if t.is_pinned() else theirs.to(t.device)
                    self.start.add(torch, "batch/%d/%d" % (self.fetched, count[0]), t)
                    self.wrote(t, ["batch", self.fetched, count[0]])
                    count[0] += 1
                    return t

                if self.recording:
                    given = _mapped(data, each)
        return given

    def inputs(self, args, kwargs):
        """Without a loader: what the outermost module is given and nothing computed."""
        self.fed += 1
        for k, t in enumerate(_tensors((args, kwargs))):
            held, geometry = self.known(t, make=True)
            if held is None or not t.is_leaf or held.last is not None or geometry in held.views and held.views[geometry][0] is not None:
                continue
            theirs = self.other("batch/%d/%d" % (self.fed, k), t)
            if theirs is not None:
                t.data.copy_(theirs)
                held.views = {g: v for g, v in held.views.items() if v[0] is not None}
            if self.batch is None and t.dim():
                self.batch = t.shape[0]
            self.start.add(torch, "batch/%d/%d" % (self.fed, k), t)
            held.views[geometry] = [["batch", self.fed, k], None]  # of a part of all the data, perhaps: the rest is unknown still

    def other(self, name, t):
        """The other side's tensor of that name, of t's type, where it has t's shape."""
        if self.given is None:
            return None
        theirs = self.given.tensor(torch, name)
        if theirs is None or theirs.shape != t.shape or theirs.is_floating_point() != t.is_floating_point():
            self.left += 1
            return None
        self.replaced += 1
        if self.moves == "batch/":
            theirs = start.moved(torch, theirs, self.replaced)
        return theirs.to(t.dtype)

    # -- backward and update ------------------------------------------------------------------------------------------

    def backward_begins(self, of):
        with self.at_work():
            self.tick()
            loss = next(iter(_tensors(of)), None)
            if self.recording and loss is not None and loss.numel() == 1 and loss.device.type != "meta":
                self.line("loss", value=tensors.number(loss.detach().float().cpu().item()))

    def backward_ends(self):
        with self.at_work():
            if not self.recording:
                return
            for prefix, module in self.roots:
                for name, p in module.named_parameters():
                    if p.grad is None:
                        continue
                    held, _ = self.known(p.grad, make=True)
                    state = held, held.writes if held else self.i
                    before = self.gradients.get(prefix + name)
                    if before is None or before[0] is not held or before[1] != state[1]:
                        self.gradients[prefix + name] = state
                        self.line("grad", what=prefix + name, t=self.told(p.grad))

    # -- the end ------------------------------------------------------------------------------------------------------

    def finish(self):
        """Write the recording whole, as far as it came; the supervisor renames nothing."""
        if not self.on or self.lines is None:
            self.on = False
            return
        with self.at_work():
            if self.recording and T.number >= self.n:
                self.step_over()
        self.recording = False
        if watched.compiling:
            self.why = "the script compiles its model (torch.compile), and what a compiled one computes is not seen by operator"
        steps, failed = len(self.seconds), bool(self.why)
        if not self.why and steps < self.asked["steps"]:
            self.why = "it ended after %d of %d steps" % (steps, self.asked["steps"])
        with self.at_work():
            self.line("end", steps=steps, seconds=self.seconds)
            self.write()
        self.on = False
        self.lines.close()
        head = {
            "steps": 2, "torch": str(torch.__version__), "python": platform.python_version(), "device": self.device,
            "device_name": _device_name(self.device), "system": "%s/%s" % (platform.system(), platform.machine()), "double": self.double,
            "seed": int(self.asked.get("seed") or 0), "started_from": self.given.sum if self.given else "", "start": self.start.close(),
            "moved": int(bool(self.asked.get("moved"))), "random": self.random, "batch": self.batch, "policy": self.policy or {},
            "complete": not self.why, "recorded": steps, "failed": failed, "why": self.why,
        }
        if self.given is not None:
            head.update(unfit=self.unfit, batches={"replaced": self.replaced, "kept": self.left})
        if self.moves:
            head["moved_what"] = "inputs" if self.moves == "batch/" else "weights"
        path, lines = os.path.join(self.part, "steps.jsonl"), os.path.join(self.part, "lines")
        with open(path, "wb") as f, open(lines, "rb") as said:
            f.write(json.dumps(head).encode() + b"\n")
            for part in iter(lambda: said.read(1 << 20), b""):
                f.write(part)
            f.flush()
            os.fsync(f.fileno())
        os.remove(lines)
        os.rename(self.part, self.out)


def _tensors(thing, depth=0):
    """The tensors of a structure in order of a walk through it."""
    if isinstance(thing, torch.Tensor):
        yield thing
    elif depth > 8:
        return
    elif isinstance(thing, dict) or hasattr(type(thing), "items") and hasattr(type(thing), "keys"):  # BatchEncoding, ModelOutput
        for value in list(thing.values()):
            yield from _tensors(value, depth + 1)
    elif isinstance(thing, (tuple, list)):
        for value in thing:
            yield from _tensors(value, depth + 1)
    elif hasattr(type(thing), "__dataclass_fields__"):
        for value in vars(thing).values():
            yield from _tensors(value, depth + 1)


def _mapped(thing, change, depth=0):
    """The structure with each tensor changed, in the order of _tensors; the very thing where it holds none that was changed."""
    if isinstance(thing, torch.Tensor):
        return change(thing)
    if depth > 8:
        return thing
    if isinstance(thing, dict) or hasattr(type(thing), "items") and hasattr(type(thing), "keys"):
        for key, value in list(thing.items()):
            new = _mapped(value, change, depth + 1)
            if new is not value:
                thing[key] = new
        return thing
    if isinstance(thing, list):
        thing[:] = [_mapped(value, change, depth + 1) for value in thing]
        return thing
    if isinstance(thing, tuple):
        new = [_mapped(value, change, depth + 1) for value in thing]
        if all(a is b for a, b in zip(new, thing)):
            return thing
        return type(thing)(*new) if hasattr(thing, "_fields") else tuple(new)
    if hasattr(type(thing), "__dataclass_fields__"):
        for key, value in list(vars(thing).items()):
            new = _mapped(value, change, depth + 1)
            if new is not value:
                setattr(thing, key, new)
    return thing


def _weights(module):
    """(name, tensor) of parameters and buffers, each tensor once."""
    seen = set()
    for name, t in list(module.named_parameters()) + list(module.named_buffers()):
        if id(t) not in seen and not torch.nn.parameter.is_lazy(t):
            seen.add(id(t))
            yield name, t


def _settings(module):
    """Plain attributes of a module: numbers, words and tuples of numbers."""
    found = {}
    for name, value in module.__dict__.items():
        if name.startswith("_") or name.startswith("call_super"):
            continue
        plain = value if isinstance(value, (bool, int, float, str)) or value is None else None
        if isinstance(value, (tuple, list)) and len(value) <= 8 and all(isinstance(v, (bool, int, float)) for v in value):
            plain = list(value)
        if plain is not None:
            plain = plain if not isinstance(plain, float) else tensors.number(plain)
            found[name] = plain[:80] if isinstance(plain, str) else plain
    return found


def _tf32(new, old):
    """Whether TF32 is on, by the switch that PyTorch has since 2.9, or by the older one: that one raises where a script set the new one."""
    precision = getattr(new, "fp32_precision", None)
    return bool(old.allow_tf32) if precision is None else precision == "tf32"


def _policy(device):
    kind = device.partition(":")[0]
    autocast = None
    if torch.is_autocast_enabled() or kind == "cpu" and torch.is_autocast_cpu_enabled():
        autocast = str(torch.get_autocast_cpu_dtype() if kind == "cpu" else torch.get_autocast_gpu_dtype()).replace("torch.", "")
    return {
        "matmul_tf32": _tf32(torch.backends.cuda.matmul, torch.backends.cuda.matmul),
        "cudnn_tf32": _tf32(getattr(torch.backends.cudnn, "conv", None), torch.backends.cudnn),
        "rnn_tf32": _tf32(getattr(torch.backends.cudnn, "rnn", None), torch.backends.cudnn),
        "cudnn_benchmark": bool(torch.backends.cudnn.benchmark), "deterministic": bool(torch.are_deterministic_algorithms_enabled()),
        "default_dtype": str(torch.get_default_dtype()).replace("torch.", ""), "autocast": autocast,
        "mps_fast_math": os.environ.get("PYTORCH_MPS_FAST_MATH") == "1" if kind == "mps" else None,
    }


def _device_name(device):
    try:
        if device.startswith("cuda"):
            return torch.cuda.get_device_name(device)
    except Exception as err:
        guest.pass_on(err)
    return platform.processor() or platform.machine()


RECORDER = None


def install(framework, asked):
    global RECORDER
    if int(os.environ.get("RANK") or 0) or int(os.environ.get("WORLD_SIZE") or 1) > 1:
        wire.trouble("steps are recorded of one process, and this run has %s" % os.environ.get("WORLD_SIZE"))
        return
    r = RECORDER = Recorder(asked)
    seed = int(asked.get("seed") or 0)
    torch.default_generator.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    process.finisher(r.finish)
    process.after_fork(_forked)
    _calls()
    _backwards()
    _updates()
    _loaders()
    draws.attention(torch, _here)
    _Mode().__enter__()


def _forked():
    RECORDER.on = RECORDER.recording = False


def _here():
    return RECORDER.on and not RECORDER.own


def _calls():
    cls = torch.nn.Module
    original = cls._call_impl

    def _call_impl(self, *args, **kwargs):
        if not _here():
            return original(self, *args, **kwargs)
        try:
            begun = RECORDER.module_begins(self, args, kwargs)
            depth = len(RECORDER.stack)
            try:
                out = original(self, *args, **kwargs)
            except BaseException:
                if begun is not None:
                    del RECORDER.stack[depth - 1 :]
                raise
            if begun is not None:
                RECORDER.module_ends(self, begun, out)
            return out
        except BaseException:
            guest.hide()
            raise

    for name in ("_call_impl", "__call__"):
        if cls.__dict__.get(name) is original:
            setattr(cls, name, _call_impl)


def _backwards():
    for name in ("backward", "grad"):
        setattr(torch.autograd, name, _backward(getattr(torch.autograd, name)))


def _backward(original):
    import functools

    @functools.wraps(original)
    def backward(*args, **kwargs):
        try:
            if not _here() or RECORDER.phase == "backward":
                return original(*args, **kwargs)
            RECORDER.backward_begins(args[:1] or kwargs.get("tensors") or kwargs.get("outputs"))
            before, RECORDER.phase = RECORDER.phase, "backward"
            stack, RECORDER.stack = RECORDER.stack, []
            try:
                out = original(*args, **kwargs)
            finally:
                RECORDER.phase, RECORDER.stack = before, stack
            RECORDER.backward_ends()
            return out
        except BaseException:
            guest.hide()
            raise

    return backward


def _updates():
    from torch.optim import optimizer as module

    def begin(optimizer, args, kwargs):
        if _here():
            RECORDER.phase = "update"

    def end(optimizer, args, kwargs):
        if _here():
            RECORDER.phase, RECORDER.forwarding, RECORDER.updated = "other", False, True

    module.register_optimizer_step_pre_hook(begin)
    module.register_optimizer_step_post_hook(end)


def _loaders():
    from torch.utils.data import dataloader as module

    for cls in (module._SingleProcessDataLoaderIter, module._MultiProcessingDataLoaderIter):
        cls._next_data = _next(cls._next_data)


def _next(original):
    def _next_data(self):
        try:
            if not _here():
                return original(self)
            loading, RECORDER.loading = RECORDER.loading, True
            try:
                data = original(self)
            finally:
                RECORDER.loading = loading
            return data if loading else RECORDER.batch_of(data)
        except BaseException:
            guest.hide()
            raise

    return _next_data


