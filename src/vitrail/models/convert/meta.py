"""Meta's own files (DINO, DINOv2, MAE, BEiT, DeiT), where their names differ from timm's: as timm has them.

After [Caron+ 2021; Oquab+ 2024; He+ 2022; Bao+ 2022; Touvron+ 2022]. What has no place in a model of ours is left out, and named.
"""

import re
from collections.abc import Mapping

from torch import Tensor

from vitrail.models.convert.prefixes import left_out
from vitrail.models.convert.vit_names import TABLE

# DINO's projection, of which only training knows; DINOv2's is beside the backbone.
PROJECTION = ("head.mlp.", "head.last_layer.", "dino_head.", "ibot_head.")
CHUNK = re.compile(r"^blocks\.\d+\.(\d+)\.")  # DINOv2 trains in groups of blocks, whose numbers go on from group to group
PARTS = {".mlp.w12.": ".mlp.fc1.", ".mlp.w3.": ".mlp.fc2."}
DECODER = {
    "decoder_blocks.": "decoder.decoder_layers.",
    "decoder_embed.": "decoder.decoder_embed.",
    "decoder_norm.": "decoder.decoder_norm.",
    "decoder_pred.": "decoder.decoder_pred.",
    "decoder_pos_embed": "decoder.decoder_pos_embed",
}


def as_timm(theirs: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """The same weights under timm's names, and of a masked autoencoder's decoder under transformers', and what was left out."""
    relative = any(name.endswith(TABLE) for name in theirs)
    drawn, named = "decoder_embed.weight" in theirs, any(name.startswith("lm_head.") for name in theirs)
    found: dict[str, Tensor] = {}
    gone: dict[str, Tensor] = {}
    for name, tensor in theirs.items():
        if name.startswith(PROJECTION) or (name == "mask_token" and not drawn and not named):
            gone[name] = tensor
            continue
        name = CHUNK.sub(r"blocks.\1.", name)
        for old, new in PARTS.items():
            name = name.replace(old, new)
        for old, new in DECODER.items():
            name = new + name.removeprefix(old) if name.startswith(old) else name
        if name == "register_tokens":
            name = "reg_token"
        if name == "mask_token" and drawn:
            name = "decoder.mask_token"
        if not relative:  # BEiT alone has its scales outside of layers
            name = re.sub(r"\.gamma_([12])$", r".ls\1.gamma", name)
        found[name] = tensor
    return found, left_out(gone)
