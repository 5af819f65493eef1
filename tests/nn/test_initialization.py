"""New weights: positions are heard beside what they are added to."""

import pytest

import vitrail as vt

SINUSOID = 0.5**0.5


@pytest.mark.parametrize(("name", "size"), [("bert_tiny", SINUSOID), ("gpt_tiny", SINUSOID), ("vit_nano_patch4_32", 0.02)])
def test_learned_positions_are_as_large_as_what_they_are_added_to_wants(name, size):
    table = vt.create_model(name, position="learned_1d").position.table
    assert table.std().item() == pytest.approx(size, rel=0.15)


def test_tables_of_rows_and_columns_and_of_a_captioner_too():
    for table in vt.create_model("bert_tiny", position="learned_2d").position.tables:
        assert table.std().item() == pytest.approx(SINUSOID, rel=0.15)
    assert vt.create_model("captioner_micro", position="learned_1d").position.table.std().item() == pytest.approx(
        SINUSOID, rel=0.15
    )
    words = vt.create_model("bert_tiny").words
    assert (words.table.weight.std() * words.scale).item() == pytest.approx(1.0, rel=0.1)
