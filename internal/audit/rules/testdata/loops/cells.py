# %% [markdown]
# A notebook that is kept as a script.

# %%
import torch
from torch.utils.data import DataLoader

loader = DataLoader(torch.utils.data.TensorDataset(torch.zeros(8, 3)), num_workers=2)

# %%
for (x,) in loader:
    print(x.shape)
