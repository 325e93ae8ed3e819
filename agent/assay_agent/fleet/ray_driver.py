"""Has a cluster of Ray make runs: the Python side of `assay fleet run --on ray://HOST:PORT`.

    python ray_driver.py

What Go asks comes on standard input, what it is told goes out on file descriptor 3 (internal/fleet/raydriver.go): lines of
JSON, {"KIND": …}, and behind a line with "body" as many raw bytes. The first line, hello, says where the cluster is. The end
of standard input ends this process, and Ray then ends its tasks; these end their runs themselves where Ray does not.

A run is a task of Ray that asks for the resource, and Ray never begins one anew: the queue does (internal/fleet/ray.go).
"""

import json
import logging
import os
import queue
import sys
import threading
import time

VERSION = 1
WAIT = 0.5  # seconds that the mailbox is asked to wait for mail
NODES = 3.0  # seconds between looks at the cluster's nodes
REACH = 15.0  # seconds in which the port has to answer
LEAVE = 5.0  # seconds that tasks get to heed the last that is said
PUT = 32 << 20  # bytes of a file that are one object of Ray's


class Trouble(Exception):
    """Nothing can go on: kind tells Go what to advise."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Out:
    def __init__(self, file):
        self.file = file

    def say(self, kind, value, body=b""):
        line = {kind: value}
        if body:
            line["body"] = len(body)
        self.file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n" + body)
        self.file.flush()


def first_line(error):
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:500]


def last_line(error):
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:500]


def answers(channel):
    """Whether the cluster answers what every client asks first; not where it wants another token, or any."""
    import grpc
    from ray.core.generated import ray_client_pb2, ray_client_pb2_grpc

    try:
        ask = ray_client_pb2.ClusterInfoRequest(type=ray_client_pb2.ClusterInfoType.PING)
        ray_client_pb2_grpc.RayletDriverStub(channel).ClusterInfo(
            ask, metadata=[("client_id", "assay")], timeout=REACH, wait_for_ready=True
        )
        return True
    except grpc.RpcError as e:
        if e.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            return False
        if e.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            raise Trouble("unreachable", "nothing that speaks Ray Client's protocol answers within %d s" % REACH)
        raise Trouble("unreachable", "%s: %s" % (e.code().name, first_line(e.details())))
    finally:
        channel.close()


def is_open(address):
    """Whether the cluster answers who shows no token. Where it does not, and ours is not its own, nothing can go on."""
    import grpc
    from ray._private import grpc_utils

    if answers(grpc.insecure_channel(address)):
        return True
    if os.environ.get("RAY_AUTH_MODE") != "token":
        raise Trouble("token", "it asks for a token, and none is here")
    try:
        if answers(grpc_utils.init_grpc_channel(address)):
            return False
    except Trouble:
        raise
    except Exception as e:  # Ray finds no token, or none that is one
        raise Trouble("token", "it asks for a token: " + last_line(e))
    raise Trouble("token", "it asks for another token than the one here")


def shows_token(environ):
    """Whether Ray finds a token here, where it looks for one."""
    named = environ.get("RAY_AUTH_TOKEN_PATH") or os.path.expanduser("~/.ray/auth_token")
    return bool(environ.get("RAY_AUTH_TOKEN")) or os.path.exists(named)


def counted(nodes, resources):
    """Of ray.nodes() what Go is told: each node's name, whether it lives, and how many runs it has the resources for, where
    each takes 1 of each."""
    return [
        {
            "host": n.get("NodeManagerHostname") or "",
            "address": n.get("NodeManagerAddress") or "",
            "alive": bool(n["Alive"]),
            "amount": int(min(n.get("Resources", {}).get(r, 0) for r in resources)) if n["Alive"] else 0,
        }
        for n in nodes
    ]


def classified(error):
    """What keeps Ray's client from connecting."""
    text = str(error)
    if "ersion" in text and ("ismatch" in text or "must match" in text or "differ" in text):
        return Trouble("version", " ".join(text.split())[:500])
    if "UNAUTHENTICATED" in text or "uthentication" in text or "token" in text.lower():
        return Trouble("token", last_line(error))
    # Its own part of Ray on the head did not start in time: on a machine that is busy it may the next time.
    return Trouble("lost" if "Starting Ray client server failed" in text else "connect", last_line(error))


