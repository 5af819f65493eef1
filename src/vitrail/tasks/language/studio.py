"""The studio's page of language models: that of text, which several tasks use."""

from vitrail.deploy.studio.facts import Stored
from vitrail.deploy.studio.pages.text.facts import TextFacts, describe_text
from vitrail.deploy.studio.pages.text.page import ACTIONS, PAGE
from vitrail.models.language import LanguageModel

__all__ = ["ACTIONS", "PAGE", "describe"]

CONTINUES = {"label": "Beginning", "go": "Continue", "hint": "Type how a text begins", "source": "Sentence", "target": "Text"}
FILLS = {"label": "Sentence", "go": "Read", "hint": "Type a sentence", "source": "Sentence", "target": ""}


def describe(model: LanguageModel, stored: Stored) -> TextFacts:
    """One that goes on with a text reads what is before a word alone; the others fill in masked words."""
    if model.config.causal:
        return describe_text(model, writes="on", form=CONTINUES)
    return describe_text(model, writes="nothing", form=FILLS)
