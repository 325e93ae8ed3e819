"""Prints 100 MB."""
import sys

line = "x" * 99
for i in range(1_000_000):
    sys.stdout.write(line + "\n")
sys.exit(4)
