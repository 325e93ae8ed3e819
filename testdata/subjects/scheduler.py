# expect: steps=36 epochs=3 micro=1
"""A warm-up by the step, a decay by the epoch, and momentum averaged weights: three things that wrap an optimizer."""
import torch
from torch import nn
from torch.optim.lr_scheduler import LinearLR, ReduceLROnPlateau
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(96, 12), torch.randn(96, 1)), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
warm, decay = LinearLR(optimizer, 0.1, total_iters=10), ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
for epoch in range(3):
    seen = 0.0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warm.step()
        average.update_parameters(model)
        seen += loss.item()
        print(loss.item().hex(), optimizer.param_groups[0]["lr"])
    decay.step(seen)
print(sum(p.sum().item() for p in average.parameters()).hex())
