"""From options to all that a run is: who may be asked over the network, what is read, and the precision."""

from collections import Counter

import numpy as np
import pytest
from PIL import Image

from vitrail.data.dataset import FileSplit
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.models.reading.hub import is_offline
from vitrail.run.prepare import prepare
from vitrail.tasks import image_task
from vitrail.tasks.classify.options import Options
from vitrail.tasks.classify.task import TASK
from vitrail.tasks.weights import Chosen

BAR = ProgressBar(quiet=True)


@pytest.mark.parametrize("stage", ["open", "resolve", "build"])
@pytest.mark.parametrize("offline, resumed, asked", [(False, False, True), (True, False, False), (False, True, False)])
def test_a_resumed_run_asks_no_server_whatever_it_needs(stage, offline, resumed, asked, monkeypatch, tmp_path):
    """A teacher, and a tokenizer, may be of the hub as weights are."""
    seen, before = [], getattr(TASK, stage)

    def look(*arguments):
        seen.append(not is_offline())
        return before(*arguments)

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(TASK, stage, look, raising=False)
    options = Options(data="digits", model="vit_nano_conv", offline=offline, device="cpu")
    setup = prepare(options, BAR, resumed=tmp_path if resumed else None)
    assert seen == [asked]
    assert setup.options.precision == "fp32", "no auto is left"


def test_images_that_choose_weights_and_then_a_model_are_read_once(monkeypatch, tmp_path):
    for number in range(12):
        path = tmp_path / ("cat", "dog")[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.random.default_rng(number).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    read, before = Counter(), FileSplit.read

    def count(split, index, *, target=None):
        read[target, split.paths[index]] += 1
        return before(split, index, target=target)

    monkeypatch.setattr(FileSplit, "read", count)
    monkeypatch.setattr(image_task, "choose_weights", lambda wanted: Chosen(source=None, size=None, line="weights: none"))
    prepare(Options(data=str(tmp_path), pretrained="auto", device="cpu"), BAR, resumed=None)
    sampled = [number for (target, _), number in read.items() if target == (image_task.LARGEST,) * 2]
    assert sampled == [1] * 8
    assert not image_task.SAMPLED
