"""Processes. A Mac starts workers by spawn, hands tensors between processes by file name, and calls its processor
`arm`, by which Lightning knows it."""

import multiprocessing
import platform
from multiprocessing import context

import torch

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    default = context._default_context
    if getattr(default, "_actual_context", None) is None:  # the script has not chosen
        default._default_context = multiprocessing.get_context("spawn")
    platform.processor = lambda: "arm"
    sharing = torch.multiprocessing
    sharing.set_sharing_strategy("file_system")
    sharing._all_sharing_strategies = {"file_system"}
