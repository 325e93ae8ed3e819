"""The models of the matrix: what rehearse.py builds, each with random weights, and one training step's inputs.

An entry's build() gives a module whose call with inputs(batch), (arguments in order, arguments by name), returns the loss.
Sizes are those that people train at; where a model needs values and so really computes on this machine's CPU a side of an
image is 320 or less.

How the set was chosen: the families that are asked for by name (Faster and Mask R-CNN, SSD, RetinaNet, FCOS, YOLO, DETR, EfficientDet,
U-Net, PSPNet, DeepLabV3 and V3+, SegFormer, Mask2Former, ViT, BERT, VGG16 with ASPP), torchvision's and timm's usual backbones,
and architectures of transformers behind ids that are much used on the Hugging Face hub: small text encoders first, then vision, then
audio, as "Model statistics of the 50 most downloaded entities on Hugging Face" (L. Bourdois, October 2025) weighs them, and those that a
hundred much used ids are of (internal/models/ids.tsv).
"""

import collections

import torch
from torch import nn
import torch.nn.functional as F

Entry = collections.namedtuple("Entry", "name task family package build inputs says carry")

ENTRIES = []

# What tensors carry. Of ZEROS a value that the model asks for is taken for 0: transformers asks whether a mask hides nothing, and 0
# says that it does hide something, as in any batch with padding.
SHAPES, ZEROS, VALUES = "shapes", "shapes, a value asked for is 0", "values"


def add(name, task, family, package, build, inputs, says, carry=SHAPES):
    """says: the inputs in words. carry: VALUES where it is known to ask for them, so that shapes alone are not tried."""
    ENTRIES.append(Entry(name, task, family, package, build, inputs, says, carry))


class Trained(nn.Module):
    """A network and its loss."""

    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, *args, **kwargs):
        return self.loss(self.net, *args, **kwargs)


def images(batch, size, channels=3):
    return torch.rand(batch, channels, size, size)


# Losses ----------------------------------------------------------------------------------------------------------------

def labelled(net, x, y):
    """Cross-entropy of the logits, of main and auxiliary heads."""
    out = net(x)
    if hasattr(out, "_fields"):  # GoogLeNet, Inception
        return sum(F.cross_entropy(o, y) for o in out if o is not None)
    if isinstance(out, dict):  # torchvision's segmentation
        return sum((0.5 if k == "aux" else 1.0) * F.cross_entropy(v, y) for k, v in out.items())
    return F.cross_entropy(out, y)


def summed(net, *args, **kwargs):
    """The sum of a dictionary of losses, as torchvision's detectors give."""
    return sum(net(*args, **kwargs).values())


def own(net, **kwargs):
    """The loss that the model computes itself."""
    return net(**kwargs).loss


def squared(net, x, *args):
    """Mean squared error against noise, as diffusion models and autoencoders are trained."""
    out = net(x, *args)
    out = getattr(out, "sample", out)
    return F.mse_loss(out, torch.zeros_like(out))


# torchvision -----------------------------------------------------------------------------------------------------------

def vision(name, family, size=224, task="classification"):
    def build():
        import torchvision
        return Trained(torchvision.models.get_model(name, weights=None), labelled)
    add(name, task, family, "torchvision", build,
        lambda batch: ((images(batch, size), torch.randint(0, 1000, (batch,))), {}), "3,%d,%d" % (size, size))


for _name, _family in (
        ("resnet18", "ResNet"), ("resnet50", "ResNet"), ("resnet101", "ResNet"), ("resnext50_32x4d", "ResNeXt"), ("wide_resnet50_2", "ResNet"),
        ("vgg16", "VGG"), ("vgg16_bn", "VGG"), ("alexnet", "AlexNet"), ("densenet121", "DenseNet"), ("googlenet", "GoogLeNet"),
        ("mobilenet_v2", "MobileNet"), ("mobilenet_v3_large", "MobileNet"), ("efficientnet_b0", "EfficientNet"),
        ("efficientnet_b4", "EfficientNet"), ("efficientnet_v2_s", "EfficientNet"), ("convnext_tiny", "ConvNeXt"), ("convnext_base", "ConvNeXt"),
        ("regnet_y_8gf", "RegNet"), ("shufflenet_v2_x1_0", "ShuffleNet"), ("squeezenet1_1", "SqueezeNet"), ("mnasnet1_0", "MNASNet"),
        ("vit_b_16", "ViT"), ("vit_l_16", "ViT"), ("swin_t", "Swin"), ("swin_v2_b", "Swin"), ("maxvit_t", "MaxViT")):
    vision(_name, _family)
vision("inception_v3", "Inception", 299)


def pixels(name, family):
    def build():
        import torchvision
        return Trained(torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=21), labelled)
    add(name, "segmentation", family, "torchvision", build,
        lambda batch: ((images(batch, 512), torch.randint(0, 21, (batch, 512, 512))), {}), "3,512,512")


for _name, _family in (("fcn_resnet50", "FCN"), ("deeplabv3_resnet50", "DeepLabV3"), ("deeplabv3_mobilenet_v3_large", "DeepLabV3"),
                       ("lraspp_mobilenet_v3_large", "LR-ASPP")):
    pixels(_name, _family)


