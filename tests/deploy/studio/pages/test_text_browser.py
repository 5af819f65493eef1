"""The studio's page of words in a real browser: a toy that reverses sentences is typed to, and what is seen are its own numbers."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

import vitrail as vt
from vitrail.byte_pairs import BytePairs
from vitrail.explain.words import continue_ids, to_words, translate_ids, word_look
from vitrail.special_tokens import BEGIN, END

WORDS = ("red", "dog", "sun", "sky", "tea", "owl")


def teach_reversing(tokenizer):
    """A few layers that write four words backwards, after some hundred steps."""
    torch.manual_seed(0)
    sizes = {"vocabulary": len(tokenizer), "width": 32, "heads": 2, "hidden": 32, "longest": 16, "dropout": 0.0}
    model = vt.create_model("transformer_tiny", **sizes, depth=1, decoder_depth=2)
    ids = torch.tensor([tokenizer.encode(word) for word in WORDS]).flatten()
    begin, end = (torch.full((32, 1), special) for special in (BEGIN, END))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(400):
        source = ids[torch.rand(32, len(WORDS)).argsort(1)[:, :4]]
        target = source.flip(1)
        logits = model(torch.cat([source, end], 1), torch.cat([begin, target], 1))
        loss = F.cross_entropy(logits.flatten(0, 1), torch.cat([target, end], 1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.03:
            break
    model.tokenizer = tokenizer
    return model.eval()


@pytest.fixture(scope="module")
def site(serve, tmp_path_factory):
    """A server with the toy, a language model of random weights and a model of images."""
    folder = tmp_path_factory.mktemp("site")
    tokenizer = BytePairs.train([" ".join(WORDS)] * 5, 60)
    toy = teach_reversing(tokenizer)
    torch.manual_seed(1)
    language = vt.create_model("gpt_tiny", vocabulary=len(tokenizer), width=8, heads=2, depth=2, hidden=9, longest=16).eval()
    language.tokenizer = tokenizer
    for name, model in (("toy", toy), ("gpt", language), ("vit", vt.create_model("vit_nano_patch4_32", num_classes=3))):
        vt.save(model, folder / name)
    with serve([folder / name for name in ("toy", "gpt", "vit")], budget=8 << 20) as address:
        yield SimpleNamespace(address=address, toy=toy, language=language)


def words(tab, line):
    return tab.locator(f".word[data-line={line}] bdi").all_text_contents()


def weights(tab, line):
    return [
        float(weight)
        for weight in tab.locator(f".word[data-line={line}][data-weight]").evaluate_all("b => b.map(x => x.dataset.weight)")
    ]


def ask(tab, text):
    tab.fill("#text", text)
    tab.press("#text", "Enter")
    tab.wait_for_selector("#sentences:not([aria-busy]) .word[data-weight]")


def point(tab, line, place, title):
    """Hovers a word and waits until the page tells of it."""
    tab.hover(f'.word[data-line={line}][data-place="{place}"]')
    tab.wait_for_function("words => document.querySelector('#looking h2').textContent === words", arg=title)


def test_a_sentence_is_typed_and_its_translation_looks_at_the_source(visit, site):
    tab = visit()
    assert "/text" in tab.url  # the first model reads text
    ask(tab, "owl red tea sun")
    assert words(tab, "source") == ["owl", "red", "tea", "sun", "<end>"]
    assert words(tab, "target") == ["<begin>", "sun", "tea", "red", "owl", "<end>"]
    ids = site.toy.tokenizer.encode("owl red tea sun")
    look = to_words(word_look(site.toy, ids, translate_ids(site.toy, ids)))
    layer = vt.explain.aligning_layer([look])
    for place, title in ((2, "To write “tea” it looks at"), (4, "To write “owl” it looks at")):
        point(tab, "target", place, title)
        shown = weights(tab, "source")
        assert shown == pytest.approx(look.of("cross", layer)[place - 1].tolist(), rel=1e-3, abs=1e-6)
        assert sum(shown) == pytest.approx(1, abs=1e-3)
        assert weights(tab, "target") == []
    point(tab, "source", 1, "“red” looks at")
    assert weights(tab, "source") == pytest.approx(look.of("encoder", -1)[1].tolist(), rel=1e-3, abs=1e-6)
    strongest = tab.locator(".most li bdi").first.text_content()
    assert strongest == look.source.words[int(look.of("encoder", -1)[1].argmax())]


@pytest.mark.slow
def test_layers_heads_and_the_words_before(visit, site):
    tab = visit()
    ask(tab, "dog sky owl tea")
    ids = site.toy.tokenizer.encode("dog sky owl tea")
    look = to_words(word_look(site.toy, ids, translate_ids(site.toy, ids)))
    tab.click('.word[data-line=target][data-place="3"]')  # pinned: the way to the controls changes nothing
    tab.hover('.word[data-line=source][data-place="0"]')
    assert tab.locator("#looking h2").text_content() == "To write “sky” it looks at"
    tab.get_by_role("group", name="Head").get_by_text("1", exact=True).click()
    tab.locator("#layer").fill("0")
    tab.wait_for_function("() => document.querySelector('#looking p').textContent.endsWith('layer 0, head 1')")
    assert weights(tab, "source") == pytest.approx(look.of("cross", 0, 1)[2].tolist(), rel=1e-3, abs=1e-6)
    tab.get_by_text("words before").click()
    tab.wait_for_selector(".word[data-line=target][data-weight]")
    shown = weights(tab, "target")
    assert shown == pytest.approx(look.of("decoder", -1)[3].tolist(), rel=1e-3, abs=1e-6)
    assert sum(shown) == pytest.approx(1, abs=1e-3)
    assert shown[4] == 0  # what comes later
    assert weights(tab, "source") == []


@pytest.mark.slow
def test_a_language_model_goes_on(visit, site):
    tab = visit()
    tab.select_option("#model", label="gpt")
    ask(tab, "red dog")
    ids = site.language.tokenizer.encode("red dog")
    look = to_words(word_look(site.language, ids, continue_ids(site.language, ids)))
    assert words(tab, "target") == list(look.read.words)
    assert tab.locator(".word.new").count() == len(look.read.words) - look.given
    point(tab, "target", 1, "“red” looks at")
    assert weights(tab, "target") == pytest.approx(look.of("decoder", -1)[1].tolist(), rel=1e-3, abs=1e-6)
    tab.hover(
        f'.word[data-line=target][data-place="{len(look.read.words) - 1}"]'
    )  # long, since nobody taught it where words end
    tab.wait_for_function("() => !document.querySelector('#looking h2').textContent.includes('red')")
    assert (
        tab.evaluate("Math.max(...[...document.querySelectorAll('#looking *')].map(e => e.getBoundingClientRect().right))")
        <= 1280
    )
    before = words(tab, "target")
    tab.click("#another")
    tab.wait_for_function(
        "before => [...document.querySelectorAll('.word bdi')].map(b => b.textContent).join() !== before", arg=",".join(before)
    )
    assert words(tab, "target")[:2] == ["<begin>", "red"]
    assert words(tab, "target")[2].startswith("dog")  # the last word given may be gone on with


def test_words_are_text_and_pages_lead_to_each_other(visit, site):
    tab = visit(width=390, scheme="dark")
    tab.click("#go")
    tab.wait_for_selector("#toast:not([hidden])")
    assert tab.locator("#toast").text_content() == "Type a sentence first."
    ask(tab, "<script>document.title='owned'</script> owl")
    assert (
        tab.locator("#notes").text_content().endswith("were never seen in training.")
        or "Cut" in tab.locator("#notes").text_content()
    )
    assert tab.title() == "Vitrail studio"
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    tab.select_option("#model", label="vit")
    tab.wait_for_selector("#stages")
    tab.wait_for_selector("body[data-ready]:not(.text)")
    assert tab.locator("#model option:checked").text_content() == "vit"
    tab.select_option("#model", label="gpt")
    tab.wait_for_selector("body.text[data-ready]")
    assert tab.locator("#go").text_content() == "Continue"
