"""Wants its own sitecustomize: run with PYTHONPATH=ownsite."""
import sys

import sitecustomize

print(own_site, sitecustomize.__doc__, sitecustomize.__name__, len(sys.path))
import torch

print(torch.ones(2).sum().item())
