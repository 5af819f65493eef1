"""What a classifier is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="map", title="Mean average precision", short="mAP"),
    Metric(key="accuracy", title="Accuracy", short="accuracy"),
    Metric(key="top5", title="Top-5 accuracy", short="top-5 accuracy"),
    Metric(key="macro_f1", title="Macro F1", short="macro F1"),
    Metric(key="balanced_accuracy", title="Balanced accuracy", short="balanced accuracy"),
    Metric(key="f1_micro", title="Micro F1", short="micro F1"),
    Metric(key="f1_macro", title="Macro F1", short="macro F1"),
    Metric(key="exact_match", title="All labels right", short="all labels right"),
    Metric(key="ece", title="Expected calibration error", short="calibration error", higher_is_better=False),
    Metric(key="class_head_accuracy", title="Accuracy of its class head alone", short="class head"),
    Metric(key="distilled_head_accuracy", title="Accuracy of its distillation head alone", short="distillation head"),
    Metric(key="teacher_accuracy", title="Accuracy of its teacher", short="teacher"),
    Metric(key="teacher_agreement", title="Share on which it agrees with its teacher", short="agreement with the teacher"),
    LOSS,
)
