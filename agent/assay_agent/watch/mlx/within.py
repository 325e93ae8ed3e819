"""Whether a function that MLX differentiates or compiles is under way on the training thread: what is called within it is part of it."""

depth = 0  # of such calls
gradients = updates = 0  # that were made within one, so far
