"""Reconstructors: what stays the same whatever the network has learned, and that a folder brings them back."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.catalogue import ARCHITECTURES, count_parameters
from vitrail.models.reconstructor import NETWORKS, SENSE_STEPS, SENSE_WEIGHT, ReconstructorConfig, build_reconstructor
from vitrail.nn.functional.fourier import sense_adjoint, sense_forward, solve_sense, to_kspace

SMALL = {
    "unet": {"width": 3, "levels": 2},
    "vit_restorer": {"width": 12, "depth": 1, "heads": 3, "patch": 4},
    "swinir": {"width": 12, "depths": (2,), "heads": 3, "window": 4},
}


def build(network, consistency="none", *, seed=0):
    torch.manual_seed(seed)
    settings = {"in_channels": 2, "out_channels": 2, **SMALL[network]}
    model = build_reconstructor(ReconstructorConfig(network=network, settings=settings, consistency=consistency))
    for parameter in model.parameters():  # a new one gives back what it is given
        torch.nn.init.normal_(parameter, std=0.1)
    return model.eval()


def scan(coils=3, size=(13, 19), seed=1):
    """k-space of one slice on every third line, its mask and maps."""
    generator = torch.Generator().manual_seed(seed)
    maps = torch.randn(2, coils, *size, dtype=torch.complex64, generator=generator)
    maps = maps / torch.linalg.vector_norm(maps, dim=1, keepdim=True)
    image = torch.randn(2, *size, dtype=torch.complex64, generator=generator)
    mask = (torch.arange(size[1]) % 3 == 0).expand(2, 1, -1)
    noise = 0.1 * torch.randn(2, coils, *size, dtype=torch.complex64, generator=generator)
    return (to_kspace(maps * image[:, None]) + noise) * mask[:, None], mask, maps


@pytest.mark.parametrize("network", list(NETWORKS))
def test_a_new_model_gives_the_zero_filled_image_of_any_size(network):
    settings = {"in_channels": 2, "out_channels": 2, **SMALL[network]}
    model = build_reconstructor(ReconstructorConfig(network=network, settings=settings)).eval()
    kspace, mask, maps = scan()
    assert_close(model(kspace, mask, maps), sense_adjoint(kspace, maps, mask))


@pytest.mark.parametrize("network", list(NETWORKS))
def test_the_units_of_the_scanner_do_not_matter(network):
    model, (kspace, mask, maps) = build(network), scan()
    with torch.no_grad():
        assert_close(model(1e-4 * kspace, mask, maps), 1e-4 * model(kspace, mask, maps), rtol=1e-3, atol=1e-7)


def test_each_image_has_a_scale_of_its_own_and_a_black_one_stays_finite():
    model, (kspace, mask, maps) = build("unet"), scan()
    factors = torch.tensor([3.0, 0.0])[:, None, None, None]
    with torch.no_grad():
        both, alone = model(factors * kspace, mask, maps), model(3 * kspace[:1], mask[:1], maps[:1])
    assert_close(both[:1], alone)
    assert torch.isfinite(both.abs()).all()


@pytest.mark.parametrize("network", list(NETWORKS))
def test_measured_lines_are_kept_bit_for_bit_in_every_coil(network):
    model, (kspace, mask, maps) = build(network, "hard"), scan()
    with torch.no_grad():
        filled = model.fill(kspace, mask, maps)
        image = model(kspace, mask, maps)
    measured = mask[:, None].expand_as(kspace)
    assert torch.equal(filled[measured], kspace[measured])
    assert filled[~measured].abs().min() > 0  # the others are predicted
    assert_close(sense_adjoint(filled, maps), image)


def test_of_one_coil_the_image_itself_has_the_measured_lines():
    kspace, mask, _ = scan(coils=1)
    maps = torch.ones_like(kspace)
    free, held = (build("unet", consistency) for consistency in ("none", "hard"))
    with torch.no_grad():
        lines = {
            name: to_kspace(model(kspace, mask, maps))[:, None] * mask[:, None]
            for name, model in (("free", free), ("held", held))
        }
    assert (lines["held"] - kspace).abs().max() < 1e-5
    assert (lines["free"] - kspace).abs().max() > 1e-3


def test_sense_learns_with_one_step_and_then_fits_all_coils_lines_better():
    kspace, mask, maps = scan(coils=4)
    held, fitted = (build("unet", consistency) for consistency in ("hard", "sense"))
    assert_close(fitted.train()(kspace, mask, maps), held.train()(kspace, mask, maps))
    with torch.no_grad():
        image, before = (model.eval()(kspace, mask, maps) for model in (fitted, held))
        start = held.repair(sense_adjoint(kspace, maps, mask))
        assert_close(image, solve_sense(kspace, mask, maps, steps=SENSE_STEPS, start=start, weight=SENSE_WEIGHT))
        misfit = [float((sense_forward(x, maps, mask) - kspace).abs().square().sum()) for x in (start, before, image)]
        assert torch.equal(
            fitted.fill(kspace, mask, maps)[mask[:, None].expand_as(kspace)], kspace[mask[:, None].expand_as(kspace)]
        )
    assert misfit[2] < misfit[1] < misfit[0]


@pytest.mark.parametrize("consistency", ["none", "hard", "sense"])
def test_a_folder_brings_it_back(consistency, tmp_path):
    model, (kspace, mask, maps) = build("vit_restorer", consistency), scan()
    vt.save(model, tmp_path / "model")
    again = vt.load(tmp_path / "model")
    assert again.config == model.config
    with torch.no_grad():
        assert torch.equal(again(kspace, mask, maps), model(kspace, mask, maps))


def test_presets_have_nearly_the_same_number_of_parameters():
    names = vt.list_models("mri_*")
    assert {"mri_vit_small", "mri_swin_small", "mri_unet_small"} <= set(names)
    counts = [count_parameters(vt.create_model(name)) for name in names]
    assert min(counts) > 300_000
    assert max(counts) < 500_000
    assert max(counts) < 1.15 * min(counts)
    assert ARCHITECTURES["reconstructor"].takes == "k-space"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"network": "unot"}, 'unknown network of a reconstructor "unot"'),
        ({"settings": {"width": 3}}, "takes and gives 2 channels"),
        ({"settings": {"in_channels": 2, "out_channels": 2, "scale": 2}}, "of one size"),
        ({"settings": {"widht": 3}}, 'unknown key "widht"'),
    ],
)
def test_refusals(changes, words):
    with pytest.raises(VitrailError, match=words):
        ReconstructorConfig(**{"network": "unet", **changes})
