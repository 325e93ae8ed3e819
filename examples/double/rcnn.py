"""Two training steps of a small Faster R-CNN on random pictures: what it needs beside PyTorch is torchvision's own operators."""

import torch
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.rpn import AnchorGenerator

device = "mps" if torch.backends.mps.is_available() else "cpu"
torch.manual_seed(0)
backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, stride=8, padding=1), torch.nn.ReLU())
backbone.out_channels = 16
anchors = AnchorGenerator(sizes=((32, 64),), aspect_ratios=((1.0,),))
model = FasterRCNN(backbone, num_classes=3, rpn_anchor_generator=anchors, min_size=128, max_size=128).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(2):
    pictures = [torch.rand(3, 128, 128, device=device) for _ in range(2)]
    targets = [{"boxes": torch.tensor([[10.0, 10.0, 90.0, 90.0]], device=device), "labels": torch.ones(1, dtype=torch.int64, device=device)} for _ in range(2)]
    loss = sum(model(pictures, targets).values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")
