import contextlib

import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torchvision.models.detection import maskrcnn_resnet50_fpn

# What guides say, as they write it.


def by_hand(model, loader, loss_fn):
    for inputs, targets in loader:
        inputs = inputs.to(torch.float16).to("mps")  # suspect: halved-inputs
        with torch.autocast(device_type="mps", dtype=torch.float16, enabled=False):
            outputs = model(inputs)
            loss = loss_fn(outputs, targets.to("mps"))
        loss.backward()


def half_throughout(model, x):
    model = model.half()
    x = x.half()
    with torch.autocast("mps", enabled=False):
        return model(x)


def back_to_float(model, x):
    x = x.half()
    x = x.float()
    with torch.autocast("mps", enabled=False):
        return model(x)


def with_autocast(model, x):
    x = x.half()
    with torch.autocast("mps"):
        return model(x)


def other_input(model, x, y):
    y = y.half()
    with torch.autocast("mps", enabled=False):
        return model(x)


def state(path):
    model_data = torch.load(path, map_location="cpu", weights_only=True)
    for k in model_data:
        model_data[k] = model_data[k].float()
    model_data = model_data.to("mps")  # suspect: state-dict-moved
    return model_data


def many(x):
    dist.init_process_group("gloo")
    model = DDP(nn.Linear(3, 3).to("mps"))  # sure: distributed-on-mps
    on_cpu = DDP(nn.Linear(3, 3))
    total = torch.zeros(3, device="mps")
    dist.all_reduce(total)  # sure: distributed-on-mps
    copy = total.cpu()
    dist.all_reduce(copy)
    return model, on_cpu, copy


def detector(images, targets):
    model = maskrcnn_resnet50_fpn().to("mps")
    sum(model(images, targets).values()).backward()  # sure: wrong-result
    torchvision.models.detection.retinanet_resnet50_fpn().to("mps")
    pool = torchvision.ops.MultiScaleRoIAlign(["0"], 7, 2)
    return pool


@contextlib.contextmanager
def safe_mps_memory():
    try:
        yield
    except RuntimeError as e:
        if "out of memory" in str(e).lower():
            torch.mps.empty_cache()
            yield  # sure: context-manager-yields-twice
        else:
            raise
