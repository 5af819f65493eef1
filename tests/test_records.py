"""Frozen dataclasses survive JSON, and what does not fit is refused by name."""

import json
import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrail.errors import VitrailError
from vitrail.models.catalogue import MODELS, build_model, model_config
from vitrail.models.vit import ViTConfig
from vitrail.preprocessing import Preprocessing, neutral
from vitrail.records import from_record, to_record


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One field of every kind that a config may have."""

    count: int
    share: float = 0.5
    word: str = "x"
    on: bool = False
    choice: Literal["a", "b", 3] = "a"
    pair: tuple[int, int] = (1, 2)
    many: tuple[float, ...] = ()
    maybe: int | None = None
    auto: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        if self.count < 0:
            raise VitrailError(f"count cannot be negative, got {self.count}")


def there_and_back(value):
    return from_record(type(value), json.loads(json.dumps(to_record(value), allow_nan=False)), what="here")


def refusal(record, kind=Sample):
    with pytest.raises(VitrailError) as caught:
        from_record(kind, record, what="a file")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("a file: ")
    return message.removeprefix("a file: ")


@pytest.mark.parametrize("name", MODELS)
def test_every_preset_survives_json(name):
    config = MODELS[name][1]
    again = there_and_back(config)
    assert again == config
    assert hash(again) == hash(config), "lists would not have one"
    assert [type(getattr(again, f.name)) for f in fields(config)] == [type(getattr(config, f.name)) for f in fields(config)]


def test_configs_are_frozen_keyword_only_and_slotted():
    for kind in (ViTConfig, Preprocessing, *{type(config) for _, config in MODELS.values()}):
        assert is_dataclass(kind)
        assert kind.__dataclass_params__.frozen
        assert all(field.kw_only for field in fields(kind))
        assert "__slots__" in vars(kind)


def test_a_resolved_config_survives_json_and_builds_the_same():
    architecture, config = model_config("vit_nano_conv", width=12, depth=1, heads=3, image_size=(10, 14), layer_scale=0.1)
    resolved = build_model(architecture, config).config
    assert resolved.patch == 2
    assert there_and_back(resolved) == resolved
    assert build_model(architecture, there_and_back(resolved)).config == resolved


# Every float that may stand in a file; a deviation must be above 0.
FINITE = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False)


@given(
    channels=st.sampled_from([1, 3]),
    size=st.tuples(st.integers(1), st.integers(1)),
    mean=st.tuples(FINITE, FINITE, FINITE),
    std=st.tuples(POSITIVE, POSITIVE, POSITIVE),
    fit=st.sampled_from(["crop", "squash"]),
    interpolation=st.sampled_from(["nearest", "bilinear", "bicubic"]),
)
def test_every_preprocessing_survives_json(channels, mean, std, **others):
    preprocessing = Preprocessing(channels=channels, mean=mean[:channels], std=std[:channels], **others)
    again = there_and_back(preprocessing)
    assert again == preprocessing
    assert hash(again) == hash(preprocessing)


@given(
    st.builds(
        Sample, count=st.integers(0), share=FINITE, word=st.text(), on=st.booleans(), choice=st.sampled_from(["a", "b", 3]),
        pair=st.tuples(st.integers(), st.integers()), many=st.lists(FINITE).map(tuple), maybe=st.none() | st.integers(),
        auto=st.just("auto") | FINITE,
    )
)  # fmt: skip
def test_every_kind_of_field_survives_json(sample):
    assert there_and_back(sample) == sample


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([field.name for field in fields(Sample)]), JSON))
def test_any_json_gives_a_sample_of_the_right_types_or_one_line(record):
    try:
        sample = from_record(Sample, record, what="a file")
    except VitrailError as error:
        assert str(error).startswith("a file: ")  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert type(sample.count) is int
        assert type(sample.share) is float
        assert type(sample.on) is bool
        assert type(sample.pair) is tuple


def test_defaults_fill_in_and_lists_become_tuples():
    sample = from_record(Sample, {"count": 3, "pair": [4, 5], "many": [1, 2.5], "share": 2}, what="here")
    assert sample == Sample(count=3, pair=(4, 5), many=(1.0, 2.5), share=2.0)
    assert type(sample.share) is type(sample.many[0]) is float
    assert to_record(sample)["pair"] == [4, 5]


def test_unknown_keys_are_refused_with_the_nearest_name():
    assert refusal({"count": 1, "shair": 2}) == 'unknown key "shair"; did you mean "share"?'
    assert refusal({"count": 1, "zzzzzz": 2}) == 'unknown key "zzzzzz"'
    assert refusal({"count": 1, "two\nlines": 2}).startswith('unknown key "two lines"')
    assert refusal({"count": 1, 7: 2}) == 'unknown key "7"'
    assert refusal({"size": [8, 8], "means": [0.5]}, Preprocessing) == 'unknown key "means"; did you mean "mean"?'


def test_missing_keys_are_named():
    assert refusal({}) == 'the key "count" is missing'
    assert refusal({}, Preprocessing) == 'the key "size" is missing'


@pytest.mark.parametrize("record", [None, [], "count", 3])
def test_what_is_no_table(record):
    assert refusal(record) == f"expected a table of options, got {type(record).__name__}"


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("count", "3", "int, got '3'"),
        ("count", 3.0, "int, got 3.0"),
        ("count", True, "int, got True"),
        ("count", None, "int, got None"),
        ("share", "0.5", "float, got '0.5'"),
        ("share", False, "float, got False"),
        ("share", [0.5], "float, got [0.5]"),
        ("word", 3, "str, got 3"),
        ("on", 1, "bool, got 1"),
        ("on", "true", "bool, got 'true'"),
        ("choice", "c", "'a', 'b', 3, got 'c'"),
        ("choice", 3.0, "'a', 'b', 3, got 3.0"),
        ("choice", ["a"], "'a', 'b', 3, got ['a']"),
        ("pair", [1], "tuple[int, int], got [1]"),
        ("pair", [1, 2, 3], "tuple[int, int], got [1, 2, 3]"),
        ("pair", [1, 2.5], "int, got 2.5"),
        ("pair", "12", "tuple[int, int], got '12'"),
        ("many", 1.5, "a list of float, got 1.5"),
        ("many", [1.5, None], "float, got None"),
        ("maybe", "none", "int | null, got 'none'"),
        ("auto", "automatic", "float | 'auto', got 'automatic'"),
        ("word", {"a\nb": 1}, "str, got {'a\\nb': 1}"),
    ],
)
def test_types_are_checked(field, value, expected):
    assert refusal({"count": 1, field: value}) == f"{field}: expected {expected}"


def test_a_number_larger_than_every_float():
    assert refusal({"count": 1, "share": 10**400}).startswith("share: expected float, got 1000")
    assert from_record(Sample, {"count": 10**400}, what="here").count == 10**400


def test_a_rule_between_fields_names_the_source_too():
    assert refusal({"count": -1}) == "count cannot be negative, got -1"
    found = refusal({"size": [8, 8], "channels": 1}, Preprocessing)
    assert found == "mean and std need 1 numbers each, got (0.5, 0.5, 0.5) and (0.5, 0.5, 0.5)"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_have(value):
    """json.loads reads them all the same; an image must not be divided by them."""
    record = json.loads(json.dumps({"size": [8, 8], "channels": 1, "mean": [value], "std": [0.5]}))
    assert refusal(record, Preprocessing).startswith("mean and std must be finite numbers")


@pytest.mark.parametrize("channels", [1, 3])
def test_neutral_survives_json(channels):
    assert there_and_back(neutral((8, 12), channels)) == neutral((8, 12), channels)
