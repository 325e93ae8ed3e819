"""Updates by hand: whether somebody has changed a parameter or its gradient since the last backward pass.

Asked only while no optimizer has stepped. One leaf of the graph stands for all parameters: the one that is nearest to
the loss. Its version counter tells an update in place (`w -= lr * w.grad`), its gradient that it was cleared or made
anew, which also tells of updates that no counter counts (`p.data.add_(…)`); functional updates make new leaves.
"""

import weakref

from ...timeline import T

NODES = 1000  # of a graph that are looked at for a leaf

_torch = None
_content = None  # of a tensor: what can be compared with what it was
_first = None  # (weak reference to the leaf of the first pass, its content)
_last = None  # (weak reference to the leaf, its version, id and version of its gradient, its shape) as a pass left them
_leaf = None  # weak reference to that of the pass that has begun
_backward = False  # Tensor.backward was called: then passes of autograd.grad are parts of losses


def install(torch, content):
    """content: of a tensor, something that equals() another; None where it is not asked."""
    global _torch, _content
    _torch, _content = torch, content
    T.touched, T.moved = touched, moved


def clear():
    """A forked child has trained nothing."""
    global _first, _last, _leaf, _backward
    _first, _last, _leaf, _backward = None, None, None, False


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
    global _single
    leaf = first(inputs)
    _single = isinstance(inputs, _torch.Tensor) or type(inputs) in (list, tuple) and len(inputs) == 1
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


_single = False  # the pass is for the gradient of a single tensor, which may well be data


def over():
    """The pass is over: what its leaf is like now."""
    global _first, _last
    leaf = None if _leaf is None else _leaf()
    if _first is None and leaf is not None:
        _first = _leaf, _content(leaf)
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
    other = None if _leaf is None else _leaf()
    if other is not leaf and not _backward and _single and type(other) is not _torch.nn.Parameter:
        return False  # of one input after the other: how a model comes to what it says of each
    if leaf is None or _state(leaf) != _last[1:]:
        return True
    return other is not None and other is not leaf and other.shape == leaf.shape


def moved():
    """Whether the leaf of the first pass is another than it was, or there is another one in its place. True where that
    cannot be told."""
    leaf = None if _first is None else _first[0]()
    if leaf is None or _first[1] is None or _leaf is None or _leaf() is not leaf:
        return True
    content = _content(leaf)
    return content is None or not (
        _torch.equal(content, _first[1]) if isinstance(content, _torch.Tensor) else content == _first[1]
    )
