"""Row F4: our DETR against `transformers`' with copied weights, random norms and biases, and the same maps of the backbone; the decoder of
anchors against that of its DAB-DETR. Nothing of ours builds the references."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.models.detr import DetectorConfig, build_detector
from vitrail.models.detr_parts import build_decoder
from vitrail.tokens import Places, Tokens

transformers = pytest.importorskip("transformers")
WIDTH, HIDDEN, HEADS, QUERIES, CLASSES = 24, 29, 3, 7, 5


def randomize(model: nn.Module) -> None:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # norms and biases too: a swapped one must show
            noise = torch.randn(parameter.shape, generator=generator) * (0.3 if parameter.ndim == 1 else 0.2)
            parameter.copy_(1 + noise if "norm" in name and name.endswith("weight") else noise)


def renamed(state: dict[str, torch.Tensor], pairs: dict[str, str]) -> dict[str, torch.Tensor]:
    return {f"{ours}.{kind}": state[f"{theirs}.{kind}"] for ours, theirs in pairs.items() for kind in ("weight", "bias")}


def attention(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.{a}": f"{theirs}.{b}_proj" for a, b in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o"))}


def copied(theirs: nn.Module) -> dict[str, torch.Tensor]:
    """Their names to ours, the backbone's left out."""
    pairs = {"class_head": "class_labels_classifier", "decoder.norm": "model.decoder.layernorm"}
    for number, ours in enumerate(("first", "second", "output")):
        pairs[f"decoder.box_head.{ours}"] = f"bbox_predictor.layers.{number}"
    for side in ("encoder", "decoder"):
        for number in range(2 if side == "encoder" else 3):
            here, there = f"{side}.blocks.{number}", f"model.{side}.layers.{number}"
            pairs |= attention(f"{here}.attention", f"{there}.self_attn")
            pairs |= {
                f"{here}.attention_norm": f"{there}.self_attn_layer_norm",
                f"{here}.mlp_norm": f"{there}.final_layer_norm",
            }
            pairs |= {f"{here}.mlp.expand": f"{there}.mlp.fc1", f"{here}.mlp.contract": f"{there}.mlp.fc2"}
            if side == "decoder":
                pairs |= attention(f"{here}.cross_attention", f"{there}.encoder_attn")
                pairs[f"{here}.cross_attention_norm"] = f"{there}.encoder_attn_layer_norm"
    state = theirs.state_dict()
    found = renamed(state, pairs)
    found["decoder.table"] = state["model.query_position_embeddings.weight"]
    found["projections.0.weight"] = state["model.input_projection.weight"].flatten(1)
    found["projections.0.bias"] = state["model.input_projection.bias"]
    return found


class GivenMaps(nn.Module):
    """In the place of a backbone: maps that were made before."""

    def __init__(self, maps: torch.Tensor) -> None:
        super().__init__()
        self.maps = maps

    def forward_intermediates(self, images, indices):
        assert indices == (-1,)
        return [Tokens(self.maps.flatten(2).transpose(1, 2), grid=tuple(self.maps.shape[2:]))]


def test_detr_is_that_of_transformers():
    small = transformers.ResNetConfig(
        embedding_size=6, hidden_sizes=[8, 10], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=small, d_model=WIDTH,
        encoder_layers=2, decoder_layers=3, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=HIDDEN,
        decoder_ffn_dim=HIDDEN, num_queries=QUERIES, num_labels=CLASSES, auxiliary_loss=False,
    )  # fmt: skip
    # With auxiliary_loss=True theirs feeds the last norm's output into the next block, which the published code does not.
    theirs = transformers.DetrForObjectDetection(config).eval()
    randomize(theirs)
    images = torch.randn(2, 3, 40, 56, generator=torch.Generator().manual_seed(1))
    seen = {}
    theirs.model.backbone.register_forward_hook(lambda layer, given, out: seen.update(maps=out[-1][0]))
    states = []
    for layer in theirs.model.decoder.layers:
        layer.register_forward_hook(lambda layer, given, out: states.append(out))
    with torch.no_grad():
        expected = theirs(images)
        behind = theirs.model.decoder.layernorm(torch.stack(states))
        logits, boxes = theirs.class_labels_classifier(behind), theirs.bbox_predictor(behind).sigmoid()
    ours = build_detector(
        DetectorConfig(
            network="resnet", backbone={"widths": [10], "depths": [1], "image_size": [40, 56]}, width=WIDTH, depth=2,
            decoder_depth=3, heads=HEADS, hidden=HIDDEN, queries=QUERIES, num_classes=CLASSES,
        )
    ).eval()  # fmt: skip
    ours.backbone = GivenMaps(seen["maps"])
    ours.load_state_dict(copied(theirs))
    with torch.no_grad():
        found = ours(images)
    assert_close(found.logits[-1], expected.logits, atol=1e-4, rtol=1e-4)
    assert_close(found.boxes[-1], expected.pred_boxes, atol=1e-4, rtol=1e-4)
    assert_close(found.logits, logits, atol=1e-4, rtol=1e-4)  # behind every block
    assert_close(found.boxes, boxes, atol=1e-4, rtol=1e-4)
    assert found.boxes[-1].std() > 0.01  # and not all the same


