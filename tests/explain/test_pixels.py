"""Why pixels have their class: shares, the asking place, a class's own token, and the same answers with and without being watched."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain.pixels import (
    class_reads,
    head_grid,
    look_at_pixels,
    on_image,
    pixel_chances,
    pixel_relevance,
    place_reads,
    uncertainty,
)

MICRO = {"num_classes": 5, "image_size": (24, 32)}


def make(name, **options):
    torch.manual_seed(0)
    return vt.create_model(name, **(MICRO | options)).eval()


def make_image(model, size=None):
    return torch.randn(1, model.config.in_channels, *(size or model.image_size), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("head", ["segmenter_mask", "trans2seg", "setr_pup"])
def test_maps_are_shares_and_looking_changes_nothing(head):
    model = make(f"{head}_vit_micro_hybrid")
    image = make_image(model)
    with torch.no_grad():
        before = model(image)
    chances = pixel_chances(model, image)
    look = look_at_pixels(model, image, 2, chances=chances)
    with torch.no_grad():
        assert_close(model(image), before)
    assert look.grid == head_grid(model, image)
    assert_close(look.relevance.sum(), torch.tensor(1.0))
    assert len(look.encoder) == model.backbone.config.depth
    for maps in look.encoder:  # no prefix tokens: all that is read is cells
        assert_close(maps.sum((1, 2)), torch.ones(len(maps)))
    assert (len(look.head) > 0) == (head != "setr_pup")
    for maps in look.head:
        assert maps.shape[1:] == look.grid
        assert (maps.sum((1, 2)) <= 1 + 1e-5).all()  # of a mask transformer the rest goes to the classes' tokens
    assert 0 <= float(uncertainty(chances).min()) <= float(uncertainty(chances).max()) <= 1


def test_the_last_maps_of_trans2seg_are_what_its_head_draws_from():
    model = make("trans2seg_vit_micro_hybrid")
    image = make_image(model)
    seen = []
    look = model.head.look
    model.head.look = lambda memory: seen.append(look(memory)) or seen[-1]
    with torch.no_grad():
        model(image)
    [maps] = class_reads(model, image, 3)
    assert_close(maps.flatten(1), seen[0][0, 3])


def test_windows_and_stages_read_in_their_window_and_nets_without_attention_nothing():
    swin = make("upernet_swin_micro_96", image_size=32)
    image = make_image(swin)
    maps = place_reads(swin, image, (0, 0), head_grid(swin, image))
    assert len(maps) == sum(swin.backbone.config.depths)
    assert all((one.sum((1, 2)) <= 1 + 1e-5).all() for one in maps)
    resnet = make("upernet_resnet20_96", image_size=32)
    image = make_image(resnet)
    look = look_at_pixels(resnet, image, 0, chances=pixel_chances(resnet, image), method="gradient")
    assert (look.encoder, look.head) == ([], [])
    assert_close(look.relevance.sum(), torch.tensor(1.0))


class ByColor(torch.nn.Module):
    """Class 1 is where it is bright, by the pixel itself: what hides elsewhere changes nothing."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, images):
        return self.scale * torch.cat([torch.zeros_like(images), images], dim=1)


@pytest.mark.parametrize("method", ["occlusion", "gradient"])
def test_pixels_that_stand_for_themselves_rest_on_themselves(method):
    image = torch.zeros(1, 1, 8, 8)
    image[..., :4, 4:] = 3.0
    where = image[0, 0] > 1
    found = pixel_relevance(ByColor(), image, 1, where, grid=(2, 2), method=method)
    assert_close(found, torch.tensor([[0.0, 1.0], [0.0, 0.0]]))


def test_a_class_that_no_pixel_has_is_shown_where_it_is_likeliest():
    model = make("segmenter_linear_vit_micro_hybrid")
    image = make_image(model)
    chances = torch.full((5, 24, 32), 0.2)
    chances[0] += 0.1
    chances[4, 20:, 28:] += 0.05
    look = look_at_pixels(model, image, 4, chances=chances)
    assert look.share == 0
    assert look.cell == (look.grid[0] - 1, look.grid[1] - 1)
    assert look.sure == pytest.approx(0.25)


def test_padding_is_cut_off():
    shares = torch.tensor([[0.25, 0.25], [0.25, 0.25]])
    assert_close(on_image(shares, (8, 8), (6, 5)), torch.ones(6, 5))
    assert on_image(shares, (8, 8), (8, 8)).shape == (2, 2)


def test_wrong_places_and_several_images_are_refused():
    model = make("segmenter_linear_vit_micro_hybrid")
    image = make_image(model)
    with pytest.raises(vt.VitrailError, match=r"the query \(9, 0\) is not on the grid of \d+ rows and \d+ columns"):
        place_reads(model, image, (9, 0), head_grid(model, image))
    with pytest.raises(vt.VitrailError, match="one image at a time, got 2"):
        pixel_chances(model, image.repeat(2, 1, 1, 1))
