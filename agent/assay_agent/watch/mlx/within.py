"""Whether a function that MLX differentiates or compiles is under way on the training thread: what is called within it
is part of it."""

from ...timeline import T

depth = 0  # of such calls
gradients = updates = 0  # that were made within one, so far
compiled_gradients = compiled_updates = False  # those that train are made within compiled functions


def watched():
    """Whether what is called now is the training loop's own: not where another framework that computes by MLX tells its
    steps itself."""
    return T.on and T.trains() and not T.in_whole()