def test_the_decoder_of_anchors_is_that_of_transformers():
    config = transformers.DabDetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
        backbone_config=transformers.ResNetConfig(hidden_sizes=[8], depths=[1], out_features=["stage1"]), hidden_size=WIDTH,
        decoder_layers=3, decoder_attention_heads=HEADS, decoder_ffn_dim=HIDDEN, num_queries=QUERIES, activation_function="relu",
    )  # fmt: skip
    from transformers.models.dab_detr.modeling_dab_detr import DabDetrDecoder, DabDetrMLP

    theirs = DabDetrDecoder(config).eval()
    theirs.bbox_embed = DabDetrMLP(WIDTH, WIDTH, 4, 3)
    # Theirs moves an anchor by what it knows before the last norm, and answers with what it knows behind it; ours does both behind it.
    theirs.layernorm = nn.Identity()
    randomize(theirs)
    ours = build_decoder(
        DetectorConfig(
            backbone={"width": 12, "depth": 1, "heads": 2}, width=WIDTH, decoder_depth=3, heads=HEADS, hidden=HIDDEN,
            queries=QUERIES, query_kind="anchor",
        )
    ).eval()  # fmt: skip
    ours.norm = nn.Identity()
    state, found = theirs.state_dict(), {}
    pairs = {}
    for mine, other in (("place", "ref_point_head"), ("stretch", "query_scale"), ("size", "ref_anchor_head")):
        pairs |= {f"{mine}.0": f"{other}.layers.0", f"{mine}.2": f"{other}.layers.1"}
    for number, name in enumerate(("first", "second", "output")):
        pairs[f"box_head.{name}"] = f"bbox_embed.layers.{number}"
    for number in range(3):
        here, there = f"blocks.{number}", f"layers.{number}"
        for part, prefix in (("attention", "self_attn"), ("cross_attention", "cross_attn")):
            pairs[f"{here}.{part}.output"] = f"{there}.{prefix}.{prefix}.output_proj"
            pairs[f"{here}.{part}.value"] = f"{there}.{prefix}.{prefix}_value_proj"
            pairs[f"{here}.{part}_norm"] = f"{there}.{prefix}.{prefix}_layer_norm"
        pairs |= {f"{here}.mlp.expand": f"{there}.mlp.fc1", f"{here}.mlp.contract": f"{there}.mlp.fc2"}
        pairs[f"{here}.mlp_norm"] = f"{there}.mlp.final_layer_norm"
        inner, outer = f"{there}.self_attn.self_attn", f"{there}.cross_attn.cross_attn"
        first = "key_pos" if not number else None  # in the first block positions are added to contents too, with their biases
        for side in ("query", "key"):
            for part, prefix, added in (
                ("attention", inner, f"{side}_pos"),
                ("cross_attention", outer, first and f"{side}_pos"),
            ):
                found[f"{here}.{part}.{side}.weight"] = state[f"{prefix}_{side}_content_proj.weight"]
                bias = state[f"{prefix}_{side}_content_proj.bias"]
                found[f"{here}.{part}.{side}.bias"] = bias if added is None else bias + state[f"{prefix}_{added}_proj.bias"]
            found[f"own.{number}.{side}.weight"] = state[f"{inner}_{side}_pos_proj.weight"]
        # Ours has no biases beside the contents': one that all keys have changes no softmax, and that of the queries is taken away here.
        found[f"outer.{number}.key.weight"] = state[f"{outer}_key_pos_proj.weight"]
        found[f"outer.{number}.center.weight"] = state[f"{outer}_query_pos_sine_proj.weight"]
        with torch.no_grad():
            theirs.layers[number].cross_attn.cross_attn_query_pos_sine_proj.bias.zero_()
        if not number:
            found["outer.0.query.weight"] = state[f"{outer}_query_pos_proj.weight"]
    found |= renamed(state, pairs)
    generator = torch.Generator().manual_seed(1)
    memory, rows = (torch.randn(2, 35, WIDTH, generator=generator) for _ in range(2))
    start, anchors = torch.randn(2, QUERIES, WIDTH, generator=generator), torch.randn(2, QUERIES, 4, generator=generator)
    found["table"], found["anchors"] = ours.table, ours.anchors
    ours.load_state_dict(found)
    with torch.no_grad():
        expected = theirs(start, memory, None, rows, anchors)
        states, boxes = ours(memory, rows, Places((5, 7)), start, anchors)
    assert_close(states, expected.intermediate_hidden_states, atol=1e-4, rtol=1e-4)
    assert_close(boxes[:-1], expected.reference_points[1:], atol=1e-4, rtol=1e-4)