class Driver:
    def __init__(self, ray, hello, out):
        self.ray, self.hello, self.out = ray, hello, out
        self.refs = {}  # job -> reference of its task
        self.blobs = {}  # blob -> references of its pieces: Ray keeps them while they are referred to
        self.orders = {}
        self.seen = 0
        self.counts = None
        self.looked = self.waited = 0.0

    def connect(self):
        h = self.hello
        open_to_all = is_open(h["address"])
        if open_to_all and not h["insecure"]:
            raise Trouble("open", "it answers without a token")
        # Ray's workers have a place for what they print; the runs' own output comes home in files.
        try:
            self.ray.init(
                "ray://" + h["address"], namespace=h["name"], log_to_driver=False, logging_level=logging.ERROR
            )
        except Trouble:
            raise
        except Exception as e:
            raise classified(e)
        from assay_agent.fleet import mailbox, task
        from ray import cloudpickle

        cloudpickle.register_pickle_by_value(mailbox)
        cloudpickle.register_pickle_by_value(task)
        # On the head: what has come there is not lost with a node, and the driver's own part of Ray is there as well.
        self.mailbox = (
            self.ray.remote(mailbox.Mailbox)
            .options(num_cpus=0, resources={"node:__internal_head__": 0.001}, max_concurrency=10000)
            .remote()
        )
        box, lease = self.mailbox, h["lease"]

        def assay_run(job):
            import ray

            def call(method, *arguments):
                return ray.get(getattr(box, method).remote(*arguments), timeout=max(lease / 3, 6))

            return task.Task(job, lease, call, ray.get).run(ray.util.get_node_ip_address())

        self.task = self.ray.remote(assay_run)
        self.ray.get(self.mailbox.take.remote(0, {}, 0), timeout=120)
        self.out.say(
            "hello",
            {
                "version": VERSION,
                "ray": self.ray.__version__,
                "python": "%d.%d.%d" % sys.version_info[:3],
                "open": open_to_all,
                "nodes": self.look(),
            },
        )

    def look(self):
        self.looked = time.monotonic()
        return counted(self.ray.nodes(), self.hello["resources"])

    # What Go asks

    def do(self, kind, value):
        name = value.get("name")
        if kind == "start":
            job = value["job"]
            # One that takes no GPU is bounded by the nodes' CPUs.
            gpu = job["device"] == "gpu"
            held = {"num_cpus": 0, "resources": {r: 1 for r in self.hello["resources"]}} if gpu else {"num_cpus": 1}
            task = self.task.options(name=job["name"], max_retries=0, **held)
            self.refs[job["name"]] = task.remote(job)
        elif kind == "stop":
            self.orders.setdefault(name, {})["stop"] = value["why"]
            if value.get("pending") and name in self.refs:
                self.ray.cancel(self.refs[name])
        elif kind == "kill":
            if name in self.refs:
                self.ray.cancel(self.refs[name], force=True)
        elif kind == "home":
            self.orders.setdefault(name, {})["home"] = True
        elif kind == "blob":
            self.give(value)

    def give(self, value):
        answer = {k: value[k] for k in ("sum", "size", "version", "error") if k in value}
        if not answer.get("error"):
            refs = []
            try:
                with open(value["path"], "rb") as f:
                    for piece in iter(lambda: f.read(PUT), b""):
                        refs.append(self.ray.put(piece))
            except OSError as e:
                answer = {"error": str(e)}
            self.blobs[value["blob"]] = answer["refs"] = refs
        self.ray.get(self.mailbox.give.remote(value["blob"], answer))

    # What the cluster tells

    def mail(self):
        orders, self.orders = self.orders, {}
        hand, wanted = self.ray.get(self.mailbox.take.remote(self.seen, orders, WAIT), timeout=60)
        for number, (name, kind, what, body) in hand:
            self.out.say(kind, dict(what, name=name), body)
            self.seen = number
        for blob in wanted:
            self.out.say("want", {"blob": blob})
        return bool(hand)

    def ends(self):
        """Tells of tasks that Ray has an answer for."""
        self.waited = time.monotonic()
        if not self.refs:
            return
        names = {ref: name for name, ref in self.refs.items()}
        done, _ = self.ray.wait(list(names), num_returns=len(names), timeout=0)
        for ref in done:
            name, why, kind = names[ref], "", ""
            try:
                why = self.ray.get(ref)
            except Exception as e:
                kind = type(e).__name__
                why = last_line(e) if kind.startswith("RayTaskError") else first_line(e)
            del self.refs[name]
            self.orders[name] = None
            self.out.say("over", {"name": name, "kind": kind, "why": why})

    def work(self, asked):
        while True:
            while True:
                try:
                    got = asked.get_nowait()
                except queue.Empty:
                    break
                if got is None:
                    return self.leave()
                for kind, value in got.items():
                    self.do(kind, value)
            busy = self.mail()
            if not busy or time.monotonic() - self.waited > 1:
                self.ends()
            if time.monotonic() - self.looked > NODES:
                counts = self.look()
                if counts != self.counts:
                    self.counts = counts
                    self.out.say("nodes", {"nodes": counts})


    def leave(self):
        """Says the last there is to say, and gives tasks the time to heed it."""
        for name in self.refs:
            order = self.orders.setdefault(name, {})
            if not order.get("home"):
                order.setdefault("stop", "interrupted")
                self.ray.cancel(self.refs[name])
        self.ray.get(self.mailbox.take.remote(self.seen, self.orders, 0), timeout=LEAVE)
        if self.refs:
            self.ray.wait(list(self.refs.values()), num_returns=len(self.refs), timeout=LEAVE)


def listen(lines, asked):
    for line in lines:
        asked.put(json.loads(line))
    asked.put(None)
    # Whatever Ray waits for: who asked has gone, or had the time to hear the end.
    time.sleep(3 * LEAVE)
    os._exit(1)


def main():
    out = Out(os.fdopen(3, "wb"))
    lines = sys.stdin.buffer
    try:
        first = json.loads(lines.readline() or b"{}").get("hello")
        if first is None or first["version"] != VERSION:
            raise Trouble("protocol", "this driver speaks version %d of its protocol" % VERSION)
        sys.path.insert(0, first["agent"])
        # Before Ray is imported. A cluster that is insisted on is not shown the token of another.
        if not first["insecure"] and shows_token(os.environ):
            os.environ.setdefault("RAY_AUTH_MODE", "token")
        asked = queue.Queue()
        threading.Thread(target=listen, args=(lines, asked), daemon=True).start()
        try:
            import ray
        except ImportError as e:
            raise Trouble("import", first_line(e))
        driver = Driver(ray, first, out)
        driver.connect()
        driver.work(asked)
        ray.shutdown()
    except Trouble as e:
        out.say("trouble", {"kind": e.kind, "text": str(e)})
        os._exit(1)
    except Exception as e:
        out.say("trouble", {"kind": "lost", "text": "%s: %s" % (type(e).__name__, first_line(e))})
        os._exit(1)


if __name__ == "__main__":
    main()
