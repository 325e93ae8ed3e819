"""Blocks of steps with the hooks on and off: what the agent costs is the difference between the two, measured in the run
itself, and a step with the hooks off is the nearest there is to what the loop takes: only marks stay on in it.

The hooks are on from the start until the profiled window is over and enough steps have been seen. Then come visits: a
block of steps with the hooks on and one with them off, the order drawn, each of a length of its own that is drawn too,
so that no rhythm of the script's (a log every ten steps, an evaluation every fifty) falls in with them. A block is timed
as a whole, from the end of what was queued before it to the end of what was queued in it. Between visits
the hooks are off. The first visits follow one another; later the time between them grows with the age of the loop, and
the blocks with it, so that a run of any length has some two hundred changes at most: CPython stops caching a class's
attributes after a thousand changes of it (Objects/typeobject.c, MAX_VERSIONS_PER_CLASS).

Off means: the hooks that have switch(on) have given the framework its own functions back. Marks of a step stay on (the
loader's next, the backward pass, the optimizer's step), and are priced (cost.py). Where the last steps were alike, one
optimizer's step each, they do no more than to tell the time at which that is over (Timeline.lean_step), but for one step
in sixteen, at which all is decided that is decided once a step. The first steps after a change are of the kind "edge" and count nowhere: the interpreter's inline caches have
to settle.
"""

import os
import random
import time

from .. import guest, wire
from ..timeline import T

now = time.perf_counter_ns

FIRST = 40  # steps with the hooks on in any case
SETTLED = 30  # of these, and after any window, that no window and no synchronisation touched
STEPS = 8  # the shortest block, in steps
NS = 200_000_000  # and in time, as long as steps take what they took: the longer of the two
EDGE = 3  # steps after a change that count nowhere
EARLY = 12  # visits that follow one another
GAP = 0.07  # of the loop's age, to the next visit; more the more there have been
BLOCK = 0.01  # of the loop's age: a block with the hooks off is at least as long
BLOCK_ON = 0.003  # and one with the hooks on, which costs something
CHANGES = 250  # in a process; then the hooks stay off
SAMPLES = 2  # synchronised steps of a visit that ends with the hooks on
EVERY = 20  # steps from one synchronised step to the next before the first visit

_switches = []  # switch(on) of each hook that has one


