"""The shape of wandb.sdk.wandb_run 0.31: log is decorated, and hands on to _log."""


class Run:
    def _log(self, data, step=None, commit=None):
        print("logged", sorted(data), step)

    def log(self, data, step=None, commit=None):
        self._log(data=data, step=step, commit=commit)
