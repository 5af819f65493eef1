"""`vitrail train --position X` on the built-in digits, for a few steps."""

import pytest

import vitrail as vt
from vitrail.tasks.classify.options import Options


@pytest.mark.parametrize("position, where", [("rotary", "layers"), ("relative_table", "layers_apart")])
def test_a_position_is_trained_stored_and_loaded(position, where, tmp_path, quick_report):
    run = vt.train(data="digits", position=position, epochs=1, batch=512, out=str(tmp_path / "run"), workers=0)
    config = vt.load(run.path).config
    assert (config.position, config.position_where) == (position, where)
    assert f"position_where: {where}" in (run.path / "config.yaml").read_text()


def test_the_help_names_every_scheme():
    from dataclasses import fields

    from vitrail.models.parts import POSITIONS

    annotation = next(field.type for field in fields(Options) if field.name == "position")
    words = str(annotation)
    for name in POSITIONS:
        assert name.removesuffix("_1d").removesuffix("_concatenated") in words, name
