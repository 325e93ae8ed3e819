"""Works a queue of runs off over Ray: a program of its own (ray_driver.py), which no watched process loads."""
