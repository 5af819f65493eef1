"""Models of words in the studio: sentences, what is written, and the attention of each word, over HTTP."""

import pytest
import torch

import vitrail as vt
from vitrail.byte_pairs import BytePairs
from vitrail.explain.words import continue_ids, to_words, translate_ids, word_look
from vitrail.models.seq2seq import Seq2SeqConfig, build_seq2seq

LINES = ["ein hund läuft weil er will", "the animal runs because it wants to"]


@pytest.fixture(scope="module")
def text_app(tmp_path_factory, make_studio):
    """Four models of words with random weights, and one of images."""
    folder = tmp_path_factory.mktemp("texts")
    tokenizer = BytePairs.train(LINES, 50)
    sizes = {"vocabulary": len(tokenizer), "width": 8, "heads": 2, "depth": 2, "hidden": 9, "longest": 24}
    torch.manual_seed(0)
    made = {name: vt.create_model(f"{name}_tiny", **sizes) for name in ("gpt", "bert")}
    made["translator"] = vt.create_model("transformer_tiny", **sizes, decoder_depth=3)
    for name, model in made.items():
        model.tokenizer = tokenizer
        vt.save(model.eval(), folder / name)
    vt.save(vt.create_model("vit_nano_patch4_32", num_classes=3), folder / "images")
    return make_studio([folder / name for name in (*made, "images")], budget=1 << 20), made


@pytest.fixture
def client(browse, text_app):
    return browse(app=text_app[0])


@pytest.fixture
def names(client):
    return {model["name"]: model for model in client.get("/api/models").json()}


def test_the_list_tells_models_of_words_from_those_of_images(client, names):
    assert {name: (model["task"], model.get("writes")) for name, model in names.items()} == {
        "gpt": ("language", "on"), "bert": ("language", "nothing"), "translator": ("translate", "another"), "images": ("classify", None),
    }  # fmt: skip
    assert names["translator"]["kinds"] == {"encoder": [2, 2], "decoder": [3, 2], "cross": [3, 2]}
    assert names["gpt"]["kinds"] == {"decoder": [2, 2]}
    assert client.get("/text").headers["content-type"].startswith("text/html")


def test_a_translation_and_where_its_words_look(client, names, text_app):
    found = client.post("/api/translate/read", json={"model": names["translator"]["id"], "text": "ein hund läuft"}).json()
    model = text_app[1]["translator"]
    ids = model.tokenizer.encode("ein hund läuft")
    look = to_words(word_look(model, ids, translate_ids(model, ids)))
    assert found["source"] == ["ein", "hund", "läuft", "<end>"]
    assert tuple(found["written"]) == look.written.words
    assert found["notes"] == []
    for kind in ("encoder", "decoder", "cross"):
        answer = client.get(f"/api/translate/attention?look={found['id']}&kind={kind}&layer=1&head=1").json()["weights"]
        torch.testing.assert_close(torch.tensor(answer), look.of(kind, 1, 1), rtol=1e-4, atol=1e-9)
        assert [sum(row) for row in answer] == pytest.approx([1] * len(answer), abs=1e-4)
    mean = client.get(f"/api/translate/attention?look={found['id']}&kind=cross&layer=-1").json()["weights"]
    torch.testing.assert_close(torch.tensor(mean), look.of("cross", -1), rtol=1e-4, atol=1e-9)


def test_language_models_go_on_or_read(client, names, text_app):
    order = {"model": names["gpt"]["id"], "text": "the animal"}
    found = client.post("/api/translate/read", json=order).json()
    model = text_app[1]["gpt"]
    assert found["text"] == model.tokenizer.decode(continue_ids(model, model.tokenizer.encode("the animal")))
    begin, first, last = found["read"][: found["given"]]
    assert (begin, first) == ("<begin>", "the")
    assert last.startswith("animal")  # what is written may go on with the last word
    drawn = {client.post("/api/translate/read", json=order | {"seed": seed}).json()["text"] for seed in (1, 1, 2, 3)}
    assert 1 < len(drawn) <= 3
    assert client.post("/api/translate/read", json=order | {"text": ""}).status_code == 200  # from nothing
    read = client.post("/api/translate/read", json={"model": names["bert"]["id"], "text": "the animal"}).json()
    assert (read["source"], read["text"], list(read["kinds"])) == (["the", "animal", "<end>"], "", ["encoder"])


