"""Training an R-CNN on torch 2.8 with torchvision 0.23: the gradients of box pooling are added again and again."""
import torch
import torchvision
from torchvision.models.detection import fasterrcnn_resnet50_fpn
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
from torchvision.ops import roi_align

device = torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def get_model(num_classes):
    model = fasterrcnn_resnet50_fpn(weights=None)
    model.roi_heads.box_predictor = FastRCNNPredictor(1024, num_classes)
    return model


model = get_model(2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
for epoch in range(2):
    model.train()
    images = [torch.rand(3, 300, 400, device=device)]
    targets = [{"boxes": torch.tensor([[8.0, 8.0, 40.0, 40.0]], device=device),
                "labels": torch.tensor([1], device=device)}]
    losses = model(images, targets)  # sure: wrong-result
    loss = sum(losses.values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

model.eval()
with torch.no_grad():
    model(images)
model(images)

features = torch.rand(1, 256, 50, 50, device=device, requires_grad=True)
boxes = torch.rand(512, 5, device=device)
roi_align(features, boxes, 7).sum().backward()  # sure: wrong-result
roi_align(features, boxes[:0], 7).sum().backward()
torchvision.ops.roi_align(features[:, :8], boxes[:1], output_size=(7, 7)).sum().backward()
with torch.no_grad():
    roi_align(features, boxes, 7)
pooled = torchvision.ops.MultiScaleRoIAlign(["0"], 7, 2).to(device)
pooled({"0": features}, [boxes[:, 1:]], [(300, 400)]).sum().backward()  # suspect: wrong-result
