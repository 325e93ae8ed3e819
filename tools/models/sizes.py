"""Whether the size of a model changes the operators that it calls: three sizes each of some families, forward and backward.

    python sizes.py

On meta tensors, without the double: what is compared is which of PyTorch's operators are called, and with how many dimensions and of which types
their tensors are. docs/models.md says what came of it; a size that calls others stands in zoo.py by itself.
"""

import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

torch.version.cuda = None  # torchaudio would compare it with the one that it was built for

import rehearse  # noqa: E402
import zoo  # noqa: E402


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.called = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            return 0
        self.called.add((func._schema.name, tuple((t.dim(), t.dtype) for t in args if isinstance(t, torch.Tensor))))
        return func(*args, **(kwargs or {}))


def called(entry):
    def meta(v):
        return v.to("meta") if isinstance(v, torch.Tensor) else v
    with rehearse.unfilled(torch), torch.device("meta"):
        model = entry.build().train()
    args, kwargs = entry.inputs(2)
    seen = Seen()
    with torch.device("meta"), seen:
        model(*tree_map(meta, args), **tree_map(meta, kwargs)).backward()
    return seen.called, sum(p.numel() for p in model.parameters())


def made(add, *args, **kwargs):
    add(*args, **kwargs)
    return zoo.ENTRIES.pop()


def torchvision(*names, size=224):
    return [made(zoo.vision, n, "", size) for n in names]


def face(classes, inputs, **sizes):
    return [made(zoo.face, n, "", "", classes, s, inputs, "") for n, s in sizes.items()]


def families():
    yield "ResNet", torchvision("resnet18", "resnet50", "resnet152")
    yield "VGG", torchvision("vgg11", "vgg16", "vgg19")
    yield "DenseNet", torchvision("densenet121", "densenet169", "densenet201")
    yield "EfficientNet", torchvision("efficientnet_b0", "efficientnet_b4", "efficientnet_b7")
    yield "MobileNetV3", torchvision("mobilenet_v3_small", "mobilenet_v3_large")
    yield "ConvNeXt", torchvision("convnext_tiny", "convnext_base", "convnext_large")
    yield "ViT", torchvision("vit_b_16", "vit_l_16", "vit_l_32")
    yield "Swin", torchvision("swin_t", "swin_s", "swin_b")
    yield "BERT", face(("BertConfig", "BertForSequenceClassification"), zoo.tokens(128, 30000, "class"),
                       tiny=dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512), base={},
                       large=dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096))
    yield "GPT-2", face(("GPT2Config", "GPT2LMHeadModel"), zoo.tokens(128, 50000), small={}, medium=dict(n_embd=1024, n_layer=24, n_head=16),
                        large=dict(n_embd=1280, n_layer=36, n_head=20))
    yield "OPT", face(("OPTConfig", "OPTForCausalLM"), zoo.tokens(128, 50000), **{
        "125m": {}, "350m": dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, ffn_dim=4096, word_embed_proj_dim=512,
                                 do_layer_norm_before=False), "1.3b": dict(hidden_size=2048, num_hidden_layers=24, num_attention_heads=32,
                                                                            ffn_dim=8192, word_embed_proj_dim=2048)})
    qwen = ("Qwen2Config", "Qwen2ForCausalLM")
    yield "Qwen2.5", face(qwen, zoo.tokens(128, 150000), **{
        "0.5B": dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True),
        "1.5B": dict(hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2, tie_word_embeddings=True),
        "7B": dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4)})
    yield "T5", face(("T5Config", "T5ForConditionalGeneration"), zoo.translated, **{
        "t5-small": dict(decoder_start_token_id=0), "t5-large": dict(d_model=1024, d_ff=4096, num_layers=24, num_heads=16, decoder_start_token_id=0),
        "flan-t5-base": dict(d_model=768, d_ff=2048, num_layers=12, num_heads=12, feed_forward_proj="gated-gelu", decoder_start_token_id=0)})
    yield "SegFormer", face(("SegformerConfig", "SegformerForSemanticSegmentation"), zoo.mapped(512), b0=dict(num_labels=150), b2=dict(
        num_labels=150, depths=[3, 4, 6, 3], hidden_sizes=[64, 128, 320, 512], decoder_hidden_size=768), b5=dict(
        num_labels=150, depths=[3, 6, 40, 3], hidden_sizes=[64, 128, 320, 512], decoder_hidden_size=768))
    yield "DINOv2", face(("Dinov2Config", "Dinov2ForImageClassification"), zoo.pictures(224), small=dict(
        image_size=518, patch_size=14, hidden_size=384, num_attention_heads=6), base=dict(image_size=518, patch_size=14), giant=dict(
        image_size=518, patch_size=14, hidden_size=1536, num_hidden_layers=40, num_attention_heads=24, use_swiglu_ffn=True))
    wave = dict(ctc_loss_reduction="mean", mask_time_prob=0.0)
    yield "wav2vec 2.0", face(("Wav2Vec2Config", "Wav2Vec2Model"), lambda batch: ((), dict(input_values=torch.rand(batch, 32000))), base=wave,
                              large=dict(wave, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
                              **{"large-xlsr-53": dict(wave, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
                                                       feat_extract_norm="layer", do_stable_layer_norm=True, conv_bias=True)})


def main():
    zoo.own = lambda net, **kwargs: next(v for v in (getattr(net(**kwargs), k, None) for k in ("loss", "last_hidden_state")) if v is not None).sum()
    for family, entries in families():
        sets, said = [], []
        for entry in entries:
            ops, parameters = called(entry)
            sets.append(ops)
            said.append("%s (%.0f M)" % (entry.name, parameters / 1e6))
        names = [{op for op, _ in s} for s in sets]
        shared = set.intersection(*names)
        print("%-13s %s: %d operators of all" % (family, ", ".join(said), len(shared)))
        for entry, own in zip(entries, names):
            alone = own - set.union(*(n for n in names if n is not own))
            if alone:
                print("  %s alone calls %s" % (entry.name, " ".join(sorted(alone))))
        missing = set.union(*names) - shared
        if missing:
            print("  not of all: %s" % " ".join(sorted(missing)))
        kinds = set.union(*sets) - set.intersection(*sets)
        if kinds and not missing:
            print("  the same ones, with other dimensions or types: %s" % " ".join(sorted({op for op, _ in kinds})))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
