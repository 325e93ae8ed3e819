"""Exports a logbook to a real MLflow server and reads it back with MLflow's own client.

    python tools/mlflow/check.py --assay PATH --logbook FILE

needs a Python with mlflow. It starts `mlflow server` in a folder of its own, runs `assay log export --mlflow` three times (the second must send
nothing, the third, after the mark of one run's end has been taken away, that run alone and into the same run), and compares every figure, point, parameter,
status and the bytes of evidence.json with what `assay log` says. It prints what was compared; exit status 1 where anything differs.
"""
import argparse
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("--assay", required=True)
parser.add_argument("--logbook", required=True)
options = parser.parse_args()
os.environ.update(MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR="false", MLFLOW_DISABLE_TELEMETRY="true", PYTHONWARNINGS="ignore")

import mlflow  # noqa: E402
from mlflow.tracking import MlflowClient  # noqa: E402


def assay(*args, check=True):
    return subprocess.run([options.assay, "log", "--logbook", options.logbook, *args], check=check, stdout=subprocess.PIPE).stdout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


folder = tempfile.mkdtemp(prefix="assay-mlflow-")
port = free_port()
uri = "http://127.0.0.1:%d" % port
with open(folder + "/server.log", "wb") as log:
    server = subprocess.Popen([sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
                               "--backend-store-uri", "sqlite:///" + folder + "/store.db", "--artifacts-destination", folder + "/artifacts"],
                              stdout=log, stderr=log, cwd=folder)
compared = {"figures": 0, "points": 0, "parameters": 0, "artifacts": 0, "runs": 0}
wrong = []


def same(what, got, want):
    if got != want and len(wrong) < 20:
        wrong.append("%s: %r, and the logbook says %r" % (what, got, want))


try:
    for _ in range(600):
        try:
            if urllib.request.urlopen(uri + "/health", timeout=5).status == 200:
                break
        except OSError:
            if server.poll() is not None:
                sys.exit("the server ended: see " + folder + "/server.log")
            time.sleep(0.2)
    print("mlflow", mlflow.__version__)
    print("first:  " + assay("export", "--mlflow", uri, "--experiment", "from assay").decode().strip())
    print("second: " + assay("export", "--mlflow", uri, "--experiment", "from assay").decode().strip())
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("from assay").experiment_id
    cut = client.search_runs([experiment], max_results=1)[0].info.run_id
    client.delete_tag(cut, "assay.done")
    print("third:  " + assay("export", "--mlflow", uri, "--experiment", "from assay").decode().strip())

    runs = client.search_runs([experiment], max_results=1000)
    by_id = {r.data.tags["assay.id"]: r for r in runs}
    kept = json.loads(assay("query", "--json", "--limit", "100000", "SELECT json_group_array(id) AS ids FROM runs"))
    ids = json.loads(kept["ids"])
    same("number of runs", len(runs), len(ids))
    for record in ids:
        run = by_id[record]
        document = assay("show", "--json", record)
        evidence = json.loads(document)
        compared["runs"] += 1
        body = evidence.get("body", evidence)  # of the form before it has none
        outcome = body["outcome"]
        same("status of " + record[:10], run.info.status,
             "KILLED" if outcome.get("signal") else "FAILED" if outcome["exit"] or not outcome["started"] else "FINISHED")
        same("name of " + record[:10], run.info.run_name, evidence["id"])
        for figure in evidence["figures"]:
            name = "figure." + figure["name"]
            if "value" not in figure:
                same("%s of %s" % (name, record[:10]), run.data.metrics.get(name), None)
                continue
            compared["figures"] += 1
            same("%s of %s" % (name, record[:10]), run.data.metrics.get(name), figure["value"])
            same("basis of " + name, run.data.tags.get("basis." + figure["name"]), figure["basis"])
        series = {"loss": zip(body["loss"]["step"], body["loss"]["value"]),
                  "step.time": zip(body["steps"]["number"], body["steps"]["total"])}
        for name, points in series.items():
            want = [(s, v) for s, v in points if v is not None and math.isfinite(v)]
            got = [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)] if want else []
            compared["points"] += len(got)
            same("series %s of %s" % (name, record[:10]), sorted(got), sorted(want))
        if evidence["target"].get("device"):
            compared["parameters"] += 1
            same("device", run.data.params.get("device"), evidence["target"]["device"])
        path = client.download_artifacts(run.info.run_id, "evidence.json", folder)
        with open(path, "rb") as f:
            same("evidence.json of " + record[:10], f.read() == document, True)
        compared["artifacts"] += 1
finally:
    server.terminate()
    server.wait()
for line in wrong:
    print(line)
print("compared: " + ", ".join("%d %s" % (n, what) for what, n in compared.items()) + ("" if wrong else "; all as the logbook has them"))
sys.exit(bool(wrong))
