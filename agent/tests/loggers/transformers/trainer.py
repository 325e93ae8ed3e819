"""The shape of transformers.trainer 5: what is logged goes on to callbacks, which hand it to loggers."""

import types


class Trainer:
    def __init__(self, callbacks):
        self.state, self.callbacks = types.SimpleNamespace(global_step=0), callbacks

    def log(self, logs, start_time=None):
        for callback in self.callbacks:
            callback(dict(logs, epoch=0.5), self.state.global_step)
