"""A library as a suite tests it: it knows no device but that of what it is given."""

import torch


def spectrum(matrix):
    return torch.linalg.eig(matrix)[0]


def careful_spectrum(matrix):
    try:
        return spectrum(matrix)
    except NotImplementedError as error:
        raise ValueError("no spectrum") from error


def quiet_spectrum(matrix):
    try:
        return spectrum(matrix)
    except NotImplementedError:
        return None


def precise_mean(x):
    return x.double().mean()


def window(n):
    return torch.hann_window(n)


def smooth(x):
    return x * window(x.shape[-1])


def mix(x):
    return torch.nn.functional.linear(x, torch.ones(x.shape[-1], 4, device=x.device).t())
