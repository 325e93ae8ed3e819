"""Tries models: builds each, runs it forward and backward on a device, and says what happened. The Python side of `assay try`.

    python attempt.py < REQUEST

The request is a JSON object; each answer is a line of JSON on file descriptor 3. docs/formats/attempts.md describes both, and
internal/attempt is the other end. With several models each has a process of its own, forked when torch and the package have been
imported: a model that crashes, or takes all memory, ends itself alone.
"""

import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import time
import types

_SIZES = re.compile(r"^\d+(?:[x,]\d+)*,?$")
_KEY = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*$")
_FILE = re.compile(r"\.py:[A-Za-z_][\w.]*$")
TEXT = 4000  # characters of an error's text
LINE = 16 << 20  # bytes of an answer, at most


# The wire -----------------------------------------------------------------------------------------------------------------

VERSION = 2  # of requests and answers, docs/formats/attempts.md


def hello(torch, python):
    """The first answer: releases of torch, "" where it cannot be imported, and of Python."""
    return {"answer": "hello", "version": VERSION, "torch": torch, "python": python}


def refused(failure):
    """The answer where nothing can be tried."""
    return {"answer": "refused", "error": failure}


def offered(models):
    """The models that will be tried, in this order."""
    return {"answer": "offered", "models": models}


def untried(target, data):
    """An attempt of which nothing is known yet. data: whether tensors have values."""
    return {"answer": "attempt", "target": target, "phase": "", "model": "", "inputs": [], "parameters": 0, "data": data, "backward": False,
            "seconds": 0.0, "error": None, "refusal": None, "peak": 0, "stand_ins": 0, "ops": [], "fallbacks": [], "met": [],
            "notes": [], "fallback": None}


def done():
    """The last answer."""
    return {"answer": "done"}


def failure(kind, name, text, where="", via=""):
    """An error. kind is "" for what the model raised; name is the exception's; where is the user's line, via a library's or a tensor."""
    return {"kind": kind, "type": name, "text": text[:TEXT], "where": where, "via": via}


def refusal(op, cause):
    """The double's refusal behind an error."""
    return {"op": op, "cause": cause}


def op_row(op, n, state, cpu_ns, flops):
    """An operator's calls; flops is None where they are not counted."""
    return {"op": op, "n": n, "state": state, "cpu_ns": cpu_ns, "flops": flops}


def fallback_row(op, where, n, cpu_ns, nbytes):
    """Calls of an operator that ran on the CPU, from one line."""
    return {"op": op, "where": where, "n": n, "cpu_ns": cpu_ns, "bytes": nbytes}


def met_row(op, fact, sure, where, n):
    """A known fact about MPS that calls met; not sure where one call's arguments do not tell."""
    return {"op": op, "fact": fact, "sure": sure, "where": where, "n": n}


def note_row(op, kind, text, where, n):
    """A remark of the double's."""
    return {"op": op, "kind": kind, "text": text[:TEXT], "where": where, "n": n}


def line(answer):
    """An answer as it is sent."""
    return json.dumps(answer, separators=(",", ":")) + "\n"


class Refused(Exception):
    """What was asked for cannot be tried: the text says why, the kind what of it."""

    def __init__(self, kind, text):
        Exception.__init__(self, text)
        self.kind = kind


# What is tried ----------------------------------------------------------------------------------------------------------

def _import(name):
    """A module by its name, or a Python file by its path."""
    try:
        if not name.endswith(".py"):
            return importlib.import_module(name)
        if not os.path.isfile(name):
            raise Refused("target", "no such file: %s" % name)
        folder, stem = os.path.dirname(os.path.abspath(name)), os.path.splitext(os.path.basename(name))[0]
        if stem in sys.modules and getattr(sys.modules[stem], "__file__", None) == os.path.abspath(name):
            return sys.modules[stem]
        sys.path.insert(0, folder)
        spec = importlib.util.spec_from_file_location(stem, os.path.abspath(name))
        module = importlib.util.module_from_spec(spec)
        sys.modules[stem] = module
        spec.loader.exec_module(module)
        return module
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise Refused("target", "no module named %s for this interpreter" % error.name)
        raise


def _attribute(text, what):
    """What MODULE:ATTRIBUTE names."""
    name, colon, path = text.rpartition(":")
    if not colon or not name or not path:
        raise Refused("target", "%s: write MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE" % text)
    value = _import(name)
    for part in path.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            import difflib
            near = difflib.get_close_matches(part, dir(value), 3)
            raise Refused("target", "%s has no %s%s" % (name, path, "; near it: " + ", ".join(near) if near else ""))
    return value


