"""The shape of lightning.fabric.loggers.csv_logs 2.6."""


class _ExperimentWriter:
    def log_metrics(self, metrics_dict, step=None):
        print("csv", metrics_dict, step)
