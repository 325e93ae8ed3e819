# torch: 2.14
import torchvision

# The release whose torchvision adds each gradient once.
model = torchvision.models.detection.fasterrcnn_resnet50_fpn().to("mps")
sum(model([], []).values()).backward()
