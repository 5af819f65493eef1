"""The options of every command, as frozen dataclasses: the command line, config.yaml and Python share them. No torch here."""

from vitrail.jobs.options.evaluating import EvalOptions as EvalOptions
from vitrail.jobs.options.training import TrainOptions as TrainOptions
from vitrail.jobs.options.using import CompleteOptions as CompleteOptions
from vitrail.jobs.options.using import ExplainOptions as ExplainOptions
from vitrail.jobs.options.values import Auto as Auto
from vitrail.jobs.options.values import several as several
from vitrail.jobs.options.values import whole as whole
