"""Parallel text files: what is found, what is decided, what is refused."""

import gzip
from pathlib import Path

import pytest

from vitrail.data.text.parallel import Pairs, open_parallel
from vitrail.data.text.plain import open_lines
from vitrail.data.text.reading import read_lines
from vitrail.errors import VitrailError


def write(folder: Path, **files: str | bytes) -> Path:
    """`train_de="..."` is the file train.de; a third part, as in train_de_gz, is a suffix more."""
    for name, content in files.items():
        path = folder / name.replace("_", ".").replace("~", "_")
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return folder


def lines(count: int, word: str) -> str:
    return "".join(f"{word} {number}\n" for number in range(count))


def test_every_spelling_of_a_name_is_found_and_pairs_stay_together(tmp_path):
    write(
        tmp_path,
        training_de_gz=lines(30, "eins"),
        training_en_txt=lines(30, "one"),
        dev_de=lines(3, "zwei"),
        dev_en_txt_gz=lines(3, "two"),
    )
    write(
        tmp_path,
        **{
            "test~b_de": lines(5, "drei"),
            "test~b_en": lines(5, "three"),
            "test~a_de": lines(4, "vier"),
            "test~a_en": lines(4, "four"),
        },
    )
    write(
        tmp_path, **{"test~long~name_de": "x\n", "test~long~name_en": "x\n", "notes_md": "no data", "train_txt": "no language"}
    )
    data = open_parallel(str(tmp_path), "en", "de")
    assert (data.source, data.target) == ("en", "de")
    assert data["train"] == Pairs([f"one {i}" for i in range(30)], [f"eins {i}" for i in range(30)])
    assert data["val"].sources == ["two 0", "two 1", "two 2"]
    assert data["test"].sources[0] == "four 0"  # the shortest name, then the alphabet
    assert data.notes == ("test is test_a; not used: test_b, test_long_name",)
    assert not data.skipped


def test_an_exact_test_is_preferred(tmp_path):
    write(tmp_path, train_a1=lines(20, "a"))  # no language: it has a digit
    for language in ("aa", "bb"):
        write(
            tmp_path,
            **{f"train_{language}": lines(20, "a"), f"test_{language}": "the one\n", f"test1_{language}": "the other\n"},
        )
    assert open_parallel(str(tmp_path)).splits["test"].sources == ["the one"]


def test_missing_splits_come_from_train_by_seed_and_share_nothing(tmp_path):
    write(tmp_path, train_de=lines(50, "eins"), train_en=lines(50, "one"))
    data, again, other = (open_parallel(str(tmp_path), seed=seed) for seed in (3, 3, 4))
    assert [len(data[split]) for split in ("train", "val", "test")] == [41, 4, 5]  # 10 % of 50, then of 45
    together = sorted(data["train"].sources + data["val"].sources + data["test"].sources)
    assert together == sorted(f"eins {i}" for i in range(50))
    assert data.splits == again.splits
    assert data.splits != other.splits
    assert all(
        source.split()[1] == target.split()[1] for source, target in zip(data["val"].sources, data["val"].targets, strict=True)
    )
    assert "alphabetical" in data.notes[0]


def test_languages_must_be_clear(tmp_path):
    write(tmp_path, **{f"train_{language}": lines(20, language) for language in ("cs", "de", "en")})
    with pytest.raises(VitrailError, match=r"3 languages \(cs, de, en\): say --source and --target"):
        open_parallel(str(tmp_path))
    with pytest.raises(VitrailError, match=r"say --target$"):
        open_parallel(str(tmp_path), "de")
    with pytest.raises(VitrailError, match='unknown source language "dee": choose from cs, de, en; did you mean "de"'):
        open_parallel(str(tmp_path), "dee", "en")
    with pytest.raises(VitrailError, match='both "de"'):
        open_parallel(str(tmp_path), "de", "de")
    (tmp_path / "train.cs").unlink()
    assert open_parallel(str(tmp_path), target="de").source == "en"
    assert open_parallel(str(tmp_path), "en").target == "de"


