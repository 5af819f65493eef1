"""What a reconstruction is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="psnr", title="PSNR", short="PSNR", unit="dB"),
    Metric(key="ssim", title="SSIM", short="SSIM", unit="", digits=4),
    Metric(key="psnr_zero_filled", title="PSNR of the zero-filled images", short="zero-filled PSNR", unit="dB"),
    Metric(key="ssim_zero_filled", title="SSIM of the zero-filled images", short="zero-filled SSIM", unit="", digits=4),
    Metric(key="fit", title="Fit of what was measured", short="fit", unit="dB"),
    LOSS,
)
