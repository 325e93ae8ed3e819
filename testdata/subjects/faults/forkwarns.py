"""Forks before anything has made a second thread; Python 3.12 warns of forks beside threads."""
import os
import warnings

warnings.simplefilter("error", DeprecationWarning)
pid = os.fork()
if pid == 0:
    os._exit(0)
print("child", os.waitpid(pid, 0)[1])
