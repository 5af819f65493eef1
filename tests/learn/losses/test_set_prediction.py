"""Row F4: the matching is invariant to the order of targets and right for empty ones, the loss is zero at the answer and equals
transformers'."""

from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.learn.losses import set_prediction
from vitrail.learn.losses.set_prediction import LossWeights, class_loss, match, set_loss
from vitrail.models.detections import Detected, Noised, Targets

CLASSES, QUERIES, BLOCKS = 5, 11, 3
NOTHING = Targets(torch.zeros(0, dtype=torch.int64), torch.zeros(0, 4))


def random_boxes(*shape: int, generator: torch.Generator) -> torch.Tensor:
    center = 0.25 + 0.5 * torch.rand(*shape, 2, generator=generator)
    return torch.cat([center, 0.1 + 0.4 * torch.rand(*shape, 2, generator=generator)], dim=-1)


def random_case(counts=(3, 0, 7), *, focal=False, seed=0) -> tuple[Detected, list[Targets]]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(BLOCKS, len(counts), QUERIES, CLASSES + (not focal), generator=generator)
    boxes = random_boxes(BLOCKS, len(counts), QUERIES, generator=generator)
    targets = [
        Targets(torch.randint(CLASSES, (count,), generator=generator), random_boxes(count, generator=generator))
        for count in counts
    ]
    return Detected(logits.requires_grad_(), boxes.requires_grad_()), targets


def at_the_answer(targets: list[Targets], *, focal: bool, sure: float = 40.0) -> Detected:
    """Logits and boxes that say just the targets, in the last queries, and nothing elsewhere."""
    logits = torch.full((2, len(targets), QUERIES, CLASSES + (not focal)), -sure)
    boxes = torch.full((2, len(targets), QUERIES, 4), 0.5)
    if not focal:
        logits[..., -1] = sure
    for image, target in enumerate(targets):
        for place, (kind, box) in enumerate(zip(*target, strict=True)):
            logits[:, image, QUERIES - 1 - place] = -sure
            logits[:, image, QUERIES - 1 - place, kind] = sure
            boxes[:, image, QUERIES - 1 - place] = box
    return Detected(logits, boxes)


@pytest.mark.parametrize("focal", [False, True])
def test_the_order_of_targets_changes_nothing(focal):
    found, targets = random_case(focal=focal)
    order = torch.tensor([4, 0, 6, 2, 1, 5, 3])
    turned = [*targets[:2], Targets(targets[2].classes[order], targets[2].boxes[order])]
    assert_close(set_loss(found, turned, focal=focal), set_loss(found, targets, focal=focal))
    pairs, again = (match(found.logits[0], found.boxes[0], some, focal=focal) for some in (targets, turned))
    of_last, of_last_again = pairs.target[pairs.image == 2], again.target[again.image == 2]
    assert_close(pairs.query, again.query)
    assert_close(order[of_last_again], of_last)


@pytest.mark.parametrize("focal", [False, True])
def test_every_object_has_one_query_of_its_own(focal):
    found, targets = random_case(focal=focal)
    pairs = match(found.logits[0], found.boxes[0], targets, focal=focal)
    assert pairs.image.tolist() == [0] * 3 + [2] * 7
    for image, count in ((0, 3), (2, 7)):
        mine = pairs.image == image
        assert sorted(pairs.target[mine].tolist()) == list(range(count))
        assert len(set(pairs.query[mine].tolist())) == count


@pytest.mark.parametrize("focal", [False, True])
def test_each_object_may_have_several_queries(focal):
    found, targets = random_case(focal=focal)
    twice = match(found.logits[0], found.boxes[0], targets, focal=focal, repeats=2)
    mine = twice.image == 0
    assert sorted(twice.target[mine].tolist()) == [0, 0, 1, 1, 2, 2]
    assert len(set(twice.query[mine].tolist())) == 6  # no query stands for two
    first, rest = Detected(found.logits[:1], found.boxes[:1]), Detected(found.logits[1:], found.boxes[1:])
    both = set_loss(first, targets, focal=focal, matches_per_object=2) + set_loss(rest, targets, focal=focal)
    assert_close(set_loss(found, targets, focal=focal, matches_per_object=2), both)  # behind the first, one to one as ever


