"""What a translation is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="bleu", title="BLEU", short="BLEU", unit="hundred"),
    Metric(key="exact_match", title="Translations exactly right", short="exactly right"),
    Metric(key="perplexity", title="Perplexity", short="perplexity", unit="", higher_is_better=False),
    LOSS,
)
