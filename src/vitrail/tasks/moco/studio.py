"""The studio's page of backbones: that of attention, which several tasks use."""

from vitrail.deploy.studio.pages.attention.page import ACTIONS, PAGE, describe

__all__ = ["ACTIONS", "PAGE", "describe"]
