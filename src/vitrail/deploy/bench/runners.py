"""What is measured: an engine of ours, or the same model of another library, as a function from images to answers."""

from collections.abc import Callable

from torch import Tensor

from vitrail.deploy.bench.peers import PEERS, make_peer
from vitrail.deploy.engines import make_engine
from vitrail.models.classifier import Classifier

Runner = Callable[[Tensor], Tensor]


def make_runner(model: Classifier, name: str, *, threads: int | None = None) -> Runner:
    """`name`: one of ENGINES or of PEERS."""
    return make_peer(model, name) if name in PEERS else make_engine(model, name, threads=threads)
