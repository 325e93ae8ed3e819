"""PyTorch's Python side as the release aimed at has it: what a script sees of its version, names, modules and parameters.
What each release has was read from its wheel for macOS (tools/double/python_names.py); the texts are Python's own."""

import pytest

torch = pytest.importorskip("torch")

INSTALLED = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2])
pytestmark = pytest.mark.skipif(INSTALLED < (2, 9), reason="the releases below are older than the installed PyTorch")


def test_version(rehearse):
    code = """
        import importlib.metadata, pickle
        from torch.torch_version import TorchVersion
        print(torch.__version__, isinstance(torch.__version__, TorchVersion), torch.__version__ >= (2, 3), pickle.loads(pickle.dumps(torch.__version__)))
        print(torch.version.__version__, torch.version.cuda, torch.version.hip, torch.version.debug, torch.version.git_version[:4])
        print(importlib.metadata.version("torch"), importlib.metadata.metadata("torch")["Version"], hasattr(torch.version, "xpu"))
        print([d.version for d in importlib.metadata.distributions() if d.name == "torch"])
        from torch import __version__
        print(__version__, eval("torch.__version__", {"torch": torch, "__name__": "torch.mine"}) == vars(torch)["__version__"])
        eval("(torch.__version__, torch.__version__)", {"torch": torch, "__name__": "library.part"})
        print(sorted((op, text) for (op, kind, text, where), n in double.notes.items() if kind == "told-version"))
        """
    assert rehearse(code, "2.2.2", "0.17") == [
        "2.2.2 True False 2.2.2", "2.2.2 None None False 0000", "2.2.2 2.2.2 False", "['2.2.2']", "2.2.2 True",
        "[('torch.__version__', 'library asked, and was told 2.2.2'), "
        "('torch.__version__', 'the script asked, and was told 2.2.2')]"]
    same = rehearse(code, "%d.%d.0" % INSTALLED, "0.29")
    assert same[0].startswith("%d.%d.0 True True" % INSTALLED) and same[3] == "['%d.%d.0']" % INSTALLED


def test_package_beside(rehearse):
    pytest.importorskip("torchvision")
    assert rehearse("""
        import importlib.metadata
        import torchvision
        print(torchvision.__version__, importlib.metadata.version("torchvision"), importlib.metadata.version("numpy") > "1")
        print(torchvision.models.resnet18().eval().to("mps")(torch.ones(1, 3, 32, 32, device="mps")).device)
        """, "2.2.2", "0.17") == ["0.17.0 0.17.0 True", "mps:0"]


NAMES = """
    import importlib, importlib.util
    def does(text):
        try:
            exec(text, {"torch": torch, "__name__": "__main__"})
        except Exception as error:
            print(type(error).__name__, str(error).partition(" (")[0])
        else:
            print("there")
    does("torch.nn.RMSNorm")
    does("torch.uint16")
    does("from torch.nn import RMSNorm")
    does("from torch import accelerator")
    does("import torch.accelerator as device")
    does("from torch.accelerator import is_available")
    does("import torch.nn.attention.flex_attention")
    does("from torch.nn.attention.flex_attention import flex_attention")
    does("torch.optim.SGD([torch.ones(2, requires_grad=True)], 0.1, fused=None)")
    does("torch.nn.functional.mse_loss(torch.ones(2), torch.ones(2), weight=None)")
    print(hasattr(torch, "uint16"), getattr(torch, "uint16", None), "RMSNorm" in dir(torch.nn), importlib.util.find_spec("torch.nn.attention.flex_attention") is None)
    names = {}
    exec("from torch import *", names)
    print("uint16" in names, "float32" in names, torch.nn.functional.rms_norm.__name__ if hasattr(torch.nn.functional, "rms_norm") else None)
    """


def test_names(rehearse):
    assert rehearse(NAMES, "2.2.2", "0.17") == [
        "AttributeError module 'torch.nn' has no attribute 'RMSNorm'", "AttributeError module 'torch' has no attribute 'uint16'",
        "ImportError cannot import name 'RMSNorm' from 'torch.nn'", "ImportError cannot import name 'accelerator' from 'torch'",
        "ModuleNotFoundError No module named 'torch.accelerator'", "ModuleNotFoundError No module named 'torch.accelerator'",
        "ModuleNotFoundError No module named 'torch.nn.attention.flex_attention'",
        "ModuleNotFoundError No module named 'torch.nn.attention.flex_attention'",
        "TypeError SGD.__init__() got an unexpected keyword argument 'fused'",
        "TypeError mse_loss() got an unexpected keyword argument 'weight'",
        "False None False True", "False True None"]
    assert rehearse(NAMES, "%d.%d.0" % INSTALLED, "0.29") == ["there"] * 10 + ["True torch.uint16 True False", "True True rms_norm"]


def test_pytorch_keeps_its_own(rehearse):
    """PyTorch's own code goes on with what the installed release has, also where C++ asks for it in a script's frame."""
    assert rehearse("""
        import inspect, pickle
        import torch.nn.functional as F
        own = {"torch": torch, "__name__": "torch.mine"}
        print(eval("torch.uint16, torch.nn.RMSNorm(2)", own)[0], "weight" in inspect.signature(F.mse_loss).parameters)
        @torch.jit.script
        def scripted(a, b):
            return torch.nn.functional.mse_loss(a, b)
        mse_loss = F.mse_loss
        @torch.jit.script
        def taken(a, b):
            return mse_loss(a, b)
        hasattr(torch, "uint16")
        print(scripted(torch.ones(2), torch.zeros(2)).item(), taken(torch.ones(2), torch.zeros(2)).item())
        layer = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).to("mps")
        print(layer(torch.ones(1, 3, 8, device="mps")).device, pickle.loads(pickle.dumps(torch)) is torch)
        """, "2.2.2", "0.17") == ["torch.uint16 False", "1.0 1.0", "mps:0 True"]


def test_what_a_script_puts_there(rehearse):
    """A backport is seen by scripts; what takes the place of a name that the release has is seen by all."""
    assert rehearse("""
        torch.uint16 = "mine"
        own = {"torch": torch, "__name__": "torch.mine"}
        print(torch.uint16, eval("torch.uint16", own))
        load = torch.load
        torch.load = lambda *args, **kwargs: "loaded"
        print(torch.load("no file"), eval("torch.load('no file')", own))
        torch.load = load
        torch.nn.functional.mse_loss = len
        print(torch.nn.functional.mse_loss, eval("torch.nn.functional.mse_loss", own))
        del torch.uint16
        print(hasattr(torch, "uint16"))
        """, "2.2.2", "0.17") == ["mine torch.uint16", "loaded loaded", "<built-in function len> <built-in function len>",
                                  "False"]


@pytest.mark.skipif(INSTALLED < (2, 13), reason="the installed PyTorch still has it")
def test_what_is_gone(rehearse):
    assert rehearse("""
        for text in ("torch.align_tensors", "import torch.distributed.pipeline.sync"):
            try:
                exec(text, {"torch": torch, "__name__": "__main__"})
            except (AttributeError, ImportError) as error:
                print(type(error).__name__, error)
        print(sorted(op for (op, kind, text, where), n in double.notes.items() if kind == "python-gone"))
        """, "2.2.2", "0.17") == [
        "AttributeError module 'torch' has no attribute 'align_tensors'",
        "ModuleNotFoundError No module named 'torch.distributed.pipeline'",
        "['torch.align_tensors', 'torch.distributed.pipeline']"]