def test_the_matching_is_the_cheapest_of_all():
    """By trying all orders, at a softmax."""
    from itertools import permutations

    found, targets = random_case((3,), seed=4)
    said, placed, (kinds, boxes) = found.logits[0, 0].softmax(-1), found.boxes[0, 0], targets[0]
    pairs = match(found.logits[0], found.boxes[0], targets, focal=False)

    def cost(queries) -> float:
        total = 0.0
        for number, query in enumerate(queries):
            box, goal = placed[query].tolist(), boxes[number].tolist()
            total += -said[query, kinds[number]].item() + 5 * sum(abs(x - y) for x, y in zip(box, goal, strict=True))
            total -= 2 * giou_by_hand(box, goal)
        return total

    best = min(permutations(range(QUERIES), 3), key=cost)
    assert dict(zip(pairs.target.tolist(), pairs.query.tolist(), strict=True)) == dict(enumerate(best))


def giou_by_hand(a, b) -> float:
    (ax0, ay0, ax1, ay1), (bx0, by0, bx1, by1) = ((cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2) for cx, cy, w, h in (a, b))
    shared = max(0.0, min(ax1, bx1) - max(ax0, bx0)) * max(0.0, min(ay1, by1) - max(ay0, by0))
    union = (ax1 - ax0) * (ay1 - ay0) + (bx1 - bx0) * (by1 - by0) - shared
    hull = (max(ax1, bx1) - min(ax0, bx0)) * (max(ay1, by1) - min(ay0, by0))
    return shared / union - (hull - union) / hull


@pytest.mark.parametrize("focal", [False, True])
def test_zero_at_the_answer(focal):
    targets = random_case()[1]
    found = at_the_answer(targets, focal=focal)
    assert set_loss(found, targets, focal=focal).item() < 1e-5
    boxes_alone = LossWeights(classes=0.0)
    assert set_loss(found, targets, focal=focal, weights=boxes_alone).item() == pytest.approx(0.0, abs=1e-6)
    moved = found._replace(boxes=found.boxes + 0.01)
    assert set_loss(moved, targets, focal=focal, weights=boxes_alone).item() > 0.1


@pytest.mark.parametrize("focal", [False, True])
def test_images_without_objects(focal):
    found, _ = random_case(focal=focal)
    loss = set_loss(found, [NOTHING] * 3, focal=focal)
    loss.backward()
    assert loss > 0
    assert found.logits.grad.abs().sum() > 0
    assert found.boxes.grad is None or not found.boxes.grad.any()  # no box is anybody's
    assert len(match(found.logits[0], found.boxes[0], [NOTHING] * 3, focal=focal).query) == 0


def test_more_objects_than_queries():
    found, targets = random_case((QUERIES + 2,))
    pairs = match(found.logits[0], found.boxes[0], targets, focal=False)
    assert sorted(pairs.query.tolist()) == list(range(QUERIES))
    assert set_loss(found, targets, focal=False).isfinite()


def test_what_is_not_a_number_is_matched_last():
    found, targets = random_case((2,))
    boxes = found.boxes[0].detach().clone()
    boxes[0, 3:] = torch.nan
    assert set(match(found.logits[0], boxes, targets, focal=False).query.tolist()) <= {0, 1, 2}


def some_noised(seed=0, *, focal=False) -> tuple[Noised, list[Targets]]:
    found, targets = random_case((2, 0, 1), focal=focal, seed=seed)
    which = torch.tensor([[0, 1, 0, 1]]).expand(3, -1)
    real = torch.tensor([[True] * 4, [False] * 4, [True, False, True, False]])
    positive = torch.tensor([[True, True, False, False]]).expand(3, -1)
    return Noised(found.logits[:, :, :4].detach(), found.boxes[:, :, :4].detach(), which, real, positive), targets


