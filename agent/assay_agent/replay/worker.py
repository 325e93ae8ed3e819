"""Replays signatures, one call after the other, and tells what became of each. The Python side of `assay signatures replay`.

    python worker.py < REQUESTS

The first line of the requests says on what (internal/replay/process.go makes it), each further one is {"n": NUMBER, "signature": …}
(docs/formats/signatures.md). The answers are lines of JSON on file descriptor 3: {"hello": …}, another with the device's proof, then for each
call where it has come to, {"n": NUMBER, "at": STAGE}, and what became of it, {"n": NUMBER, "outcome": …} (docs/formats/replay.md).
A call may end this process or hang: whoever reads the answers knows by the stage what did.

Values are drawn on the CPU and copied, so that the CPU and the device have the same. What the CPU refuses says nothing of the device.
"""

import importlib.util
import json
import math
import os
import sys
import time
import warnings

VERSION = 1
NAMESPACES = ("aten", "torchvision")
TEXT = 500  # characters of an error's first line
# Bytes that the storages of a call, and those of its results, may have.
SHARE, LEAST, MOST = 8, 256 << 20, 4 << 30  # a part of the machine's memory, between these
ALONE, CHAIN = 3, 20  # calls that are timed one by one, and in a chain with one synchronisation
TIMED = 0.2  # seconds that timing may take, about
# How far a device's sum may be from the exact one, in units of how far the CPU's is: the order of adding is the device's own.
ROUNDING = 16.0

stage = ["start"]  # where the call that is under way has come to


def answer(out, value):
    out.write(json.dumps(value, separators=(",", ":")) + "\n")
    out.flush()


def first_line(error):
    lines = [line for line in str(error).strip().split("\n") if line.strip()]
    return (lines[0] if lines else "")[:TEXT]


