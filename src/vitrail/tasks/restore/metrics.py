"""What a restorer is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="psnr", title="PSNR", short="PSNR", unit="dB"),
    Metric(key="ssim", title="SSIM", short="SSIM", unit="", digits=4),
    Metric(key="psnr_given", title="PSNR of what was given", short="PSNR before", unit="dB"),
    Metric(key="ssim_given", title="SSIM of what was given", short="SSIM before", unit="", digits=4),
    LOSS,
)
