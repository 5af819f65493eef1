"""Images from accelerated MRI scans: a network that repairs what the lines left out did to the zero-filled image.

b batch, c coils, h w image
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor, nn

from vitrail.errors import VitrailError, check_choice
from vitrail.models import swinir, unet, vit_restorer
from vitrail.models.model import Model
from vitrail.models.network import Network
from vitrail.nn.functional.fourier import keep_measured, sense_adjoint, solve_sense
from vitrail.records import from_record, to_record

Consistency = Literal["none", "hard", "sense"]
# Of SENSE from the network's image, chosen on simulated validation slices of the training's kind and of others (docs/log.md).
SENSE_STEPS, SENSE_WEIGHT = 3, 0.1


NETWORKS: Mapping[str, Network] = MappingProxyType(
    {
        "vit_restorer": Network(vit_restorer.ViTRestorerConfig, vit_restorer.build_vit_restorer),
        "swinir": Network(swinir.SwinIRConfig, swinir.build_swinir),
        "unet": Network(unet.UNetConfig, unet.build_unet),
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReconstructorConfig:
    """A kind of restorer, its own config as a record, and what is done about the measured lines afterwards."""

    network: str  # of NETWORKS
    settings: dict = field(default_factory=dict, hash=False)  # type: ignore[type-arg]  # what JSON gives; two channels, real and imaginary part
    consistency: Consistency = "none"

    def __post_init__(self) -> None:
        check_choice("network of a reconstructor", self.network, NETWORKS)
        restorer = from_record(NETWORKS[self.network].config, self.settings, what="settings")
        if (restorer.in_channels, restorer.out_channels, restorer.scale) != (2, 2, 1):
            raise VitrailError(
                "settings: the network of a reconstructor takes and gives 2 channels of one size, got "
                f"in_channels {restorer.in_channels}, out_channels {restorer.out_channels}, scale {restorer.scale}"
            )
        object.__setattr__(self, "settings", to_record(restorer))  # all of it, whatever the defaults will be some day


class Reconstructor(Model):
    """x = s g(A^H y / s), with g a restorer of two channels and s the mean magnitude of A^H y: what a scanner's units are does not
    matter, and what g has to take away is not small beside the steps of its last layer.

    With g a vision transformer the model of [Lin and Heckel 2022], with SwinIR's body SwinMR [Huang+ 2022], with a U-Net the
    baseline of fastMRI [Zbontar+ 2018]; they learn from the SENSE-combined image, not from one coil's.
    With the consistency "hard" the measured lines of every coil stay as they were measured (`fill`), the others are the image's, and
    the coils are combined again: x + A^H (y - A x). With "sense" that is what is learned with, and what is used goes on: a few steps of
    conjugate gradients from x towards the argmin over z of |A z - y|² + 0.1 |z - x|², as in MoDL  [Aggarwal+ 2019, eq. 8]. MoDL also learns
    through these steps; here learning takes one, since in the same time it then sees more slices and learns more (docs/log.md).
    """

    architecture = "reconstructor"
    pipeline_tag = "image-to-image"

    def __init__(self, network: nn.Module, *, config: ReconstructorConfig) -> None:
        super().__init__()
        self.network, self.config = network, config

    def forward(
        self, kspace: Complex[Tensor, "b c h w"], mask: Bool[Tensor, "b #h w"], maps: Complex[Tensor, "b c h w"]
    ) -> Complex[Tensor, "b h w"]:
        """`kspace` is zero where nothing was measured, its zero frequency at h // 2, w // 2."""
        image = self.reconstruct(kspace, mask, maps)
        held = self.config.consistency == "hard" or (self.config.consistency == "sense" and self.training)
        return keep_measured(image, kspace, mask, maps).image if held else image

    def fill(
        self, kspace: Complex[Tensor, "b c h w"], mask: Bool[Tensor, "b #h w"], maps: Complex[Tensor, "b c h w"]
    ) -> Complex[Tensor, "b c h w"]:
        """Every coil's whole k-space: the measured lines bit for bit, the image's elsewhere."""
        return keep_measured(self.reconstruct(kspace, mask, maps), kspace, mask, maps).kspace

    def reconstruct(
        self, kspace: Complex[Tensor, "b c h w"], mask: Bool[Tensor, "b #h w"], maps: Complex[Tensor, "b c h w"]
    ) -> Complex[Tensor, "b h w"]:
        """Before the measured lines are put back."""
        image = self.repair(sense_adjoint(kspace, maps, mask))
        if self.config.consistency != "sense" or self.training:
            return image
        return solve_sense(kspace, mask, maps, steps=SENSE_STEPS, start=image, weight=SENSE_WEIGHT)

    def repair(self, image: Complex[Tensor, "b h w"]) -> Complex[Tensor, "b h w"]:
        """s g(x / s)."""
        scale = scale_of(image)[:, None, None]
        parts = torch.view_as_real(image / scale).movedim(-1, 1)  # b 2 h w
        return scale * torch.view_as_complex(self.network(parts).float().movedim(1, -1).contiguous())


def scale_of(image: Complex[Tensor, "b h w"]) -> Float[Tensor, "b"]:
    """The mean magnitude of each image, by which everything is divided; a black one by 1. A number, not learned from."""
    mean = image.detach().abs().mean((-2, -1))
    return torch.where(mean > 0, mean, 1.0)


def build_reconstructor(config: ReconstructorConfig) -> Reconstructor:
    kind = NETWORKS[config.network]
    return Reconstructor(kind.build(from_record(kind.config, config.settings, what="settings")), config=config)


def preset(network: str, **settings: Any) -> ReconstructorConfig:
    return ReconstructorConfig(network=network, settings={"in_channels": 2, "out_channels": 2, **settings})


PRESETS = MappingProxyType(
    {
        # Nearly equal numbers of parameters, not of operations: the U-Net and SwinMR work at every pixel, the ViT on patches.
        "mri_vit_small": preset("vit_restorer", width=96, depth=4, heads=4, patch=8, last_norm=False),
        # SwinMR [Huang+ 2022] with a third of its blocks, on cells of 4 x 4 pixels: at every pixel, as published, it is some twenty times as slow.
        "mri_swin_small": preset("swinir", width=60, depths=(6, 5), heads=6, unshuffle=4),
        "mri_swin_pixels": preset("swinir", width=60, depths=(6, 6), heads=6),
        "mri_unet_small": preset("unet", width=16, levels=3),
    }
)
