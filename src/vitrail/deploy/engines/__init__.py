"""What computes a model's answers: torch itself, or a runtime that the model is handed to. The answers stay the same."""

from vitrail.deploy.engines.automatic import Automatic, choose_engine
from vitrail.deploy.engines.engine import ENGINES, Engine
from vitrail.deploy.engines.making import installed, make_engine, missing

__all__ = ["ENGINES", "Automatic", "Engine", "choose_engine", "installed", "make_engine", "missing"]
