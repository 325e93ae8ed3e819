"""The training loop as a timeline: which phase the training thread is in, and where one step ends and the next begins.

Hooks report entries and exits of loaders, copies, modules, backward passes and optimizers; this module charges the time
between them to phases and closes steps. It knows no framework: a hook declares the phase that it sees
(`Timeline.phase`) and names it in what it reports. All times are `time.perf_counter_ns()`.

A step is one round of optimizer steps. It opens with the first work after the last one and closes
  - when a loader is asked for the next batch, or
  - when an optimizer that has stepped already steps again with no batch fetched between (loops without a loader): then
    at the first work after its former step, or
  - where no optimizer ever steps, when a backward pass begins and parameters or gradients have changed since the last:
    somebody updates them by hand. The step ends at the first work after the last pass.
A batch that saw neither backward pass nor optimizer (evaluation) belongs to no step: its time counts as outside.

The time between two module calls is the modules' phase, and so is that from there to the backward pass: model, loss,
and what stands between them. Where no module call was seen since the last phase (functional models, compiled
functions), all the time up to the backward pass is that phase. Whatever else is "rest".

An epoch is a pass of the loader that the steps draw from. Where they draw from none, it is what the first of these
says: the loop around the loop (turns.py), a scheduler that steps now and then, an evaluation now and then.
"""

import sys
import time
from _thread import get_ident
from collections import deque, namedtuple

from . import guest, turns, wire
from .device import Device

now = time.perf_counter_ns

# Passes after which it is sure that no optimizer is going to step: one that comes sooner makes them all a part of its
# first step. Nor is waited for longer than that many ns, once there are three.
BY_HAND, BY_HAND_NS = 50, 20_000_000_000
SHORT_EPOCH = 8  # steps; where no loader tells epochs, the ends of shorter ones are not looked at
SYNC_EVERY = 20  # on an asynchronous device, one step in so many is synchronised at its phase boundaries
LEAN, LEAN_AFTER = 16, 8  # one step in so many is told as a whole in a lean stretch; steps alike before one begins
BARE_LOOKS = 4  # with the hooks off, instruments are asked whether their window begins at one step in so many
COLUMNS = ("number", "start", "total", "phases", "epoch", "micro", "evals", "kind", "live", "pool", "opts", "raw",
           "outside")

# name: in figures, small letters, digits and _; order: among the phases of a step; title and doc: as a reader is
# shown it.
Phase = namedtuple("Phase", ("name", "order", "title", "doc"))
REST = 0  # what no hook claims
_rest = Phase("rest", float("inf"), "rest", "the script's own code between")


class Step:
    """What is known of the step that is open."""

    __slots__ = ("start", "acc", "opts", "refs", "backwards", "micro", "evals", "live", "pool", "batch", "turn")

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
        self.turn = None  # turns.Turn at its end, where no loader tells its epoch


