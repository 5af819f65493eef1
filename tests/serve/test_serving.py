"""The page, models, samples, images and looks over HTTP."""

import io
import threading
from concurrent.futures import Future

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.deploy.studio import flights
from vitrail.deploy.studio.pages.attention import page as attention_page


def test_the_page_and_its_files_are_served(page):
    assert page.get("/").headers["content-type"].startswith("text/html")
    assert page.get("/static/pages/attention/page.js").status_code == 200
    assert page.get("/static/../page.py").status_code == 404
    assert page.get("/static/%2e%2e/page.py").status_code == 404


def test_the_list_of_models_tells_what_they_are(ids, runs):
    assert set(ids) == {"cls", "wide", "resnet", "group"}
    cls, wide, resnet, group = (ids[name] for name in ("cls", "wide", "resnet", "group"))
    assert (cls["grid"], cls["patch"], cls["prefix"], cls["layers"], cls["heads"]) == ([4, 4], [2, 2], 2, 3, 4)
    assert (cls["pool"], cls["position"], cls["channels"]) == ("class", "learned_1d", 1)
    assert [model["tokenizer"] for model in (cls, wide, resnet, group)] == ["patch", "patch", None, None]
    assert [model["lens"] for model in (cls, wide, resnet, group)] == [True, True, False, False]
    assert cls["labels"] == list("0123456789")
    assert cls["score"] == "test accuracy 98.61 %"
    assert cls["parameters"] == sum(p.numel() for p in vt.load(runs / "cls").parameters())
    assert (wide["image_size"], wide["grid"], wide["patch"]) == ([12, 20], [3, 5], [4, 4])
    assert wide["score"] is None
    assert len(wide["labels"]) == 30
    assert not resnet["attention"]
    assert resnet["intervenes"]
    assert group["attention"]
    assert group["grid"] == [4, 4]


def test_samples_are_of_the_test_split_one_of_each_class_first(page, ids):
    found = page.get(f"/api/models/{ids['cls']['id']}/samples").json()
    assert len(found) == 24
    assert [sample["label"] for sample in found[:10]] == list("0123456789")
    thumbnail = page.get(found[3]["url"])
    assert Image.open(io.BytesIO(thumbnail.content)).size == (8, 8)
    assert page.get(f"/api/models/{ids['wide']['id']}/samples").json() == []  # its data is gone
    added = page.post("/api/images", json={"model": ids["cls"]["id"], "sample": found[3]["id"]}).json()
    assert (added["width"], added["height"]) == (8, 8)
    kept = Image.open(io.BytesIO(page.get(f"/api/images/{added['id']}").content))
    assert np.array_equal(np.asarray(kept), np.asarray(Image.open(io.BytesIO(thumbnail.content))))


def test_an_image_comes_back_upright_and_no_larger_than_a_page_needs(upload, page, encode):
    turned = Image.new("RGB", (3000, 1000), "red")
    exif = Image.Exif()
    exif[0x0112] = 6
    found = upload(encode(turned, "JPEG", exif=exif), "../a/photo.jpg").json()
    assert (found["width"], found["height"], found["name"]) == (1000, 3000, "photo.jpg")
    assert found["note"] is None
    answer = page.get(f"/api/images/{found['id']}")
    assert answer.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(answer.content)).size == (341, 1024)


def test_predictions_are_those_of_the_pipeline(look, runs, digit, photo, ids, encode):
    for name, image in (("cls", digit), ("wide", photo), ("resnet", digit), ("group", digit)):
        found = look(name)
        classify = vt.pipeline("image-classification", runs / name)
        expected = classify(Image.open(io.BytesIO(encode(image))), top_k=20)
        assert [row["label"] for row in found["predictions"]] == [row["label"] for row in expected]
        assert [row["score"] for row in found["predictions"]] == pytest.approx([row["score"] for row in expected], rel=1e-4)
        assert found["ms"] > 0
        assert [ids[name]["labels"][row["index"]] for row in found["predictions"]] == [r["label"] for r in expected]


def test_the_box_is_the_part_that_the_model_sees(look):
    wide = look("wide")  # 40x30 for a model of 20x12: the middle of the height
    assert (wide["fits"], wide["box"]) == ("crop", [0, 3, 40, 27])
    assert (look("cls")["fits"], look("cls")["box"]) == ("squash", [0, 0, 8, 8])


def test_what_the_model_reads_with_cells_erased_and_moved(look, page, digit):
    def seen(found) -> np.ndarray:
        return np.asarray(Image.open(io.BytesIO(page.get(f"/api/classify/seen?look={found['id']}").content))).astype(int)

    plain, pixels = look("cls"), np.asarray(digit).astype(int)
    assert np.array_equal(seen(plain), pixels)
    erased = look("cls", erased=[5])
    assert np.array_equal(np.unique(seen(erased)[2:4, 2:4]), [round(pixels.mean())])
    changed = seen(erased) != pixels
    changed[2:4, 2:4] = False
    assert not changed.any()
    order = [15, *range(1, 15), 0]
    moved = seen(look("cls", order=order))
    assert np.array_equal(moved[:2, :2], pixels[6:, 6:])
    assert np.array_equal(moved[6:, 6:], pixels[:2, :2])
    both = seen(look("cls", erased=[0], order=order))  # a cell is erased, then it moves
    assert (both[6:, 6:] == round(pixels.mean())).all()
    scores = [{row["label"]: row["score"] for row in found["predictions"]} for found in (plain, erased)]
    assert scores[0] != scores[1]


