"""Encodes the sample answers: python encode.py ATTEMPT.PY > answers.jsonl. Their values are made up; wire_test.go has them too."""

import importlib.util
import sys

spec = importlib.util.spec_from_file_location("attempt", sys.argv[1])
wire = importlib.util.module_from_spec(spec)
spec.loader.exec_module(wire)

fell = dict(wire.untried("net.py:Net", True), phase="done", model="Net", inputs=["2,3 float32"], parameters=12, backward=True, seconds=0.25, peak=4096,
            ops=[wire.op_row("aten::add.Tensor", 3, "N", 1500, None), wire.op_row("aten::mm", 2, "-", 500, 64)],
            fallbacks=[wire.fallback_row("aten::mm", "net.py:7", 2, 500, 96)],
            met=[wire.met_row("aten::mm", "matmul-large-output", True, "net.py:7", 2)])
del fell["answer"]
missing = dict(fell, phase="forward", backward=False, stand_ins=1, fallbacks=[], met=[], fallback=fell,
               error=wire.failure("", "NotImplementedError", "no kernel\n\u00e9\ud800", "net.py:7", "lib.py:3"), refusal=wire.refusal("aten::mm", "missing"),
               notes=[wire.note_row("aten::std", "wrong", "another value", "net.py:8", 1)])
for answer in (
    wire.hello("2.15.0", "3.11.7"),
    wire.refused(wire.failure("import", "KeyError", "'x'", "", "lib.py:3")),
    wire.offered(["net.py:Net", "Gone"]),
    dict(wire.untried("net.py:Net", True), **missing),
    dict(wire.untried("Gone", False), error=wire.failure("crash", "", "its process ended by signal 6")),
    wire.done(),
):
    sys.stdout.write(wire.line(answer))
