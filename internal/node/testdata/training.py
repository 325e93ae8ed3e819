"""Stands for a training on a host: it has workers, one in a session of its own, and may not want to end.

    training.py PIDS STUBBORN SECONDS

PIDS is a file to which it appends "what pid" for each process that it starts. STUBBORN: "yes" takes no notice of
SIGTERM, in any of them. "leaves" starts one as well that takes its environment off and leaves its parents.
"""
import os
import signal
import subprocess
import sys
import time

pids, stubborn, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])


def tell(what, pid):
    with open(pids, "a") as f:
        f.write("%s %d\n" % (what, pid))


def work():
    while True:
        time.sleep(0.05)
        print("works", os.getpid(), flush=True)


if stubborn == "yes":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
tell("script", os.getpid())
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        work()
    tell("worker", pid)
apart = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)
tell("apart", apart.pid)
if stubborn == "leaves":
    subprocess.run(["/bin/sh", "-c", 'env -i setsid sleep 600 </dev/null >/dev/null 2>&1 & echo "left $!" >> "$0"', pids])
tell("all", os.getpid())
end = time.monotonic() + seconds
while time.monotonic() < end:
    time.sleep(0.05)
os._exit(0)  # and leaves its workers behind
