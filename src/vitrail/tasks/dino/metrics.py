"""What a model of DINO is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="knn", title="Accuracy of nearest neighbors' labels", short="k-NN accuracy", each_epoch=True),
    Metric(key="spread", title="Spread of features", short="spread of features", unit="", digits=3),
    Metric(key="entropy", title="Entropy of the mean output of the teacher", short="entropy", unit="", digits=3),
    Metric(key="single_entropy", title="Entropy of single outputs of the teacher", short="single entropy", unit="", digits=3),
    Metric(key="information", title="Information of an output", short="information", unit="", digits=3),
    LOSS,
)