def boxes(name, family, task="detection", masks=False, keypoints=False):
    def build():
        import torchvision
        more = {} if name.startswith("ssd") else {"min_size": 224, "max_size": 320}
        return Trained(torchvision.models.get_model(name, weights=None, weights_backbone=None, **more), summed)

    def inputs(batch):
        targets = []
        for _ in range(batch):
            target = {"boxes": torch.tensor([[20., 30., 120., 150.], [60., 40., 200., 180.]]), "labels": torch.tensor([1, 1])}
            if masks:
                target["masks"] = torch.ones(2, 224, 224, dtype=torch.uint8)
            if keypoints:
                target["keypoints"] = torch.tensor([70., 90., 1.]).expand(2, 17, 3).clone()
            targets.append(target)
        return (list(torch.rand(batch, 3, 224, 224)), targets), {}
    add(name, task, family, "torchvision", build, inputs, "3,224,224, 2 boxes" + (" with masks" if masks else ""), carry=VALUES)


boxes("fasterrcnn_resnet50_fpn", "Faster R-CNN")
boxes("fasterrcnn_mobilenet_v3_large_320_fpn", "Faster R-CNN")
boxes("retinanet_resnet50_fpn", "RetinaNet")
boxes("fcos_resnet50_fpn", "FCOS")
boxes("ssd300_vgg16", "SSD")
boxes("ssdlite320_mobilenet_v3_large", "SSD")
boxes("maskrcnn_resnet50_fpn", "Mask R-CNN", "instance segmentation", masks=True)
boxes("keypointrcnn_resnet50_fpn", "Keypoint R-CNN", "keypoints", keypoints=True)


def clips(name, family, size):
    def build():
        import torchvision
        return Trained(torchvision.models.get_model(name, weights=None), labelled)
    add(name, "video", family, "torchvision", build,
        lambda batch: ((torch.rand(batch, 3, 16, size, size), torch.randint(0, 400, (batch,))), {}), "3,16,%d,%d" % (size, size))


clips("r3d_18", "ResNet 3D", 112)
clips("r2plus1d_18", "ResNet 3D", 112)
clips("mvit_v2_s", "MViT", 224)
clips("s3d", "S3D", 224)
clips("swin3d_t", "Swin 3D", 224)


# timm ------------------------------------------------------------------------------------------------------------------

def timms(name, family, size=224):
    def build():
        import timm
        return Trained(timm.create_model(name), labelled)
    add("timm/" + name, "classification", family, "timm", build,
        lambda batch: ((images(batch, size), torch.randint(0, 1000, (batch,))), {}), "3,%d,%d" % (size, size))


for _name, _family in (
        ("resnet50", "ResNet"), ("mobilenetv3_small_100", "MobileNet"), ("mobilenetv4_conv_small", "MobileNet"), ("efficientnet_b0", "EfficientNet"),
        ("vit_base_patch16_224", "ViT"), ("vit_small_patch14_dinov2.lvd142m", "DINOv2"), ("deit_small_patch16_224", "DeiT"),
        ("convnextv2_tiny", "ConvNeXt"), ("swin_tiny_patch4_window7_224", "Swin"), ("beit_base_patch16_224", "BEiT"),
        ("coatnet_0_rw_224", "CoAtNet"), ("efficientformerv2_s0", "EfficientFormer"), ("mixer_b16_224", "MLP-Mixer"),
        ("nfnet_f0", "NFNet"), ("eva02_base_patch14_224", "EVA")):
    timms(_name, _family, 518 if "dinov2" in _name else 224)


# transformers ----------------------------------------------------------------------------------------------------------

def face(name, task, family, classes, settings, inputs, says, carry=ZEROS):
    """name: the architecture as of that much-used id; classes: (config, model); settings: those that differ from the defaults."""
    def build():
        import transformers
        config = getattr(transformers, classes[0])(**(settings() if callable(settings) else settings))
        if hasattr(config, "use_cache"):
            config.use_cache = False
        return Trained(getattr(transformers, classes[1])(config), own)
    add(name, task, family, "transformers", build, inputs, says, carry)


def tokens(length, vocabulary, labels="labels"):
    def inputs(batch):
        ids = torch.randint(5, vocabulary, (batch, length))
        given = ids.clone() if labels == "labels" else torch.randint(0, 2, (batch,))
        return (), dict(input_ids=ids, attention_mask=torch.ones_like(ids), labels=given)
    return inputs