class Replayer:
    def __init__(self, torch, request, out):
        from assay_agent.replay import compare, known, values
        self.torch, self.out = torch, out
        self.compare, self.known, self.values = compare, known, values
        self.device, self.rehearsal = request["device"], request["double"] is not None
        self.home, self.seed = request["home"], request["seed"]
        self.timed = request["timed"] and not self.rehearsal
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.bound = request["memory"] or min(max(memory // SHARE, LEAST), MOST)

    def at(self, n, name):
        stage[0] = name
        answer(self.out, {"n": n, "at": name})

    # The operator

    def operator(self, signature):
        """The operator of a signature, and nothing else that such a name could lead to."""
        torch, Unreplayable = self.torch, self.values.Unreplayable
        space, colons, name = str(signature.get("op")).partition("::")
        overload = str(signature.get("overload") or "default")
        if space not in NAMESPACES or not colons:
            raise Unreplayable("operators of %s are not replayed: those of %s are" % (space[:40], " and ".join(NAMESPACES)))
        if not name.isidentifier() or not overload.isidentifier():
            raise Unreplayable("%.80s is no operator's name" % signature.get("op"))
        if space == "torchvision" and "torchvision" not in sys.modules:
            try:
                importlib.import_module("torchvision")
            except Exception as error:
                raise Unreplayable("torchvision cannot be imported here: %s" % first_line(error)) from None
        try:
            packet = getattr(getattr(torch.ops, space), name)
            op = getattr(packet, overload) if isinstance(packet, torch._ops.OpOverloadPacket) else None
        except (AttributeError, RuntimeError):
            op = None
        if not isinstance(op, torch._ops.OpOverload) or op._schema.name != "%s::%s" % (space, name):
            raise Unreplayable("this torch has no operator of this name and overload")
        why = self.known.refuses(op)
        if why:
            raise Unreplayable("not called: %s" % why)
        return op

    def fits(self, op, a):
        """Hold what the call will take against the bound, before anything is allocated."""
        torch, Unreplayable = self.torch, self.values.Unreplayable

        def too_much(n, what):
            raise Unreplayable("%s would take %d MiB, and %d MiB are the bound" % (what, n >> 20, self.bound >> 20))

        if a.bytes() > self.bound:
            too_much(a.bytes(), "its tensors")
        sizes = sorted((math.prod(t.shape) for t in a.tensors), reverse=True)
        numbers = []

        def walk(value):
            if isinstance(value, list):
                ints = [v for v in value if type(v) is int]
                numbers.append(self.known.product(ints))
                for v in value:
                    if isinstance(v, list):
                        walk(v)
            elif type(value) in (int, float) and not isinstance(value, bool) and math.isfinite(value):
                numbers.append(max(1, abs(int(value))))

        for value in a.args + list(a.kwargs.values()):
            walk(value)
        # All that two operands, or an operand and a number, can come to: most calls end here.
        if self.known.product(sizes[:2]) * max(numbers or [1]) * 16 <= self.bound and self.known.product(numbers) * 16 <= self.bound:
            return
        metas = [torch.empty_strided(t.shape, t.stride, dtype=t.dtype, device="meta") for t in a.tensors]
        args, kwargs = self.filled(op, a, metas, "meta")
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = op(*args, **{k: torch.device("meta") if isinstance(v, torch.device) else v for k, v in kwargs.items()})
        except Exception as error:
            if self.known.product(numbers) * max(sizes[:1] or [1]) * 8 > self.bound:
                raise Unreplayable("what it would take cannot be told beforehand, and may be beyond the bound: %s" % first_line(error)) from None
            return  # a number of its operands is what blows it up at most: the process's own limit stands behind
        total = sum(t.untyped_storage().nbytes() for t in self.tensors(made))
        if total > self.bound:
            too_much(total, "its result")

    def tensors(self, value):
        if isinstance(value, self.torch.Tensor):
            return [value]
        if isinstance(value, (list, tuple)):
            return [t for v in value for t in self.tensors(v)]
        return []

    # One signature

    def replay(self, n, signature):
        torch = self.torch
        done = {"n": n, "outcome": "not_replayed", "text": "", "type": "", "cpu": "", "difference": None, "alone_us": None,
                "chain_us": None, "fallback": False}
        self.at(n, "draw")
        try:
            if not isinstance(signature, dict):
                raise self.values.Unreplayable("it is no signature")
            op = self.operator(signature)
            a = self.values.Arguments(signature, self.home)
            self.fits(op, a)
            storages = a.draw(self.seed * 1_000_003 + n)
            name = self.known.base(op._schema.name)
            make = self.known.MAKE.get(name)
            if make is not None:
                args, kwargs = self.filled(op, a, a.views(storages), "cpu")
                make(self.known.Call(op, args, kwargs))
            self.at(n, "cpu")
            want, wrote = self.on_cpu(op, a, storages)
        except self.values.Unreplayable as error:
            done["text"] = str(error)
            return done
        except Exception as error:
            done["text"] = "the CPU refuses the values that were drawn: " + first_line(error)
            done["type"], done["cpu"] = type(error).__name__, "refused: " + first_line(error)
            return done
        done["cpu"] = "ok"
        self.at(n, "device")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                torch.manual_seed(self.seed)
                bases, views = self.put(a, storages)
                args, kwargs = self.filled(op, a, views, self.device)
                with torch.no_grad():
                    made = op(*args, **kwargs)
                self.wait()
                got = self.home_again(made)
                got_wrote = [t.to("cpu") for t in self.written(op, a, args, kwargs)]
            except Exception as error:
                done["type"], done["text"] = type(error).__name__, first_line(error)
                done["outcome"] = "missing" if self.missing(error) else "refused"
                if "out of memory" in done["text"]:  # of this machine
                    done["outcome"] = "not_replayed"
                if not self.well():
                    done["sick"] = True
                return done
        done["fallback"] = any("fall back to run on the CPU" in str(w.message) for w in caught)
        self.at(n, "compare")
        off, said = self.compared(op, name, a, storages, want, wrote, got, got_wrote)
        if off is not None:
            done["outcome"], done["text"] = "wrong", off.pop("text", "")
            done["difference"] = off
        else:
            done["outcome"], done["text"] = "ok", said
        if self.timed:
            self.at(n, "time")
            try:
                done["alone_us"], done["chain_us"] = self.times(op, args, kwargs)
            except Exception:  # a call that changes its own arguments may refuse them the second time
                pass
        del args, kwargs, views, bases
        return done

    def on_cpu(self, op, a, storages):
        """What the CPU makes of it, and what it wrote into its arguments."""
        with self.torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.torch.manual_seed(self.seed)  # the same values of operators that draw, whatever was replayed before
            copies = [s.clone() for s in storages]
            args, kwargs = self.filled(op, a, a.views(copies), "cpu")
            made = op(*args, **kwargs)
            return self.home_again(made), [t.clone() for t in self.written(op, a, args, kwargs)]

    def widened(self, op, a, storages, to):
        """The same call computed in a wider type on the CPU; None where that cannot be."""
        torch = self.torch
        wide = {torch.float16: to, torch.bfloat16: to, torch.float32: to if to is torch.float64 else None,
                torch.complex64: torch.complex128 if to is torch.float64 else None, torch.complex32: torch.complex64}

        def widen(value):
            if isinstance(value, torch.Tensor):
                target = wide.get(value.dtype)
                return value.to(target) if target is not None else value
            if isinstance(value, list):
                return [widen(v) for v in value]
            return wide.get(value) or value if isinstance(value, torch.dtype) else value

        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                args, kwargs = self.filled(op, a, a.views([s.clone() for s in storages]), "cpu")
                args, kwargs = widen(args), {k: widen(v) for k, v in kwargs.items()}
                made = op(*args, **kwargs)
                return self.home_again(made), [t.clone() for t in self.written(op, a, args, kwargs)]
        except Exception:
            return None

    def filled(self, op, a, views, device):
        """args and kwargs of the call on a device. What makes a tensor of nothing is told where, though it was not when it was
        recorded."""
        args, kwargs = a.filled(views, device)
        names = [x.name for x in op._schema.arguments]
        if "device" in names and not a.tensors and len(args) <= names.index("device") and kwargs.get("device") is None:
            kwargs["device"] = self.torch.device(device)
        return args, kwargs

    def put(self, a, storages):
        """The storages on the device, and the call's views of them."""
        bases = [s.clone() if a.on_cpu(a.tensors[group[0]]) else s.to(self.device, copy=True) for group, s in zip(a.groups, storages)]
        return bases, a.views(bases)

    def written(self, op, a, args, kwargs):
        """The arguments that the operator's schema says are written to."""
        found = []
        for i, described in enumerate(op._schema.arguments):
            if described.alias_info is not None and described.alias_info.is_write:
                value = args[i] if i < len(args) else kwargs.get(described.name)
                found += self.tensors(value)
        return found

    def home_again(self, made):
        """Results on the CPU: tensors, and numbers as such."""
        if isinstance(made, self.torch.Tensor):
            return made.detach().to("cpu") if made.device.type != "cpu" or self.rehearsal else made.detach().clone()
        if isinstance(made, (list, tuple)):
            return [self.home_again(m) for m in made]
        return made

    def wait(self):
        if self.rehearsal or self.device == "cpu":
            return
        getattr(self.torch, self.device).synchronize()

    def missing(self, error):
        said = str(error)
        return isinstance(error, NotImplementedError) and ("is not currently implemented for the" in said or "Could not run '" in said)

    def well(self):
        """Whether the device still computes: some errors leave it unable to."""
        try:
            return self.torch.ones(4, device=self.device).add(1).sum().item() == 8
        except Exception:
            return False

    # Comparing

    def compared(self, op, name, a, storages, want, wrote, got, got_wrote):
        """(None, a word about how it was compared) or (what departs, ""): results, then what was written into arguments."""
        torch, compare, known = self.torch, self.compare, self.known
        if name in known.UNWRITTEN:
            off = self.form(want, got)
            return (off, "") if off else (None, "shape and type alone: nobody wrote its memory")
        if name in known.FORM_ALONE:
            off = self.form(want, got)
            return (off, "") if off else (None, "shape and type alone: " + known.FORM_ALONE[name])
        if torch.Tag.nondeterministic_seeded in op.tags:
            off = self.form(want, got)
            for x, y in zip(self.tensors(got) + got_wrote, self.tensors(want) + wrote):
                off = off or compare.loosely(x, y)
            return (off, "") if off else (None, "shape, type and range alone: it draws")
        off = self.form(want, got)
        if off:
            return off, ""
        unique = known.UNIQUE.get(name)
        pairs = list(zip(self.tensors(got) + got_wrote, self.tensors(want) + wrote))
        types = [x.dtype for x, _ in pairs]
        if unique is not None:
            got, want = unique(self.tensors(got)), unique(self.tensors(want))
            pairs, types = list(zip(got, want)), [types[0]] * len(got)
        ties = name in known.PLACES and self.tied(a, storages)
        said = "places by shape alone: values are there twice" if ties else ""
        exact = None
        for i, ((x, y), dtype) in enumerate(zip(pairs, types)):
            if ties and dtype is torch.int64:
                continue
            off = compare.departs(x, y, dtype)
            if off is None:
                continue
            half = dtype in compare.HALF
            if half or name in known.BASES and (dtype.is_floating_point or dtype.is_complex):
                if exact is None:
                    # of halves, what float32 gives; of sums, what float64 gives
                    exact = self.widened(op, a, storages, torch.float32 if half else torch.float64) or ()
                if exact:
                    wide = self.tensors(exact[0]) + exact[1]
                    if unique is not None:
                        wide = unique(wide)
                    if i < len(wide) and wide[i].shape == x.shape:
                        if half and compare.departs(x.to(wide[i].dtype), wide[i], dtype) is None:
                            said = "as float32 on the CPU, whose own %s is further off" % str(dtype).rpartition(".")[2]
                            continue
                        if name in known.BASES and compare.same_kind(x, wide[i]) and \
                                compare.error(x, wide[i]) <= ROUNDING * compare.error(y, wide[i]):
                            said = "as near to the exact sum as the CPU is, %g times allowed for" % ROUNDING
                            continue
            off["text"] = ("result %d: " % (i + 1) if len(pairs) > 1 else "") + off["text"]
            return off, ""
        a_numbers, b_numbers = self.numbers(got), self.numbers(want)
        if unique is None and not all(x == y or x != x and y != y or self.near(x, y) for x, y in zip(a_numbers, b_numbers)):
            return {"text": "%s where the CPU has %s" % (a_numbers[:3], b_numbers[:3])}, ""
        return None, said

    def near(self, x, y):
        return isinstance(x, float) and math.isclose(x, y, rel_tol=1.3e-6, abs_tol=1e-5)

    def numbers(self, value):
        if isinstance(value, (list, tuple)):
            return [x for v in value for x in self.numbers(v)]
        return [] if isinstance(value, self.torch.Tensor) else [value]

    def form(self, want, got):
        x, y = self.tensors(got), self.tensors(want)
        if len(x) != len(y):
            return {"text": "%d tensors, the CPU gives %d" % (len(x), len(y))}
        for i, (g, w) in enumerate(zip(x, y)):
            if g.dtype != w.dtype or g.shape != w.shape:
                return {"text": "result %d is %s %s, the CPU's %s %s" % (i + 1, str(g.dtype)[6:], list(g.shape), str(w.dtype)[6:], list(w.shape))}
        return None

    def tied(self, a, storages):
        first = a.views(storages)[0] if a.tensors else None
        return first is not None and first.numel() > 1 and first.flatten().unique().numel() < first.numel()

    # Time

    def times(self, op, args, kwargs):
        """Microseconds of a call that is waited for, the median of some, and of one in a chain that is waited for at its end."""
        clock, alone, spent = time.perf_counter, [], 0.0
        with self.torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while len(alone) < ALONE and spent < TIMED:
                began = clock()
                op(*args, **kwargs)
                self.wait()
                alone.append(clock() - began)
                spent += alone[-1]
            alone.sort()
            middle = alone[len(alone) // 2]
            n = max(2, min(CHAIN, int((TIMED - spent) / max(middle, 1e-9))))
            if spent + 2 * middle > TIMED:
                return round(middle * 1e6, 1), None
            began = clock()
            for _ in range(n):
                op(*args, **kwargs)
            self.wait()
            return round(middle * 1e6, 1), round((clock() - began) / n * 1e6, 1)

    # The proof

    def proof(self):
        """(ok, why): whether the device computes at all. Small calls of several kinds of kernels, each against the CPU: a device
        on which most of them fail is broken, whatever single operators do. A virtual GPU may multiply matrices, which Apple's
        library does, and compile no shader (actions/runner-images issue 14380)."""
        torch = self.torch
        x = torch.arange(1, 13, dtype=torch.float32).reshape(3, 4) / 8
        calls = [("matmul", lambda t: t @ t.t()), ("mul", lambda t: t * 2), ("exp", torch.exp), ("sum", lambda t: t.sum(0)),
                 ("relu", torch.relu), ("softmax", lambda t: torch.softmax(t, 1)), ("index", lambda t: t[[0, 2]]), ("where", lambda t: torch.where(t > 1, t, -t))]
        failed = []
        for name, call in calls:
            try:
                with torch.no_grad():
                    got = call(x.to(self.device)).to("cpu")
                if not torch.allclose(got, call(x), rtol=1e-3, atol=1e-3):
                    failed.append((name, "wrong numbers"))
            except Exception as error:
                failed.append((name, first_line(error)))
        if len(failed) * 2 <= len(calls):
            return True, "; ".join("%s: %s" % f for f in failed)
        texts = sorted({t for _, t in failed}, key=[t for _, t in failed].count, reverse=True)
        return False, "%d of %d plain operators fail (%s): %s" % (len(failed), len(calls), ", ".join(n for n, _ in failed), texts[0])


def _agent():
    """The package that this file lies in, from where it lies: it is not on sys.path."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[:] = [p for p in sys.path if p not in ("", os.path.join(here, "replay"))]
    spec = importlib.util.spec_from_file_location("assay_agent", os.path.join(here, "__init__.py"), submodule_search_locations=[here])
    module = importlib.util.module_from_spec(spec)
    sys.modules["assay_agent"] = module
    spec.loader.exec_module(module)
    from assay_agent import place, wire  # noqa: F401
    wire.silent = True


def bounded(bound):
    """Allocations beyond the bound fail, where the system holds processes to such limits; no core files."""
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/status") as f:
            data = next(int(line.split()[1]) << 10 for line in f if line.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, (data + 6 * bound, -1))  # the call's copies, its result, and room to work in
    except (OSError, StopIteration, ValueError):
        pass


def main():
    out = os.fdopen(3, "w", encoding="utf-8")
    request = json.loads(sys.stdin.readline())
    if request["version"] != VERSION:
        sys.exit("a request of version %s, and this is version %d" % (request["version"], VERSION))
    _agent()
    python = sys.version.split()[0]
    try:
        import torch
    except ImportError as error:
        answer(out, {"hello": {"torch": "", "python": python, "error": first_line(error)}})
        return
    # The other half is the user's; and more threads than free cores wait for one another.
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))
    torch.set_warn_always(True)  # a detour to the CPU warns once a process otherwise
    if request["device"] == "cuda":  # float32 is float32
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if request["double"] is not None:
        from assay_agent.double import install
        install.install(torch, request["double"])
    replayer = Replayer(torch, request, out)
    if replayer.device == "cpu" or replayer.rehearsal:
        bounded(replayer.bound)
    answer(out, {"hello": {"torch": torch.__version__, "python": python}})
    if request["prove"]:
        ok, why = replayer.proof()
        answer(out, {"hello": {"torch": torch.__version__, "python": python, "proof": "ok" if ok else "broken", "why": why}})
    for line in sys.stdin:
        asked = json.loads(line)
        answer(out, replayer.replay(asked["n"], asked["signature"]))


if __name__ == "__main__":
    main()