def test_all_cells_erased_is_one_color_and_still_an_answer(look, page):
    for name, cells in (("cls", 16), ("wide", 15), ("resnet", 4)):
        found = look(name, erased=list(range(cells)))
        assert (
            np.ptp(
                np.asarray(Image.open(io.BytesIO(page.get(f"/api/classify/seen?look={found['id']}").content))), axis=(0, 1)
            ).max()
            == 0
        )
        assert 0 < found["predictions"][0]["score"] <= 1


@pytest.mark.parametrize(
    "options",
    [
        {"order": [0] * 16}, {"order": list(range(15))}, {"order": []}, {"erased": [16]}, {"erased": [-1]}, {"erased": ["a"]},
        {"erased": [True]}, {"erased": 3}, {"order": "no"}, {"unknown": 1}, {"erased": [10**30]},
    ],
)  # fmt: skip
def test_wrong_cells_are_refused_in_one_sentence(look, options):
    found = look("cls", **options)
    assert list(found) == ["error"]
    assert found["error"].endswith(".")
    assert "\n" not in found["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"model": 1}', b"\xff", b"[" * 5000, b'{"a":' * 3000])
def test_wrong_bodies_are_refused(page, body):
    for address in ("/api/classify/look", "/api/images"):
        answer = page.post(address, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert list(answer.json()) == ["error"]


def test_a_body_that_is_too_long_is_refused(page):
    answer = page.post("/api/classify/look", content=b" " * (2 << 20))
    assert answer.status_code == 413
    assert "too long" in answer.json()["error"]


def test_the_same_look_is_computed_once_however_many_ask(browse, upload, ids, digit, encode, monkeypatch):
    client = browse()
    image = upload(encode(digit), client=client).json()["id"]
    passes, began, gate, run_pass = [], threading.Event(), threading.Event(), attention_page.run_pass
    waiting = threading.Semaphore(0)

    def slow(*arguments, **options):
        passes.append(1)
        began.set()
        gate.wait(60)
        return run_pass(*arguments, **options)

    class Awaited(Future):
        def result(self, timeout=None):
            waiting.release()
            return super().result(timeout)

    monkeypatch.setattr(attention_page, "run_pass", slow)
    monkeypatch.setattr(flights, "Future", Awaited)
    answers, body = [], {"model": ids["cls"]["id"], "image": image, "erased": [3, 3, 1]}
    threads = [
        threading.Thread(target=lambda: answers.append(client.post("/api/classify/look", json=body).json())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert began.wait(60)
    for _ in range(3):  # until the others have come in
        assert waiting.acquire(timeout=60)
    gate.set()
    for thread in threads:
        thread.join(60)
    assert len(passes) == 1
    assert len({answer["id"] for answer in answers}) == 1
    again = client.post("/api/classify/look", json={**body, "erased": [1, 3]}).json()
    assert (again["id"], len(passes)) == (answers[0]["id"], 1)  # the same cells in another order
    assert client.post("/api/classify/look", json={**body, "erased": [1]}).json()["id"] != again["id"]


def test_a_model_that_computes_no_numbers_is_reported_not_served(tmp_path, make_run, browse_studio, upload, digit, encode):
    make_run(tmp_path / "broken", lambda model: torch.nn.init.constant_(model.head.output.weight, torch.nan))
    weights = make_run(tmp_path / "cut") / "best" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    client = browse_studio(tmp_path)
    image = upload(encode(digit), client=client).json()["id"]
    words = {}
    for entry in client.get("/api/models").json():
        answer = client.post("/api/classify/look", json={"model": entry["id"], "image": image})
        assert answer.status_code == 422
        words[entry["name"]] = answer.json()["error"]
    assert "not finite" in words["broken"]
    assert "truncated" in words["cut"]


def test_weights_that_training_replaced_are_read_again(tmp_path, make_run, browse_studio, upload, digit, encode):
    run = make_run(tmp_path / "run", finished=False)
    client = browse_studio(run)
    image = upload(encode(digit), client=client).json()["id"]
    body = {"model": client.get("/api/models").json()[0]["id"], "image": image}
    first = client.post("/api/classify/look", json=body).json()
    make_run(run, lambda model: torch.nn.init.normal_(model.head.output.weight), finished=False)
    second = client.post("/api/classify/look", json=body).json()
    assert first["id"] != second["id"]
    assert first["predictions"] != second["predictions"]
    assert client.get(f"/api/classify/attention?look={first['id']}").status_code == 200  # kept
    assert client.get(f"/api/classify/map?look={first['id']}").status_code == 410  # would be of another model
    assert client.get(f"/api/classify/map?look={second['id']}").status_code == 200
