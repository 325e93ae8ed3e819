import os
import torch
from main import circle_back

CONSTANT = 5
LATE = "before"
if os.environ.get("X"):
    CHOSEN = "cpu"
else:
    CHOSEN = "mps"


def make():
    return torch.zeros(3, device="mps")


class Thing:
    def value(self):
        return self.other()

    def other(self):
        return 7


def circle():
    return circle_back()


LATE = "after"
