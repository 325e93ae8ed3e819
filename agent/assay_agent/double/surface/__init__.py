"""The Python surface of PyTorch on a Mac, a file a part: torch.mps, torch.backends.mps, torch.accelerator, generators,
storages and files, torch.cuda's refusals, DataLoader and worker processes, torch.compile, torch.distributed,
optimizers, and what tensors answer. install.py has them in the order in which they are put up.

Where PyTorch's Python asks its C++ (torch._C._mps_…), the answer is put there and PyTorch's own Python stays. Names
that the release aimed at does not have are taken away from scripts, and kept for PyTorch's own modules, which may need
them; names that the installed release does not have yet are added.

A part has `install(double)`. What is put up is there for the whole process: its names are those of the double that it
was put up for, and what it answers is asked of the double in use.
"""
