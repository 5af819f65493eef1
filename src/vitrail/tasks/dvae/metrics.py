"""What a discrete VAE is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="psnr", title="PSNR", short="PSNR", unit="dB"),
    Metric(key="codes_used", title="Codes in use", short="codes used", unit="", digits=0, each_epoch=True),
    Metric(key="code_perplexity", title="Perplexity of the codes", short="code perplexity", unit="", digits=1),
    LOSS,
)
