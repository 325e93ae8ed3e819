from probe import see
import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, random_split

# What makes tensors
see(torch.zeros(3))  # tensor cpu float32 sized
see(torch.zeros(3, device="mps"))  # tensor mps float32 sized
see(torch.zeros(3, dtype=torch.float64))  # tensor cpu float64 sized
see(torch.zeros(3, dtype=float))  # tensor cpu float64 sized
see(torch.zeros(3, device=None))  # tensor cpu float32 sized
see(torch.zeros(shape))  # tensor cpu float32
see(torch.zeros(3, **more))  # tensor cpu or open float32 sized
see(torch.randint(0, 9, (3,)))  # tensor cpu int64 sized
see(torch.arange(3))  # tensor cpu int64 sized
see(torch.arange(0, 1, 0.1))  # tensor cpu float32 sized
see(torch.full((2,), 1))  # tensor cpu int64 sized
see(torch.full((2,), 1.0))  # tensor cpu float32 sized
see(torch.tensor([1, 2]))  # tensor cpu int64 sized
see(torch.tensor([1, 2.0]))  # tensor cpu float32 sized
see(torch.tensor([True]))  # tensor cpu bool sized
see(torch.tensor([1, unheard_of]))  # tensor cpu sized
see(torch.tensor(1.0))  # tensor cpu float32
see(torch.tensor(1j))  # tensor cpu complex64
see(torch.tensor(np.zeros(3)))  # tensor cpu float64
see(torch.as_tensor(torch.zeros(3, device="mps")))  # tensor mps float32
see(torch.from_numpy(np.zeros(3)))  # tensor cpu float64
see(torch.zeros_like(torch.zeros(3, device="mps")))  # tensor mps float32
see(torch.zeros_like(torch.zeros(3), device="mps", dtype=torch.float16))  # tensor mps float16
see(torch.normal(0.0, 1.0, (3,)))  # tensor cpu sized

both = (torch.zeros(3, device="mps"), torch.zeros(3).to(unheard_of))
see(torch.cat(both))  # tensor mps

# Methods of tensors
x = torch.zeros(3, 4)
see(x.to("mps"))  # tensor mps float32 sized
see(x.to(torch.float64))  # tensor cpu float64 sized
see(x.to("mps", torch.float16))  # tensor mps float16 sized
see(x.to(dtype=torch.int32))  # tensor cpu int32 sized
see(x.to(device="mps"))  # tensor mps float32 sized
see(x.to(torch.zeros(3, device="mps", dtype=torch.int64)))  # tensor mps int64 sized
see(x.to(unheard_of))  # tensor open float32 sized
see(x.to(0))  # tensor cuda float32 sized
see(x.to(None))  # tensor cpu float32 sized
see(x.cuda())  # tensor cuda float32 sized
see(x.double())  # tensor cpu float64 sized
see(x.half())  # tensor cpu float16 sized
see(x.long())  # tensor cpu int64 sized
see(x.bool())  # tensor cpu bool sized
see(x.cdouble())  # tensor cpu complex128
see(x.type(torch.float64))  # tensor cpu float64 sized
see(x.type("torch.DoubleTensor"))  # tensor cpu float64 sized
see(x.type())  # unknown
see(x.type_as(torch.zeros(3, device="mps").half()))  # tensor mps float16
see(x.type_as(unheard_of))  # tensor open
see(x.new_zeros(3, device="mps"))  # tensor mps float32
see(x.new_zeros(3, dtype=torch.int64))  # tensor cpu int64
see(x.argmax())  # tensor cpu int64
see(x.isnan())  # tensor cpu bool
see(x.long().sum())  # tensor cpu int64
see(x.bool().cumsum(0))  # tensor cpu int64
see(x.sum(dtype=torch.float64))  # tensor cpu float64
see(x.mean())  # tensor cpu float32
see(x.clone())  # tensor cpu float32 sized
see(x.numpy())  # array float32
see(x.item())  # unknown
see(x.size(0))  # unknown
see(x.tolist())  # unknown
see(x.backward())  # unknown
see(x.T)  # tensor cpu float32 sized
see(x.shape)  # unknown
see(x.dtype)  # dtype float32
see(x.device)  # device cpu follows
see(x.is_cuda)  # false
see(x.is_mps)  # false
see(x[0])  # tensor cpu float32 sized
see(torch.Tensor.add(x, x))  # unknown

