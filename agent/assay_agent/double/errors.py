"""Errors of PyTorch's MPS backend that are no refusal of an operator's arguments (those: refuse.py), by release and
macOS."""


def cuda_error():
    """What a Mac's build says to `.cuda()` and device='cuda'."""
    return AssertionError("Torch not compiled with CUDA enabled")


def values_error(name):
    """What a rehearsal of shapes alone says where an operator or a function of PyTorch needs values."""
    return NotImplementedError("%s needs the values of its tensors, and this rehearsal carries shapes alone "
                               "(--shape-only): run it with data" % name)


# MPSHooks and MPSDevice.mm of each release: the oldest macOS that it runs on. The texts are put together without a
# space, as PyTorch does.
_FLOORS = (((2, 6), (12, 3), "MacOS 12.3+."), ((2, 9), (13, 0), "MacOS 13.0+."), ((2, 12), (14, 0), "MacOS 14.0+. "),
           ((2, 15), (14, 0), "macOS 14.0+. "), ((99, 0), (15, 0), "macOS 15.0+. "))


def availability_error(series, macos):
    """The error of the first use of the device where the macOS is too old for the release, or None."""
    for before, floor, text in _FLOORS:
        if series < before:
            if macos[:2] < floor:
                return RuntimeError("The MPS backend is supported on " + text
                                    + "Current OS version can be queried using `sw_vers`")
            return None
    return None


def pin_memory_error(series):
    """The error of Tensor.pin_memory(), or None where it works: PyTorch issue 86060, PR 181720."""
    if series >= (2, 14):
        return None
    return RuntimeError("Attempted to set the storage of a tensor on device \"cpu\" to a storage on different device "
                        "\"mps:0\".  This is no longer allowed; the devices must match.")


def missing_error(name, series, commit):
    """The error of an operator that the release, built from that commit, has no kernel for."""
    if series <= (2, 5):
        text = ("The operator '%s' is not currently implemented for the MPS device. If you want this op to be added in "
                "priority during the prototype phase of this feature, please comment on "
                "https://github.com/pytorch/pytorch/issues/77764." % name)
    else:
        text = ("The operator '%s' is not currently implemented for the MPS device. If you want this op to be "
                "considered for addition please comment on https://github.com/pytorch/pytorch/issues/141287 and "
                "mention use-case, that resulted in missing op as well as commit hash %s." % (name, commit))
    return NotImplementedError(text + " As a temporary fix, you can set the environment variable "
                               "`PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU as a fallback for this op. WARNING: "
                               "this will be slower than running natively on MPS.")


def collective_error(name, series, commit, fallback):
    """The error of a collective (`c10d::allreduce_`) that is given an MPS tensor, or None where it silently runs on a
    CPU copy: up to 2.11 under PYTORCH_ENABLE_MPS_FALLBACK, which leaves the tensor as it was (issue 173808)."""
    if series >= (2, 12):
        return NotImplementedError(
            "The distributed operator '%s' is not currently implemented for the MPS device. If you want this op to be "
            "considered for addition please comment on https://github.com/pytorch/pytorch/issues/141287 and mention "
            "use-case, that resulted in missing op as well as commit hash %s. Please note, that distributed operators "
            "can not fall back to CPU" % (name, commit))
    return None if fallback else missing_error(name, series, commit)


def no_stub_error(series):
    """The error of an operator whose kernel is chosen by a DispatchStub that MPS has not filled."""
    return RuntimeError("DispatchStub: missing kernel for mps" if series >= (2, 4)
                        else "DispatchStub: missing MPS kernel")


def unregistered_error(name, key):
    """The error of an operator without a kernel under a dispatch key that no fallback serves: SparseMPS,
    SparseCsrMPS."""
    return NotImplementedError(
        "Could not run '%s' with arguments from the '%s' backend. This could be because the operator doesn't exist for "
        "this backend, or was omitted during the selective/custom build process (if using custom build). If you are a "
        "Facebook employee using PyTorch on mobile, please visit https://fburl.com/ptmfixes for possible resolutions."
        % (name, key))


def no_compressed_error():
    """The error of making a compressed sparse tensor, in every release up to 2.15: new_compressed_tensor in
    aten/src/ATen/native/sparse/SparseCsrTensor.cpp knows no MPS; pytorch issues 129842, 196192."""
    return NotImplementedError("Could not run 'new_compressed_tensor' from the 'mps:0' device.)")
