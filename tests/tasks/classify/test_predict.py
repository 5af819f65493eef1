"""`vt.pipeline`: Hugging Face's shapes, and the same answer however an image is handed over."""

import numpy as np
import pytest
from PIL import Image

import vitrail as vt
from vitrail.data.digits import open_digits


@pytest.fixture(scope="module")
def classify(digits_run):
    return vt.pipeline("image-classification", digits_run[0])


@pytest.fixture(scope="module")
def image() -> Image.Image:
    return open_digits()["test"][0][0]


def test_an_answer_is_a_list_of_labels_and_scores_best_first(classify, image):
    answer = classify(image)
    assert len(answer) == 5
    assert all(sorted(row) == ["label", "score"] for row in answer)
    assert all(isinstance(row["label"], str) and isinstance(row["score"], float) for row in answer)
    scores = [row["score"] for row in answer]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("top_k, rows", [(1, 1), (3, 3), (10, 10), (99, 10)])
def test_top_k(top_k, rows, classify, image):
    answer = classify(image, top_k=top_k)
    assert len(answer) == rows
    assert answer == classify(image, top_k=10)[:rows]


def test_scores_sum_to_one_over_all_classes(classify, image):
    answer = classify(image, top_k=10)
    assert {row["label"] for row in answer} == set("0123456789")
    assert sum(row["score"] for row in answer) == pytest.approx(1, abs=1e-6)


def test_the_same_answer_however_an_image_is_handed_over(classify, image, tmp_path):
    path = tmp_path / "digit.png"
    image.save(path)
    expected = classify(image)
    for same in (
        path,
        str(path),
        np.asarray(image),
        image.convert("RGB"),
        np.asarray(image.convert("RGB")),
        Image.open(path),
    ):
        assert classify(same) == expected


def test_a_list_gives_a_list_in_its_order(classify):
    test = open_digits()["test"]
    images = [test[index][0] for index in range(7)]
    answers = classify(images, batch=3)
    assert len(answers) == 7
    for answer, image in zip(answers, images, strict=True):
        alone = classify(image)
        assert [row["label"] for row in answer] == [row["label"] for row in alone]
        assert [row["score"] for row in answer] == pytest.approx([row["score"] for row in alone], abs=1e-6)
    assert classify(tuple(images[:1])) == [classify(images[0])]
    assert classify([]) == []


def test_answers_stream_without_reading_everything(classify, image):
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield image

    assert next(classify.stream(endless(), batch=4)) == classify([image] * 4)[0]
    assert read == 4


def test_a_photo_lying_on_its_side_is_turned_upright(classify, image, tmp_path):
    """Cameras store the turn beside the pixels; a file and a PIL image opened from it must not differ."""
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    path = tmp_path / "turned.png"
    image.transpose(Image.Transpose.ROTATE_90).save(path, exif=exif)
    assert classify(path) == classify(Image.open(path)) == classify(image)
    assert classify(path) != classify(image.transpose(Image.Transpose.ROTATE_90))


def test_images_of_any_size_and_mode(classify, image):
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK"):
        assert len(classify(image.resize((31, 17)).convert(mode))) == 5


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((8, 8), np.float32), np.zeros((2, 8, 8, 3), np.uint8), np.zeros((8, 8, 2), np.uint8), np.zeros(8, np.uint8)],
)
def test_arrays_that_are_no_images_are_refused(wrong, classify):
    with pytest.raises(vt.VitrailError, match="uint8, h w or h w 3, got"):
        classify(wrong)


def test_wrong_input(classify, image, tmp_path):
    with pytest.raises(vt.VitrailError, match="top_k must be at least 1, got 0"):
        classify(image, top_k=0)
    with pytest.raises(vt.VitrailError, match="no such file"):
        classify(tmp_path / "nowhere.png")
    with pytest.raises(vt.VitrailError, match=r'"image-clasification".*did you mean "image-classification"'):
        vt.pipeline("image-clasification", "run")
    with pytest.raises(vt.VitrailError, match="num_classes=0"):
        vt.pipeline("image-classification", vt.create_model("vit_nano_conv", num_classes=0))


def test_a_model_in_training_mode_answers_as_one_at_rest(image):
    model = vt.create_model("vit_nano_conv", num_classes=4, image_size=8, in_channels=1, drop_path=0.9)
    assert model.training
    classify = vt.pipeline("image-classification", model)
    assert classify(image) == classify(image)
    assert [row["label"] for row in sorted(classify(image), key=lambda row: row["label"])] == [f"LABEL_{i}" for i in range(4)]


def test_a_model_of_many_labels_scores_each_by_itself(image, tmp_path):
    model = vt.create_model("vit_nano_conv", num_classes=4, image_size=8, in_channels=1).eval()
    single = {row["label"]: row["score"] for row in vt.pipeline("image-classification", model)(image)}
    model.multi_label = True
    answer = vt.pipeline("image-classification", vt.save(model, tmp_path / "model"))(image)  # through a folder
    assert [sorted(row) for row in answer] == [["label", "score"]] * 4
    scores = {row["label"]: row["score"] for row in answer}
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert sum(single.values()) == pytest.approx(1, abs=1e-6)
    odds = {label: score / (1 - score) for label, score in scores.items()}  # exp(logit), so softmax is their share
    assert {label: value / sum(odds.values()) for label, value in odds.items()} == pytest.approx(single, abs=1e-5)


def test_averaged_with_the_mirror_image(classify, image):
    """Softmax of the mean logits; the logits up to a constant are the logarithms of the probabilities."""
    plain, mirror = (classify(one, top_k=10) for one in (image, image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)))
    both = {row["label"]: row["score"] for row in classify(image, top_k=10, flip_test=True)}
    product = {
        row["label"]: (row["score"] * {one["label"]: one["score"] for one in mirror}[row["label"]]) ** 0.5 for row in plain
    }
    total = sum(product.values())
    assert both == pytest.approx({label: value / total for label, value in product.items()}, rel=1e-3, abs=1e-6)
    assert both != {row["label"]: row["score"] for row in plain}


def test_eval_averages_with_the_mirror_image(classify, digits_run):
    """As many images are right as when each is asked by the pipeline."""
    data = vt.open_data("digits")
    split = data.splits["test"]
    rows = classify([split.read(index) for index in range(len(split))], top_k=1, flip_test=True)
    right = sum(data.classes.index(row[0]["label"]) == label for row, label in zip(rows, split.labels, strict=True))
    found = vt.evaluate(digits_run[0], data="digits", flip_test=True)["accuracy"]
    assert found == pytest.approx(right / len(split))
    plain = classify([split.read(index) for index in range(len(split))], top_k=1)
    assert [row[0]["label"] for row in rows] != [row[0]["label"] for row in plain]
