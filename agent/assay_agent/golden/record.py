"""Records a golden file: weights, inputs, the output of each module, the loss, gradients and updates of a model.

    python record.py < REQUEST

The request is a JSON object (internal/golden/record.go makes it), the answer a line of JSON on file descriptor 3:
{"ok": true} or {"error": …, "where": …}. The file is safetensors, its metadata `golden` a JSON object
(docs/formats/golden.md). It is written under a temporary name, synced and renamed by the caller.

The user's file is a Python file with a function that gives the model, and where it likes with
    loss(model, *inputs)    a scalar of the framework's
    targets()               a tuple of numpy arrays that loss takes behind the inputs, and the model does not
    optimizer(model)        an optimizer of the framework's
    inputs()                a tuple of numpy arrays, as this model takes them
"""

import importlib.util
import json
import math
import os
import resource
import struct
import sys
import time
import traceback

SEED = 20  # of inputs that nobody gave


class Refused(Exception):
    """What cannot be recorded, in words for the user."""


def frameworks():
    """name -> adapter, of those whose modules are imported: the model's own comes first."""
    found = []
    for name, module in (("keras", "keras"), ("mlx", "mlx.nn"), ("torch", "torch")):
        if module in sys.modules:
            found.append((name, importlib.import_module("assay_agent.golden.of_" + name)))
    return found


def load(path):
    """The user's file, as a module. Its folder is where Python would look for its neighbours."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def flat(thing, is_tensor):
    """The tensors in what a module was given or gave."""
    if is_tensor(thing):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from flat(value, is_tensor)
    elif isinstance(thing, (tuple, list)):
        for value in thing:
            yield from flat(value, is_tensor)


class Calls:
    """Calls of modules in the order in which they ended, with the first tensor of what each was given and gave."""

    def __init__(self, side, is_tensor):
        self.side, self.is_tensor, self.told = side, is_tensor, []
        self.born, self.kept = {}, []  # id of a tensor -> call; the tensors, so that their ids are of nothing else

    def ended(self, module, kind, leaf, given, output):
        first = next(flat(output, self.is_tensor), None)
        if first is None:
            return
        call = {"module": module, "kind": kind, "leaf": leaf, "output": self.side.array(first)}
        fed = next(flat(given, self.is_tensor), None)
        if fed is not None:
            call["from"] = self.born.get(id(fed), -1)
            if call["from"] < 0:
                call["input"] = self.side.array(fed)
            self.kept.append(fed)
        self.kept.append(first)
        self.born[id(first)] = len(self.told)
        self.told.append(call)


def modules(side, attributes):
    """Every module with what it was made with, by names that are the same for all frameworks."""
    told = []
    for name, module, training in side.modules():
        values = {}
        for attribute, word in attributes.items():
            value = getattr(module, attribute, None)
            if isinstance(value, (bool, int, float, str)):
                values[word] = value
            elif isinstance(value, (tuple, list)) and all(isinstance(v, int) for v in value):
                values[word] = list(value)
        side.corrected(module, values)
        told.append({"module": name, "kind": type(module).__name__, "values": values, "training": training})
    return told


def weighted(side, weights, is_tensor):
    """The loss where the file has none: the floating outputs times fixed numbers."""
    def loss(model, *inputs):
        outputs = [t for t in flat(side.outputs(inputs), is_tensor) if "float" in str(t.dtype)]
        return sum(side.summed(t * w) for t, w in zip(outputs, weights))
    return loss


def several(numpy, given):
    """What inputs() or targets() gave, one array or several, as a list."""
    return [numpy.asarray(a) for a in (given if isinstance(given, (tuple, list)) else (given,))]


def made(numpy, request, module, adapter):
    """The inputs: the file's own; those of an .npy or .npz, in the layout that the framework takes; or drawn."""
    if request["inputs"]:
        given = numpy.load(request["inputs"], allow_pickle=False)
        arrays = [given[name] for name in given.files] if hasattr(given, "files") else [given]
    elif request["shape"]:
        random = numpy.random.RandomState(SEED)
        arrays = [(random.rand(*request["shape"]) * request["scale"]).astype("float32")]
    elif hasattr(module, "inputs"):
        return several(numpy, module.inputs())
    else:
        raise Refused("no inputs: give --input FILE.npy or --shape, or a function inputs() in the file")
    if request["layout"] and request["layout"] != adapter.LAYOUT:
        order = (0, 2, 3, 1) if request["layout"] == "NCHW" else (0, 3, 1, 2)
        arrays = [a.transpose(order) if a.ndim == 4 else a for a in arrays]
    return [numpy.ascontiguousarray(a) for a in arrays]


class File:
    """Tensors of a golden file, kept until it is written: name -> array, row-major."""

    TYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16",
             "int8": "I8", "uint8": "U8", "bool": "BOOL", "uint32": "U32", "uint16": "U16", "uint64": "U64"}

    def __init__(self, numpy):
        self.numpy, self.tensors, self.meta = numpy, {}, {}

    def add(self, name, array):
        array = self.numpy.array(array, order="C")  # a copy: weights are updated where they lie
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        if array.dtype.name not in self.TYPES:
            raise Refused("%s is of type %s, which a golden file does not hold" % (name, array.dtype))
        self.tensors[name] = array

    def write(self, path):
        header, at = {"__metadata__": {"golden": json.dumps(finite(self.meta), allow_nan=False), "format": "golden"}}, 0
        for name, array in self.tensors.items():
            header[name] = {"dtype": self.TYPES[array.dtype.name], "shape": list(array.shape),
                            "data_offsets": [at, at + array.nbytes]}
            at += array.nbytes
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for array in self.tensors.values():
                f.write(array.tobytes())


