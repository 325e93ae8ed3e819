"""The double: a stand-in for PyTorch's MPS backend, so that a training script can be rehearsed without a Mac."""