@pytest.mark.parametrize("focal", [False, True])
def test_fillers_cost_nothing_and_negatives_no_box(focal):
    noised, targets = some_noised(focal=focal)
    plain = random_case((2, 0, 1), focal=focal)[0]

    def loss(**changes) -> torch.Tensor:
        return set_loss(plain._replace(noised=noised._replace(**changes)), targets, focal=focal)

    filled = noised.boxes.clone()
    filled[:, ~noised.real] = 0.9
    said = noised.logits.clone()
    said[:, ~noised.real] = 9.0
    assert_close(loss(boxes=filled, logits=said), loss())
    filled[:, :, 2:] = 0.9  # what was noised too far
    assert_close(loss(boxes=filled), loss())
    said[:, 0, 2, 0] += 3.0  # and still has to say nothing
    assert abs(loss(logits=said) - loss()).item() > 1e-3
    filled[:, 0, 0] = 0.9
    assert abs(loss(boxes=filled) - loss()).item() > 1e-3


@pytest.mark.parametrize("focal", [False, True])
def test_noised_objects_at_the_answer_cost_nothing(focal):
    noised, targets = some_noised(focal=focal)
    found = at_the_answer(targets, focal=focal)
    logits = torch.full_like(noised.logits, -40.0)
    boxes = torch.full_like(noised.boxes, 0.5)
    if not focal:
        logits[..., -1] = 40.0
    for image, column in ((0, 0), (0, 1), (2, 0)):
        kind, box = (part[noised.which[image, column]] for part in targets[image])
        logits[:, image, column], boxes[:, image, column] = -40.0, box
        logits[:, image, column, kind] = 40.0
    assert set_loss(found._replace(noised=noised._replace(logits=logits, boxes=boxes)), targets, focal=focal).item() < 1e-5


def test_focal_loss_by_hand():
    logits = torch.tensor([[[2.0, -1.0]]])
    p, q = torch.sigmoid(torch.tensor(2.0)), torch.sigmoid(torch.tensor(-1.0))
    by_hand = -0.25 * (1 - p) ** 2 * p.log() - 0.75 * q**2 * (1 - q).log()
    found = class_loss(
        logits, torch.tensor([[0]]), torch.ones(1, 1, dtype=torch.bool), 1, focal=True, weights=set_prediction.WEIGHTS
    )
    assert_close(found, by_hand)


def test_without_scipy_one_line_says_what_to_install(monkeypatch):
    import importlib

    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    found, targets = random_case()
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(VitrailError, match=r'pip install "vitrail\[detect\]"'):
        match(found.logits[0], found.boxes[0], targets, focal=False)


@pytest.mark.parametrize("counts", [(3, 0, 7), (1, 2), (4,)])
def test_matching_and_loss_are_those_of_transformers(counts):
    theirs = pytest.importorskip("transformers.loss.loss_for_object_detection")
    found, targets = random_case(counts)
    labels = [{"class_labels": target.classes, "boxes": target.boxes} for target in targets]
    matcher = theirs.HungarianMatcher(class_cost=1, bbox_cost=5, giou_cost=2)
    expected = matcher({"logits": found.logits[-1], "pred_boxes": found.boxes[-1]}, labels)
    pairs = match(found.logits[-1], found.boxes[-1], targets, focal=False)
    for image, (queries, numbers) in enumerate(expected):
        mine = pairs.image == image
        assert pairs.query[mine].tolist() == queries.tolist()
        assert pairs.target[mine].tolist() == numbers.tolist()

    config = SimpleNamespace(
        class_cost=1, bbox_cost=5, giou_cost=2, num_labels=CLASSES, eos_coefficient=0.1, auxiliary_loss=True,
        decoder_layers=BLOCKS, bbox_loss_coefficient=5, giou_loss_coefficient=2,
    )  # fmt: skip
    loss, _, _ = theirs.ForObjectDetectionLoss(
        found.logits[-1], labels, torch.device("cpu"), found.boxes[-1], config, found.logits, found.boxes
    )
    ours = set_loss(found, targets, focal=False)
    assert_close(ours, loss, atol=1e-5, rtol=1e-5)
    for mine, other in zip(
        torch.autograd.grad(ours, [found.logits, found.boxes]),
        torch.autograd.grad(loss, [found.logits, found.boxes]),
        strict=True,
    ):
        assert_close(mine, other, atol=1e-6, rtol=1e-4)
