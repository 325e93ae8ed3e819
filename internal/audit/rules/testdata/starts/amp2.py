import torch
def train2(model, loader, opt):
    sc = torch.amp.GradScaler(device="mps")
    for x in loader:
        sc.scale(model(x)).backward()
        sc.step(opt)  # sure: scaler-without-update
