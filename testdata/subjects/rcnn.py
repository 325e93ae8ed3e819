"""Two steps of a small R-CNN on random pictures. Its box pooling's gradient came out wrong on MPS up to torch 2.13."""

import os

import torch
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.ops import MultiScaleRoIAlign

device = os.environ.get("DEVICE", "cpu")
torch.manual_seed(0)
backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=8, padding=1), torch.nn.ReLU())
backbone.out_channels = 8
model = FasterRCNN(
    backbone, num_classes=2, min_size=64, max_size=64, rpn_anchor_generator=AnchorGenerator(((16, 32),), ((1.0,),)),
    box_roi_pool=MultiScaleRoIAlign(featmap_names=["0"], output_size=7, sampling_ratio=2),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
pictures = [torch.rand(3, 64, 64, device=device) for _ in range(2)]
targets = [{"boxes": torch.tensor([[8.0, 8.0, 40.0, 40.0]], device=device), "labels": torch.tensor([1], device=device)}
           for _ in pictures]
for _ in range(2):
    optimizer.zero_grad()
    loss = sum(model(pictures, targets).values())
    loss.backward()
    optimizer.step()
print("done", float(loss) > 0)
