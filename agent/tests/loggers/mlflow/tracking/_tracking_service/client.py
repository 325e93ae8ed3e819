"""The shape of mlflow.tracking._tracking_service.client 3.17, whose methods a decorator holds."""

import functools


class Metric:
    def __init__(self, key, value, step):
        self.key, self.value, self.step = key, value, step


def record_usage_event(event):
    def decorator(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            return func(*args, **kwargs)

        return wrapper

    return decorator


class TrackingServiceClient:
    @record_usage_event("log_metric")
    def log_metric(self, run_id, key, value, timestamp=None, step=None, synchronous=True):
        if value is None:
            raise ValueError("no value")
        print("sent", key, value, step)

    @record_usage_event("log_batch")
    def log_batch(self, run_id, metrics=(), params=(), tags=(), synchronous=True):
        print("sent", [(m.key, m.value, m.step) for m in metrics])
