"""Updates by hand: whether somebody has changed a parameter or its gradient since the last backward pass.

Asked only while no optimizer has stepped. One leaf of the graph stands for all parameters: the one that is nearest to
the loss. Its version counter tells an update in place (`w -= lr * w.grad`), its gradient that it was cleared or made
anew, which also tells of updates that no counter counts (`p.data.add_(…)`); functional updates make new leaves.
"""

import weakref

from ...timeline import T

NODES = 1000  # of a graph that are looked at for a leaf

_torch = None
_last = None  # (weak reference to the leaf, its version, id and version of its gradient, its shape) as a pass left them
_leaf = None  # weak reference to that of the pass that has begun
_backward = False  # Tensor.backward was called: then passes of autograd.grad are parts of losses


def install(torch):
    global _torch
    _torch = torch
    T.touched = touched


def clear():
    """A forked child has trained nothing."""
    global _last, _leaf, _backward
    _last, _leaf, _backward = None, None, False


def begins(roots):
    """A backward pass from roots begins: which leaf it comes to. Returns that, or None."""
    global _backward, _leaf
    if not _backward:
        _backward = True
        T.gathers()  # what autograd.grad did before is a part of this
    leaf = _nearest(first(roots))
    _leaf = None if leaf is None else weakref.ref(leaf)
    return leaf


def begins_for(inputs, create_graph):
    """A pass of autograd.grad for inputs begins. Returns whether it is one that may end in an update: no derivative
    within a loss; and the input that stands for all, or None."""
    global _leaf
    leaf = first(inputs)
    whole = not create_graph
    functorch = getattr(_torch._C, "_functorch", None)
    if type(leaf) is _torch.Tensor and functorch is not None and functorch.is_functorch_wrapped_tensor(leaf):
        # torch.func.grad asks for the graph always; it is within a loss if another one is around it.
        whole = sum(level.key() == functorch.TransformType.Grad for level in functorch.get_interpreter_stack()) == 1
        while functorch.is_functorch_wrapped_tensor(leaf):
            leaf = functorch.get_unwrapped(leaf)
    if whole and not _backward:
        _leaf = None if leaf is None else weakref.ref(leaf)
        return True, leaf
    return False, leaf


def first(tensors):
    """The first of what a function of autograd takes: a tensor or several. None where there is none, or where asking
    would use it up: parameters() is a generator."""
    if type(tensors) in (list, tuple):
        tensors = tensors[0] if tensors else None
    return tensors if isinstance(tensors, _torch.Tensor) else None


def _nearest(root):
    """The leaf that the fewest operations lie between it and root, or None."""
    if type(root) not in (_torch.Tensor, _torch.nn.Parameter):
        return None
    with _torch._C.DisableTorchFunction():
        seen, todo = set(), [root.grad_fn]
        for node in todo:
            if node is None or node in seen:
                continue
            variable = getattr(node, "variable", None)
            if variable is not None:
                return variable
            if len(seen) >= NODES:
                break
            seen.add(node)
            todo += [before for before, _ in node.next_functions]
    return None


def over():
    """The pass is over: what its leaf is like now."""
    global _last
    leaf = None if _leaf is None else _leaf()
    _last = None if leaf is None else (_leaf, *_state(leaf))


def _state(leaf):
    with _torch._C.DisableTorchFunction():
        grad = leaf.grad if leaf.is_leaf else None
        return leaf._version, id(grad), None if grad is None else grad._version, leaf.shape


def touched():
    """Whether the leaf of the last pass has been changed since, or is no longer what is differentiated by. True where
    that cannot be told."""
    if _last is None:
        return True
    leaf = _last[0]()
    if leaf is None or _state(leaf) != _last[1:]:
        return True
    other = None if _leaf is None else _leaf()
    return other is not None and other is not leaf and other.shape == leaf.shape