def _offers(torch, package):
    """The models that a package offers: (name, function that builds it), in its own order."""
    module = _import(package)
    listed = getattr(module, "list_models", None)
    if callable(listed):
        if hasattr(module, "get_model"):  # torchvision.models
            return [(n, lambda n=n: module.get_model(n, weights=None, **_no_backbone(module, n))) for n in listed()]
        if hasattr(module, "create_model"):  # timm
            return [(n, lambda n=n: module.create_model(n)) for n in listed()]
    if module.__name__.startswith("torchvision.models."):  # its builders alone would download a backbone's weights
        models = importlib.import_module("torchvision.models")
        if hasattr(models, "list_models"):
            return [(n, lambda n=n: models.get_model(n, weights=None, **_no_backbone(models, n))) for n in models.list_models(module=module)]
    found, parts = [], _parts(torch, module)
    for name in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, name, None)
        if name.startswith("_") or getattr(value, "__name__", "").startswith("_"):
            continue
        if isinstance(value, torch.nn.Module):
            found.append((name, lambda value=value: value))
        elif inspect.isclass(value):
            if issubclass(value, torch.nn.Module) and _ours(module, value) and _without_arguments(value) and not _helper(torch, value, parts):
                found.append((name, value))
        elif inspect.isfunction(value) and _ours(module, value) and _without_arguments(value):
            # In a file of one's own every function counts; in a package, those that say that they return a module.
            if package.endswith(".py") or _says_module(torch, module, value):
                found.append((name, value))
    return found


def _no_backbone(module, name):
    """torchvision's detection and segmentation models would download a backbone's weights."""
    builder = module.get_model_builder(name) if hasattr(module, "get_model_builder") else None
    return {"weights_backbone": None} if builder is not None and "weights_backbone" in inspect.signature(builder).parameters else {}


def _ours(module, value):
    of = getattr(value, "__module__", "") or ""
    return of == module.__name__ or of.startswith(module.__name__ + ".")


def _helper(torch, value, parts):
    """Whether a class is no model by itself: it cannot be called, is a loss, or is a part of another one."""
    if inspect.isabstract(value) or getattr(value, "forward", None) in (None, torch.nn.Module.forward):
        return True
    return value in parts or issubclass(value, torch.nn.modules.loss._Loss)


def _parts(torch, module):
    """The classes of modules that methods of another class of modules there name: they are built into that one, which is tried."""
    kinds = [v for v in vars(module).values() if inspect.isclass(v) and issubclass(v, torch.nn.Module) and _ours(module, v)]
    parts = set()
    for kind in kinds:
        names, codes = set(), [f.__code__ for f in vars(kind).values() if inspect.isfunction(f)]
        while codes:
            code = codes.pop()
            names.update(code.co_names)
            codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        parts.update(v for v in kinds if v.__name__ in names and not issubclass(kind, v))
    return parts


def _without_arguments(value):
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def _says_module(torch, module, function):
    returns = function.__annotations__.get("return")
    if isinstance(returns, str):
        returns = getattr(sys.modules.get(function.__module__), returns, None)
    return inspect.isclass(returns) and issubclass(returns, torch.nn.Module)


def _built(torch, value, arguments):
    """A model of what was named: itself, or what calling it gives. A factory may give the model's inputs as well."""
    if isinstance(value, torch.nn.Module):
        if arguments:
            raise Refused("target", "--args: what was named is a module already, and is not called")
        return value, None
    if not callable(value):
        raise Refused("target", "it is a %s, and no module, class or function" % type(value).__name__)
    made = value(**arguments)
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module):
        return made
    if not isinstance(made, torch.nn.Module):
        raise Refused("target", "calling it gives a %s, and no torch.nn.Module" % type(made).__name__)
    return made, None


# Inputs -----------------------------------------------------------------------------------------------------------------

_TOKENS = ("ids", "tokens", "indices")
_LABELS = ("label", "labels", "target", "targets")


