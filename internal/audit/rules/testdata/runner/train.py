import torch

from lib.helper import run


def main(trainer):
    ready = trainer.ready
    if ready:
        run()


main(torch)
