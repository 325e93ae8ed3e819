import pickle
import torch
from torch import load as tload
sd = tload("a.pt", weights_only=False)  # sure: unsafe-pickle
opts = {"weights_only": False}
sd2 = torch.load("b.pt", **opts)  # sure: unsafe-pickle
obj = pickle.load(open("x.pkl", "rb"))
m = torch.load("c.pt")
torch.serialization.load("d.pt", weights_only=False)  # sure: unsafe-pickle
