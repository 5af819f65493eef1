"""What is kept, for whom and for how long."""

from dataclasses import dataclass

import pytest

from vitrail.deploy.studio.sessions import Store
from vitrail.deploy.studio.studio_error import StudioError


@dataclass
class Thing:
    nbytes: int


@dataclass
class Other:
    nbytes: int


def status(store: Store, session: str, name: str, kind: type = Thing) -> int:
    try:
        store.get(session, name, kind)
    except StudioError as error:
        return error.status
    return 200


def test_the_least_recently_used_goes_first_and_is_gone_not_unknown():
    store = Store(100)
    first, second = store.put("a", Thing(40)), store.put("b", Thing(40))
    store.get("a", first, Thing)
    third = store.put("a", Thing(40))
    assert [status(store, s, n) for s, n in (("a", first), ("b", second), ("a", third))] == [200, 410, 200]
    assert status(store, "a", second) == 404  # it was never theirs
    assert status(store, "a", first, Other) == 404
    assert status(store, "a", first[:-1] + "x") == 404
    assert store.nbytes == 80


def test_what_grows_makes_others_go_and_what_is_too_large_is_refused():
    store = Store(100)
    first, grown = store.put("a", Thing(40)), Thing(10)
    second = store.put("a", grown)
    grown.nbytes = 90
    store.shrink()
    assert (status(store, "a", first), status(store, "a", second)) == (410, 200)
    with pytest.raises(StudioError, match="MB"):
        store.put("a", Thing(101))
    assert status(store, "a", second) == 200


def test_a_session_keeps_so_many_of_a_kind():
    store = Store(100)
    other, foreign = store.put("a", Other(1)), store.put("b", Thing(1))
    names = [store.put("a", Thing(1), most=2) for _ in range(3)]
    assert [status(store, "a", name) for name in names] == [410, 200, 200]
    assert (status(store, "a", other, Other), status(store, "b", foreign)) == (200, 200)


def test_a_look_that_had_to_go_answers_410_and_is_made_again(tmp_path, make_run, browse_studio, upload, digit, encode):
    run = make_run(tmp_path / "run", depth=3)
    client = browse_studio(run, budget=40 << 10)  # of looks of 13 kB
    image = upload(encode(digit), client=client).json()["id"]
    body = {"model": client.get("/api/models").json()[0]["id"], "image": image}
    looks = [client.post("/api/classify/look", json={**body, "erased": [cell]}).json() for cell in range(8)]
    answers = [client.get(f"/api/classify/attention?look={found['id']}") for found in looks]
    assert answers[0].status_code == 410
    assert list(answers[0].json()) == ["error"]
    assert answers[-1].status_code == 200
    again = client.post("/api/classify/look", json={**body, "erased": [0]}).json()
    assert again["id"] != looks[0]["id"]
    assert again["predictions"] == looks[0]["predictions"]
    assert client.get(f"/api/classify/attention?look={again['id']}").status_code == 200


def test_attention_that_does_not_fit_is_left_out_and_the_answer_stays(tmp_path, make_run, browse_studio, upload, digit, encode):
    client = browse_studio(make_run(tmp_path / "run", depth=3), budget=5 << 10)
    image = upload(encode(digit), client=client).json()["id"]
    body = {"model": client.get("/api/models").json()[0]["id"], "image": image}
    found = client.post("/api/classify/look", json=body).json()
    assert (len(found["predictions"]), found["kept"]) == (10, False)
    assert "--memory" in client.get(f"/api/classify/attention?look={found['id']}").json()["error"]