_ENCODERS = (
    ("bert-base-uncased", "BERT", "Bert", {}, 30000),
    ("bert-large-uncased", "BERT", "Bert", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096), 30000),
    ("all-MiniLM-L6-v2", "BERT", "Bert", dict(hidden_size=384, num_hidden_layers=6, intermediate_size=1536), 30000),
    ("roberta-base", "RoBERTa", "Roberta", dict(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1), 50000),
    ("xlm-roberta-base", "RoBERTa", "XLMRoberta", dict(vocab_size=250002, max_position_embeddings=514, type_vocab_size=1), 250000),
    ("distilbert-base-uncased", "DistilBERT", "DistilBert", {}, 30000),
    ("electra-base-discriminator", "ELECTRA", "Electra", dict(embedding_size=768, hidden_size=768, num_attention_heads=12, intermediate_size=3072), 30000),
    ("all-mpnet-base-v2", "MPNet", "MPNet", {}, 30000),
    ("albert-base-v2", "ALBERT", "Albert", dict(hidden_size=768, num_attention_heads=12, intermediate_size=3072), 29000),
    ("deberta-v3-base", "DeBERTa", "DebertaV2", dict(vocab_size=128100, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                                                      intermediate_size=3072, relative_attention=True, position_buckets=256, pos_att_type=["p2c", "c2p"],
                                                      norm_rel_ebd="layer_norm", share_att_key=True, max_relative_positions=-1,
                                                      position_biased_input=False, type_vocab_size=0), 128000),
    ("ModernBERT-base", "ModernBERT", "ModernBert", {}, 50000),
    ("esm2_t12_35M", "ESM", "Esm", dict(vocab_size=33, hidden_size=480, num_hidden_layers=12, num_attention_heads=20, intermediate_size=1920,
                                        max_position_embeddings=1026, position_embedding_type="rotary", pad_token_id=1, mask_token_id=32,
                                        token_dropout=True), 30),
    ("nomic-embed-text-v1.5", "NomicBERT", "NomicBert", {}, 30000),
)
for _name, _family, _class, _settings, _vocabulary in _ENCODERS:
    face(_name, "text", _family, (_class + "Config", _class + "ForSequenceClassification"), _settings,
         tokens(128, _vocabulary, "class"), "128 tokens")

_QWEN = dict(vocab_size=151936, max_position_embeddings=32768, tie_word_embeddings=True)
_DECODERS = (
    ("gpt2", "GPT-2", "GPT2Config", "GPT2LMHeadModel", {}, 50000),
    ("opt-125m", "OPT", "OPTConfig", "OPTForCausalLM", {}, 50000),
    ("pythia-160m", "GPT-NeoX", "GPTNeoXConfig", "GPTNeoXForCausalLM",
     dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072), 50000),
    ("bloom-560m", "BLOOM", "BloomConfig", "BloomForCausalLM", dict(hidden_size=1024, n_layer=24, n_head=16), 250000),
    ("Llama-3.2-1B", "Llama", "LlamaConfig", "LlamaForCausalLM",
     dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
          tie_word_embeddings=True), 128000),
    ("TinyLlama-1.1B", "Llama", "LlamaConfig", "LlamaForCausalLM",
     dict(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4), 32000),
    ("Qwen2.5-0.5B", "Qwen", "Qwen2Config", "Qwen2ForCausalLM",
     dict(_QWEN, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2), 150000),
    ("Qwen3-0.6B", "Qwen", "Qwen3Config", "Qwen3ForCausalLM",
     dict(_QWEN, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128), 150000),
    ("SmolLM2-135M", "Llama", "LlamaConfig", "LlamaForCausalLM",
     dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
          tie_word_embeddings=True), 49000),
    ("gemma-3-270m", "Gemma", "Gemma3TextConfig", "Gemma3ForCausalLM",
     dict(vocab_size=262144, hidden_size=640, intermediate_size=2048, num_hidden_layers=18, num_attention_heads=4, num_key_value_heads=1,
          head_dim=256), 260000),
    ("phi-1_5", "Phi", "PhiConfig", "PhiForCausalLM", {}, 50000),
    ("Mistral-7B/2-layers", "Mistral", "MistralConfig", "MistralForCausalLM", dict(num_hidden_layers=2), 32000),
    ("mamba-130m", "Mamba", "MambaConfig", "MambaForCausalLM", {}, 50000),
)
for _name, _family, _config, _class, _settings, _vocabulary in _DECODERS:
    _length = 64 if _name == "mamba-130m" else 512  # without its kernels Mamba goes token by token
    face(_name, "text generation", _family, (_config, _class), _settings, tokens(_length, _vocabulary), "%d tokens" % _length)


# Mixtures of experts and models of pictures and words are larger than any Mac trains in float32: small ones of their kind.
_SMALL = dict(vocab_size=32000, hidden_size=512, intermediate_size=1024, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2)
for _name, _family, _config, _class, _settings in (
        ("Mixtral/2-layers", "Mixtral", "MixtralConfig", "MixtralForCausalLM", dict(_SMALL, num_local_experts=4)),
        ("Qwen3-30B-A3B/2-layers", "Qwen MoE", "Qwen3MoeConfig", "Qwen3MoeForCausalLM",
         dict(_SMALL, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=256, head_dim=64)),
        ("gpt-oss/2-layers", "gpt-oss", "GptOssConfig", "GptOssForCausalLM", dict(_SMALL, num_local_experts=4, num_experts_per_tok=2, head_dim=64)),
        ("DeepSeek-V3/2-layers", "DeepSeek", "DeepseekV3Config", "DeepseekV3ForCausalLM",
         dict(_SMALL, num_key_value_heads=8, n_routed_experts=8, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=256, first_k_dense_replace=1,
              q_lora_rank=128, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32))):
    face(_name, "text generation", _family, (_config, _class), _settings, tokens(128, 32000), "128 tokens, 2 layers of 512", VALUES)


def _seen(batch):
    """32 words around a picture of 112 by 112: 8 by 8 patches of 14, merged two by two into 16 tokens."""
    ids = torch.randint(10, 1000, (batch, 48))
    ids[:, 8], ids[:, 9:25], ids[:, 25] = 3, 5, 4
    return (), dict(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids.clone(), pixel_values=torch.rand(batch * 64, 1176),
                    image_grid_thw=torch.tensor([[1, 8, 8]] * batch), mm_token_type_ids=(ids == 5).long())


