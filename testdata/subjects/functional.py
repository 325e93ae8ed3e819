# expect: steps=20 epochs=0 micro=1
"""No nn.Module, no loader: tensors and an optimizer."""
import torch

torch.set_num_threads(1)
torch.manual_seed(0)
w1, w2 = torch.randn(8, 16, requires_grad=True), torch.randn(16, 1, requires_grad=True)
optimizer = torch.optim.Adam([w1, w2], lr=1e-2)
x = torch.randn(64, 8)
y = x.pow(2).sum(1, keepdim=True)
for step in range(20):
    loss = ((torch.relu(x @ w1) @ w2 - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