# Arithmetic
see(x + 1)  # tensor cpu float32 sized
see(x.long() + 1)  # tensor cpu int64 sized
see(x.long() + 1.5)  # tensor cpu float32 sized
see(x.long() / 2)  # tensor cpu float32 sized
see(x.double() * x.double())  # tensor cpu float64 sized
see(x.double() * x)  # tensor cpu sized
see(x + x.to("mps"))  # tensor cpu or mps float32 sized
see(x > 0)  # tensor cpu bool
see(x is None)  # unknown
see(torch.argmax(x))  # tensor cpu int64
see(torch.isnan(x))  # tensor cpu bool
see(torch.exp(x.double()))  # tensor cpu float64
see(torch.sum(x, dtype=torch.float64))  # tensor cpu float64
see(torch.complex(x, x))  # tensor cpu complex64
see(F.relu(x.double()))  # tensor cpu float64
see(F.one_hot(x.long()))  # tensor cpu int64

# Modules move where they stand
model = nn.Linear(4, 4)
see(model)  # module cpu torch.nn.Linear
see(model(x))  # tensor cpu float32
model.to("mps")
see(model)  # module mps torch.nn.Linear
see(model(x.to("mps")))  # tensor mps float32
see(model.half())  # module mps torch.nn.Linear float16
see(model.eval())  # module mps torch.nn.Linear float16
see(model.weight)  # api torch.nn.Module.weight
see(model.device)  # device mps follows
see(model.parameters())  # list loose [tensor mps float16]
see(model.state_dict())  # state mps float16
see(model.state_dict()["weight"])  # tensor mps float16
see(nn.Linear(4, 4, device="mps"))  # module mps torch.nn.Linear
see(nn.DataParallel(model))  # module mps torch.nn.Linear float16
see(torch.compile(model))  # module mps torch.nn.Linear float16
stack = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to("mps")
see(stack[0])  # module mps torch.nn.Linear
see(stack(x.to("mps")))  # tensor mps float32
see(nn.Parameter(x))  # tensor cpu float32 sized parameter
see(nn.utils.clip_grad_norm_(model.parameters(), 1.0))  # list loose [tensor mps float16]
see(torch.optim.SGD(model.parameters()))  # optimizer torch.optim.SGD
see(torch.optim.lr_scheduler.StepLR(o, 1))  # object torch.optim.lr_scheduler.StepLR
see(torch.hub.load("a", "b"))  # module cpu
see(torch.load("a.pt"))  # state 
see(torch.load("a.pt")["x"])  # tensor open

# Data
loader = DataLoader(data)
see(loader)  # loader
for batch in loader:
    see(batch)  # tensor cpu batch
    see(batch + 1)  # tensor cpu
for i, batch in enumerate(loader):
    see(batch)  # tensor cpu batch
one, two = random_split(data, [1, 2])
see(one)  # object torch.utils.data.Subset
see(random_split(data, lengths))  # list loose [object torch.utils.data.Subset]

# Devices
see(torch.device("mps"))  # device mps
see(torch.device("cuda:1").type)  # text "cuda"
see(torch.device(x.device))  # device cpu follows
see(torch.device("mps") == "mps")  # true
see(torch.device("mps") == "cpu")  # false
see(torch.device("mps").index)  # unknown
see(torch.Generator(device="mps"))  # object torch.Generator
see(torch.Generator().manual_seed(1))  # object torch.Generator
see(torch.nn.modules.linear.Linear(1, 1))  # module cpu torch.nn.Linear
see(torch.optim.sgd.SGD(p))  # optimizer torch.optim.SGD
see(torch.utils.data.dataloader.DataLoader(data))  # loader
see(torch.unheard.Of())  # object torch.unheard.Of
see(torch.unheard.of())  # unknown
with torch.device("mps"):
    see(torch.zeros(3))  # tensor mps float32 sized
see(torch.zeros(3))  # tensor cpu float32 sized
torch.set_default_dtype(torch.float64)
see(torch.zeros(3))  # tensor cpu float64 sized
torch.set_default_tensor_type("torch.HalfTensor")
see(torch.zeros(3))  # tensor cpu float16 sized
torch.set_default_device("mps")
see(torch.zeros(3))  # tensor mps float16 sized
see(nn.Linear(1, 1))  # module mps torch.nn.Linear
torch.set_default_device(None)
see(torch.zeros(3))  # tensor cpu float16 sized