for _name, _config, _class, _eyes in (
        ("Qwen2.5-VL/2-layers", "Qwen2_5_VLConfig", "Qwen2_5_VLForConditionalGeneration",
         dict(depth=2, hidden_size=256, intermediate_size=512, num_heads=4, out_hidden_size=512, fullatt_block_indexes=[1])),
        ("Qwen3-VL/2-layers", "Qwen3VLConfig", "Qwen3VLForConditionalGeneration",
         dict(depth=2, hidden_size=256, intermediate_size=512, num_heads=4, out_hidden_size=512, patch_size=14, deepstack_visual_indexes=[0]))):
    face(_name, "multimodal", "Qwen-VL", (_config, _class),
         dict(text_config=dict(_SMALL, rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[8, 12, 12]), head_dim=64), vision_config=_eyes,
              image_token_id=5, vision_start_token_id=3, vision_end_token_id=4, video_token_id=6),
         _seen, "3,112,112 and 32 tokens, 2 layers of 512", VALUES)


def translated(batch):
    ids = torch.randint(5, 30000, (batch, 128))
    return (), dict(input_ids=ids, attention_mask=torch.ones_like(ids), labels=torch.randint(5, 30000, (batch, 64)))


face("t5-small", "translation", "T5", ("T5Config", "T5ForConditionalGeneration"), dict(decoder_start_token_id=0), translated, "128 tokens to 64")
face("flan-t5-base", "translation", "T5", ("T5Config", "T5ForConditionalGeneration"),
     dict(d_model=768, d_ff=2048, num_layers=12, num_heads=12, feed_forward_proj="gated-gelu", decoder_start_token_id=0), translated, "128 tokens to 64")
face("bart-base", "translation", "BART", ("BartConfig", "BartForConditionalGeneration"),
     dict(d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12, decoder_attention_heads=12, encoder_ffn_dim=3072,
          decoder_ffn_dim=3072), translated, "128 tokens to 64")
face("opus-mt-en-de", "translation", "Marian", ("MarianConfig", "MarianMTModel"),
     dict(d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048,
          decoder_ffn_dim=2048), translated, "128 tokens to 64")


def pictures(size, labels=2):
    return lambda batch: ((), dict(pixel_values=images(batch, size), labels=torch.randint(0, labels, (batch,))))


face("vit-base-patch16-224", "classification", "ViT", ("ViTConfig", "ViTForImageClassification"), {}, pictures(224), "3,224,224")
face("dinov2-base", "classification", "DINOv2", ("Dinov2Config", "Dinov2ForImageClassification"), dict(image_size=518, patch_size=14),
     pictures(224), "3,224,224 (positions interpolated)")
face("dinov2-giant/4-layers", "classification", "DINOv2", ("Dinov2Config", "Dinov2ForImageClassification"),
     dict(image_size=518, patch_size=14, hidden_size=1536, num_hidden_layers=4, num_attention_heads=24, use_swiglu_ffn=True),
     pictures(224), "3,224,224 (positions interpolated)")
face("swin-tiny-patch4-window7-224", "classification", "Swin", ("SwinConfig", "SwinForImageClassification"), {}, pictures(224), "3,224,224")


face("mobilevit-small", "classification", "MobileViT", ("MobileViTConfig", "MobileViTForImageClassification"), {}, pictures(256), "3,256,256")
face("videomae-base", "video", "VideoMAE", ("VideoMAEConfig", "VideoMAEForVideoClassification"), {},
     lambda batch: ((), dict(pixel_values=torch.rand(batch, 16, 3, 224, 224), labels=torch.randint(0, 2, (batch,)))), "16,3,224,224")


def mapped(size, classes=150):
    return lambda batch: ((), dict(pixel_values=images(batch, size), labels=torch.randint(0, classes, (batch, size, size))))


for _name, _settings in (("segformer-b0", {}), ("segformer-b2", dict(depths=[3, 4, 6, 3], hidden_sizes=[64, 128, 320, 512], decoder_hidden_size=768))):
    face(_name, "segmentation", "SegFormer", ("SegformerConfig", "SegformerForSemanticSegmentation"), dict(_settings, num_labels=150), mapped(512),
         "3,512,512")
face("dpt-hybrid-kind", "segmentation", "DPT", ("DPTConfig", "DPTForSemanticSegmentation"), dict(num_labels=150, image_size=384), mapped(384), "3,384,384")


def _resnet(stages, **settings):
    import transformers
    return transformers.ResNetConfig(out_features=stages, **settings)


def boxed(batch):
    labels = [{"class_labels": torch.tensor([0, 1]), "boxes": torch.tensor([[.4, .4, .3, .3], [.5, .6, .4, .2]])} for _ in range(batch)]
    return (), dict(pixel_values=images(batch, 224), labels=labels)


_NO_TIMM = dict(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None)
face("detr-resnet-50", "detection", "DETR", ("DetrConfig", "DetrForObjectDetection"), lambda: dict(_NO_TIMM, backbone_config=_resnet(["stage4"])),
     boxed, "3,224,224, 2 boxes", carry=VALUES)
