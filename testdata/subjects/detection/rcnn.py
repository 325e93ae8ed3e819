"""A small R-CNN, trained for two steps on random pictures on MPS. The gradient of its box pooling came out wrong there up
to torch 2.13 (vision PR 9563)."""

import torch
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.ops import MultiScaleRoIAlign


def make():
    backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=8, padding=1), torch.nn.ReLU())
    backbone.out_channels = 8
    anchors = AnchorGenerator(((16, 32),), ((1.0,),))
    pool = MultiScaleRoIAlign(featmap_names=["0"], output_size=7, sampling_ratio=2)
    return FasterRCNN(backbone, num_classes=2, min_size=64, max_size=64, rpn_anchor_generator=anchors, box_roi_pool=pool)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = make().to("mps")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    pictures = [torch.rand(3, 64, 64, device="mps") for _ in range(2)]
    boxes = torch.tensor([[8.0, 8.0, 40.0, 40.0]], device="mps")
    targets = [{"boxes": boxes, "labels": torch.tensor([1], device="mps")} for _ in pictures]
    for _ in range(2):
        optimizer.zero_grad()
        sum(model(pictures, targets).values()).backward()
        optimizer.step()
    print("done")
