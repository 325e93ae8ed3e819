"""What the device's memory is for: each storage's kind, and who held what when most was in use. Sizes are bytes of the
allocator's blocks, so that the kinds add up to what it counts.

A kind is told by what holds the storage (`look`), else by how long it lived: what a forward pass made and outlived it is
an activation, what was gone before its phase was over was workspace. Both are known late, and the peak is over by then.
So nothing is summed up at the peak: each charge bears the serial number of its birth, and those that die after the peak
are written down. What was there at the peak are the living and the dead that were born before it.

A phase is told by what PyTorch does: a backward pass by the engine's graph task, a forward pass by the first operator
that autograd records. Whoever watches modules, optimizers and torch.save tells the rest (watch/torch/rehearsal.py).
"""

import weakref

import torch

from ..modules import tensors_in

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

KINDS = ("weights", "gradients", "optimizer", "activations", "workspace", "data", "other")
WEIGHTS, GRADIENTS, OPTIMIZER, ACTIVATIONS, WORKSPACE, DATA, OTHER = KINDS
SETUP, BETWEEN, FORWARD, BACKWARD, STEPPING, EVALUATION, SAVING = (
    "setup", "between", "forward", "backward", "optimizer", "evaluation", "saving")
# What of a phase outlives it, where nothing that holds it is known.
_OUTLIVES = {FORWARD: ACTIVATIONS, EVALUATION: ACTIVATIONS}
_PIECES = {EVALUATION: "evaluation", SAVING: "saving", SETUP: None}  # the rest is the training step
TRAINING = "training step"

# Optimizer steps after which weights and states are looked at each time; then at powers of two. They are made once.
LOOKS = 3
MODULES = 10_000  # that are remembered

_graph_task = torch._C._current_graph_task_id
_grad_enabled = torch.is_grad_enabled


