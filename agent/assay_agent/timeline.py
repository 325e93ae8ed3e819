"""The training loop as a timeline: which phase the training thread is in, and where one step ends and the next begins.

Hooks report entries and exits of loaders, copies, modules, backward passes and optimizers; this module charges the time
between them to phases and closes steps. It knows no framework: a hook declares the phase that it sees
(`Timeline.phase`) and names it in what it reports. All times are `time.perf_counter_ns()`.

A step is one round of optimizer steps. It opens with the first work after the last one and closes
  - when a loader is asked for the next batch, or
  - when an optimizer that has stepped already steps again with no batch fetched between (loops without a loader): then
    at the first work after its former step.
A batch that saw neither backward pass nor optimizer (evaluation) belongs to no step: its time counts as outside.

The time between two module calls is the modules' phase, and so is that from there to the backward pass: model, loss,
and what stands between them. Where no module call was seen since the last phase (functional models, compiled
functions), all the time up to the backward pass is that phase. Whatever else is "rest".
"""

import sys
import time
from _thread import get_ident
from collections import deque, namedtuple

from . import guest, wire
from .device import Device

now = time.perf_counter_ns

SYNC_EVERY = 20  # on an asynchronous device, one step in so many is synchronised at its phase boundaries
COLUMNS = ("number", "start", "total", "phases", "epoch", "micro", "evals", "kind", "live", "pool", "opts", "outside")

# name: in figures, small letters, digits and _; order: among the phases of a step; title and doc: as a reader is
# shown it.
Phase = namedtuple("Phase", ("name", "order", "title", "doc"))
REST = 0  # what no hook claims
_rest = Phase("rest", float("inf"), "rest", "the script's own code between")


class Step:
    """What is known of the step that is open."""

    __slots__ = ("start", "acc", "opts", "refs", "backwards", "micro", "evals", "live", "pool", "batch")

    def __init__(self, start, phases):
        self.start = start
        self.acc = [0] * phases  # ns, by phase
        self.opts = []  # ids of optimizers that have stepped, in order
        self.refs = []  # weak references to them
        self.backwards = 0
        self.micro = 0  # most batches that one optimizer step has gathered
        self.evals = 0  # backward passes inside an optimizer step (closures)
        self.live = self.pool = -1  # bytes on the device when the backward pass began
        self.batch = None  # (loader, iterator) serials of its batch


