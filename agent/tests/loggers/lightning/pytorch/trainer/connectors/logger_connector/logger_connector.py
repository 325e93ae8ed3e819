"""The shape of lightning's logger_connector 2.6: tensors become numbers, which go to each logger."""


class _LoggerConnector:
    def __init__(self, trainer):
        self.trainer = trainer

    def log_metrics(self, metrics, step=None):
        if not self.trainer.loggers or not metrics:
            return
        scalar_metrics = {name: value if type(value) is float else value.item() for name, value in metrics.items()}
        for logger in self.trainer.loggers:
            logger.log_metrics(metrics_dict=scalar_metrics, step=step)
