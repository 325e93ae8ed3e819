"""What tasks of Ray and the driver tell one another, in memory on the cluster's head: an actor, and nothing here knows Ray.

A task posts what its run grew by and hears whether it is still wanted. The driver takes what was posted, and says what it
wants ended and what it has. Each hears through the other's calls that the other lives: a task, how long the driver has not
come by; the driver, each task's beat. What was taken is kept until the driver says that it has it.
"""

import asyncio
import time

SPACE = 64 << 20  # bytes of mail that lie here; a task that has more waits
HAND = 4 << 20  # bytes that are handed to the driver at once, about
PATIENCE = 5.0  # seconds that a task is kept waiting for space


class Mailbox:
    """items that are posted are (name of the job, kind, what of it, bytes)."""

    def __init__(self, space=SPACE):
        self.space = space
        self.mail = []  # (number, item), not yet known to have come
        self.size = 0
        self.count = 0
        self.came = time.monotonic()  # the driver, last
        self.orders = {}  # job -> {"stop": why, "home": True}
        self.wants = {}  # blob -> [event, answer]; the answer None: not given yet
        self.asked = []  # blobs that the driver was not told of
        self.news = asyncio.Event()
        self.room = asyncio.Event()

    async def post(self, items):
        """Keeps items, which are all of one job and not none, and tells of that job: stop, why it is to end, or ""; home,
        whether all of it has come; quiet, seconds since the driver last came; full: nothing was kept, come again."""
        name = items[0][0]
        until = time.monotonic() + PATIENCE
        while self.size > self.space and time.monotonic() < until:
            self.room.clear()
            try:
                await asyncio.wait_for(self.room.wait(), 0.5)
            except asyncio.TimeoutError:
                pass
        full = self.size > self.space
        if not full:
            for item in items:
                self.count += 1
                self.mail.append((self.count, item))
                self.size += len(item[3])
            self.news.set()
        order = self.orders.get(name, {})
        return {
            "stop": order.get("stop", ""),
            "home": order.get("home", False),
            "quiet": time.monotonic() - self.came,
            "full": full,
        }

    async def take(self, seen, orders, wait):
        """What the driver does: forgets mail up to the number seen, keeps orders (job -> what of it; None: no more of that
        job), and hands over (mail, blobs that are wanted), after wait seconds at most where there is none."""
        self.came = time.monotonic()
        for name, order in orders.items():
            if order is None:
                self.orders.pop(name, None)
            else:
                self.orders.setdefault(name, {}).update(order)
        gone = 0
        while gone < len(self.mail) and self.mail[gone][0] <= seen:
            self.size -= len(self.mail[gone][1][3])
            gone += 1
        del self.mail[:gone]
        self.room.set()
        if not self.mail and not self.asked:
            self.news.clear()
            try:
                await asyncio.wait_for(self.news.wait(), wait)
            except asyncio.TimeoutError:
                pass
        self.came = time.monotonic()
        hand, size = [], 0
        for number, item in self.mail:
            hand.append((number, item))
            size += len(item[3])
            if size >= HAND:
                break
        asked, self.asked = list(dict.fromkeys(self.asked)), []
        return hand, asked

    async def want(self, blob):
        """What the driver gave for a blob, after PATIENCE seconds at most; None: not yet, ask again."""
        if blob not in self.wants:
            self.wants[blob] = [asyncio.Event(), None]
            self.asked.append(blob)
            self.news.set()
        want = self.wants[blob]
        try:
            await asyncio.wait_for(want[0].wait(), PATIENCE)
        except asyncio.TimeoutError:
            pass
        return want[1]

    async def give(self, blob, answer):
        """Has a blob's answer for who wants it. An answer that is an error is given to those who wait, and asked for anew
        by who comes later."""
        want = self.wants.setdefault(blob, [asyncio.Event(), None])
        want[1] = answer
        want[0].set()
        if answer.get("error"):
            self.wants.pop(blob)