def finite(thing):
    """What JSON can say: a float that is not finite becomes "nan", "inf" or "-inf"."""
    if isinstance(thing, float) and not math.isfinite(thing):
        return str(thing)
    if isinstance(thing, dict):
        return {name: finite(value) for name, value in thing.items()}
    return [finite(value) for value in thing] if isinstance(thing, (list, tuple)) else thing


def fixed(numpy, shape, channels_last):
    """The weights of the loss that stands where the file has none: the same numbers whatever the layout."""
    shape = tuple(shape)
    turned = channels_last and len(shape) == 4
    wanted = (shape[0], shape[3], shape[1], shape[2]) if turned else shape
    weights = numpy.random.RandomState(SEED + 1).standard_normal(wanted).astype("float32") / float(max(numpy.prod(shape), 1))
    return numpy.ascontiguousarray(weights.transpose(0, 2, 3, 1) if turned else weights)


def seconds(adapter, step, n):
    """How long n steps took, each, in seconds."""
    took = []
    for _ in range(n):
        began = time.perf_counter()
        adapter.wait(step())
        took.append(time.perf_counter() - began)
    return took


def record(request):
    module = load(request["file"])
    build = module
    for part in request["function"].split("."):
        build = getattr(build, part, None)
    if build is None:
        raise Refused("%s has no %s" % (request["file"], request["function"]))
    import numpy
    if request["float64"]:
        for _, adapter in frameworks():
            if hasattr(adapter, "wide"):
                adapter.wide()
    model = build() if callable(build) and not hasattr(build, "parameters") else build
    for _, adapter in frameworks():
        if adapter.is_model(model):
            break
    else:
        raise Refused("%s gives a %s, which is no model of PyTorch, Keras or MLX"
                      % (request["function"], type(model).__name__))
    out = File(numpy)

    def wide(array):
        """float64 where that was asked for."""
        return array.astype("float64") if request["float64"] and array.dtype.kind == "f" else array

    arrays = [wide(a) for a in made(numpy, request, module, adapter)]
    side = adapter.Side(numpy, model, request["device"], not request["eval"])
    if request["float64"]:
        why = side.widen()
        if why:
            raise Refused(why)
    inputs = [side.tensor(a) for a in arrays]
    side.build(inputs)
    for i, array in enumerate(arrays):
        out.add("input/%d" % i, array)
    before = side.weights()  # name -> (array in PyTorch's layout, kind of module)
    for weight, array in before.items():
        if wide(array).dtype != array.dtype:
            raise Refused("%s is of type %s, and --float64 was asked for: a function is to make the model, and to give "
                          "its layers no type" % (weight, array.dtype))
        out.add("weight/" + weight, array)

    calls = Calls(side, adapter.is_tensor)
    outputs = [side.array(t) for t in flat(side.forward(inputs, calls), adapter.is_tensor)]
    for i, call in enumerate(calls.told):
        out.add("call/%d" % i, call.pop("output"))
        if "input" in call:
            out.add("fed/%d" % i, call.pop("input"))
    for i, array in enumerate(outputs):
        out.add("output/%d" % i, array)
    side.restore()

    own = getattr(module, "loss", None)
    if own is not None and hasattr(module, "targets"):
        targets = [wide(a) for a in several(numpy, module.targets())]
        for i, array in enumerate(targets):
            out.add("target/%d" % i, array)
        inputs = inputs + [side.tensor(numpy.ascontiguousarray(a)) for a in targets]
    if own is None:
        weights = [side.tensor(wide(fixed(numpy, a.shape, adapter.LAYOUT == "NHWC"))) for a in outputs
                   if a.dtype.kind == "f"]
        loss_of = weighted(side, weights, adapter.is_tensor)
    else:
        loss_of = own
    optimizer = module.optimizer(model) if hasattr(module, "optimizer") else side.optimizer(request["rate"])
    losses = []
    for step in range(request["steps"]):
        loss, gradients = side.gradients(loss_of, inputs)
        losses.append(loss)
        if step == 0:
            for weight, array in gradients.items():
                out.add("gradient/" + weight, array)
        side.update(optimizer)
        for weight, array in side.weights().items():
            out.add("update/%d/%s" % (step + 1, weight), array)

    def whole():
        side.gradients(loss_of, inputs, read=False)
        return side.update(optimizer)

    took = seconds(side, whole, request["timed"])
    out.meta = {
        "version": 1, "framework": adapter.NAME, "release": side.release, "device": side.device, "python":
        "%d.%d.%d" % sys.version_info[:3], "file": os.path.basename(request["file"]), "function": request["function"],
        "layout": adapter.LAYOUT, "training": not request["eval"], "float64": request["float64"],
        "calls": calls.told, "losses": losses,
        "loss": "the file's" if own else "the outputs times fixed numbers", "optimizer": side.told(optimizer),
        "modules": modules(side, adapter.ATTRIBUTES), "seconds": took,
        "memory": side.memory(), "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024),
        "kinds": side.kinds(),
    }
    out.write(request["out"])


def main():
    answers = os.fdopen(3, "w")
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[0] = os.path.dirname(os.path.dirname(here))  # beside our modules nothing is called torch
    request = json.load(sys.stdin)
    try:
        record(request)
        answer = {"ok": True}
    except Refused as refused:
        answer = {"error": str(refused), "where": ""}
    except Exception as error:
        traceback.print_exc()
        last = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(here)]
        where = "%s:%d" % (os.path.basename(last[-1].filename), last[-1].lineno) if last else ""
        answer = {"error": "%s: %s" % (type(error).__name__, str(error)[:2000]), "where": where}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
