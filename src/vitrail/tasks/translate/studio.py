"""The studio's page of translators: that of text, which several tasks use."""

from dataclasses import replace

from vitrail.deploy.studio.facts import Stored
from vitrail.deploy.studio.pages.text import page
from vitrail.deploy.studio.pages.text.facts import TextFacts, describe_text
from vitrail.deploy.studio.pages.text.page import ACTIONS
from vitrail.models.word_model import WordModel

__all__ = ["ACTIONS", "PAGE", "describe"]

PAGE = replace(
    page.PAGE,
    missing="There is no model of words to look into yet. Train one with: vitrail train --task translate --data reverse",
)
FORM = {
    "label": "Sentence",
    "go": "Translate",
    "hint": "Type a sentence in the language the model reads",
    "source": "Source",
    "target": "Translation",
}


def describe(model: WordModel, stored: Stored) -> TextFacts:
    return describe_text(model, writes="another", form=FORM)
