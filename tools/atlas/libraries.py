"""Calls of torchvision's and torchaudio's functions, for trace.py: `python tools/atlas/trace.py OUTDIR torchvision`.

calls(library) gives, by Python name, a function of torch that yields calls, each with the tensors that want a gradient.
"""

import functools


def boxes(torch, n=6):
    corner = torch.rand(n, 2) * 8
    return torch.cat([corner, corner + 1 + torch.rand(n, 2) * 4], 1)


def torchvision_calls():
    import torchvision
    ops, found = torchvision.ops, {}

    def add(name, make):
        found["torchvision.ops." + name] = make

    def pooled(function, depth, torch):
        x = torch.randn(1, depth, 16, 16, requires_grad=True)
        one = boxes(torch)
        rois = torch.cat([torch.zeros(6, 1), one], 1)
        yield lambda: function(x, rois), [x]
        yield lambda: function(x, [one]), [x]

    for name, depth in (("roi_align", 4), ("roi_pool", 4), ("ps_roi_align", 16), ("ps_roi_pool", 16)):
        def call(x, rois, name=name):
            return getattr(ops, name)(x, rois, (2, 2) if name.startswith("roi") else 2)
        add(name, functools.partial(pooled, call, depth))
    for name, depth, last in (("RoIAlign", 4, (1.0, 2)), ("RoIPool", 4, (1.0,)), ("PSRoIAlign", 16, (1.0, 2)), ("PSRoIPool", 16, (1.0,))):
        add(name, functools.partial(pooled, getattr(ops, name)(2, *last), depth))

    def multi_scale(torch):
        pool = ops.MultiScaleRoIAlign(["0", "1"], 2, 2)
        maps = {"0": torch.randn(1, 4, 16, 16, requires_grad=True), "1": torch.randn(1, 4, 8, 8, requires_grad=True)}
        single, one = ops.MultiScaleRoIAlign(["0"], 2, 2), boxes(torch)
        yield lambda: pool(maps, [one], [(64, 64)]), list(maps.values())
        yield lambda: single({"0": maps["0"]}, [one], [(64, 64)]), [maps["0"]]
    add("MultiScaleRoIAlign", multi_scale)

    def deform(module, torch):
        x, offset = torch.randn(1, 4, 8, 8, requires_grad=True), torch.randn(1, 18, 6, 6, requires_grad=True)
        mask, weight = torch.rand(1, 9, 6, 6, requires_grad=True), torch.randn(5, 4, 3, 3, requires_grad=True)
        if module:
            layer = ops.DeformConv2d(4, 5, 3)
            yield lambda: layer(x, offset, mask), [x, offset, mask] + list(layer.parameters())
            yield lambda: layer(x, offset), [x, offset] + list(layer.parameters())
        else:
            yield lambda: ops.deform_conv2d(x, offset, weight, mask=mask), [x, offset, weight, mask]
            yield lambda: ops.deform_conv2d(x, offset, weight), [x, offset, weight]
    add("deform_conv2d", functools.partial(deform, False))
    add("DeformConv2d", functools.partial(deform, True))

    def suppressed(torch):
        given = boxes(torch), torch.rand(6)
        yield lambda: ops.nms(*given, 0.5), []
    add("nms", suppressed)

    def batched(torch):  # by a trick with coordinates, and class by class where boxes are many
        for n in (6, 6001):
            given = boxes(torch, n), torch.rand(n), torch.arange(n) % 2
            yield functools.partial(ops.batched_nms, *given, 0.5), []
    add("batched_nms", batched)

    def pairs(function, torch):
        a, b = boxes(torch).requires_grad_(), boxes(torch).requires_grad_()
        yield lambda: function(a, b), [a, b]
    for name in ("box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou", "generalized_box_iou_loss",
                 "distance_box_iou_loss", "complete_box_iou_loss"):
        add(name, functools.partial(pairs, getattr(ops, name)))

    def single(function, masks, torch):
        given = torch.ones(2, 4, 4) if masks else boxes(torch)
        yield lambda: function(given), []
    for name, function in (("box_area", ops.box_area), ("box_convert", lambda b: ops.box_convert(b, "xyxy", "cxcywh")),
                           ("clip_boxes_to_image", lambda b: ops.clip_boxes_to_image(b, (8, 8))),
                           ("remove_small_boxes", lambda b: ops.remove_small_boxes(b, 1.5)),
                           ("masks_to_boxes", ops.masks_to_boxes)):
        add(name, functools.partial(single, function, name == "masks_to_boxes"))

    def layer(function, size, torch):
        x = torch.randn(size, requires_grad=True)
        module = function(torch)
        yield lambda: module(x), [x] + (list(module.parameters()) if isinstance(module, torch.nn.Module) else [])
    image = (2, 4, 8, 8)
    for name, function in (
            ("sigmoid_focal_loss", lambda torch: functools.partial(ops.sigmoid_focal_loss, targets=torch.ones(image), reduction="mean")),
            ("stochastic_depth", lambda torch: lambda x: ops.stochastic_depth(x, 0.5, "row")),
            ("StochasticDepth", lambda torch: ops.StochasticDepth(0.5, "batch")),
            ("drop_block2d", lambda torch: lambda x: ops.drop_block2d(x, 0.5, 3)),
            ("DropBlock2d", lambda torch: ops.DropBlock2d(0.5, 3)),
            ("FrozenBatchNorm2d", lambda torch: ops.FrozenBatchNorm2d(4)),
            ("Conv2dNormActivation", lambda torch: ops.Conv2dNormActivation(4, 5)),
            ("SqueezeExcitation", lambda torch: ops.SqueezeExcitation(4, 2)), ("Permute", lambda torch: ops.Permute([0, 2, 3, 1]))):
        add(name, functools.partial(layer, function, image))
    add("drop_block3d", functools.partial(layer, lambda torch: lambda x: ops.drop_block3d(x, 0.5, 1), (2, 4, 2, 4, 4)))
    add("MLP", functools.partial(layer, lambda torch: ops.MLP(4, [5, 3]), (2, 4)))

    def pyramid(torch):
        maps = {"0": torch.randn(1, 4, 8, 8, requires_grad=True), "1": torch.randn(1, 6, 4, 4, requires_grad=True)}
        module = ops.FeaturePyramidNetwork([4, 6], 5)
        yield lambda: list(module(maps).values()), list(maps.values()) + list(module.parameters())
    add("FeaturePyramidNetwork", pyramid)
    return found