face("conditional-detr-resnet-50", "detection", "DETR", ("ConditionalDetrConfig", "ConditionalDetrForObjectDetection"),
     lambda: dict(_NO_TIMM, backbone_config=_resnet(["stage4"])), boxed, "3,224,224, 2 boxes", carry=VALUES)
face("deformable-detr", "detection", "DETR", ("DeformableDetrConfig", "DeformableDetrForObjectDetection"),
     lambda: dict(_NO_TIMM, backbone_config=_resnet(["stage2", "stage3", "stage4"])), boxed, "3,224,224, 2 boxes", carry=VALUES)
face("rtdetr_r50vd", "detection", "RT-DETR", ("RTDetrConfig", "RTDetrForObjectDetection"), {}, boxed, "3,224,224, 2 boxes", carry=VALUES)
face("table-transformer-detection", "detection", "DETR", ("TableTransformerConfig", "TableTransformerForObjectDetection"),
     lambda: dict(_NO_TIMM, backbone_config=_resnet(["stage4"], depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic")), boxed,
     "3,224,224, 2 boxes", carry=VALUES)
face("yolos-tiny", "detection", "YOLOS", ("YolosConfig", "YolosForObjectDetection"),
     dict(hidden_size=192, num_attention_heads=3, intermediate_size=768, image_size=[224, 224]), boxed, "3,224,224, 2 boxes", carry=VALUES)


def masked(batch):
    masks = torch.zeros(2, 224, 224)
    masks[0, :100] = 1
    masks[1, 100:] = 1
    return (), dict(pixel_values=images(batch, 224), mask_labels=[masks.clone() for _ in range(batch)],
                    class_labels=[torch.tensor([0, 1]) for _ in range(batch)])


face("mask2former-swin-tiny", "instance segmentation", "Mask2Former", ("Mask2FormerConfig", "Mask2FormerForUniversalSegmentation"), {}, masked,
     "3,224,224, 2 masks", carry=VALUES)
face("maskformer-swin-tiny", "instance segmentation", "MaskFormer", ("MaskFormerConfig", "MaskFormerForInstanceSegmentation"), {}, masked,
     "3,224,224, 2 masks", carry=VALUES)


def pair(size, length, vocabulary):
    def inputs(batch):
        ids = torch.randint(5, vocabulary, (batch, length))
        return (), dict(input_ids=ids, pixel_values=images(batch, size), return_loss=True)
    return inputs


face("clip-vit-base-patch32", "multimodal", "CLIP", ("CLIPConfig", "CLIPModel"), dict(), pair(224, 77, 49000), "3,224,224 and 77 tokens")
face("siglip-base-patch16-224", "multimodal", "SigLIP", ("SiglipConfig", "SiglipModel"), dict(), pair(224, 64, 31000), "3,224,224 and 64 tokens")


face("blip-image-captioning-base", "multimodal", "BLIP", ("BlipConfig", "BlipForConditionalGeneration"), {},
     lambda batch: ((), dict(pixel_values=images(batch, 384), input_ids=torch.randint(5, 30000, (batch, 32)),
                             labels=torch.randint(5, 30000, (batch, 32)))), "3,384,384 and 32 tokens")


def segmented(net, pixel_values, boxes):
    out = net(pixel_values=pixel_values, input_boxes=boxes, multimask_output=False)
    return F.binary_cross_entropy_with_logits(out.pred_masks, torch.zeros_like(out.pred_masks))


def _sam():
    import transformers
    return Trained(transformers.SamModel(transformers.SamConfig()), segmented)


add("sam-vit-base", "instance segmentation", "SAM", "transformers", _sam,
    lambda batch: ((images(batch, 1024), torch.tensor([[[100., 100., 500., 500.]]]).expand(batch, 1, 4).clone()), {}), "3,1024,1024, a box")


def _depth():
    import transformers
    backbone = transformers.Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14, reshape_hidden_states=False,
                                         out_features=["stage3", "stage6", "stage9", "stage12"], apply_layernorm=True)
    config = transformers.DepthAnythingConfig(backbone_config=backbone, neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=64)
    return Trained(transformers.DepthAnythingForDepthEstimation(config), lambda net, x: net(x).predicted_depth.mean())


add("depth-anything-small", "depth", "Depth Anything", "transformers", _depth, lambda batch: ((images(batch, 518),), {}), "3,518,518")


# Audio -----------------------------------------------------------------------------------------------------------------

face("whisper-base", "speech", "Whisper", ("WhisperConfig", "WhisperForConditionalGeneration"),
     dict(d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048,
          decoder_ffn_dim=2048, decoder_start_token_id=50257),
     lambda batch: ((), dict(input_features=torch.rand(batch, 80, 3000), labels=torch.randint(0, 50000, (batch, 64)))), "30 s, 64 tokens")


def waves(batch):
    return (), dict(input_values=torch.rand(batch, 32000), labels=torch.randint(1, 30, (batch, 20)))


for _name, _config, _class in (("wav2vec2-base", "Wav2Vec2Config", "Wav2Vec2ForCTC"), ("hubert-base", "HubertConfig", "HubertForCTC")):
    face(_name, "speech", _class.replace("ForCTC", "").replace("Wav2Vec2", "wav2vec 2.0").replace("Hubert", "HuBERT"), (_config, _class),
         dict(ctc_loss_reduction="mean", mask_time_prob=0.0), waves, "2 s, 20 letters", VALUES)
face("wav2vec2-large-xlsr-53", "speech", "wav2vec 2.0", ("Wav2Vec2Config", "Wav2Vec2ForCTC"),
     dict(ctc_loss_reduction="mean", mask_time_prob=0.0, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
          feat_extract_norm="layer", do_stable_layer_norm=True, conv_bias=True), waves, "2 s, 20 letters", VALUES)
face("w2v-bert-2.0/4-layers", "speech", "wav2vec 2.0 BERT", ("Wav2Vec2BertConfig", "Wav2Vec2BertForCTC"),
     dict(ctc_loss_reduction="mean", apply_spec_augment=False, num_hidden_layers=4, vocab_size=32),
     lambda batch: ((), dict(input_features=torch.rand(batch, 100, 160), labels=torch.randint(1, 30, (batch, 20)))), "2 s, 20 letters", VALUES)
face("clap-htsat-unfused", "audio", "CLAP", ("ClapConfig", "ClapModel"), {},
     lambda batch: ((), dict(input_ids=torch.randint(5, 50000, (batch, 32)), input_features=torch.rand(batch, 1, 1001, 64), return_loss=True)),
     "10 s and 32 tokens")
face("ast-audioset", "audio", "AST", ("ASTConfig", "ASTForAudioClassification"), {},
     lambda batch: ((), dict(input_values=torch.rand(batch, 1024, 128), labels=torch.randint(0, 2, (batch,)))), "10 s")


def _conformer():
    import torchaudio
    net = torchaudio.models.Conformer(input_dim=80, num_heads=4, ffn_dim=256, num_layers=4, depthwise_conv_kernel_size=31)
    return Trained(net, lambda net, x, lengths: net(x, lengths)[0].square().mean())


add("torchaudio/Conformer", "speech", "Conformer", "torchaudio", _conformer,
    lambda batch: ((torch.rand(batch, 400, 80), torch.full((batch,), 400)), {}), "400 frames of 80", carry=VALUES)


def _tasnet():
    import torchaudio
    return Trained(torchaudio.models.ConvTasNet(num_sources=2), lambda net, x: net(x).square().mean())


add("torchaudio/ConvTasNet", "audio", "Conv-TasNet", "torchaudio", _tasnet, lambda batch: ((torch.rand(batch, 1, 24000),), {}), "3 s at 8 kHz")


def _spectrum():
    import torchaudio
    net = nn.Sequential(torchaudio.transforms.MelSpectrogram(16000, n_fft=400, n_mels=64), torchaudio.transforms.AmplitudeToDB(), nn.Unflatten(0, (-1, 1)),
                        nn.Conv2d(1, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return Trained(net, labelled)


add("torchaudio/MelSpectrogram+CNN", "audio", "CNN", "torchaudio", _spectrum,
    lambda batch: ((torch.rand(batch, 16000), torch.randint(0, 10, (batch,))), {}), "1 s at 16 kHz")


# Recurrent ones ----------------------------------------------------------------------------------------------------------

class Recurrent(nn.Module):
    """A bidirectional LSTM or GRU of two layers over tokens, and a linear layer over the last step."""

    def __init__(self, kind):
        super().__init__()
        self.words, self.net, self.out = nn.Embedding(30000, 256), kind(256, 256, 2, batch_first=True, bidirectional=True), nn.Linear(512, 2)

    def forward(self, x):
        return self.out(self.net(self.words(x))[0][:, -1])


for _kind in (nn.LSTM, nn.GRU):
    add("torch/" + _kind.__name__, "sequences", _kind.__name__, "torch", lambda kind=_kind: Trained(Recurrent(kind), labelled),
        lambda batch: ((torch.randint(0, 30000, (batch, 128)), torch.randint(0, 2, (batch,))), {}), "128 tokens")


# diffusers -------------------------------------------------------------------------------------------------------------

def _unet2d():
    import diffusers
    return Trained(diffusers.UNet2DModel(sample_size=64, block_out_channels=(128, 128, 256, 256, 512, 512),
                                         down_block_types=("DownBlock2D",) * 4 + ("AttnDownBlock2D", "DownBlock2D"),
                                         up_block_types=("UpBlock2D", "AttnUpBlock2D") + ("UpBlock2D",) * 4), squared)


def _unet_conditional():
    import diffusers
    return Trained(diffusers.UNet2DConditionModel(sample_size=64, cross_attention_dim=768), squared)


def _vae():
    import diffusers
    return Trained(diffusers.AutoencoderKL(block_out_channels=(128, 256, 512, 512), down_block_types=("DownEncoderBlock2D",) * 4,
                                           up_block_types=("UpDecoderBlock2D",) * 4, layers_per_block=2, latent_channels=4), squared)


def _dit():
    import diffusers
    return Trained(diffusers.DiTTransformer2DModel(sample_size=32, num_layers=28, attention_head_dim=72, num_attention_heads=16),
                   lambda net, x, t, y: net(x, t, y).sample.square().mean())


def _sd3():
    import diffusers
    net = diffusers.SD3Transformer2DModel(sample_size=64, num_layers=2, caption_projection_dim=1152)
    return Trained(net, lambda net, x, text, pooled, t: net(x, text, pooled, t).sample.square().mean())


def _flux():
    import diffusers
    net = diffusers.FluxTransformer2DModel(num_layers=1, num_single_layers=1)
    return Trained(net, lambda net, x, text, pooled, t, places, words: net(
        x, text, pooled, t, img_ids=places, txt_ids=words).sample.square().mean())


def _times(batch):
    return torch.randint(0, 1000, (batch,))


add("diffusers/UNet2DModel", "generation", "U-Net", "diffusers", _unet2d, lambda batch: ((images(batch, 64), _times(batch)), {}), "3,64,64")
add("diffusers/UNet2DConditionModel", "generation", "Stable Diffusion 1", "diffusers", _unet_conditional,
    lambda batch: ((images(batch, 64, 4), _times(batch), torch.rand(batch, 77, 768)), {}), "4,64,64 (a picture of 512)")
add("diffusers/AutoencoderKL", "generation", "VAE", "diffusers", _vae, lambda batch: ((images(batch, 256),), {}), "3,256,256")
add("diffusers/SD3Transformer2DModel/2-layers", "generation", "Stable Diffusion 3", "diffusers", _sd3,
    lambda batch: ((images(batch, 64, 16), torch.rand(batch, 77, 4096), torch.rand(batch, 2048), _times(batch)), {}), "16,64,64 (a picture of 512)")
add("diffusers/FluxTransformer2DModel/2-layers", "generation", "FLUX.1", "diffusers", _flux,
    lambda batch: ((torch.rand(batch, 1024, 64), torch.rand(batch, 128, 4096), torch.rand(batch, 768), torch.rand(batch), torch.rand(1024, 3),
                    torch.rand(128, 3)), {}), "1024 patches (a picture of 512) and 128 tokens")
add("diffusers/DiT-XL", "generation", "DiT", "diffusers", _dit,
    lambda batch: ((images(batch, 32, 4), _times(batch), torch.randint(0, 1000, (batch,))), {}), "4,32,32 (a picture of 256)")


# Segmentation models, saliency -------------------------------------------------------------------------------------------

def smps(name, family):
    def build():
        import segmentation_models_pytorch
        return Trained(getattr(segmentation_models_pytorch, name)("resnet34", encoder_weights=None, classes=21), labelled)
    add("smp/" + name, "segmentation", family, "segmentation_models_pytorch", build,
        lambda batch: ((images(batch, 512), torch.randint(0, 21, (batch, 512, 512))), {}), "3,512,512")


for _name, _family in (("Unet", "U-Net"), ("UnetPlusPlus", "U-Net"), ("PSPNet", "PSPNet"), ("DeepLabV3Plus", "DeepLabV3+"), ("FPN", "FPN"),
                       ("Linknet", "LinkNet"), ("PAN", "PAN"), ("MAnet", "MA-Net"), ("UPerNet", "UPerNet")):
    smps(_name, _family)


class Saliency(nn.Module):
    """MSI-Net's layers (Kroner et al. 2020, "Contextual encoder-decoder network for visual saliency prediction"; 24,934,209 parameters): VGG16 whose
    last two pools keep the size and whose last three convolutions are dilated, features of three depths, an ASPP of rates 4, 8, 12 with a
    pooled branch, and a decoder that doubles the size three times."""

    def __init__(self):
        super().__init__()
        import torchvision
        layers = list(torchvision.models.vgg16(weights=None).features)
        for i in (24, 26, 28):
            layers[i] = nn.Conv2d(512, 512, 3, padding=2, dilation=2)
        self.low, self.middle, self.high = nn.Sequential(*layers[:17]), nn.Sequential(*layers[17:23]), nn.Sequential(*layers[24:30])
        self.branches = nn.ModuleList([nn.Conv2d(1280, 256, 1)] + [nn.Conv2d(1280, 256, 3, padding=r, dilation=r) for r in (4, 8, 12)])
        self.pooled, self.joined = nn.Conv2d(1280, 256, 1), nn.Conv2d(5 * 256, 256, 1)
        self.decoder = nn.ModuleList([nn.Conv2d(256, 128, 3, padding=1), nn.Conv2d(128, 64, 3, padding=1), nn.Conv2d(64, 32, 3, padding=1)])
        self.out = nn.Conv2d(32, 1, 3, padding=1)

    def forward(self, x):
        low = self.low(x)
        middle = _pooled_alike(self.middle(low))
        high = _pooled_alike(self.high(middle))
        x = torch.cat([low, middle, high], 1)
        pooled = F.relu(self.pooled(x.mean((2, 3), keepdim=True)))
        parts = [F.relu(b(x)) for b in self.branches] + [F.interpolate(pooled, size=x.shape[2:], mode="bilinear")]
        x = F.relu(self.joined(torch.cat(parts, 1)))
        for layer in self.decoder:
            x = F.relu(layer(F.interpolate(x, scale_factor=2, mode="bilinear")))
        return self.out(x)


def _pooled_alike(x):
    """The largest of 2 by 2, step 1, the size kept: TensorFlow pads on the right and below."""
    return F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=float("-inf")), 2, 1)


def divergence(net, x, y):
    """Kullback-Leibler divergence of maps that add up to one, MSI-Net's loss."""
    p = net(x).flatten(1)
    p = p - p.amin(1, keepdim=True)
    p, y = p / (p.sum(1, keepdim=True) + 1e-7), y.flatten(1) / y.sum((1, 2, 3)).unsqueeze(1)
    return (y * (y / (p + 1e-7) + 1e-7).log()).sum(1).mean()


add("msinet-kind", "saliency", "MSI-Net", "torchvision", lambda: Trained(Saliency(), divergence),
    lambda batch: ((torch.rand(batch, 3, 240, 320), torch.rand(batch, 1, 240, 320)), {}), "3,240,320")


def _u2net_kind():
    import segmentation_models_pytorch
    return Trained(segmentation_models_pytorch.Unet("mobilenet_v2", encoder_weights=None, classes=1),
                   lambda net, x, y: F.binary_cross_entropy_with_logits(net(x), y))


add("smp/Unet-mobilenet_v2-mask", "saliency", "U-Net", "segmentation_models_pytorch", _u2net_kind,
    lambda batch: ((images(batch, 320), torch.rand(batch, 1, 320, 320)), {}), "3,320,320")


# Detectors of other packages ---------------------------------------------------------------------------------------------

def yolo(name, family, task="detection"):
    def build():
        from ultralytics.cfg import get_cfg
        from ultralytics.nn import tasks
        net = (tasks.SegmentationModel if task != "detection" else tasks.DetectionModel)(name + ".yaml", verbose=False)
        net.args = get_cfg()
        return Trained(net, lambda net, **batch: net(batch)[0].sum())

    def inputs(batch):
        found = {"img": images(batch, 320), "batch_idx": torch.arange(batch).float(), "cls": torch.ones(batch, 1),
                 "bboxes": torch.tensor([[.4, .4, .3, .3]]).expand(batch, 4).clone()}
        if task != "detection":
            found["masks"] = torch.ones(batch, 80, 80)
        return (), found
    add("ultralytics/" + name, task, family, "ultralytics", build, inputs, "3,320,320, a box", carry=VALUES)


yolo("yolov8n", "YOLO")
yolo("yolo11n", "YOLO")
yolo("yolo11s", "YOLO")
yolo("yolo11n-seg", "YOLO", "instance segmentation")


def _effdet():
    import effdet
    config = effdet.get_efficientdet_config("tf_efficientdet_d0")
    config.image_size = (256, 256)
    net = effdet.EfficientDet(config, pretrained_backbone=False)
    return Trained(effdet.DetBenchTrain(net, create_labeler=True), lambda net, x, y: net(x, y)["loss"])


add("effdet/tf_efficientdet_d0", "detection", "EfficientDet", "effdet", _effdet,
    lambda batch: ((images(batch, 256), {"bbox": [torch.tensor([[20., 30., 120., 150.]]) for _ in range(batch)],
                                                "cls": [torch.tensor([1.]) for _ in range(batch)]}), {}), "3,256,256, a box", carry=VALUES)


def _mmdet(config):
    """A detector of mmdet. Its operators in C++ are not in mmcv-lite: training these three calls none of them."""
    import sys
    import types

    class Absent(types.ModuleType):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)

            def absent(*args, **kwargs):
                raise NotImplementedError("mmcv-lite has no %s" % name)
            return absent
    sys.modules.setdefault("mmcv._ext", Absent("mmcv._ext"))
    import os
    import mmdet.models
    from mmengine.config import Config
    from mmengine.registry import init_default_scope
    init_default_scope("mmdet")
    model = Config.fromfile(os.path.join(os.path.dirname(mmdet.__file__), ".mim", "configs", config)).model
    model.backbone.init_cfg = None
    return mmdet.registry.MODELS.build(model)


