from probe import see
import accelerate, diffusers, timm, torchvision
import segmentation_models_pytorch as smp
import mlx.core as mx
from transformers import AutoModel, AutoTokenizer, AutoConfig

see(torchvision.models.resnet18())  # module cpu torchvision.models.resnet18
see(torchvision.models.ResNet18_Weights())  # object torchvision.models.ResNet18_Weights
see(torchvision.ops.nms(b, s, 0.5))  # tensor open
see(torchvision.ops.RoIPool(1, 1))  # module cpu torchvision.ops.RoIPool
see(torchvision.transforms.ToTensor())  # object torchvision.transforms.ToTensor
see(timm.create_model("a"))  # module cpu timm.create_model
see(smp.Unet())  # module cpu segmentation_models_pytorch.Unet
see(AutoModel.from_pretrained("a", torch_dtype="float16"))  # module cpu transformers.AutoModel float16
see(AutoModel.from_config(c))  # module cpu transformers.AutoModel
see(AutoTokenizer.from_pretrained("a"))  # unknown
see(diffusers.FluxPipeline.from_pretrained("a"))  # module cpu diffusers.FluxPipeline
see(accelerate.Accelerator())  # object accelerate.Accelerator
see(mx.zeros((1, 2)))  # unknown
