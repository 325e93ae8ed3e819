"""No torch at all."""
import sys

print("sum", sum(range(1000)), sys.argv[1:], "torch" in sys.modules)
