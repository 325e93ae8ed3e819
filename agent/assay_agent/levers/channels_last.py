"""channels_last: the model's weights and its inputs of four dimensions in the order NHWC, which convolutions may compute faster in."""

from . import models, tell


def install(torch, asked):
    models.install(torch)
    models.found.append(lambda model, args, kwargs: _found(torch, model))


def _found(torch, model):
    name = models.named(model)
    if not any(p.dim() == 4 for p in model.parameters()):
        tell("channels_last", False, where=name, why="it has no weight of four dimensions: no 2-D convolution")
        return
    for p in model.parameters():  # as Module.to does, whose method may be the script's own
        if p.dim() == 4:
            p.data = p.data.contiguous(memory_format=torch.channels_last)

    def turned(thing):
        if isinstance(thing, torch.Tensor) and thing.dim() == 4:
            return thing.contiguous(memory_format=torch.channels_last)
        return thing

    def make(forward, module):
        def cast(self, *args, **kwargs):
            return forward(self, *map(turned, args), **{k: turned(v) for k, v in kwargs.items()})

        return cast

    models.around_forward(model, make)
    tell("channels_last", True, where=name)
