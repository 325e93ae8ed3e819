import torch
from torch.amp import GradScaler, autocast

def train(model, loader, opt, device):
    scaler = GradScaler("mps")
    for x, y in loader:
        with autocast("mps", dtype=torch.float16):
            loss = model(x)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)  # sure: clip-without-unscale
        scaler.step(opt)
        scaler.update()

def train2(model, loader, opt):
    sc = torch.amp.GradScaler(device="mps")
    for x in loader:
        sc.scale(model(x)).backward()
        sc.step(opt)

def infer(model, x):
    with torch.autocast("mps", enabled=False):
        return model(x.half())  # suspect: halved-inputs

class Loop:
    def __init__(self, opt):
        self.grad_scaler = GradScaler("mps")
        self.opt = opt
    def step(self, loss, params):
        self.grad_scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)  # sure: clip-without-unscale
        self.grad_scaler.step(self.opt)
        self.grad_scaler.update()


def either(scaler, model, loss, opt, amp):
    scaler = torch.amp.GradScaler("mps")
    if amp:
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # sure: clip-without-unscale
        scaler.step(opt)
        scaler.update()
    else:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
