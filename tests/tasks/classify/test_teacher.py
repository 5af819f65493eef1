"""A teacher that sees the student's images in its own size, channels, scale and order of classes, and never learns."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.data.image_source import Batch
from vitrail.data.transforms import normalize
from vitrail.errors import VitrailError
from vitrail.learn.losses.cross_entropy import cross_entropy
from vitrail.learn.losses.distillation import PUBLISHED, Distillation, soft_distillation
from vitrail.preprocessing import Preprocessing
from vitrail.ragged import Ragged
from vitrail.tasks.classify.objective import Classify, Predictions
from vitrail.tasks.classify.teacher import LUMA, Teacher

STUDENT = Preprocessing(size=(8, 8), channels=3, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
TINY = {"width": 24, "depth": 1, "heads": 3, "patch": 4, "image_size": (8, 8), "num_classes": 5}


def make_teacher(preprocessing=STUDENT, *, columns=(0, 1, 2, 3, 4), **config):
    torch.manual_seed(5)
    size = {"image_size": preprocessing.size, "in_channels": preprocessing.channels}
    model = vt.create_model("resnet8_32", num_classes=5, **size, **config)
    model.preprocessing = preprocessing
    model.eval()
    return Teacher(model, student=STUDENT, columns=columns)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(3)
    unit = torch.rand(6, 3, 8, 8, generator=generator)
    labels = torch.tensor([0, 1, 2, 3, 4, 0])
    return Batch(normalize(unit, STUDENT), labels, torch.arange(6))


def make_student(*, distilled):
    torch.manual_seed(7)
    name = "deit_tiny_distilled_patch16_224" if distilled else "deit_tiny_patch16_224"
    return vt.create_model(name, **TINY)


def test_the_same_input_where_both_are_prepared_alike(batch):
    teacher = make_teacher()
    assert teacher.view(batch.images) is batch.images
    with torch.no_grad():
        assert_close(teacher(batch.images), teacher.model(batch.images))


def test_another_size_scale_and_channels(batch):
    own = Preprocessing(size=(16, 12), channels=1, mean=(0.1,), std=(0.5,))
    unit = batch.images * torch.tensor(STUDENT.std)[:, None, None] + torch.tensor(STUDENT.mean)[:, None, None]
    teacher = make_teacher(own)
    seen = teacher.view(batch.images)
    assert seen.shape == (6, 1, 16, 12)
    gray = (unit * torch.tensor(LUMA)[:, None, None]).sum(1, keepdim=True)
    flat = torch.full_like(unit, 0.25)
    assert_close(teacher.view(normalize(flat, STUDENT)), torch.full((6, 1, 16, 12), (0.25 - 0.1) / 0.5))
    assert seen.mean().item() == pytest.approx(((gray.mean() - 0.1) / 0.5).item(), abs=0.05)
    assert teacher(batch.images).shape == (6, 5)


def test_gray_images_for_a_teacher_of_color():
    student = Preprocessing(size=(8, 8), channels=1, mean=(0.3,), std=(0.2,))
    unit = torch.rand(2, 1, 8, 8)
    teacher = Teacher(make_teacher().model, student=student, columns=range(5))
    assert_close(teacher.view(normalize(unit, student)), normalize(unit.expand(-1, 3, -1, -1), STUDENT))
    with pytest.raises(VitrailError, match="4"):
        Teacher(
            make_teacher().model, student=Preprocessing(size=(8, 8), channels=4, mean=(0.0,) * 4, std=(1.0,) * 4), columns=[0]
        )


def test_classes_in_another_order(batch):
    columns = (3, 0, 4, 1, 2)
    assert_close(make_teacher(columns=columns)(batch.images), make_teacher()(batch.images)[:, list(columns)])


def test_images_of_different_sizes(batch):
    teacher = make_teacher()
    images = Ragged.join([batch.images[0], torch.randn(3, 4, 12)])
    assert_close(teacher(images)[0], teacher(batch.images)[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("distilled", [False, True])
@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_the_loss_is_both_losses_of_the_right_heads(batch, distilled, kind):
    student, teacher, how = make_student(distilled=distilled), make_teacher(), PUBLISHED[kind]
    loss = Classify(student, smoothing=0.1, teacher=teacher, distillation=how).loss(batch)
    with torch.no_grad():
        first, second = student.forward_both(batch.images) if distilled else (student(batch.images),) * 2
        taught = teacher.model(batch.images)
    labels = cross_entropy(first, batch.labels, smoothing=0.1)
    answers = (
        cross_entropy(second, taught.argmax(1))
        if kind == "hard"
        else soft_distillation(second, taught, temperature=how.temperature)
    )
    assert loss.item() == pytest.approx(((1 - how.share) * labels + how.share * answers).item(), rel=1e-5)


def test_mixed_labels_go_with_mixed_images(batch):
    shares = torch.rand(6, 5).softmax(1)
    task = Classify(make_student(distilled=True), teacher=make_teacher(), distillation=PUBLISHED["hard"])
    assert torch.isfinite(task.loss(batch._replace(labels=shares)))


def test_no_weight_or_statistic_of_the_teacher_moves(batch):
    student, teacher = make_student(distilled=True), make_teacher()
    before = {name: tensor.clone() for name, tensor in teacher.model.state_dict().items()}
    task = Classify(student, teacher=teacher, distillation=PUBLISHED["soft"])
    student.train()
    task.loss(batch).backward()
    assert all(parameter.grad is None for parameter in teacher.model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.model.state_dict().items())
    assert all(parameter.grad is not None for parameter in student.parameters())
    assert not teacher.model.training


def test_a_share_of_nothing_is_plain_training(batch):
    nothing = Distillation(kind="soft", share=0.0, temperature=3.0)
    gradients = []
    for how in ({}, {"teacher": make_teacher(), "distillation": nothing}):
        student = make_student(distilled=False).train()
        loss = Classify(student, smoothing=0.1, **how).loss(batch)
        loss.backward()
        gradients.append([loss.detach(), *(parameter.grad for parameter in student.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_a_distilled_model_without_a_teacher_learns_by_the_mean(batch):
    student = make_student(distilled=True)
    assert_close(Classify(student).loss(batch), cross_entropy(student(batch.images), batch.labels))


def test_heads_are_averaged_and_distinguished(batch):
    student = make_student(distilled=True).eval()
    found = Classify(student).evaluate([batch])
    with torch.no_grad():
        first, second = student.forward_both(batch.images)
    np.testing.assert_allclose(found.logits, ((first + second) / 2).numpy(), atol=1e-6)
    for name, logits in (("class_head_accuracy", first), ("distilled_head_accuracy", second)):
        assert found.metrics[name] == pytest.approx((logits.argmax(1) == batch.labels).double().mean().item())
    assert "class_head_accuracy" not in Classify(make_student(distilled=False)).evaluate([batch]).metrics


def test_agreement_by_hand():
    logits, teacher = np.eye(3, dtype=np.float32)[[0, 1, 2, 0]], np.eye(3, dtype=np.float32)[[0, 1, 0, 2]]
    metrics = Predictions(logits=logits, truth=np.array([0, 2, 0, 2]), teacher=teacher).metrics
    assert (metrics["teacher_accuracy"], metrics["teacher_agreement"]) == (0.75, 0.5)


def test_hard_attention_students_learn_from_a_teacher_too(batch):
    torch.manual_seed(0)
    student = vt.create_model("resnet20_hard_32", num_classes=5, image_size=8, depths=(1, 1, 1)).train()
    loss = Classify(student, teacher=make_teacher(), distillation=PUBLISHED["hard"]).loss(batch)
    loss.backward()
    assert isinstance(student, nn.Module)
    assert all(parameter.grad is not None for parameter in student.parameters())
