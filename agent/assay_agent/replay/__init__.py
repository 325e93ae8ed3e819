"""Replays signatures of operators on a device: a program of its own (worker.py), which no watched process loads."""
