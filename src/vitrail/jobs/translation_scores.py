"""Scoring a model that translates: the end of training, and `vitrail eval`."""

import csv
import io
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitrail.data.dataset import SplitName
from vitrail.data.text.batching import PairBatches
from vitrail.data.text.parallel import Pairs, ParallelData, open_parallel
from vitrail.deploy.translation import Translation
from vitrail.errors import VitrailError
from vitrail.files import write_whole
from vitrail.jobs.evaluate import METRICS, PREDICTIONS, REPORT, headline, same_source
from vitrail.jobs.machine import choose_device
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.planning import whole
from vitrail.jobs.stored import to_store
from vitrail.learn.training.progress_bar import ProgressBar, clock
from vitrail.learn.training.run_folder import CONFIG, read_results
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.models.card import write_card
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import find, load

HYPOTHESES = "hypotheses.txt"
SENTENCES = 64  # translated at a time
EDGES = (5, 10, 15, 20, 30, 40, 60)  # words of a source, where a range of lengths ends


@dataclass(frozen=True)
class Scored:
    """A model's translations of a split."""

    pairs: Pairs
    hypotheses: list[str]
    metrics: dict[str, float]
    signature: str
