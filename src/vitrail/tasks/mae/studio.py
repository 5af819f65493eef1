"""The studio's page of masked autoencoders: that of masks, which several tasks may use."""

from dataclasses import replace

from vitrail.deploy.studio.pages.masks import page
from vitrail.deploy.studio.pages.masks.page import ACTIONS, describe

__all__ = ["ACTIONS", "PAGE", "describe"]

PAGE = replace(
    page.PAGE, missing="There is no masked autoencoder yet. Train one with: vitrail pretrain --method mae --data FOLDER"
)
