"""The peers of tools/ingest: VARIANT POINTS.json STORE BATCH. Prints one JSON object."""
import glob
import json
import sqlite3
import sys
import time

variant, source, store, batch = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
with open(source) as f:
    points = json.load(f)


def mlflow_client():
    import mlflow
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri="sqlite:///" + store + "/mlflow.db")
    experiment = client.create_experiment("ingest", artifact_location="file://" + store)
    return mlflow.__version__, client, client.create_run(experiment).info.run_id


if variant.startswith("mlflow"):
    from mlflow.entities import Metric

    version, client, run = mlflow_client()
    metrics = [Metric(p["Name"], p["Value"], p["Time"], p["Step"]) for p in points]
    begun = time.perf_counter()
    if variant == "mlflow":
        for i in range(0, len(metrics), batch):
            client.log_batch(run, metrics=metrics[i:i + batch], synchronous=True)
    else:
        for m in metrics:
            client.log_metric(run, m.key, m.value, m.timestamp, m.step, synchronous=True)
    took = time.perf_counter() - begun
    (kept,) = sqlite3.connect(store + "/mlflow.db").execute("SELECT count(*) FROM metrics").fetchone()
    assert kept == len(points), kept
else:
    import trackio

    version = trackio.__version__
    steps = {}
    for p in points:
        steps.setdefault(p["Step"], {})[p["Name"]] = p["Value"]
    trackio.init(project="ingest", embed=False)
    begun = time.perf_counter()
    for step, values in steps.items():
        trackio.log(values, step=step)
    trackio.finish()
    took = time.perf_counter() - begun
    kept = 0
    for name in glob.glob(store + "/*.db"):
        db = sqlite3.connect(name)
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'metrics'").fetchone():
            kept += db.execute("SELECT count(*) FROM metrics").fetchone()[0]
    assert kept == len(steps), (kept, len(steps))

print(json.dumps({"version": version, "points": len(points), "seconds": took}))