def test_different_line_counts_name_both_files_and_numbers(tmp_path):
    write(tmp_path, train_de=lines(20, "eins"), train_en=lines(19, "one"))
    with pytest.raises(VitrailError, match=r"train\.de has 20 lines, train\.en has 19"):
        open_parallel(str(tmp_path))


def test_bytes_that_are_no_text_name_file_and_line(tmp_path):
    write(tmp_path, train_de=b"gut\nB\xfcsche\n", train_en="good\nbushes\n")
    with pytest.raises(VitrailError, match=r"train\.de: line 2 is not UTF-8 text \(byte 0xfc\)"):
        open_parallel(str(tmp_path))


def test_empty_lines_are_counted_and_left_out_on_both_sides(tmp_path):
    write(tmp_path, train_de="a\n\n \nb\nc\nd\n", train_en="A\nB\nC\n\nC\nD\n")
    data = open_parallel(str(tmp_path))
    pairs = [pair for split in data.splits.values() for pair in zip(split.sources, split.targets, strict=True)]
    assert sorted(pairs) == [("a", "A"), ("c", "C"), ("d", "D")]
    assert str(data.skipped) == "3 left out: 3 with an empty line"


@pytest.mark.parametrize("files, message", [
    ({}, "two languages, such as train.de and train.en; found none"),
    ({"train_de": "a\n"}, "found only de"),
    ({"train_de": "\n\n", "train_en": "a\nb\n"}, "not one pair"),
    ({"train_de": "", "train_en": ""}, "not one pair"),
    ({"train_de": "a\n", "train_en": "b\n"}, "too few pairs"),
    ({"train_de": "a\n", "training_en": "b\n"}, "must have the same name"),
])  # fmt: skip
def test_too_little_is_an_error_of_one_line(tmp_path, files, message):
    write(tmp_path, **files)
    with pytest.raises(VitrailError, match=message):
        open_parallel(str(tmp_path))


def test_no_folder_and_a_broken_archive(tmp_path):
    with pytest.raises(VitrailError, match='did you mean "reverse"'):
        open_parallel("revers")
    write(tmp_path, train_en=lines(20, "a"))
    (tmp_path / "train.de.gz").write_bytes(gzip.compress(lines(20, "b").encode())[:-9])
    with pytest.raises(VitrailError, match=r"train\.de\.gz: cannot be read"):
        open_parallel(str(tmp_path))


def test_only_a_line_feed_ends_a_line(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffone\u2028still one\r\ntwo\x85\x0bstill two\n\nfour".encode())
    assert read_lines(tmp_path / "a.txt") == ["one\u2028still one", "two\x85\x0bstill two", "", "four"]


def test_toys_follow_their_rule_and_share_no_sentence():
    for task, rule in {"copy": list, "reverse": lambda words: words[::-1]}.items():
        data = open_parallel(task)
        assert all(
            target.split() == rule(source.split())
            for source, target in zip(data["val"].sources, data["val"].targets, strict=True)
        )
    data = open_parallel("sort")
    assert data["train"].sources[0].split() != data["train"].targets[0].split()
    assert all(
        sorted(s.split()) == sorted(t.split()) for s, t in zip(data["train"].sources, data["train"].targets, strict=True)
    )
    assert not set(data["train"].sources) & set(data["test"].sources)
    assert not set(data["train"].sources) & set(data["val"].sources)


def test_plain_text_is_a_file_or_a_folder(tmp_path):
    (tmp_path / "all").mkdir()
    write(tmp_path, book_txt="a\n\n" + lines(40, "b"))
    data = open_lines(str(tmp_path / "book.txt"))
    assert [len(data[split]) for split in ("train", "val", "test")] == [33, 4, 4]
    assert data["train"] + data["val"] + data["test"] == ["a", *(f"b {i}" for i in range(40))]  # cut at the end, once
    assert str(data.skipped) == "1 left out: 1 empty lines"
    write(tmp_path / "all", wiki_train_txt_gz="one\n", wiki_valid_txt="two\n", wiki_test_txt="three\n", readme_txt="four\n")
    data = open_lines(str(tmp_path / "all"))
    assert data.splits == {"train": ["one"], "val": ["two"], "test": ["three"]}
    assert data.notes == ("not used, no split in the name: readme.txt",)
    (tmp_path / "none").mkdir()
    with pytest.raises(VitrailError, match=r"no text files in it \(\.txt, \.tokens, \.gz\)"):
        open_lines(str(tmp_path / "none"))
    with pytest.raises(VitrailError, match='no data at "nowhere"'):
        open_lines("nowhere")


def test_what_is_named_test_is_never_learned_from(tmp_path):
    write(tmp_path, a_txt=lines(20, "a"), b_txt=lines(5, "b"), valid_txt=lines(3, "v"), test_txt=lines(4, "t"))
    data = open_lines(str(tmp_path))
    assert {name: len(found) for name, found in data.splits.items()} == {"train": 25, "val": 3, "test": 4}
    assert data["test"] == [f"t {i}" for i in range(4)]
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).unlink()
    with pytest.raises(VitrailError, match="not one line of text to learn from: all of it is val or test"):
        open_lines(str(tmp_path))