def mmdets(name, family, config):
    def loss(net, x, boxes, labels, masks):
        from mmdet.structures import DetDataSample
        from mmdet.structures.mask import BitmapMasks
        from mmengine.structures import InstanceData
        size, samples = tuple(x.shape[2:]), []
        for b, found, mask in zip(boxes, labels, masks):
            sample, truth = DetDataSample(metainfo=dict(img_shape=size, pad_shape=size, batch_input_shape=size)), InstanceData()
            truth.bboxes, truth.labels, truth.masks = b, found, BitmapMasks(mask, *size)
            sample.gt_instances = truth
            samples.append(sample)
        losses = net.loss(x, samples)
        return sum(sum(v) if isinstance(v, (list, tuple)) else v for v in losses.values()).sum()

    def inputs(batch):
        boxes = [torch.tensor([[20., 30., 120., 150.], [60., 40., 200., 180.]]) for _ in range(batch)]
        import numpy  # mmdet has masks on the CPU
        mask = numpy.zeros((2, 224, 224), numpy.uint8)
        for one, (x0, y0, x1, y1) in zip(mask, boxes[0].int().tolist()):
            one[y0:y1, x0:x1] = 1
        return (images(batch, 224), boxes, [torch.tensor([1, 1]) for _ in range(batch)], [mask] * batch), {}
    add("mmdet/" + name, "instance segmentation", family, "mmdet", lambda: Trained(_mmdet(config), loss), inputs, "3,224,224, 2 masks", carry=VALUES)


mmdets("solov2_r50_fpn", "SOLOv2", "solov2/solov2_r50_fpn_1x_coco.py")
mmdets("condinst_r50_fpn", "CondInst", "condinst/condinst_r50_fpn_ms-poly-90k_coco_instance.py")
mmdets("yolact_r50", "YOLACT", "yolact/yolact_r50_1xb8-55e_coco.py")
