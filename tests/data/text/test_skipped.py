"""What was left out or cut, in words."""

from vitrail.data.text.skipped import Skipped


def test_what_is_cut_is_not_left_out():
    skipped = Skipped()
    assert (str(skipped), bool(skipped)) == ("", False)
    skipped.add("cut at 5 tokens", 2)
    assert str(skipped) == "2 cut at 5 tokens"
    skipped.add("with an empty line", 3)
    skipped.add("longer than 256 tokens", 1200)
    skipped.add("of no use", 0)
    assert str(skipped) == "1,203 left out: 1,200 longer than 256 tokens, 3 with an empty line; 2 cut at 5 tokens"
    assert (skipped.total, bool(skipped)) == (1205, True)
