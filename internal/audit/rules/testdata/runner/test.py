# The evaluation of a model, and no file of tests.
import torch


def evaluate(model):
    model.cuda()  # sure: cuda-call