class Timeline:
    """The one training loop that is watched in this process."""

    def __init__(self):
        self.phases = [_rest]  # Phase, by number, as they were declared
        self.blocks = None  # decides when the hooks are off (watch.blocks); None: they are always on
        self.leans = False  # whether the framework's hooks know of lean stretches
        self.open_hooks = []  # (number, timeline) -> kind of step, or None
        self.close_hooks = []  # (number, step, timeline)
        self.epoch_hooks = []  # (epoch, timeline): the epoch is over
        self.touched = None  # () -> whether parameters or gradients have changed since the last backward pass
        self.unseen = None  # () -> whether there is an optimizer whose step was compiled, so that no hook sees it
        self.moved = None  # () -> whether parameters have changed since the first one
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
        self.lean = False  # no hook reports but the optimizer's, of a round that is over: lean_step
        self.lean_key, self.lean_since = None, 0  # the one optimizer of the last steps, and since which
        self.lean_micro = 1
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
        self.bare = False  # they are off: what is reported is the marks of a step, and no more
        self.sampled = False  # the step is one of those that are synchronised, or whose memory is looked at
        self.ended = self.ended_before = 0  # when the last optimizer step, or step by hand, was over, and the one before
        self.device = Device("")  # that trains, once seen
        self.led = ("", "")  # the framework whose loop it is, and what computes for it where that is another
        self.telling = None  # code of the function in which a framework tells whole steps
        self.rows = deque()  # closed steps that have not been sent
        self.outside = 0  # ns since the last closed step that belonged to no step
        self.outside_before = 0  # and up to that step
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
        self.epoch_ns = 0  # of that, the looks at the end of epochs
        self.kept_ns = 0  # turning the hooks off and on, and reading losses while they are off, timed
        self.phase_hook = None  # (phase name): a phase of a sampled step has ended
        self.by_hand = False  # no optimizer steps: the script updates its parameters itself
        self.passed = None  # no optimizer has stepped: when the last backward pass was over, as opt_over
        self.within = False  # an optimizer has stepped within the backward pass that is under way
        self.whole = True  # the last backward pass was no derivative within a loss
        self.maybe = []  # (step, time) of steps by hand, while an optimizer may still come
        self.reader = None  # thread that read the last batch
        self.feeds = 0  # serial of the loader that the last step has its batch of
        self.endless = set()  # serials of loaders whose passes do not end
        self.strangers = 0  # backward passes and optimizer steps of threads that are not watched
        self.told_by = ""  # how epochs are told: loader, loop, scheduler, evaluation; "": not at all
        self.turn = None  # of the last step
        self.unsteady = False  # the loop around the loop is not the same for all steps, or turns with each
        self.marks = {}  # scheduler, evaluation -> the step after which it came, until an epoch is seen to end there
        self.marked = {}  # scheduler, evaluation -> the step after which it came last
        self.often = set()  # those of them that come with each step
        self.aside = None  # a model is being evaluated: its key, since when, and what had been counted
        self.told_loop = None  # what the stream has been told of all this

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

    def trains(self):
        """As mine, asked by what only a thread that trains does. Another thread gives way to it where it has only
        called modules or read data so far, and where it has ended."""
        me = get_ident()
        if not self.trained():
            if self.owner not in (None, me):
                self.lost()
            if self.reader not in (None, me):  # another thread reads ahead: which batch is used is not seen
                self.batch = self.step.batch = None
                self.waiting = self.given = self.used = 0
        elif self.owner != me:
            if self.owner in sys._current_frames():
                # A pass within a pass may run in a thread of the framework's own, which Python did not start.
                if me in getattr(sys.modules.get("threading"), "_active", ()):
                    self.strangers += 1
                return False
            self.close_last()
            self.lost()
        self.owner = me
        return True

    def trained(self):
        """Whether the thread that is watched has trained, and did not only call modules or read data."""
        return self.backwards > 0 or self.counts["optimizer"] > 0

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

    def look_at_memory(self):
        """Read the device's account, where it is the step's turn. With the hooks off, an allocator that keeps its peaks is
        asked for them later."""
        if self.device.memory is None or self.number % self.memory_every or self.bare and self.device.peak is not None:
            return
        self.read_memory(self.step)

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
        self.sampled = number % SYNC_EVERY == 0 if self.blocks is None else self.blocks.step(number, self)
        if self.bare and number % BARE_LOOKS and not self.active:
            return ""
        self.active = self.run_hooks(self.open_hooks, number, self) or ""
        if self.active or self.device.synchronize is None or not self.sampled:
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

    def begin_lean(self):
        """The optimizer's step is over, the hooks are off, and each of the last steps was one step of one optimizer. From
        here a step is what lies between the ends of two: marks that cost more than they tell are left out."""
        step = self.step
        key = step.opts[0] if len(step.opts) == 1 and not step.evals else None
        if key != self.lean_key:
            self.lean_key, self.lean_since = key, self.number
        if key is None or self.number - self.lean_since < LEAN_AFTER or not self.blocks.leans(self, self.number + 2):
            return
        if (self.number + 2) % LEAN == 0 or self.busy or self.telling is not None:
            return
        closed, at = self.step_at(*self.opt_over)
        self.lean_micro = closed.micro
        self.step = self.new_step(at)
        self.close(closed, at)
        self.begin_anew(at)
        self.blocks.forget(self.number + 1)
        self.lean = True

    def lean_step(self, key):
        """In a lean stretch an optimizer's step is over."""
        t = now()
        if key != self.lean_key:
            self.leave_lean(self.mark)
            self.lean_key = None
            return
        self.number = number = self.number + 1
        if not self.feeds or self.feeds in self.endless:
            turn = turns.turn(2)
            if turn is not self.turn:
                self.place_without_loader(turn)
        self.epoch_step += 1
        self.counts["step"] += 1
        self.counts["optimizer"] += 1
        at, step = self.ended, self.step
        self.rows.append((number, at, t - at, (), self.epoch, self.lean_micro, 0, "bare", step.live, step.pool, 1, t - at,
                          0))
        step.live = step.pool = -1
        self.ended = self.ended_before = self.mark = t
        if (number + 1) % LEAN == 0 or self.blocks.leaned(t):
            self.leave_lean(t)
        if self.limit_steps and number >= self.limit_steps:
            self.stop("after %d steps, as asked (--steps)" % number)
        if self.limit_at and t >= self.limit_at:
            self.stop("after step %d, as asked (--for)" % number)

    def leave_lean(self, t):
        """What begins at t is a step of which all is told."""
        self.lean = False
        self.begin_anew(t)
        if not self.feeds or self.feeds in self.endless:  # no fetch opens it, and with the hooks off no module's call
            self.open()

    def begin_anew(self, t):
        """The step that begins at t is not open yet."""
        self.step = self.new_step(t)
        self.mark, self.gap = t, 0
        self.snapshot, self.opened, self.planned, self.coming, self.kind = None, False, False, "", ""
        self.base, self.seen_forward, self.sync, self.gathered = REST, False, None, 0

    def lost(self):
        """A watched call ended without its end being heard of: the script raised within a hook. What is open is given
        up."""
        self.lean = False
        self.busy = self.in_opt = 0
        self.base = REST
        self.step = self.new_step(now())
        self.mark = self.step.start
        self.snapshot, self.opened, self.gap, self.gathered = None, False, 0, 0
        self.sync, self.seen_forward, self.passed, self.maybe = None, False, None, []

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
        if step.batch is not None:
            self.feeds = step.batch[0]
        if self.loader_tells(step):
            self.place(step.batch)
        elif self.primary is None:
            self.place_without_loader(step.turn)
        self.epoch_step += 1
        kind = "" if self.blocks is None else self.blocks.of(self.number)
        if self.by_hand:
            self.ended = t  # no optimizer's step tells
        raw = self.ended - self.ended_before if self.ended_before else 0
        self.ended_before = self.ended
        self.rows.append((self.number, step.start, t - step.start, () if kind and not self.kind else step.acc,
                          self.epoch, step.micro, step.evals, self.kind or kind, step.live, step.pool, len(step.opts),
                          raw, self.outside))
        self.outside_before += self.outside
        self.outside = 0
        self.counts["step"] += 1
        if self.number == 1:
            self.begun = t
            self.sender_before = wire.sender_ns()
        if self.active or not self.bare or not self.number & self.number - 1:  # powers of two: news of the loop's length
            self.run_hooks(self.close_hooks, self.number, step, self)
        wire.wake()
        if self.limit_steps and self.number >= self.limit_steps:
            self.stop("after %d steps, as asked (--steps)" % self.number)
        if self.limit_at and t >= self.limit_at:
            self.stop("after step %d, as asked (--for)" % self.number)

    def look_around(self):
        """The turn of the loop around the loop; what that takes is no part of the step."""
        t = now()
        turn = turns.turn(3)
        t1 = now()
        self.kept_ns += t1 - t if self.bare else 0
        self.skip(t, t1)
        return turn

    def loader_tells(self, step):
        """Whether the loader that a step has its batch of tells which epoch it is of."""
        return step.batch is not None and step.batch[0] not in self.endless

    def place(self, batch):
        """Which epoch a step with a batch is of."""
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
            self.next_epoch("loader")
            self.pass_over = False

    def place_without_loader(self, turn):
        """Which epoch a step is of that no loader tells it of; turn: of the loop around the loop."""
        was, self.turn = self.turn, turn or self.turn
        over = ""
        if turn is not None and turn.named:
            if was is None or not was.named:
                over = "loop" if self.told_by != "loop" else ""
            elif was[0::2] != turn[0::2] or was.value != turn.value:
                over = "loop"
        elif turn is None or was is None or was[0::2] != turn[0::2]:
            self.unsteady = self.unsteady or self.number > 1
        elif was.value != turn.value and not self.unsteady:
            if self.epoch_step < 2:
                self.unsteady = True
            else:
                over = "loop"
        for how in ("scheduler", "evaluation"):
            if 0 < self.marks.get(how, 0) < self.number:
                del self.marks[how]
                if not over and how not in self.often and self.told_by in ("", how):
                    over = how
        if self.unsteady and self.told_by == "loop" and not (self.turn is not None and self.turn.named):
            self.told_by = over = ""
        if over:
            if self.epoch == 0 and self.number > 1:  # the steps so far were the first
                self.epoch, self.epoch_ended = 1, False
            self.next_epoch(over)

    def next_epoch(self, told_by):
        self.end_epoch()
        self.told_by = told_by
        self.epoch += 1
        self.epoch_step = 0
        self.epoch_ended = False

    def may_end_epoch(self, how):
        """What comes once an epoch in many scripts has come. What comes with each step is no such sign."""
        if self.lean:
            if how in self.often:
                return
            self.leave_lean(self.mark)
        after = self.number + len(self.maybe) + bool(self.step.opts or self.passed is not None)
        last = self.marked.get(how, 0)
        if after > last:
            if after - last < 2:
                self.often.add(how)
                if self.told_by == how:
                    self.told_by = ""
            self.marked[how] = self.marks[how] = after

    def end_epoch(self):
        if not self.epoch_ended and self.epoch_step:
            self.epoch_ended = True
            self.epoch_length = self.epoch_step
            if self.told_by != "loader" and self.epoch_step < SHORT_EPOCH:
                return
            t = now()
            self.run_hooks(self.epoch_hooks, self.epoch, self)
            t1 = now()
            self.epoch_ns += t1 - t
            self.skip(t, t1)

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
        self.close_last()
        self.end_epoch()

    def close_last(self):
        """Nothing follows the open step: it counts if its optimizer has stepped, or if it was updated by hand."""
        if self.step.opts and not self.in_opt:
            if self.snapshot is None:
                self.snapshot = self.step_at(*self.opt_over)
            self.close(*self.snapshot)
        elif self.passed is not None and (
            self.by_hand or (self.maybe or self.touched()) and (self.moved is None or self.moved())
        ):
            closed, at = self.snapshot or self.step_at(*self.passed)
            self.snapshot = self.passed = None
            self.closes_by_hand(closed)
            self.maybe.append((closed, at))
            self.close_all_by_hand()

    def resume(self):
        """An exec has failed: the script goes on, with a new step."""
        self.on, self.lean = True, False
        self.step = self.new_step(now())
        self.mark = self.step.start
        self.snapshot, self.opened, self.gap = None, False, 0
        self.busy = 0
        wire.put({"ev": "resumed"})

    def computed(self):
        """Of a framework that is lazy: what the optimizer has made, or the script by hand, has been computed, and only
        now its step is over."""
        if self.snapshot is None and not self.in_opt and (self.step.opts or self.passed is not None):
            self.settle(self.mark, REST)
            over = (self.mark, list(self.step.acc), self.step.start)
            if self.step.opts:
                self.opt_over = over
            else:
                self.passed = over

    # -- what the hooks report ----------------------------------------------------------------------------------------

    def pass_ended(self, batch):
        """The iterator gave its last batch. The last step may still be to come: frameworks fetch ahead."""
        if self.lean:
            self.leave_lean(self.mark)
        if batch is not None and batch[1] == self.primary_pass:
            self.pass_over = True
            if batch == self.batch and self.used >= self.given:
                self.end_epoch()
                self.step = self.new_step(self.mark)
                self.opened = False

    def fetch_begin(self, new_pass=False):
        """A loader is asked for a batch, or (new_pass) for its iterator."""
        if self.lean:
            self.leave_lean(self.mark)
        self.counts["fetch"] += 1
        t = self.boundary()
        step = self.step
        if not self.in_opt:
            self.settle(t, REST)
            if step.opts:
                self.step = self.new_step(t)
                self.snapshot = None
                self.close(step, t)
            elif self.by_hand and self.passed is not None and self.touched():
                self.step = self.new_step(t)
                self.snapshot = self.passed = None
                self.closes_by_hand(step)
                self.close(step, t)
            elif not step.backwards:
                self.outside += t - step.start
                self.step = self.new_step(t)
                self.mark = t
            elif self.passed is not None and self.snapshot is None:
                self.snapshot = self.step_at(t, step.acc, step.start)
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
            self.reader = get_ident()
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
        if self.over() and self.snapshot is None and not self.in_opt:
            since = self.opt_over if step.opts else self.passed
            self.snapshot = self.step_at(*since) if functional else self.step_at(t, step.acc, step.start)
        return t

    def over(self):
        """Whether the open step is over if the same optimizer steps again, or what it updates by hand has changed."""
        return bool(self.step.opts) or self.passed is not None

    def first_work(self):
        """Before the device is waited for at the start of a synchronised step: the step before it ends here."""
        if self.sync is not None and self.over() and self.snapshot is None and not self.in_opt:
            t = now()
            self.settle(t, self.base)
            self.work_begin(t)

    def step_at(self, t, acc, start):
        """A copy of the open step with the times of an earlier moment, and the time t at which it ends."""
        step, other = self.step, Step(start, 0)
        other.acc, other.opts, other.refs = acc[:], step.opts[:], step.refs[:]
        other.backwards, other.micro, other.evals = step.backwards, step.micro, step.evals
        other.live, other.pool, other.batch, other.turn = step.live, step.pool, step.batch, step.turn
        return other, t

    def leave_open(self, closed, at):
        """The part of the open step that came after `closed`, which is its beginning up to `at`, is the open step."""
        step = self.step
        rest = self.new_step(at + step.start - closed.start)  # what was left out since
        rest.acc = [a - b for a, b in zip(step.acc, closed.acc)]
        rest.backwards = step.backwards - closed.backwards
        rest.evals = step.evals - closed.evals
        rest.live, rest.pool, rest.batch, rest.turn = step.live, step.pool, self.batch, step.turn
        self.step, self.snapshot = rest, None

    def close_looped(self, closed, at, parts):
        """Close what was the beginning of a step that stays open. parts: optimizer steps of it, or backward passes of
        one by hand."""
        # What was on until now has touched the step that is half over, whether or not it ends with
        # the one that is closed.
        kind = self.active or (self.coming if self.planned else "")
        self.looped, self.round = True, parts
        self.close(closed, at)
        self.opened, self.kind, self.planned, self.coming = True, kind, False, ""

    def copied(self, phase, t0):
        """A copy from the host to the device began at t0 and has been issued."""
        self.counts["copy"] += 1
        if not self.opened or (self.over() and self.snapshot is None):
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
        if self.telling is None:
            return False
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self.telling:
                return True
            frame = frame.f_back
        self.telling = None
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

    def backward_begin(self, before, whole=True):
        """before: the phase of the time up to here. whole: whether the pass is no derivative within a loss."""
        self.counts["backward"] += 1
        self.backwards += 1
        self.first_work()
        t = self.boundary()
        step = self.step
        if self.snapshot is None:
            if not self.seen_forward and self.over() and not self.in_opt:
                self.work_begin(t, functional=True)
            else:
                self.work_begin(t)
        if not self.seen_forward and self.passed is not None:
            before = REST  # the update by hand is in it
        self.settle(max(t, self.mark), before)
        self.whole = whole
        if whole and self.passed is not None:
            self.updated_by_hand(t)
            step = self.step
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
        self.look_at_memory()
        if self.sync is not None:
            self.phase_over(before)

    def backward_end(self, phase):
        self.busy -= 1
        self.settle(self.boundary(), phase)
        self.seen_forward = False
        if self.sync is not None:
            self.phase_over(phase)
        if self.within:
            self.within = False
            self.settle(self.mark, phase)
            self.opt_over = self.mark, list(self.step.acc), self.step.start
        if self.whole and self.touched is not None and not self.counts["optimizer"]:
            self.ended = self.mark
            self.step.turn = None if self.loader_tells(self.step) else self.look_around()
            if self.by_hand and self.looped and not self.planned and self.gathered >= self.round:
                self.plan()
            self.settle(self.mark, REST)
            self.passed = self.mark, list(self.step.acc), self.step.start

    def closes_by_hand(self, step):
        """The step was closed by an update by hand: what an optimizer's step would have noted."""
        step.micro, self.gathered = max(1, self.gathered), 0

    def gathers(self):
        """What passes there were so far are parts of a step that has not been updated."""
        self.maybe, self.passed, self.snapshot = [], None, None

    def updated_by_hand(self, t):
        """A backward pass begins, at t, and no optimizer has stepped so far. Where parameters or gradients have changed
        since the last pass, a step is over; else its gradients are added to those."""
        closed, at = self.snapshot or self.step_at(*self.passed)
        self.snapshot = self.passed = None
        if not self.touched():
            return
        self.closes_by_hand(closed)
        self.maybe.append((closed, at))
        self.step.batch = self.batch
        enough = min(BY_HAND, self.limit_steps or BY_HAND)
        waited = len(self.maybe) > 2 and t - self.maybe[0][1] > BY_HAND_NS
        if self.by_hand or waited or len(self.maybe) >= enough:
            if self.by_hand or self.moved is None or self.moved():
                self.close_all_by_hand()
            else:  # gradients are wanted for their own sake: an attack, an attribution
                self.gathers()
                self.touched = None
            self.skip(t, now())

    def close_all_by_hand(self):
        """Close the steps that were made by hand. What has been since stays open."""
        self.by_hand = True
        maybe, self.maybe = self.maybe, []
        while maybe:
            closed, at = maybe.pop(0)
            step = self.step
            self.leave_open(closed, at)
            for later, _ in maybe:
                later.start = self.step.start - step.start + later.start
                later.acc = [a - b for a, b in zip(later.acc, closed.acc)]
            self.close_looped(closed, at, closed.micro)

    def optimizer_begin(self, phase, key, ref=None):
        """key: id of the optimizer; ref: a weak reference to it."""
        if self.lean:
            self.leave_lean(self.mark)
        self.counts["optimizer"] += 1
        if key in self.step.opts:
            self.first_work()
        t = self.boundary()
        seen = self.counts["fetch"], self.counts["module"], self.counts["backward"]
        if self.in_opt and (key != self.opt_key or seen == self.opt_seen):
            self.in_opt += 1  # an optimizer that wraps another, or a step that was wrapped and hooked twice
            return
        if self.busy:  # one that steps within a backward pass, as soon as a gradient is there
            self.gap += t - self.mark
            self.mark, self.within = t, True
        else:
            self.settle(t, REST)
        if not self.opened:
            self.open()
        if self.passed is not None:
            self.passed, self.snapshot, self.maybe, self.by_hand = None, None, [], False
        step = self.step
        if key in step.opts or any(old is not None and old() is None for old in step.refs):
            # The same optimizer again, or another after the former is gone: a second training in the same process.
            if self.snapshot is None:  # nothing was seen between: all its work is in the closure that it calls (LBFGS)
                self.snapshot = self.step_at(t, step.acc, step.start)
            closed, at = self.snapshot
            self.leave_open(closed, at)
            self.close_looped(closed, at, len(closed.opts))
            step = self.step
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
        self.ended = t
        if self.busy:
            self.step.acc[phase] += t - self.mark
            self.mark = t
        else:
            self.settle(t, phase)
        self.in_opt = 0
        self.base = REST
        self.seen_forward = False
        step = self.step
        step.micro = max(step.micro, self.gathered, 1)
        self.gathered = 0
        self.snapshot = None
        if self.primary is None and not self.loader_tells(step):
            step.turn = self.look_around()
        if self.sync is not None:
            self.phase_over(phase)
        if self.active and not self.kind:
            self.kind = self.active
        if self.looped and not self.planned and len(step.opts) >= self.round:
            self.plan()
        if not self.busy:
            self.settle(self.mark, REST)  # between the end and what was left out
        self.opt_over = (self.mark, list(step.acc), step.start)
        if self.bare and self.leans:
            self.begin_lean()

    # -- what is said once in a while ---------------------------------------------------------------------------------

    def evaluates(self, key):
        """A model, known by its key, is put into evaluation mode. The step that was made is over, and what is done
        until it trains again belongs to none, unless something trains meanwhile."""
        if self.lean:
            self.leave_lean(self.mark)
        if self.busy or self.in_opt:
            return
        if self.over() and self.snapshot is None:
            t = now()
            self.settle(t, self.base)
            self.snapshot = self.step_at(t, self.step.acc, self.step.start)
        self.may_end_epoch("evaluation")
        self.aside = key, now(), self.done()

    def evaluated(self, key):
        """A model is put into training mode."""
        aside, self.aside = self.aside, None
        if aside is None or aside[0] != key or aside[2][:3] != self.done()[:3] or self.busy or self.in_opt:
            return
        t = now()
        if aside[2] != self.done():  # loaders were read
            self.batch, self.waiting, self.given, self.used = None, 0, 0, 0
            if not self.over():
                self.outside += t - self.step.start
                self.step = self.new_step(t)
                self.mark, self.gap, self.opened = t, 0, False
                return
        self.outside += t - max(aside[1], self.mark)
        self.skip(aside[1], t)

    def done(self):
        return tuple(self.counts[name] for name in ("module", "backward", "optimizer", "fetch"))

    def current(self):
        """The number of the step that what is done now is a part of."""
        step = self.step
        begun = self.looped and not self.in_opt and (len(step.opts) >= self.round if step.opts else False)
        return self.number + len(self.maybe) + 1 + (begun or self.passed is not None and self.touched())

    def loop(self):
        """The event that says how steps and epochs are told."""
        steps = "optimizer" if self.counts["optimizer"] else "hand" if self.by_hand else ""
        if steps == "hand" and self.unseen is not None and self.unseen():
            steps = "compiled"
        turn = self.turn if self.told_by == "loop" else None
        return {
            "ev": "loop",
            "steps": steps,
            "epochs": self.told_by,
            "loader": self.feeds,
            "name": turn.name if turn else "",
            "where": turn.where if turn else "",
            "backward": bool(self.backwards),
            "module": bool(self.counts["module"]),
            "strangers": self.strangers > 0,
        }


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
    loop = T.loop()
    if loop != T.told_loop and (T.counts["module"] or T.backwards or T.device.kind):
        T.told_loop = loop
        wire.put(loop)
    if rows:
        event = {"ev": "steps"}
        event.update(zip(COLUMNS, zip(*rows)))
        # A step that was closed before a phase was declared has no time in it.
        event["phases"] = {p.name: [acc[n] if n < len(acc) else 0 for acc in event["phases"]] for n, p in phases}
        wire.put(event)
