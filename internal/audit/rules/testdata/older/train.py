# torch: 2.3
"""What earlier releases lack; each was tried on a rehearsal of 2.3."""
import torch

x = torch.randn(2, 3, 8, 8, device="mps")
torch.mul(x, x)
torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
torch.nn.functional.interpolate(x, scale_factor=2, mode="bicubic")  # sure: missing-operator
v = torch.randn(2, 3, 8, 8, 8, device="mps")
torch.nn.functional.interpolate(v, scale_factor=2, mode="trilinear")  # sure: missing-operator
up = torch.nn.ConvTranspose3d(3, 4, 3).to("mps")
up(v)  # sure: refused-call
torch.cuda.is_bf16_supported()  # sure: cuda-function
with torch.autocast("mps", dtype=torch.float16):  # sure: unknown-mps-api
    pass
