"""Which models are in memory, and who waits for whom."""

import threading

import pytest

from vitrail.deploy.studio import models as studio_models
from vitrail.deploy.studio.pages.attention import facts as attention_facts
from vitrail.deploy.studio.pages.attention.page import digest
from vitrail.deploy.studio.samples import NONE
from vitrail.deploy.studio.studio import Studio
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import UploadedImage


@pytest.fixture
def models(runs, find_models):
    return find_models(runs)


@pytest.fixture
def busy():
    """A model's lock, held by somebody else for as long as the test takes."""
    gate, threads = threading.Event(), []

    def hold(model):
        held = threading.Event()

        def compute():
            with model.lock:
                held.set()
                gate.wait(60)

        threads.append(threading.Thread(target=compute))
        threads[-1].start()
        assert held.wait(60)

    def let_go():
        gate.set()
        for thread in threads:
            thread.join(60)

    hold.let_go = let_go
    yield hold
    let_go()


def in_time(make):
    """What `make` gives within some seconds, from a thread of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(make()), daemon=True)
    thread.start()
    thread.join(60)
    assert found, "it waits for a lock"
    return found[0]


def in_memory(models):
    return {model.name for model in models.present() if model._model is not None}


def test_facts_are_reported_while_a_pass_goes_on(models, busy):
    model = models.present()[0]
    busy(model)
    assert in_time(model.facts) is model.facts()


def test_an_unknown_id_that_waits_for_a_model_keeps_nobody_from_the_others(models, busy):
    first, second = models.present()[:2]
    first._known = None
    busy(first)

    def ask():
        with pytest.raises(StudioError, match="no such model"):
            models.get("none")

    unknown = threading.Thread(target=ask, daemon=True)
    unknown.start()
    unknown.join(0.2)
    assert unknown.is_alive()  # it reads the facts of all
    assert in_time(lambda: models.get(second.id)) is second
    busy.let_go()
    unknown.join(60)


def test_no_more_models_stay_in_memory_than_may(models, busy, monkeypatch):
    monkeypatch.setattr(studio_models, "MOST_LOADED", 2)
    one, two, three, four = models.present()
    models.get(one.id).model()
    busy(one)
    for other in (two, three):
        models.get(other.id).model()
    assert in_memory(models) == {one.name, two.name, three.name}  # its turn to go, but somebody computes with it
    assert one._model is not None
    busy.let_go()
    models.get(three.id)
    assert in_memory(models) == {two.name, three.name}
    models.find(four.id).facts()
    assert in_memory(models) == {two.name, three.name}  # who needs no weights takes nobody's place
    models.get(four.id).model()
    assert in_memory(models) == {three.name, four.name}


def test_samples_take_no_models_place_and_are_looked_for_again(models, monkeypatch):
    monkeypatch.setattr(studio_models, "MOST_LOADED", 1)
    studio = Studio(models, budget=1 << 20)
    by_name = {model.name: model for model in models.present()}
    models.get(by_name["resnet"].id).model()
    assert studio.samples(by_name["wide"].id) is NONE  # its data is gone
    assert in_memory(models) == {"resnet"}
    there = studio.samples(by_name["cls"].id)
    assert studio.samples(by_name["cls"].id) is there
    monkeypatch.setattr(attention_facts, "find_samples", lambda *_: there)  # and is there again
    assert studio.samples(by_name["wide"].id) is there


def test_samples_are_decoded_two_at_a_time(models):
    studio = Studio(models, budget=1 << 20)
    name = next(model.id for model in models.present() if model.name == "cls")
    studio.samples(name)
    calls = (lambda: studio.thumbnail(name, 0), lambda: studio.sample(name, 0, UploadedImage))
    with studio.decoding, studio.decoding:
        threads = [threading.Thread(target=call, daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(0.2)
            assert thread.is_alive()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_digest_tells_looks_apart_and_nothing_else():
    assert digest([3, 1, 3], None) == digest((1, 3), None)
    different = [digest([], None), digest([1], None), digest([], [0, 1]), digest([], [1, 0]), digest([1], [0, 1])]
    assert len(set(different)) == 5
    assert len(digest(range(10_000), range(10_000))) == 64