class Ledger:
    """account is asked for when a charge is made: a function, since it is made at first use.

    step        () -> number of the step that is under way, from 1
    peak        most that was in use; peak_at: (step, phase) then
    largest     the largest buffer that was asked for
    steady      in use when the last optimizer's step was over; None before
    evaluated   the model that is trained was called in evaluation mode, without gradients
    saved       torch.save copied storages of the device; host: the largest of them
    batch       of the evidence (docs/formats/events.md, account); None: no loader was read
    """

    def __init__(self):
        self.step = lambda: self.steps + 1
        self.models = {}  # id -> weak reference to a module that was called from outside any other
        self.optimizers = {}  # the same of optimizers that have stepped
        self.trained = {}  # id of a module -> whether it has parameters of an optimizer's
        self.clear()

    def clear(self):
        """A forked child tells of itself alone."""
        self.serial = self.window = self.peak = self.peak_serial = self.driver = self.largest = self.steps = 0
        self.peak_at = (0, SETUP)
        self.phase, self.rest = SETUP, SETUP
        self.moved = False  # what is charged now is a copy from the CPU
        self.recomputed = False  # a backward pass computes a part of the forward pass anew
        self.stepping = self.evaluating = self.saving = False
        self.dead = []  # (kind, bytes) of what was there at the peak and is gone
        self.pieces = {}  # piece -> most that was in use
        self.steady = self.batch = None
        self.evaluated = self.saved = False
        self.host = 0

    # Phases

    def at(self, tensors):
        """An operator with these arguments has been computed: the phase that it belongs to."""
        self.recomputed = False
        if _graph_task() != -1:
            self.recomputed = _grad_enabled()
            self.turn(BACKWARD)
        elif self.stepping:
            self.turn(STEPPING)
        elif self.saving:
            self.turn(SAVING)
        elif self.evaluating:
            self.turn(EVALUATION)
        elif self.phase is not FORWARD:
            if _grad_enabled() and any(t.requires_grad for t in tensors):
                self.turn(FORWARD)
            elif self.phase is not self.rest:
                self.turn(self.rest)

    def turn(self, phase):
        """A phase begins, or goes on."""
        if phase is self.phase:
            return
        self.phase = phase
        self.window += 1
        if phase is FORWARD:
            self.rest = BETWEEN
        elif phase is not EVALUATION:
            self.evaluating = False

    # Charges

    def charged(self, charge, account):
        """A storage has been charged: blocks are what it is charged, nbytes what was asked for."""
        self.serial = charge.born = self.serial + 1
        charge.phase, charge.window = self.phase, self.window
        charge.kind = DATA if self.moved else ACTIVATIONS if self.recomputed else None
        if charge.nbytes > self.largest:
            self.largest = charge.nbytes
        if account is not None:
            self.grew(account)

    def grew(self, account):
        """More is in use."""
        current, phase = account.current, self.phase
        if current > self.peak:
            self.peak, self.peak_serial = current, self.serial
            self.peak_at = (0 if phase is SETUP else self.step(), phase)
            self.dead.clear()
        piece = _PIECES.get(phase, TRAINING)
        if piece is not None and current > self.pieces.get(piece, 0):
            self.pieces[piece] = current

    def freed(self, charge):
        """A storage's blocks are about to be given back. May be called by a finalizer, anywhere."""
        if charge.born <= self.peak_serial:
            kind = charge.kind or (WORKSPACE if charge.window == self.window else _OUTLIVES.get(charge.phase, OTHER))
            self.dead.append((kind, _bytes(charge)))

    def kinds(self, live):
        """Bytes by kind at the peak; live: the charges that are left. They add up to `peak`."""
        found = dict.fromkeys(KINDS, 0)
        for kind, nbytes in self.dead:
            found[kind] += nbytes
        for charge in list(live):
            if charge.born <= self.peak_serial:
                found[charge.kind or _OUTLIVES.get(charge.phase, OTHER)] += _bytes(charge)
        found[WORKSPACE] += max(0, self.peak - sum(found.values()))  # a kernel's own, while it ran
        return found

    # What holds the storages

    def called(self, module, grad):
        """A module is called from outside any other; grad: gradients are on."""
        held = self.models.get(id(module))
        if (held is None or held() is not module) and len(self.models) < MODULES:
            self.models[id(module)] = weakref.ref(module)
            self.trained.pop(id(module), None)
        if grad:
            self.evaluating = False
            if _graph_task() == -1 and not self.stepping:
                self.turn(FORWARD)
        elif not self.evaluating and not module.__dict__.get("training", True) and self._is_trained(module):
            self.evaluating = self.evaluated = True
            self.turn(EVALUATION)

    def _is_trained(self, module):
        known = self.trained.get(id(module))
        if known is None:
            if not self.optimizers:
                return False
            mine = {id(p) for o in self._optimizers() for g in o.param_groups for p in g["params"]}
            known = self.trained[id(module)] = any(id(p) in mine for p in tensors_in(module, "_parameters"))
        return known

    def _optimizers(self):
        return [o for o in [held() for held in self.optimizers.values()] if o is not None]

    def optimizer_steps(self, optimizer, live):
        """An optimizer's step begins."""
        if id(optimizer) not in self.optimizers:
            self.optimizers[id(optimizer)] = weakref.ref(optimizer)
            self.trained.clear()
        self.stepping = True
        self.turn(STEPPING)
        self.look_at_gradients(live)

    def optimizer_stepped(self, live, account):
        """An optimizer's step is over."""
        self.stepping = False
        self.steps += 1
        if account is not None:
            self.steady = account.current
        if self.steps <= LOOKS or not self.steps & self.steps - 1:
            self.look(live)
        self.turn(self.rest)

    def look(self, live):
        """Tell the kinds of what modules and optimizers hold. live: address of a StorageImpl -> charge."""
        with torch._C.DisableTorchFunctionSubclass():  # what a subclass is asked may be the script's own code
            self._look(live)
            self._look_at_gradients(live)

    def _look(self, live):
        for held in list(self.models.values()):
            module = held()
            if module is not None:
                for t in tensors_in(module, "_parameters", "_buffers"):
                    _tell(live, t, WEIGHTS)
        for optimizer in self._optimizers():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    _tell(live, p, WEIGHTS)
            for state in list(optimizer.state.values()):
                for t in list(state.values()) if isinstance(state, dict) else ():
                    for one in t if isinstance(t, (list, tuple)) else (t,):
                        _tell(live, one, OPTIMIZER)

    def look_at_gradients(self, live):
        """Tell which storages are gradients of parameters."""
        with torch._C.DisableTorchFunctionSubclass():
            self._look_at_gradients(live)

    def _look_at_gradients(self, live):
        for held in list(self.models.values()):
            module = held()
            if module is not None:
                for p in tensors_in(module, "_parameters"):
                    _tell_gradient(live, p)
        for optimizer in self._optimizers():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    _tell_gradient(live, p)

    # torch.save

    def save(self, account):
        """torch.save begins."""
        self.saving = True
        self.turn(SAVING)
        if account is not None:
            self.grew(account)

    def copied_to_host(self, nbytes):
        """A storage of the device was copied to the CPU as a whole."""
        if self.saving:
            self.saved = True
            self.host = max(self.host, nbytes)

    def save_is_over(self):
        """torch.save has returned."""
        self.saving = False
        self.turn(self.rest)

    # What is told

    def event(self, place, release_limits):
        """The event `account` (docs/formats/events.md)."""
        self.look(place.live)
        account = place.account
        pieces = [{"what": what, "peak": peak} for what, peak in sorted(self.pieces.items())
                  if what != SAVING or self.saved]
        for piece in pieces:
            if piece["what"] == SAVING:
                piece["host"] = self.host
        event = {"ev": "account", "peak": max(self.driver, account.peak_driver), "allocated_peak": self.peak,
                 "at": {"step": self.peak_at[0], "phase": self.peak_at[1]},
                 "kinds": self.kinds(place.live.values()), "largest_buffer": self.largest,
                 "evaluated": self.evaluated, "saved": self.saved, "pieces": pieces, "limits": release_limits}
        if self.steady is not None:
            event["steady"] = self.steady
        if self.batch is not None:
            event["batch"] = self.batch
        return event


def _bytes(charge):
    return sum(block.size for block in charge.blocks)


def _tell(live, tensor, kind):
    if isinstance(tensor, torch.Tensor):
        try:
            charge = live.get(tensor.untyped_storage()._cdata)
        except (NotImplementedError, RuntimeError, AttributeError, ValueError):  # sparse, lazy
            return
        if charge is not None and charge.kind is not WEIGHTS:
            charge.kind = kind


def _tell_gradient(live, parameter):
    if isinstance(parameter, torch.Tensor) and parameter.is_leaf and parameter.grad is not None:
        _tell(live, parameter.grad, GRADIENTS)