class Timeline:
    """The one training loop that is watched in this process."""

    def __init__(self):
        self.phases = [_rest]  # Phase, by number, as they were declared
        self.open_hooks = []  # (number, timeline) -> kind of step, or None
        self.close_hooks = []  # (number, step, timeline)
        self.epoch_hooks = []  # (epoch, timeline): the epoch is over
        # (framework): one that computes by another updates; true where the other takes the update for its own's
        self.update_hooks = []
        self.reset()

    def reset(self):
        """As at the start of the process; also what a forked child begins with."""
        self.on = True
        self.owner = None  # thread that trains
        self.busy = 0  # inside a loader, a module or a backward pass: what they call is part of them
        self.base = REST  # what unaccounted time is: REST, or the optimizer's phase while it runs a closure
        self.in_opt = 0
        self.opt_key = self.opt_seen = None
        self.gap = 0  # time since the last phase that is not charged yet
        self.mark = now()
        self.step = self.new_step(self.mark)
        self.told = 0  # how many phases this process's stream has been told of
        self.seen_forward = False
        self.waiting = 0  # batches of this pass that no backward pass has used yet: some loops fetch ahead
        self.given = self.used = 0  # batches of this pass in all, and those with a backward pass
        self.gathered = 0  # batches with a backward pass since the last optimizer step
        self.snapshot = None  # the step as it was when new work began after an optimizer step, and that time
        self.opt_over = None  # when an optimizer's step was over: the time, and the step's acc and start as they were
        self.number = 0  # closed steps
        self.backwards = 0  # in all
        self.opened = False
        self.kind = ""
        self.active = ""  # the instrument that is on now: what it touches bears its name
        self.looped = False  # the last step was closed by its optimizer's next step, not by a fetch
        self.round = 1  # optimizer steps in that step
        self.planned = False  # what the next step is has been decided
        self.coming = ""  # its kind
        self.sync = None  # set on sampled steps: waits for the device
        self.device = Device("")  # that trains, once seen
        self.led = ("", "")  # the framework whose loop it is, and what computes for it where that is another
        self.told_whole = None  # code of the function in which a framework tells whole steps
        self.rows = deque()  # closed steps that have not been sent
        self.outside = 0  # ns since the last closed step that belonged to no step
        self.batch = None  # (loader, iterator) serials of the last batch
        self.primary = None  # the loader that epochs are counted by
        self.primary_pass = None
        self.misses = 0
        self.pass_over = False  # the training loader's pass has given its last batch
        self.epoch_ended = True
        self.epoch = 0
        self.epoch_step = 0
        self.epoch_length = 0  # steps of the last whole epoch
        self.limit_steps = 0
        self.limit_at = 0
        self.counts = {"fetch": 0, "module": 0, "backward": 0, "optimizer": 0, "copy": 0, "sync": 0, "step": 0}
        self.memory_every = 1
        self.memory_ns = self.memory_reads = 0
        self.begun = self.mark
        self.sender_before = 0  # CPU time of the sender thread before the first step closed
        self.heavy_ns = 0  # the agent's own longer work on the training thread, timed
        self.phase_hook = None  # (phase name): a phase of a sampled step has ended

    # -- what there is ------------------------------------------------------------------------------------------------

    def phase(self, name, order, title, doc):
        """Declare a phase; its number, by which hooks report it. One that is there already keeps what was said of it
        first."""
        for number, known in enumerate(self.phases):
            if known.name == name:
                return number
        self.phases.append(Phase(name, order, title, doc))
        self.step.acc.append(0)
        if self.snapshot is not None:
            self.snapshot[0].acc.append(0)
        if self.opt_over is not None:
            self.opt_over[1].append(0)
        return len(self.phases) - 1

    def use(self, device):
        """The device that trains is known, or it is another one."""
        self.device = device
        if device.limit is not None:
            wire.put({"ev": "limit", "bytes": device.limit[0], "source": device.limit[1]})
        event = {"ev": "device", "type": device.kind, "queued": device.synchronize is not None}
        if device.name:
            event["name"] = device.name
        wire.put(event)

    def lead(self, framework, backend="", whole=""):
        """The loop is that framework's; backend: another one that computes for it, whose own word then does not
        count; whole: why its step cannot be taken apart."""
        if (framework, backend) == self.led or framework == self.led[1]:
            return
        self.led = (framework, backend)
        wire.put({"ev": "trains", "framework": framework, "backend": backend})
        if whole:
            wire.put({"ev": "unseen", "phases": {phase: whole for phase in ("forward", "backward", "optimizer")}})

    def new_step(self, start):
        return Step(start, len(self.phases))

    # -- the clock ----------------------------------------------------------------------------------------------------
    # Of an open step sum(acc) + gap == mark - start, always: what leaves time out moves start with mark. A time that was
    # taken before is therefore worth something only with the start and the acc of that moment.

    def boundary(self):
        """The time; on a sampled step, the time at which the device has done what was queued."""
        if self.sync is not None:
            self.sync()
        return now()

    def mine(self):
        """Whether the calling thread trains. The first that works becomes the one."""
        if self.owner is None:
            self.owner = get_ident()
        return self.owner == get_ident()

    def settle(self, t, phase):
        """Charge the gap and the time up to t to a phase."""
        self.step.acc[phase] += self.gap + t - self.mark
        self.gap = 0
        self.mark = t

    def skip(self, t0, t1):
        """Leave the time between out of the step: the agent's own work, begun at t0."""
        if self.busy:
            t0 = max(t0, self.mark)  # what went before stays with the phase that is under way
            self.step.start += t1 - t0
            self.mark += t1 - t0
        else:
            self.gap += max(0, t0 - self.mark)
            self.step.start += t1 - max(t0, self.mark)
            self.mark = t1

    def phase_over(self, phase):
        """A phase of a sampled step has ended: look at the memory, outside the step's time."""
        if self.phase_hook is not None:
            t = now()
            self.phase_hook(self.phases[phase].name)
            t1 = now()
            self.heavy_ns += t1 - t
            self.skip(t, t1)

    def read_memory(self, step):
        """The device's account, as often as costs a fifth of a per cent of the time; the reading is no part of the
        step."""
        t = now()
        step.live, step.pool = self.device.memory()
        t1 = now()
        self.skip(t, t1)
        self.memory_ns += t1 - t
        self.memory_reads += 1
        if self.memory_reads % 8 == 0 and self.number > 1:
            mean = (t - self.begun) / self.number
            self.memory_every = max(1, min(64, round(self.memory_ns / self.memory_reads / (0.002 * mean) + 0.5)))

    # -- steps --------------------------------------------------------------------------------------------------------

    def run_hooks(self, hooks, *args):
        """Call each; a failure is a line of evidence. Their time is the agent's, not the step's."""
        t = now()
        result = None
        for hook in hooks:
            try:
                result = hook(*args) or result
            except Exception as err:
                guest.pass_on(err)
                wire.trouble("%s: %r" % (getattr(hook, "__qualname__", hook), err))
        self.heavy_ns += now() - t
        return result

    def open(self):
        """Decide what kind of step the next one is: once a step, at its first event."""
        self.opened = True
        self.looped = self.planned = False
        self.kind = self.decide(self.number + 1)
        self.step.acc = [0] * len(self.phases)
        self.gap = 0
        self.step.start = self.mark = now()

    def decide(self, number):
        """The kind of the step of that number, which begins now: an instrument's, "sync" where its phases are
        synchronised, or ""."""
        self.sync = None
        self.active = self.run_hooks(self.open_hooks, number, self) or ""
        if self.active or self.device.synchronize is None or number % SYNC_EVERY:
            return self.active
        self.sync = self.device.synchronize
        self.sync()
        return "sync"

    def plan(self):
        """Where no fetch opens a step: decide what the next one is as soon as the last optimizer of this one has
        stepped."""
        t = now()
        self.planned = True
        self.coming = self.decide(self.number + 2)
        self.skip(t, now())

    def lost(self):
        """A watched call ended without its end being heard of: the script raised within a hook. What is open is given
        up."""
        self.busy = self.in_opt = 0
        self.base = REST
        self.step = self.new_step(now())
        self.mark = self.step.start
        self.snapshot, self.opened, self.gap, self.gathered = None, False, 0, 0
        self.sync, self.seen_forward = None, False

    def free(self, own=1):
        """Whether what begins now is the loop's own, and no part of a watched call that is under way. own: calls of
        guest.around that it is made of itself."""
        if self.busy and not guest.inside(own):
            self.lost()
        return not self.busy

    def close(self, step, t):
        """A training step is over at t; step.acc sums to t - step.start."""
        self.number += 1
        self.opened = False
        batch = step.batch
        if batch is not None:
            if self.primary is None:
                self.primary = batch[0]
            elif batch[0] == self.primary:
                self.misses = 0
            else:
                self.misses += 1
                # A new loader for each epoch; a second loader beside the first (CycleGAN) does not count epochs.
                if self.pass_over or self.epoch_ended or self.misses >= 2:
                    self.primary, self.misses = batch[0], 0
            if batch[0] == self.primary and batch[1] != self.primary_pass:
                self.primary_pass = batch[1]
                self.end_epoch()
                self.epoch += 1
                self.epoch_step = 0
                self.epoch_ended = self.pass_over = False
        self.epoch_step += 1
        self.rows.append((self.number, step.start, t - step.start, step.acc, self.epoch, step.micro, step.evals,
                          self.kind, step.live, step.pool, len(step.opts), self.outside))
        self.outside = 0
        self.counts["step"] += 1
        if self.number == 1:
            self.begun = t
            self.sender_before = wire.sender_ns()
        self.run_hooks(self.close_hooks, self.number, step, self)
        wire.wake()
        if self.limit_steps and self.number >= self.limit_steps:
            self.stop("after %d steps, as asked (--steps)" % self.number)
        if self.limit_at and t >= self.limit_at:
            self.stop("after step %d, as asked (--for)" % self.number)

    def end_epoch(self):
        if not self.epoch_ended and self.epoch_step:
            self.epoch_ended = True
            self.epoch_length = self.epoch_step
            t = now()
            self.run_hooks(self.epoch_hooks, self.epoch, self)
            self.skip(t, now())

    def stop(self, why):
        """End the run as asked: SystemExit(0) in the training thread, so that finally blocks run and workers end."""
        self.on = False
        wire.say({"ev": "stopping", "why": why, "clock": now()})
        raise SystemExit(0)

    def finish(self):
        """At goodbye: the open step counts if its optimizer has stepped; what came after that is teardown."""
        if not self.on:
            return
        self.on = False
        self.limit_steps = self.limit_at = 0
        if self.step.opts and not self.in_opt:
            if self.snapshot is None:
                self.snapshot = self.step_at(*self.opt_over)
            self.close(*self.snapshot)
        self.end_epoch()

    def resume(self):
        """An exec has failed: the script goes on, with a new step."""
        self.on = True
        self.step = self.new_step(now())
        self.mark = self.step.start
        self.snapshot, self.opened, self.gap = None, False, 0
        self.busy = 0
        wire.put({"ev": "resumed"})

    def computed(self):
        """Of a framework that is lazy: what the optimizer has made has been computed, and only now its step is over."""
        if self.step.opts and self.snapshot is None and not self.in_opt:
            self.settle(self.mark, REST)
            self.opt_over = (self.mark, list(self.step.acc), self.step.start)

    # -- what the hooks report ----------------------------------------------------------------------------------------

    def pass_ended(self, batch):
        """The iterator gave its last batch. The last step may still be to come: frameworks fetch ahead."""
        if batch is not None and batch[1] == self.primary_pass:
            self.pass_over = True
            if batch == self.batch and self.used >= self.given:
                self.end_epoch()
                self.step = self.new_step(self.mark)
                self.opened = False

    def fetch_begin(self, new_pass=False):
        """A loader is asked for a batch, or (new_pass) for its iterator."""
        self.counts["fetch"] += 1
        t = self.boundary()
        step = self.step
        if not self.in_opt:
            self.settle(t, REST)
            if step.opts:
                self.step = self.new_step(t)
                self.snapshot = None
                self.close(step, t)
            elif not step.backwards:
                self.outside += t - step.start
                self.step = self.new_step(t)
                self.mark = t
            if new_pass and self.pass_over:
                self.end_epoch()
            if not self.opened:
                self.open()
        else:
            self.settle(t, self.base)
        self.seen_forward = False
        self.busy += 1

    def fetch_end(self, phase, batch):
        """batch: (loader serial, iterator serial), or None where no batch came."""
        self.busy -= 1
        self.settle(now(), phase)
        if batch is not None:
            if batch != self.batch:
                self.batch = batch
                self.waiting = self.given = self.used = 0
            self.waiting += 1
            self.given += 1
        if self.sync is not None:
            self.phase_over(phase)

    def work_begin(self, t, functional=False):
        """First work after an optimizer step: where the step will have ended if the same optimizer steps again.
        functional: nothing was seen of the work up to here, which begins where the optimizer's step was over."""
        if not self.opened:
            self.open()
            t = self.mark
        step = self.step
        if step.batch is None:
            step.batch = self.batch
        if step.opts and self.snapshot is None and not self.in_opt:
            self.snapshot = self.step_at(*self.opt_over) if functional else self.step_at(t, step.acc, step.start)
        return t

    def first_work(self):
        """Before the device is waited for at the start of a synchronised step: the step before it ends here."""
        if self.sync is not None and self.step.opts and self.snapshot is None and not self.in_opt:
            t = now()
            self.settle(t, self.base)
            self.work_begin(t)

    def step_at(self, t, acc, start):
        """A copy of the open step with the times of an earlier moment, and the time t at which it ends."""
        other = self.new_step(start)
        for name in Step.__slots__[1:]:
            value = getattr(self.step, name)
            setattr(other, name, list(value) if type(value) is list else value)
        other.acc = list(acc)
        return other, t

    def copied(self, phase, t0):
        """A copy from the host to the device began at t0 and has been issued."""
        self.counts["copy"] += 1
        if not self.opened or (self.step.opts and self.snapshot is None):
            t0 = max(t0, self.mark)
            self.settle(t0, self.base)
            self.work_begin(t0)
        self.took(phase, t0)

    def took(self, phase, t0):
        """What began at t0 and is over now was of that phase. It opens no step, and closes none."""
        t = self.boundary()
        self.gap += max(0, t0 - self.mark)
        self.step.acc[phase] += t - max(t0, self.mark)
        self.mark = t
        if self.sync is not None:
            self.phase_over(phase)

    def in_whole(self):
        """Whether a framework tells whole steps, so that what computes for it counts none: its function is on the
        stack. An exception may have ended it."""
        if self.told_whole is None:
            return False
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self.told_whole:
                return True
            frame = frame.f_back
        self.told_whole = None
        return False

    def step_over(self, key, ref=None, batch=None):
        """A framework tells a whole step, which is over; the next one begins now. batch: as in fetch_end."""
        self.optimizer_begin(REST, key, ref)
        self.optimizer_end(REST)
        step, t = self.step, self.mark
        step.batch = self.batch = batch
        self.step = self.new_step(t)
        self.close(step, t)
        self.open()

    def stepped_at(self, key, at):
        """What was told as a backward pass was an update too, over at another moment, `at` (mark, acc, start): the
        step that it ended is to be closed by the next one."""
        mark, acc, start = at
        acc += [0] * (len(self.phases) - len(acc))
        self.step.opts, self.step.refs = [key], [None]
        self.opt_over, self.snapshot = at, self.step_at(mark, acc, start)

    def leave_out(self, acc):
        """What followed the last update, up to the moment at which the open step had acc, belonged to no step."""
        if self.opt_over is None:
            return
        before = self.opt_over[1] + [0] * (len(acc) - len(self.opt_over[1]))
        for phase, took in enumerate(acc):
            self.step.acc[phase] -= took - before[phase]
        took = sum(acc) - sum(before)
        self.step.start += took
        self.outside += took

    def module_begin(self, phase):
        self.counts["module"] += 1
        self.first_work()
        t = self.boundary()
        self.settle(t, phase if self.seen_forward else self.base)
        if self.snapshot is None:
            self.work_begin(t)
        self.busy += 1

    def module_end(self, phase):
        self.busy -= 1
        self.settle(self.boundary(), phase)
        self.seen_forward = True

    def backward_begin(self, before):
        """before: the phase of the time up to here."""
        self.counts["backward"] += 1
        self.backwards += 1
        self.first_work()
        t = self.boundary()
        step = self.step
        if self.snapshot is None:
            if not self.seen_forward and step.opts and not self.in_opt:
                self.work_begin(t, functional=True)
            else:
                self.work_begin(t)
        self.settle(max(t, self.mark), before)
        self.busy += 1
        step.backwards += 1
        if self.in_opt:
            step.evals += 1
            self.gathered = max(self.gathered, 1)
        elif self.waiting or self.batch is None or not self.gathered:
            self.gathered += 1
        if self.waiting:
            self.waiting -= 1
            self.used += 1
        if self.device.memory is not None and self.number % self.memory_every == 0:
            self.read_memory(step)
        if self.sync is not None:
            self.phase_over(before)

    def backward_end(self, phase):
        self.busy -= 1
        self.settle(self.boundary(), phase)
        self.seen_forward = False
        if self.sync is not None:
            self.phase_over(phase)

    def optimizer_begin(self, phase, key, ref=None):
        """key: id of the optimizer; ref: a weak reference to it."""
        self.counts["optimizer"] += 1
        if key in self.step.opts:
            self.first_work()
        t = self.boundary()
        seen = self.counts["fetch"], self.counts["module"], self.counts["backward"]
        if self.in_opt and (key != self.opt_key or seen == self.opt_seen):
            self.in_opt += 1  # an optimizer that wraps another, or a step that was wrapped and hooked twice
            return
        self.settle(t, REST)
        if not self.opened:
            self.open()
        step = self.step
        if key in step.opts or any(old is not None and old() is None for old in step.refs):
            # The same optimizer again, or another after the former is gone: a second training in the same process.
            if self.snapshot is None:  # nothing was seen between: all its work is in the closure that it calls (LBFGS)
                self.snapshot = self.step_at(t, step.acc, step.start)
            closed, at = self.snapshot
            rest = self.new_step(at + step.start - closed.start)  # what was left out since
            rest.acc = [a - b for a, b in zip(step.acc, closed.acc)]
            rest.backwards = step.backwards - closed.backwards
            rest.evals = step.evals - closed.evals
            rest.live, rest.pool, rest.batch = step.live, step.pool, self.batch
            self.step, self.snapshot = rest, None
            # What was on until now has touched the step that is half over, whether or not it ends with
            # the one that is closed.
            kind = self.active or (self.coming if self.planned else "")
            self.looped, self.round = True, len(closed.opts)
            self.close(closed, at)
            self.opened, self.kind, self.planned, self.coming = True, kind, False, ""
            step = rest
            self.skip(t, now())
        step.opts.append(key)
        step.refs.append(ref)
        self.in_opt = 1  # also where a step of the same optimizer raised before: its end was never heard of
        self.opt_key, self.opt_seen = key, seen
        self.base = phase

    def optimizer_end(self, phase):
        if self.in_opt > 1:
            self.in_opt -= 1
            return
        t = self.boundary()
        self.settle(t, phase)
        self.in_opt = 0
        self.base = REST
        self.seen_forward = False
        step = self.step
        step.micro = max(step.micro, self.gathered, 1)
        self.gathered = 0
        self.snapshot = None
        if self.sync is not None:
            self.phase_over(phase)
        if self.active and not self.kind:
            self.kind = self.active
        if self.looped and not self.planned and len(step.opts) >= self.round:
            self.plan()
        self.settle(self.mark, REST)  # between the end and what was left out
        self.opt_over = (self.mark, list(step.acc), step.start)


T = Timeline()


def gather():
    """For the wire: the phases, once, and the steps closed since the last batch of events, as columns."""
    rows = []
    while T.rows:  # popleft is atomic: the training thread may append meanwhile
        rows.append(T.rows.popleft())
    phases = sorted(enumerate(T.phases), key=lambda at: at[1].order)
    if T.told != len(phases):
        T.told = len(phases)
        wire.put({"ev": "phases", "rows": [{"name": p.name, "title": p.title, "doc": p.doc} for _, p in phases]})
    if rows:
        event = {"ev": "steps"}
        event.update(zip(COLUMNS, zip(*rows)))
        # A step that was closed before a phase was declared has no time in it.
        event["phases"] = {p.name: [acc[n] if n < len(acc) else 0 for acc in event["phases"]] for n, p in phases}
        wire.put(event)
