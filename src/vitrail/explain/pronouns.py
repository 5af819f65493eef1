"""Choosing a word worth looking at: a pronoun that stands for something said before it."""

from collections.abc import Sequence

from vitrail.special_tokens import SPECIAL_TOKENS

# Of the third person, in a few languages; those that are articles too ("die", "la") are left out.
PRONOUNS = frozenset(
    {
        "it", "its", "itself", "he", "him", "his", "himself", "she", "her", "hers", "herself", "they", "them", "their", "themselves",
        "er", "ihn", "ihm", "sie", "ihr", "ihre", "ihren", "ihrem", "ihrer", "ihnen", "sein", "seine", "seinen", "seinem", "seiner",
        "sich", "il", "elle", "ils", "elles", "lui", "leur", "leurs", "sa", "ses",
        "él", "ella", "ellos", "ellas", "su", "sus", "si",
    }
)  # fmt: skip
BEFORE = 2  # words at least that stand before a pronoun with an antecedent: "a dog ... it"


def find_pronoun(words: Sequence[str]) -> int | None:
    """Where the first pronoun stands that has words before it, one of which it may stand for."""
    return next((place for place, word in enumerate(words) if place >= BEFORE and word.lower() in PRONOUNS), None)


def find_query(words: Sequence[str]) -> int:
    """A word to begin with: that pronoun, or else the longest word, the first of equals; <begin> and <end> are none."""
    pronoun = find_pronoun(words)
    if pronoun is not None:
        return pronoun
    return max(range(len(words)), key=lambda place: len(words[place]) if words[place] not in SPECIAL_TOKENS else 0, default=0)