def test_of_a_text_and_its_archive_one_is_read_and_wikitext_is_text(tmp_path):
    write(tmp_path, train_txt=lines(20, "a"), train_txt_gz=lines(20, "a"), test_gz="t\n", wiki_valid_tokens="v\n")
    data = open_lines(str(tmp_path))
    assert {name: len(found) for name, found in data.splits.items()} == {"train": 20, "val": 1, "test": 1}


def test_text_that_is_not_divided_is_the_splits_that_are_there_or_all_test(tmp_path):
    for folder in ("named", "other", "pairs", "corpus"):
        (tmp_path / folder).mkdir()
    write(tmp_path / "named", test_txt=lines(4, "t"), train_txt=lines(9, "a"))
    write(tmp_path / "other", b_txt=lines(3, "b"), a_txt=lines(2, "a"))
    named = open_lines(str(tmp_path / "named"), divide=False)
    assert {name: len(found) for name, found in named.splits.items()} == {"train": 9, "test": 4}
    with pytest.raises(VitrailError, match="named: has no val split, only train and test"):
        named["val"]
    assert open_lines(str(tmp_path / "other"), divide=False).splits == {"test": ["a 0", "a 1", "b 0", "b 1", "b 2"]}
    assert len(open_lines(str(tmp_path / "named" / "train.txt"), divide=False)["test"]) == 9
    write(tmp_path / "pairs", test_de=lines(4, "t"), test_en=lines(4, "t"), notes_fr="x\n")
    assert {name: len(found) for name, found in open_parallel(str(tmp_path / "pairs"), divide=False).splits.items()} == {
        "test": 4
    }
    with pytest.raises(VitrailError, match="training text in two languages"):
        open_parallel(str(tmp_path / "pairs"))
    write(tmp_path / "corpus", news_de=lines(5, "t"), news_en=lines(5, "t"), setup_yaml="x\n")
    found = open_parallel(str(tmp_path / "corpus"), "en", "de", divide=False)
    assert (found.source, list(found.splits), len(found["test"])) == ("en", ["test"], 5)
    with pytest.raises(VitrailError, match="has no train split, only test"):
        found["train"]


def test_a_built_in_set_has_its_own_languages():
    with pytest.raises(VitrailError, match='--source de: the built-in set "copy" is from words to copy_words'):
        open_parallel("copy", "de")
    with pytest.raises(VitrailError, match="--target en"):
        open_parallel("copy", None, "en")
    data = open_parallel("copy")
    assert open_parallel("copy", data.source, data.target).splits == data.splits  # as a stored run says it