def test_what_was_cut_or_never_seen_is_said(client, names):
    found = client.post("/api/translate/read", json={"model": names["bert"]["id"], "text": "hundQ " * 30}).json()
    assert "were never seen in training" in found["notes"][0]
    assert "the model reads 23" in found["notes"][1]
    full = client.post("/api/translate/read", json={"model": names["gpt"]["id"], "text": "hund " * 30}).json()
    assert full["text"] == ""


@pytest.mark.parametrize(
    ("order", "status", "words"),
    [
        ({"text": " \n "}, 422, "There is no word in the sentence"),
        ({"text": "x" * 4001}, 413, "4,001 characters"),
        ({"text": 5}, 422, "not as expected: text"),
        ({"text": "a", "seed": -1}, 422, "not as expected: seed"),
        ({"text": "a", "more": 1}, 422, "not as expected: more"),
        ({"text": "a", "model": "nobody"}, 404, "no such model"),
    ],
)
def test_bad_sentences_get_one_sentence(client, names, order, status, words):
    answer = client.post("/api/translate/read", json={"model": names["translator"]["id"]} | order)
    assert answer.status_code == status
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("kind=other", "is no attention of this model: choose from encoder, decoder, cross"),
        ("kind=cross&layer=3", "Layer 3 does not exist: choose 0 to 2"),
        ("kind=cross&head=2", "is no head: choose mean or 0 to 1"),
        ("kind=cross&head=²", "is no head"),
        ("layer=0", "kind"),
    ],
)
def test_bad_questions_get_one_sentence(client, names, query, words):
    found = client.post("/api/translate/read", json={"model": names["translator"]["id"], "text": "hund"}).json()
    answer = client.get(f"/api/translate/attention?look={found['id']}&{query}")
    assert answer.status_code == 422
    assert words in answer.json()["error"]


def test_images_and_words_do_not_mix(client, names):
    text, images = names["gpt"]["id"], names["images"]["id"]
    assert "looks at images" in client.post("/api/translate/read", json={"model": images, "text": "a"}).json()["error"]
    for answer in (
        client.get(f"/api/models/{text}/samples"),
        client.get(f"/api/classify/similarity?model={text}&cell=0"),
        client.post("/api/images", json={"model": text, "sample": 0}),
    ):
        assert answer.status_code == 422
        assert "reads text" in answer.json()["error"]


def test_sessions_do_not_see_each_others_sentences(client, browse, text_app, names, monkeypatch):
    monkeypatch.setattr("vitrail.deploy.studio.pages.text.page.MOST_SENTENCES", 2)
    found = client.post("/api/translate/read", json={"model": names["gpt"]["id"], "text": "hund"}).json()
    other = browse(app=text_app[0])
    answer = other.get(f"/api/translate/attention?look={found['id']}&kind=decoder")
    assert answer.status_code == 404
    assert answer.json()["error"] == "There is no such sentence in this session."
    for number in range(2):
        client.post("/api/translate/read", json={"model": names["gpt"]["id"], "text": "hund", "seed": number})
    answer = client.get(f"/api/translate/attention?look={found['id']}&kind=decoder")
    assert (answer.status_code, "no longer kept" in answer.json()["error"]) == (410, True)


def test_a_recurrent_model_without_attention_still_translates():
    from vitrail.deploy.studio.pages.text.facts import describe_text
    from vitrail.deploy.studio.pages.text.looks import run_text
    from vitrail.tasks.translate.studio import FORM

    tokenizer = BytePairs.train(LINES, 50)
    for attention, kinds in (("none", {}), ("global", {"cross": (1, 1)})):
        model = build_seq2seq(Seq2SeqConfig(vocabulary=len(tokenizer), width=6, depth=1, attention=attention)).eval()
        model.tokenizer = tokenizer
        facts = describe_text(model, writes="another", form=FORM)
        assert facts.kinds == kinds
        look, written, _, _ = run_text(model, "ein hund", facts, seed=0)
        assert set(look.weights) == set(kinds)
        assert look.source.words == ("ein", "hund", "<end>")
        assert written == tokenizer.decode(translate_ids(model, tokenizer.encode("ein hund")))
