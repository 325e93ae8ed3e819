"""A framework of one file, for test_frameworks.py: it fits a line, on a device that queues what it is told to do."""

__version__ = "1.2.3"

_queue = []


def synchronize():
    """Do what was queued."""
    while _queue:
        _queue.pop(0)()


class Batches:
    """Points of a line, a batch at a time."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        if self.at == self.batches:
            raise StopIteration
        self.at += 1
        return [(x / 8.0, 3.0 * x / 8.0) for x in range(self.at, self.at + 8)]


class Line:
    """y = slope · x."""

    def __init__(self):
        self.slope, self.gradient = 0.0, 0.0

    def descend(self, batch):
        """Queue the gradient of the squared error."""
        _queue.append(
            lambda: setattr(self, "gradient", sum(2 * x * (self.slope * x - y) for x, y in batch) / len(batch))
        )

    def update(self, rate):
        """Queue the step against the gradient."""
        _queue.append(lambda: setattr(self, "slope", self.slope - rate * self.gradient))