class Blocks:
    """Tells, step by step, whether the hooks are on, and which steps are synchronised or sampled."""

    def __init__(self, switch, seed=None):
        """switch(on): change the hooks, and say whether there was anything to change."""
        self.switch = switch
        self.draw = random.Random(os.urandom(16) if seed is None else seed)  # the script's own generator stays its own
        self.began = None  # when the first visit began
        self.settled = 0  # steps untouched since the last window
        self.next_sample = EVERY
        self.pace = 0  # ns a step, lately
        self.paced = 0  # since when, until the first visit
        self.plan = []  # what is still to come of this visit: (on, block, ns, samples)
        self.visits = 0
        self.changes = 0
        self.on = True
        self.edge = 0  # steps until a change has settled
        self.block = 0  # number of the block that is under way; two of a visit follow one another; 0: none
        self.left = 0  # its steps
        self.until = 0  # when it ends in any case
        self.samples = 0  # steps of it still to be synchronised
        self.start = None  # when its first step that counts began: (step, clock, time outside, touched)
        self.told = {}  # step -> its kind where no window or synchronisation names it
        self.latest = ""  # what was told of the last step that closed
        self.bare_steps = 0  # steps begun with the hooks off
        self.bare_counts = {}  # calls of hooks while they were off
        self._counts = None

    def step(self, number, timeline):
        """Decide on the step of that number, which begins now. True: it is to be synchronised, or its memory looked
        at."""
        sampled = False
        if self.began is None:
            if timeline.active:
                self.settled = self.paced = 0
                self.next_sample = max(self.next_sample, number + EVERY - number % EVERY)
            elif number >= self.next_sample:
                sampled = True
                self.next_sample = number + max(EVERY, number // EVERY)
            else:
                self.settled += 1
                self.paced = self.paced or now()
            if number > FIRST and self.settled > SETTLED and not sampled and self.switch(True):
                self.began = now()
                self.pace = (self.began - self.paced) // SETTLED
        if self.began is not None:
            if self.left <= 0 or self.until and now() >= self.until:
                self.advance(number, timeline)
            self.left -= 1
            if self.samples and not self.edge:
                self.samples -= 1
                self.edge = 2  # the one after it finds the device idle
                sampled = True
            if self.start is None and not self.edge and (self.block or not self.on):
                self.start = number, *self.stand(timeline), timeline.active
            elif timeline.active and self.start is not None:
                self.start = self.start[:3] + (True,)
        kind = "" if self.on else "bare"
        if self.edge:
            self.edge -= 1
            kind = "edge"
        if not self.on:
            self.bare_steps += 1
        self.told[number] = kind
        self.told.pop(number - 8, None)
        return sampled

    def leans(self, timeline, number):
        """Whether the step of that number and those up to the end of the block need no more than to be counted."""
        if self.on or self.edge or self.samples or timeline.active or self.left < 4 or self.start is None:
            return False
        return self.told.get(number, "bare") == "bare"

    def forget(self, number):
        """Nothing is to be decided on the step of that number, which may have been already."""
        if self.told.pop(number, None) is not None:
            self.left += 1
            self.bare_steps -= 1

    def leaned(self, t):
        """A step that nothing was decided on is over at t. Whether the block is too."""
        self.left -= 1
        self.bare_steps += 1
        self.latest = "bare"
        return self.left <= 0 or bool(self.until) and t >= self.until

    def of(self, number):
        """What was told of a step that closes: its kind. Nothing was decided on some: they are as the one before."""
        self.latest = self.told.pop(number, self.latest)
        return self.latest

    def stand(self, timeline):
        """The clock, once the device has done what was queued: it works behind the script's back, and from step to step
        the host's clock says when it was asked and not when it was done. And the time so far that belonged to no
        step."""
        if timeline.device.synchronize is not None:
            timeline.device.synchronize()
        return now(), timeline.outside_before + timeline.outside + timeline.epoch_ns

    def visit(self):
        """Plan the next visit."""
        self.visits += 1
        number = 2 * self.visits - 1
        age = now() - self.began
        draw = self.draw.uniform

        def block(on, at):
            return on, at, max(NS, (BLOCK_ON if on else BLOCK) * age) * draw(1, 2), 0

        gap = GAP * (1 + self.visits / 50) * age * draw(0.5, 1.5) if self.visits > EARLY else 0
        if self.draw.random() < 0.5:
            self.plan = [block(True, number), block(False, number + 1)]
        else:
            self.plan = [block(False, number), block(True, number + 1), (True, 0, 0, SAMPLES)]
            gap = max(gap, NS * draw(1, 2))
        if gap:
            self.plan.append((False, 0, gap, 0))

    def advance(self, number, timeline):
        """The block is over; the step of that number begins the next one."""
        end = None
        if self.start is not None:
            end = self.stand(timeline)
            first, began, outside, touched = self.start
            wire.put(
                {
                    "ev": "block",
                    "number": self.block,
                    "on": self.on,
                    "first": first,
                    "steps": number - first,
                    "ns": end[0] - began,
                    "outside": end[1] - outside,
                    "touched": bool(touched or timeline.active),
                }
            )
            self.start = None
            self.pace = (end[0] - began) // max(1, number - first)
        if not self.plan:
            if self.changes >= CHANGES:
                self.plan = [(False, 0, GAP * (now() - self.began), 0)]
            else:
                self.visit()
        on, self.block, ns, self.samples = self.plan.pop(0)
        if self.samples:
            self.left, self.until = 3 * self.samples, 0
            return
        # Ended by a number of steps that was drawn, and not by the clock: it jumps where the script waits, so that blocks
        # would end there.
        self.left = int(max(STEPS * self.draw.uniform(1, 2), ns // max(1, self.pace)))
        self.until = now() + int(4 * max(ns, self.left * self.pace))
        if on != self.on:
            if number - 1 in self.told:  # still open, where no fetch closes it: where it ends is seen otherwise from now on
                self.told[number - 1] = "edge"
            self.turn(on, timeline)
        if self.block or self.edge:
            self.edge = EDGE  # also where nothing changed, so that blocks begin alike
            self.left += EDGE

    def turn(self, on, timeline):
        """Put the hooks on or off."""
        began = now()
        self.on, self.edge = on, EDGE
        self.changes += 1
        timeline.bare = not on
        if on:
            self.count(timeline)
        else:
            self._counts = dict(timeline.counts)
        self.switch(on)
        timeline.kept_ns += now() - began

    def count(self, timeline):
        """Add up what was called with the hooks off: they come on again."""
        self.bare_counts, self._counts = self.kept(timeline), None

    def kept(self, timeline):
        """Calls of what stays on, while the hooks were off. Asked by the sending thread as well."""
        since, counts = self._counts, dict(self.bare_counts)
        if since is not None:
            for name, n in dict(timeline.counts).items():
                counts[name] = counts.get(name, 0) + n - since.get(name, 0)
        return counts


def install(framework, config):
    if config.get("double") or config.get("only"):
        return  # a rehearsal is asked for every call; of an --only run the ordinary steps are few
    T.blocks = Blocks(switch)


def watch(hooks):
    """The hooks of a framework: those that can be switched are."""
    for hook in hooks:
        if hasattr(hook, "switch"):
            _switches.append(hook.switch)


def switch(on):
    """Every hook that can be. A failure is a line of evidence, and the others go on."""
    for change in _switches:
        try:
            change(on)
        except Exception as err:
            guest.pass_on(err)
            wire.trouble("%s.switch: %r" % (change.__module__.rpartition(".")[2], err))
    return bool(_switches)


def clear():
    """A forked child begins with the hooks on."""
    if T.blocks is not None:
        if not T.blocks.on:
            switch(True)
        T.blocks = Blocks(switch)
