"""CSV and JSONL lists: what they may look like, what breaks a rule in which line, and that writing one is read back."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vitrail.data.formats.lists import ListRow, open_list, read_list, write_list


def opened(put, text, name="list.csv"):
    for number in range(4):
        put(f"pics/{number}.png")
    return open_list(put(name, text))


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_delimiters_line_ends_and_byte_order_marks(put, mark, end, start):
    rows = [
        ["File", " Label ", "more"],
        ["pics/0.png", "dog", "x"],
        ['"pics/1.png"', '"a, cat; one"', ""],
        [],
        ["pics/2.png", "dog", ""],
    ]
    data = opened(put, start + end.join(mark.join(row) for row in rows))
    assert data.classes == ("a, cat; one", "dog")
    assert data["train"].labels.tolist() == [1, 0, 1]
    assert data["train"].read(2).size == (6, 4)
    assert not data.multi_label


def test_numbers_sort_as_numbers_and_keep_their_text(put):
    data = opened(put, "path,label\npics/0.png,10\npics/1.png,9\npics/2.png,-1\npics/3.png,010\n")
    assert data.classes == ("-1", "9", "010", "10")
    assert opened(put, "path,label\npics/0.png,10\npics/1.png,9\npics/2.png,x\n").classes == ("10", "9", "x")


def test_splits_by_any_of_their_names(put):
    data = opened(put, "image,class,split\npics/0.png,a,training\npics/1.png,b,TRAIN\npics/2.png,b,eval\npics/3.png,a,test\n")
    assert {name: split.labels.tolist() for name, split in data.splits.items()} == {"train": [0, 1], "val": [1], "test": [0]}


@pytest.mark.parametrize("mark", "|;")
def test_several_labels_in_csv(put, mark):
    data = opened(put, f"path,labels\npics/0.png,b{mark} a\npics/1.png,\npics/2.png,c\n")
    assert data.multi_label
    assert data.classes == ("a", "b", "c")
    assert data["train"].labels.tolist() == [[True, True, False], [False] * 3, [False, False, True]]


def test_jsonl(put):
    lines = [{"file": "pics/0.png", "labels": ["b", 3]}, {"image": "pics/1.png", "labels": []}]
    data = opened(put, "\n\n".join(map(json.dumps, lines)), "list.jsonl")
    assert data.classes == ("3", "b")
    assert data["train"].labels.tolist() == [[True, True], [False, False]]
    single = opened(put, '{"path": "pics/0.png", "label": 2}\r\n{"path": "pics/1.png", "label": "10"}\n', "list.jsonl")
    assert single.classes == ("2", "10")


def test_paths_may_be_absolute_or_lead_upward(put, tmp_path):
    put("a.png")
    data = open_list(put("lists/x.csv", f"path,label\n../a.png,u\n{tmp_path}/a.png,v\n".replace("v", "u")))
    assert [data["train"].read(i).size for i in range(2)] == [(6, 4)] * 2


@pytest.mark.parametrize(
    "text, line",
    [
        ("", "its first line must name the columns: one of path, image"),
        ("name,label\npics/0.png,a\n", "found name, label"),
        ("path,label\n", "lists no images"),
        ("path,label\npics/0.png,a\n\npics/1.png\n", "line 4: 1 cells, the header has 2; quote a cell that holds ','"),
        ("path,label\npics/0.png,a,b\n", "line 2: 3 cells"),
        ("path,label\npics/0.png,\n", "line 2: a label is a name or a whole number, got ''"),
        ("path,label\n,a\n", "line 2: no path"),
        ("path,path,label\na,b,c\n", "two columns have the name path"),
        ("path,label,split\npics/0.png,a,holdout\n", 'line 2: unknown split "holdout": choose from train, val, test'),
        ("path,label,split\npics/0.png,a,test\n", "has test, but no train split"),
        ("path,label,split\npics/0.png,a,train\npics/1.png,b,val\n", 'line 3: the class "b" is in val but not in train'),
        (
            "path,label\npics/0.png,a\n./pics/0.png,b\n",
            'line 3: ".*0.png" has another label in line 2; keep one, or list its labels',
        ),
        ("path,label,labels\npics/0.png,a,b\n", "line 2: both one label and labels are there"),
        ("path,labels\npics/0.png,\n", "no image of train has a label"),
        ('path,label\npics/0.png,"a\n', "line 2: unexpected end of data"),
    ],
)
def test_what_breaks_a_rule_is_reported_with_its_line(put, text, line):
    with pytest.raises(ValueError, match=line.replace("|", r"\|")):
        opened(put, text)


@pytest.mark.parametrize(
    "text, line",
    [
        (
            '{"path": "pics/0.png", "label": "a"}\n{"path": "pics/1.png", "labels": ["a"]}',
            "line 2: one label and several are mixed",
        ),
        ('{"path": "pics/0.png", "label": ["a"]}', "line 1: a list of labels belongs under labels"),
        ('{"path": "pics/0.png", "label": true}', "a label is a name or a whole number, got True"),
        ('{"path": "pics/0.png", "labels": "x", "label": "x"}', "both one label and labels"),
        ('["pics/0.png"]', "line 1: expected a table"),
        ("[" * 100_000, "line 1: not readable JSON"),
        ('{"path": "p", "label": ' + "9" * 5000 + "}", "line 1: not readable JSON"),
        ('{"path": "\\u0000", "label": 1}', "a path that no file can have"),
        ('{"path": "\\ud800", "label": 1}', "a path that no file can have"),
    ],
)
def test_what_breaks_a_rule_in_jsonl(put, text, line):
    with pytest.raises(ValueError, match=line):
        opened(put, text, "list.jsonl")


def test_one_missing_image_is_left_to_reading_but_all_missing_is_reported(put, tmp_path, refusal):
    data = opened(put, "path,label\nnowhere.png,a\npics/1.png,b\n")
    assert refusal(data["train"].read, 0).endswith("nowhere.png: no such file")
    assert refusal(opened, put, "path,label\nx/0.png,a\nx/1.png,b\n") == (
        f'{tmp_path}/list.csv: none of its first 2 images is there: no file "{tmp_path}/x/0.png"'
    )


def test_text_that_is_not_utf_8(put, refusal):
    assert "not UTF-8 text (byte 11)" in refusal(open_list, put("list.csv", b"path,label\n\xe9.png,a\n"))


def test_a_written_list_names_images_below_it_from_there(tmp_path):
    rows = [
        ListRow(path=tmp_path / "a" / "0.png", label="x, y", split="val"),
        ListRow(path=tmp_path.parent / "b.png", label="z"),
    ]
    write_list(tmp_path / "list.csv", rows)
    assert (tmp_path / "list.csv").read_text() == f'path,label,split\na/0.png,"x, y",val\n{tmp_path.parent}/b.png,z,train\n'


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="|;/\0"), min_size=1, max_size=8).map(
    lambda text: " ".join(text.split())
).filter(lambda text: text.strip() and text not in (".", ".."))  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(names, min_size=1, max_size=5, unique=True),
    labels=st.lists(st.sets(names, max_size=3), min_size=5, max_size=5),
    several=st.booleans(),
)
def test_what_is_written_is_read_back(tmp_path, files, labels, several):
    rows = [
        ListRow(path=tmp_path / file, label=tuple(sorted(found)) if several else min(found, default="none"))
        for file, found in zip(files, labels, strict=False)
    ]
    write_list(tmp_path / "list.csv", rows)
    assert [(row.path, row.label, row.split) for row in read_list(tmp_path / "list.csv")] == [
        (row.path, row.label, row.split) for row in rows
    ]


@pytest.mark.parametrize("label", ["a|b", "a;b"])
def test_labels_that_a_list_of_several_cannot_hold(tmp_path, refusal, label):
    assert "cannot stand in a list of several" in refusal(
        write_list, tmp_path / "l.csv", [ListRow(path=tmp_path, label=(label,))]
    )


def test_broken_lists_are_refused_in_one_line(put, fuzz):
    put("pics/0.png")
    good = put(
        "list.csv", 'path,labels,split\npics/0.png,"a|b",train\npics/1.png,,val\n"pics/2.png",c,\n'.replace("c,", "a,train")
    )
    assert 50 < fuzz(good, lambda: open_list(good), rounds=400, words=(b'"', b"\0", b"\r", b",", b"\xff", b"split")) < 400
    good = put(
        "list.jsonl", '{"path": "pics/0.png", "labels": ["a", 3]}\n{"file": "pics/1.png", "labels": [], "split": "val"}\n'
    )
    words = (b"[" * 3000, b"1e999", b"null", b"{}", b"-1", b'"labels"', b"NaN", b"9" * 5000)
    assert 50 < fuzz(good, lambda: open_list(good), rounds=400, words=words) < 400


def test_labels_are_known_without_reading_images(put):
    data = opened(put, "path,label\n" + "".join(f"pics/{n % 4}.png,{n % 4}\n" for n in range(1000)))
    assert np.bincount(data["train"].labels).tolist() == [250] * 4
