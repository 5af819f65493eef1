"""What a model of MoCo v3 is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="knn", title="Accuracy of nearest neighbors' labels", short="k-NN accuracy", each_epoch=True),
    Metric(key="spread", title="Spread of features", short="spread of features", unit="", digits=3),
    LOSS,
)
