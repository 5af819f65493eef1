"""What a language model is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="perplexity", title="Perplexity", short="perplexity", unit="", higher_is_better=False),
    Metric(key="likelihood", title="Mean probability of a token", short="likelihood"),
    Metric(key="word_accuracy", title="Likeliest token right", short="token accuracy"),
    Metric(key="bits_per_byte", title="Bits per byte", short="bits per byte", unit="", higher_is_better=False, digits=3),
    LOSS,
)