def parse_input(text):
    """NAME:SHAPE:DTYPE, name and type optional -> (name, shape, type name). The name may have dots: a key of a dict."""
    parts = text.split(":")
    name = dtype = ""
    if len(parts) > 1 and not _SIZES.match(parts[0]):
        name = parts.pop(0)
    if len(parts) == 2:
        dtype = parts.pop().replace("torch.", "")
    if len(parts) != 1 or name and not _KEY.match(name) or not (_SIZES.match(parts[0]) or parts[0] == "scalar"):
        raise Refused("input", "--input %s: write [NAME:]SHAPE[:TYPE], as 1,3,224,224 or ids:8x128 or x:2,3:float16, or FILE.py:FUNCTION" % text)
    shape = [] if parts[0] == "scalar" else [int(n) for n in re.split("[x,]", parts[0].rstrip(","))]
    if not dtype:
        last = name.rpartition(".")[2]
        whole = last in _TOKENS or last in _LABELS or last.endswith(("_ids", "_mask", "mask", "_labels"))
        dtype = "int64" if whole else "float32"
    return name, shape, dtype


def _dtype(torch, name):
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise Refused("input", "--input: torch has no type %s" % name)
    return dtype


def _literals(texts):
    """KEY=VALUE of --args: Python literals; a plain word is a string."""
    import ast
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise Refused("args", "--args %s: write KEY=VALUE" % text)
        try:
            found[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            if not value.isidentifier():
                raise Refused("args", "--args %s: the value is no literal: a number, True, None, a list, a word or a quoted string" % text) from None
            found[key] = value
    return found


def _values(torch, model, name, shape, dtype_name):
    """Values for an input: normal for floats; for integers, what its name says that they mean."""
    dtype = _dtype(torch, dtype_name)
    last = name.rpartition(".")[2]
    if dtype is torch.bool or last.endswith("mask"):
        return torch.ones(shape, dtype=dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=dtype) if dtype.itemsize > 1 else torch.randn(shape).to(dtype)
    high = 2
    if "token_type" in last:
        return torch.zeros(shape, dtype=dtype)
    if last in _TOKENS or last.endswith("_ids"):
        high = max([m.num_embeddings for m in model.modules() if isinstance(m, torch.nn.Embedding)] or [2])
    return torch.randint(0, min(high, torch.iinfo(dtype).max), shape, dtype=dtype)


def _inputs(torch, model, texts):
    """(positional, named, descriptions) of the inputs asked for."""
    try:
        parameters = inspect.signature(model.forward).parameters
    except (TypeError, ValueError):
        parameters = {}
    anything = any(p.kind == p.VAR_KEYWORD for p in parameters.values())
    args, kwargs, said, dicts = [], {}, [], {}
    for text in texts:
        if _FILE.search(text):
            value = _attribute(text, "--input")
            if callable(value) and not isinstance(value, torch.Tensor):
                value = value(model) if _takes_one(value) else value()
            more, named = _arguments(value)
            args += more
            kwargs.update(named)
            said.append(text)
            continue
        name, shape, dtype = parse_input(text)
        value = _values(torch, model, name, shape, dtype)
        what = "%s %s" % (",".join(map(str, shape)) or "scalar", dtype)
        head, dot, key = name.partition(".")
        if dot:
            fresh = head not in dicts
            inner = dicts.setdefault(head, {})
            while "." in key:
                part, _, key = key.partition(".")
                inner = inner.setdefault(part, {})
            inner[key] = value
            said.append("%s %s" % (name, what))
            if not fresh:
                continue
            name, value = head, dicts[head]
        else:
            said.append((name + " " if name else "") + what)
        if not name:
            args.append(value)
        elif name in parameters:
            kwargs[name] = value
        elif name == "ids" and "input_ids" in parameters:
            kwargs["input_ids"] = value
        elif anything and name != "ids":
            kwargs[name] = value
        else:
            args.append(value)
            said[-1] += " (by position: forward has no parameter %s)" % name
    return args, kwargs, said


def _takes_one(function):
    try:
        return len([p for p in inspect.signature(function).parameters.values() if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]) == 1
    except (TypeError, ValueError):
        return False


def _arguments(value):
    """What a file or a factory gives for inputs: a tuple is arguments in order, a dict with names is arguments by name, all else one argument."""
    if isinstance(value, tuple):
        return list(value), {}
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return [], dict(value)
    return [value], {}


def _usual(torch, model):
    """Inputs for models of packages whose inputs are known; None for others. torchvision's by task, timm's and transformers' by what they say."""
    base = type(model)
    of = " ".join(c.__module__ for c in base.__mro__)
    image = torch.randn
    if "torchvision.models" in of:
        if "torchvision.models.detection" in of:
            keypoints = getattr(getattr(model, "roi_heads", None), "keypoint_predictor", None)
            heads = getattr(model, "roi_heads", None)
            targets = []
            for _ in range(2):
                target = {"boxes": torch.tensor([[20.0, 30.0, 120.0, 150.0], [60.0, 40.0, 200.0, 180.0]]), "labels": torch.tensor([1, 1])}
                if getattr(heads, "mask_predictor", None) is not None:
                    target["masks"] = torch.ones(2, 224, 224, dtype=torch.uint8)
                if keypoints is not None:
                    target["keypoints"] = torch.tensor([70.0, 90.0, 1.0]).expand(2, 17, 3).clone()
                targets.append(target)
            return [[torch.rand(3, 224, 224), torch.rand(3, 224, 224)], targets], "2 images 3,224,224 with targets"
        if "torchvision.models.video" in of:
            size = 112 if "resnet" in of else 224
            return [image(1, 3, 16, size, size)], "1,3,16,%d,%d float32" % (size, size)
        if "torchvision.models.optical_flow" in of:
            return [image(1, 3, 128, 128), image(1, 3, 128, 128)], "two of 1,3,128,128 float32"
        size = 299 if "inception" in of else 224
        return [image(2, 3, size, size)], "2,3,%d,%d float32" % (size, size)
    config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    if isinstance(config, dict) and config.get("input_size"):
        shape = [2] + list(config["input_size"])
        return [image(*shape)], ",".join(map(str, shape)) + " float32"
    if "transformers." in of and getattr(model, "dummy_inputs", None):
        return dict(model.dummy_inputs), "its dummy_inputs"
    return None


def _moved(torch, value, device):
    if isinstance(value, torch.Tensor):
        moved = value.to(device)
        return moved.detach().requires_grad_() if value.requires_grad else moved
    if isinstance(value, dict):
        moved = {k: _moved(torch, v, device) for k, v in value.items()}
        try:
            return moved if type(value) is dict else type(value)(moved)
        except TypeError:
            return moved
    if isinstance(value, tuple):
        parts = [_moved(torch, v, device) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [_moved(torch, v, device) for v in value]
    return value


def _floats(torch, value, found, seen):
    """The float tensors of an output, whatever holds them."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() or value.is_complex():
            found.append(value)
        return found
    if isinstance(value, (str, bytes, int, float, bool, type(None), torch.nn.Module, type, types.FunctionType)) or id(value) in seen:
        return found
    seen.add(id(value))
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (list, tuple, set)):
        parts = list(value)
    elif hasattr(value, "__dict__"):
        parts = list(vars(value).values())
    else:
        parts = [getattr(value, s, None) for s in getattr(type(value), "__slots__", ())]
    for part in parts:
        _floats(torch, part, found, seen)
    return found


# One attempt ------------------------------------------------------------------------------------------------------------

class _Attempt:
    def __init__(self, torch, request, name, make):
        self.torch, self.request, self.name, self.make = torch, request, name, make

    def answer(self):
        """What happened."""
        a = self.once()
        double = self.request.get("double")
        if double and a["error"] and (a["refusal"] or {}).get("cause") == "missing":
            put_up = _double()
            if not put_up.fallback:
                put_up.clear()
                put_up.fallback = True
                if put_up.account is not None:
                    put_up.account.reset_peak()
                try:
                    a["fallback"] = again = self.once()
                    del again["answer"]
                finally:
                    put_up.fallback = False
        return a

    def untried(self):
        return untried(self.name, not (self.request.get("double") or {}).get("shape_only"))

    def once(self):
        torch, request = self.torch, self.request
        a = self.untried()
        a["phase"] = "build"
        began = time.perf_counter()
        built = 0
        try:
            torch.manual_seed(0)
            model, inputs = _built(torch, self.make(), request.get("args") or {})
            if request.get("eval"):
                model.eval()
            a["parameters"] = sum(p.numel() for p in model.parameters() if not isinstance(p, torch.nn.parameter.UninitializedParameter))
            a["model"] = type(model).__name__
            a["phase"] = "inputs"
            if request.get("inputs"):
                args, kwargs, a["inputs"] = _inputs(torch, model, request["inputs"])
            elif inputs is not None:
                args, kwargs = _arguments(inputs)
                a["inputs"] = ["as made with the model"]
            else:
                usual = _usual(torch, model)
                if usual is None:
                    raise Refused("input", "no --input, and none is known for a %s" % type(model).__name__)
                args, kwargs = _arguments(usual[0] if isinstance(usual[0], dict) else tuple(usual[0]))
                a["inputs"] = [usual[1]]
            a["phase"] = "move"
            built = self.stand_ins()
            device = {"double": "mps"}.get(request["device"], request["device"])
            model = model.to(device)
            args, kwargs = _moved(torch, args, device), _moved(torch, kwargs, device)
            a["phase"] = "forward"
            out = model(*args, **kwargs)
            a["phase"] = "backward"
            self.backward(out, a)
            a["phase"] = "done"
        except Refused as error:
            a["error"] = failure(error.kind, "", str(error))
        except (Exception, SystemExit) as error:
            a["error"] = self.told(error)
            a["refusal"] = self.refusal(error)
            if a["phase"] == "move":
                self.not_moved(a, model)
            if a["phase"] == "backward" and not a["error"]["where"]:
                self.forward_line(a, model, args, kwargs)
        a["seconds"] = time.perf_counter() - began
        if request.get("double"):
            self.seen(a)
            a["stand_ins"] = self.stand_ins() - built  # those of initial values change nothing
        return a

    def backward(self, out, a):
        total = None
        for t in _floats(self.torch, out, [], set()):
            part = t.abs().sum() if t.is_complex() else t.sum()
            if part.requires_grad:
                total = part if total is None else total + part
        if total is not None:
            total.backward()
            a["backward"] = True

    def lines(self, summary):
        """(user's innermost line, library's innermost line) of (file, line) pairs, the outermost first."""
        place = sys.modules["assay_agent.place"]
        ours, torch_at = os.path.dirname(os.path.abspath(place.__file__)) + os.sep, os.path.dirname(os.path.abspath(self.torch.__file__)) + os.sep
        user = library = inner = ""
        for name, line in summary:
            at = "%s:%d" % (name, line)
            if os.path.abspath(name).startswith(ours) or name.startswith("<"):
                continue
            if place.is_user_file(name):
                user = at
            elif os.path.abspath(name).startswith(torch_at):
                inner = at
            else:
                library = at
        return user, library or inner

    def told(self, error):
        frames, tb = [], error.__traceback__
        while tb is not None:
            frames.append((tb.tb_frame.f_code.co_filename, tb.tb_lineno))
            tb = tb.tb_next
        if isinstance(error, SyntaxError) and error.filename:
            frames.append((error.filename, error.lineno or 0))
        user, library = self.lines(frames)
        try:
            text = str(error)
        except Exception:
            text = "(its message could not be read)"
        return failure("", type(error).__name__, text, user, library)

    def refusal(self, error):
        """The double's own refusal behind an exception: the same error, or one that led to it."""
        double, seen = _double(), set()
        while double is not None and error is not None and id(error) not in seen:
            seen.add(id(error))
            for op, cause, kind, text, where in double.refusals:
                if kind == type(error).__name__ and text == str(error):
                    return refusal(op, cause)
            error = error.__cause__ or error.__context__
        return None

    def not_moved(self, a, model):
        """Which of the model's tensors could not be moved, where their type says so."""
        torch = self.torch
        for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
            if tensor.dtype in (torch.float64, torch.complex128):
                a["error"]["via"] = "%s, which is %s" % (name, tensor.dtype)
                break

    def forward_line(self, a, model, args, kwargs):
        """The line of the forward pass whose backward pass failed: anomaly detection remembers it."""
        torch = self.torch
        import warnings
        try:
            with warnings.catch_warnings(record=True) as caught, torch.autograd.set_detect_anomaly(True, check_nan=False):
                warnings.simplefilter("always")
                try:
                    self.backward(model(*args, **kwargs), {})
                except Exception:
                    pass
            for w in caught:
                if "Traceback of forward call" in str(w.message):
                    frames = [(m.group(1), int(m.group(2))) for m in re.finditer(r'File "([^"]+)", line (\d+)', str(w.message))]
                    a["error"]["where"], via = self.lines(frames)
                    a["error"]["via"] = via or a["error"]["via"]
        except TypeError:  # set_detect_anomaly before 2.0
            pass

    def stand_ins(self):
        double = _double()
        return sum(n for (_, kind, _, _), n in double.notes.items() if kind == "stand-in") if double is not None else 0

    def seen(self, a):
        """What the double has seen: operators, fallbacks, stand-ins, memory."""
        double = _double()
        a["ops"] = [op_row(name, c.calls, c.state, c.ns, c.flops) for name, c in sorted(double.operators.items()) if c.calls]
        a["fallbacks"] = [fallback_row(op, where, f.calls, f.ns, f.nbytes) for (op, where), f in sorted(double.fallbacks.items())]
        a["met"] = [met_row(op, fact, sure, where, n) for (op, fact, sure, where), n in sorted(double.facts.items())]
        a["notes"] = [note_row(op, kind, text, where, n) for (op, kind, text, where), n in sorted(double.notes.items())]
        if double.account is not None:
            a["peak"] = double.account.peak_driver


def _double():
    """The double that the attempt is made on, or None."""
    from assay_agent.double.current import current
    return current.double


# The process ------------------------------------------------------------------------------------------------------------

def _agent():
    """The package that this file lies in, from where it lies: it is not on sys.path."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[0] = ""  # the folder of this file gives way to the working folder, as under python -c
    spec = importlib.util.spec_from_file_location("assay_agent", os.path.join(here, "__init__.py"), submodule_search_locations=[here])
    module = importlib.util.module_from_spec(spec)
    sys.modules["assay_agent"] = module
    spec.loader.exec_module(module)
    from assay_agent import place, wire  # noqa: F401
    wire.silent = True


def _failure(error, attempt):
    if isinstance(error, Refused):
        return failure(error.kind, "", str(error))
    return dict(attempt.told(error), kind="import")


def _apart(attempt, limit, answer):
    """Try it in a process of its own; answer gets what comes back, or how it ended."""
    import select
    import signal
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            with os.fdopen(write, "w") as out:
                out.write(line(attempt.answer()))
        finally:
            os._exit(0)
    os.close(write)
    data, until, kind, text = b"", time.monotonic() + limit, "crash", ""
    while not text:
        ready, _, _ = select.select([read], [], [], max(0, until - time.monotonic()))
        chunk = os.read(read, 1 << 16) if ready else b""
        data += chunk
        if not ready:
            kind, text = "late", "not done within %g s" % limit
        elif len(data) > LINE:
            text = "its answer is longer than %d MiB" % (LINE >> 20)
        elif not chunk:
            break
    if text:
        os.kill(pid, signal.SIGKILL)
    os.close(read)
    _, status = os.waitpid(pid, 0)
    if len(data) <= LINE:
        try:
            answer(json.loads(data.decode()))
            return
        except ValueError:
            pass
    a = attempt.untried()
    a["error"] = failure(kind, "", text or ("its process ended by signal %d" % (status & 127) if status & 127 else "its process ended without an answer"))
    answer(a)


def main():
    out = os.fdopen(3, "w", encoding="utf-8")

    def answer(value):
        out.write(line(value))
        out.flush()

    request = json.load(sys.stdin)
    if request["version"] != VERSION:
        sys.exit("a request of version %s, and this is version %d" % (request["version"], VERSION))
    _agent()
    python = sys.version.split()[0]
    try:
        import torch
    except ImportError as error:
        answer(hello("", python))
        answer(refused(failure("torch", type(error).__name__, str(error))))
        return
    answer(hello(torch.__version__, python))
    if request.get("double"):
        from assay_agent.double import install
        install.install(torch, request["double"])
    try:
        request["args"] = _literals(request.get("args") or [])
        for text in request.get("inputs") or ():
            if _FILE.search(text):
                continue
            _dtype(torch, parse_input(text)[2])
    except Refused as error:
        answer(refused(failure(error.kind, "", str(error))))
        return
    first = _Attempt(torch, request, request.get("package") or (request.get("targets") or [""])[0], None)
    try:
        if request.get("package"):
            models = dict(_offers(torch, request["package"])).items()  # a name counts once
            if request.get("targets"):
                models = [(n, make) for n, make in models if n in request["targets"]]
            attempts = [_Attempt(torch, request, n, lambda make=make: make) for n, make in models]
        else:
            attempts = [_Attempt(torch, request, t, lambda value=_attribute(t, "it"): value) for t in request["targets"]]
    except Exception as error:
        answer(refused(_failure(error, first)))
        return
    answer(offered([a.name for a in attempts]))
    for attempt in attempts:
        if request.get("package"):
            _apart(attempt, request["limit"], answer)
        else:
            answer(attempt.answer())
    answer(done())


if __name__ == "__main__":
    main()
