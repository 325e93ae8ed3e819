"""Runs scripts in forks of one interpreter that has imported torch, so that many scripts pay for that import once.

    python forks.py MODULE…        # imported before the first fork

A line of JSON on standard input asks for a run: script, dir, environ, stdout and stderr (files that are written anew), and quick: end
without taking the interpreter down, which frees what torch imported and takes longer than most scripts. A line on standard output
answers with the wait status.

A script finds what one that was started alone finds: itself as __main__, its folder first on sys.path, descriptors 0 to 2 and no others,
an ordinary end. Two things differ: the modules are there already, and a traceback that it does not catch begins with a frame of this file.
"""

import importlib
import json
import os
import sys
import traceback
import types


def serve(requests, answers):
    """Answer requests until there are no more. In a child, return the request that it is to run."""
    for line in requests:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            return request
        answers.write(json.dumps({"status": os.waitpid(pid, 0)[1]}) + "\n")
        answers.flush()
    os._exit(0)


def become(request):
    """Be the process that the request describes. Returns the script's code and its module."""
    os.setsid()
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, request["stdout"], os.O_WRONLY), (2, request["stderr"], os.O_WRONLY)):
        opened = os.open(path, flags if number == 0 else flags | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.closerange(3, 4096)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["dir"])
    path = os.path.abspath(request["script"])
    sys.argv[:] = [request["script"]]
    sys.path[0] = os.path.dirname(path)
    module = types.ModuleType("__main__")
    module.__file__, module.__builtins__ = path, __builtins__
    sys.modules["__main__"] = module
    with open(path, "rb") as source:
        return compile(source.read(), path, "exec", dont_inherit=True), module.__dict__


def run_quick(code, names):
    """Run the script and end the process, its output written, without taking the interpreter down."""
    status = 0
    try:
        exec(code, names)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    stream = os.fdopen(os.dup(1), "w")  # answers; what a script or a module prints goes elsewhere
    os.dup2(2, 1)
    request = serve(sys.stdin, stream)
    code, names = become(request)
    if request.get("quick"):
        run_quick(code, names)
    exec(code, names)