def torchaudio_calls():
    import torch
    # The release for another CUDA is asked for its Python alone.
    torch.version.cuda = None
    import torchaudio
    functional, transforms, found = torchaudio.functional, torchaudio.transforms, {}
    rate = 8000

    def plain(function, size, torch):
        x = (torch.rand(size) / 2).requires_grad_()
        yield lambda: function(x), [x]
    sound, frames = (2, 1600), (2, 33, 20)
    sizes = {"vad": (2, 800), "griffinlim": frames, "loudness": (2, 16000), "flanger": (1,) + sound, "mask_along_axis": (1,) + sound,
             "mask_along_axis_iid": (1, 1) + sound, "sliding_window_cmn": (1, 2, 20), "forced_align": (1, 20, 3),
             "rnnt_loss": (1, 4, 3, 2), "frechet_distance": (3,)}
    whole, short, noise = torch.randint(0, 256, sound), torch.rand(2, 9), torch.rand(sound)
    decibels, labels, advance = torch.tensor([3.0, 3.0]), torch.tensor([[1, 2]]), torch.linspace(0, 3, 33)[:, None]
    transcript, square = [torch.tensor(v, dtype=torch.int32) for v in ([[1, 1]], [4], [2])], torch.eye(3)
    window = torch.hann_window(64)
    taps = torch.tensor([0.5, 0.1, 0.05]), torch.tensor([1.0, 0.2, 0.1])
    spectrum = torch.randn(2, 33, 20, dtype=torch.complex64)
    for name, function in {
            "spectrogram": lambda x: functional.spectrogram(x, 0, window, 64, 32, 64, 2.0, False),
            "spectral_centroid": lambda x: functional.spectral_centroid(x, rate, 0, window, 64, 32, 64),
            "griffinlim": lambda x: functional.griffinlim(x, window, 64, 32, 64, 2.0, 2, 0.9, None, False),
            "amplitude_to_DB": lambda x: functional.amplitude_to_DB(x, 10.0, 1e-10, 0.0, 80.0),
            "DB_to_amplitude": lambda x: functional.DB_to_amplitude(x, 1.0, 1.0),
            "compute_deltas": lambda x: functional.compute_deltas(x),
            "resample": lambda x: functional.resample(x, rate, 4000),
            "mu_law_encoding": lambda x: functional.mu_law_encoding(x, 256),
            "mu_law_decoding": lambda x: functional.mu_law_decoding(whole, 256),
            "lfilter": lambda x: functional.lfilter(x, taps[1], taps[0]),
            "filtfilt": lambda x: functional.filtfilt(x, taps[1], taps[0]),
            "biquad": lambda x: functional.biquad(x, 0.5, 0.1, 0.05, 1.0, 0.2, 0.1),
            "lowpass_biquad": lambda x: functional.lowpass_biquad(x, rate, 500.0),
            "highpass_biquad": lambda x: functional.highpass_biquad(x, rate, 500.0),
            "bandpass_biquad": lambda x: functional.bandpass_biquad(x, rate, 500.0),
            "bandreject_biquad": lambda x: functional.bandreject_biquad(x, rate, 500.0),
            "allpass_biquad": lambda x: functional.allpass_biquad(x, rate, 500.0),
            "band_biquad": lambda x: functional.band_biquad(x, rate, 500.0),
            "bass_biquad": lambda x: functional.bass_biquad(x, rate, 3.0),
            "treble_biquad": lambda x: functional.treble_biquad(x, rate, 3.0),
            "equalizer_biquad": lambda x: functional.equalizer_biquad(x, rate, 500.0, 3.0),
            "deemph_biquad": lambda x: functional.deemph_biquad(x, 44100),
            "riaa_biquad": lambda x: functional.riaa_biquad(x, 44100),
            "contrast": lambda x: functional.contrast(x), "dcshift": lambda x: functional.dcshift(x, 0.1),
            "dither": lambda x: functional.dither(x), "gain": lambda x: functional.gain(x, 3.0),
            "overdrive": lambda x: functional.overdrive(x), "phaser": lambda x: functional.phaser(x, rate),
            "flanger": lambda x: functional.flanger(x, rate), "vad": lambda x: functional.vad(x, rate),
            "detect_pitch_frequency": lambda x: functional.detect_pitch_frequency(x, rate),
            "pitch_shift": lambda x: functional.pitch_shift(x, rate, 2, n_fft=64),
            "loudness": lambda x: functional.loudness(x, rate),
            "fftconvolve": lambda x: functional.fftconvolve(x, short), "convolve": lambda x: functional.convolve(x, short),
            "add_noise": lambda x: functional.add_noise(x, noise, decibels),
            "speed": lambda x: functional.speed(x, rate, 1.1), "preemphasis": lambda x: functional.preemphasis(x),
            "deemphasis": lambda x: functional.deemphasis(x),
            "mask_along_axis": lambda x: functional.mask_along_axis(x, 3, 0.0, 1),
            "mask_along_axis_iid": lambda x: functional.mask_along_axis_iid(x, 3, 0.0, 2),
            "sliding_window_cmn": lambda x: functional.sliding_window_cmn(x, 4, 2),
            "phase_vocoder": lambda x: functional.phase_vocoder(spectrum, 1.2, advance),
            "inverse_spectrogram": lambda x: functional.inverse_spectrogram(spectrum, None, 0, window, 64, 32, 64, False),
            "melscale_fbanks": lambda x: functional.melscale_fbanks(33, 0.0, 4000.0, 8, rate),
            "linear_fbanks": lambda x: functional.linear_fbanks(33, 0.0, 4000.0, 8, rate),
            "create_dct": lambda x: functional.create_dct(4, 8, "ortho"),
            "forced_align": lambda x: functional.forced_align(x, labels),
            "rnnt_loss": lambda x: functional.rnnt_loss(x, *transcript, 0),
            "psd": lambda x: functional.psd(spectrum), "frechet_distance": lambda x: functional.frechet_distance(x, square, noise[0, :3], square),
    }.items():
        found["torchaudio.functional." + name] = functools.partial(plain, function, sizes.get(name, sound))

    def module(make, size, torch):
        layer, x = make(), (torch.rand(size) / 2).requires_grad_()
        yield lambda: layer(x), [x]
    for name, make, size in (
            ("Spectrogram", lambda: transforms.Spectrogram(64), sound), ("MelSpectrogram", lambda: transforms.MelSpectrogram(
                rate, 64, n_mels=8), sound),
            ("MFCC", lambda: transforms.MFCC(rate, 4, melkwargs={"n_fft": 64, "n_mels": 8}), sound),
            ("LFCC", lambda: transforms.LFCC(rate, 8, n_lfcc=4, speckwargs={"n_fft": 64}), sound),
            ("MelScale", lambda: transforms.MelScale(8, rate, n_stft=33), (2, 33, 20)),
            ("InverseMelScale", lambda: transforms.InverseMelScale(33, 8, rate), (2, 8, 20)),
            ("GriffinLim", lambda: transforms.GriffinLim(64, 2), (2, 33, 20)),
            ("AmplitudeToDB", transforms.AmplitudeToDB, sound), ("ComputeDeltas", transforms.ComputeDeltas, sound),
            ("Resample", lambda: transforms.Resample(rate, 4000), sound), ("Fade", lambda: transforms.Fade(9, 9), sound),
            ("FrequencyMasking", lambda: transforms.FrequencyMasking(3), (2, 33, 20)),
            ("TimeMasking", lambda: transforms.TimeMasking(3), (2, 33, 20)), ("Vol", lambda: transforms.Vol(0.5), sound),
            ("MuLawEncoding", transforms.MuLawEncoding, sound), ("PitchShift", lambda: transforms.PitchShift(rate, 2, n_fft=64), sound)):
        found["torchaudio.transforms." + name] = functools.partial(module, make, size)
    found["torchaudio.transforms.RNNTLoss"] = functools.partial(plain, lambda x: transforms.RNNTLoss(blank=0)(
        x, *transcript), sizes["rnnt_loss"])
    return found


def calls(library):
    return {"torchvision": torchvision_calls, "torchaudio": torchaudio_calls}[library]()
