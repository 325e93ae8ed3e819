"""Trace which operators the detectors that the ledger speaks of reach: one training step, its gradient, and one prediction.

    python tools/claims/models.py internal/claims/models.txt

It needs torch, torchvision, transformers, scipy, ultralytics and effdet (with their requirements); what is not installed is left out
and said on standard error. Models are small, have random weights and run on a CPU, in the way tools/atlas/trace.py traces Python
APIs: what a CPU does differently from MPS is switched off or replaced. A step with other shapes, options or data may reach other
operators. What cannot be seen in a trace is what a kernel refuses or gets wrong.
"""

import importlib.metadata
import importlib.util
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ("torch", "torchvision", "transformers", "ultralytics", "effdet")


def atlas_trace():
    """tools/atlas/trace.py, whose name a module of the standard library has as well."""
    spec = importlib.util.spec_from_file_location("atlas_trace", os.path.join(HERE, "..", "atlas", "trace.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Each returns (step, predict): step() gives the loss of one training step.

def rcnn(torch, name):
    import torchvision.models.detection as detection
    model = getattr(detection, name)(weights=None, weights_backbone=None, min_size=128, max_size=160, box_score_thresh=0.0)
    images = [torch.rand(3, 128, 128)]
    target = {"boxes": torch.tensor([[10., 10., 60., 60.], [30., 40., 90., 100.]]), "labels": torch.tensor([1, 2]),
              "masks": (torch.rand(2, 128, 128) > 0.5).to(torch.uint8)}
    return model, lambda: sum(model(images, [target]).values()), lambda: model(images)


def yolo(torch, name):
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel
    from ultralytics.utils.nms import non_max_suppression
    model = DetectionModel(name + ".yaml", verbose=False)
    model.args = get_cfg()
    batch = {"img": torch.rand(2, 3, 64, 64), "batch_idx": torch.tensor([0., 1.]), "cls": torch.tensor([[1.], [2.]]),
             "bboxes": torch.tensor([[.4, .4, .3, .3], [.5, .6, .4, .2]])}
    return model, lambda: model(batch)[0].sum(), lambda: non_max_suppression(model(batch["img"]), conf_thres=1e-4)


def detr(torch, name):
    import transformers
    deformable = name == "DeformableDetr"
    stages = ["stage2", "stage3", "stage4"] if deformable else ["stage4"]
    backbone = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16] * 4, depths=[1] * 4, out_features=stages)
    config = getattr(transformers, name + "Config")(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=32, num_queries=5,
        encoder_layers=2, decoder_layers=2, encoder_ffn_dim=32, decoder_ffn_dim=32, encoder_attention_heads=2, decoder_attention_heads=2)
    model = getattr(transformers, name + "ForObjectDetection")(config)
    image = torch.rand(2, 3, 128, 128)
    labels = [{"class_labels": torch.tensor([1]), "boxes": torch.tensor([[.5, .5, .2, .2]])}] * 2
    return model, lambda: model(pixel_values=image, labels=labels).loss, lambda: model(pixel_values=image).logits


def efficientdet(torch, name):
    import effdet
    options = dict(pretrained=False, pretrained_backbone=False, num_classes=3, image_size=(128, 128))
    bench = effdet.create_model(name, bench_task="train", bench_labeler=True, **options)
    images = torch.rand(2, 3, 128, 128)
    boxes = torch.tensor([[10., 10., 60., 60.]])
    target = {"bbox": [boxes, boxes], "cls": [torch.tensor([1.]), torch.tensor([2.])], "img_scale": torch.ones(2),
              "img_size": torch.tensor([[128., 128.]] * 2)}
    predictor = effdet.DetBenchPredict(bench.model)
    return bench, lambda: bench(images, target)["loss"], lambda: predictor.eval()(images)


MODELS = [
    ("torchvision", "fasterrcnn_resnet50_fpn", rcnn),
    ("torchvision", "maskrcnn_resnet50_fpn", rcnn),
    ("torchvision", "retinanet_resnet50_fpn", rcnn),
    ("transformers", "Detr", detr),
    ("transformers", "DeformableDetr", detr),
    ("ultralytics", "yolov8n", yolo),
    ("ultralytics", "yolo11n", yolo),
    ("effdet", "tf_efficientdet_d0", efficientdet),
]


def main():
    trace = atlas_trace()
    torch, _ = trace.import_torch()
    reroutes = trace.Reroutes(open(trace.REROUTES).read())
    import torchvision  # noqa: F401  registers its operators
    names = trace.Names(torch)
    rows = []
    for package, name, make in MODELS:
        random.seed(0)
        torch.manual_seed(0)
        try:
            model, step, predict = make(torch, name)
        except ImportError as error:
            print("%s.%s: %s" % (package, name, error), file=sys.stderr)
            continue
        full = package + "." + name
        recorder = trace.Recorder(torch, reroutes)
        with recorder.profile() as profile:
            model.train()
            parameters = [p for p in model.parameters() if p.requires_grad]
            recorder.forward_backward(full + " train", step, parameters)
            model.eval()
            with torch.no_grad():
                recorder.call(full + " predict", "forward", predict)
        for api, why in recorder.failed.items():
            print("%s: %s" % (api, why), file=sys.stderr)
        reached, _ = recorder.read(profile, names)
        for key, direction in ((" train forward", "train"), (" train backward", "backward"), (" predict forward", "predict")):
            if full + key in reached:
                rows.append((full, direction, sorted(reached[full + key][1])))
    versions = ", ".join("%s %s" % (p, importlib.metadata.version(p).split("+")[0]) for p in PACKAGES if importlib.util.find_spec(p))
    head = """# Detector, what it does -> the outermost operators that it calls.
# train: the forward pass of a training step with its loss; backward: its gradient; predict: a prediction with its post-processing.
# Made by `python tools/claims/models.py internal/claims/models.txt`, which says how; traced on a CPU with
# %s.
""" % versions
    with open(sys.argv[1], "w") as out:
        out.write(head + "".join("%-38s %-8s %s\n" % (model, direction, " ".join(ops)) for model, direction, ops in rows))


if __name__ == "__main__":
    main()
