"""Categories of a data set meet classes of a network by name alone."""

from __future__ import annotations

import json

import pytest
from deform_models.errors import PackagingError
from deform_models.package.labels import labels_of, read_categories
from package_checkpoints import CATEGORIES, NAMES


def write(path, value):
    path.write_text(json.dumps(value))
    return path


def refusal(path, id2label=NAMES) -> str:
    with pytest.raises(PackagingError) as caught:
        labels_of(id2label, read_categories(path))
    return str(caught.value)


def ids(labels):
    return [(label["id"], label["category_id"], label["name"]) for label in labels]


def test_order_and_gaps_of_either_side_shift_nothing(tmp_path):
    path = write(tmp_path / "c.json", CATEGORIES)
    labels = labels_of(NAMES, read_categories(path))
    assert ids(labels) == [(0, 90, "disk"), (1, 3, "square"), (2, 70, "grass")]
    assert [label["is_thing"] for label in labels] == [True, True, False]
    assert [label["color"] for label in labels] == [[9, 8, 7], [1, 2, 3], [0, 255, 0]]


def test_gaps_in_a_91_way_head_shift_nothing(tmp_path):
    """COCO's ids 1 to 90 with gaps, the network's classes numbered the same way."""
    gaps = {0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
    id2label = {i: "N/A" if i in gaps else f"thing {i}" for i in range(91)}
    categories = [{"id": i, "name": f"thing {i}"} for i in range(91) if i not in gaps]
    path = write(tmp_path / "c.json", categories)
    labels = labels_of(id2label, read_categories(path))
    assert len(labels) == 80
    assert all(label["id"] == label["category_id"] for label in labels)
    assert all(label["name"] == f"thing {label['id']}" for label in labels)
    assert all(label["is_thing"] is None for label in labels)


def test_string_keys_sort_as_numbers():
    labels = labels_of({str(i): f"thing {i}" for i in range(12)}, None)  # as JSON has them
    assert [label["id"] for label in labels] == list(range(12))


def test_an_annotation_file_serves_as_categories(tmp_path):
    path = write(tmp_path / "c.json", {"images": [], "categories": CATEGORIES})
    assert len(read_categories(path)) == 3


def test_without_categories_a_class_stands_for_itself_and_placeholders_go():
    labels = labels_of({0: "N/A", 1: "person", 2: "LABEL_2", 3: "dog"}, None)
    assert ids(labels) == [(1, 1, "person"), (3, 3, "dog")]
    assert [label["is_thing"] for label in labels] == [None, None]
    assert labels[0]["color"] != labels[1]["color"]


def test_classes_that_were_never_named_are_kept():
    assert ids(labels_of({0: "LABEL_0", 1: "LABEL_1"}, None)) == [
        (0, 0, "LABEL_0"),
        (1, 1, "LABEL_1"),
    ]


def test_a_category_without_a_class_is_named(tmp_path):
    path = write(tmp_path / "c.json", [*CATEGORIES, {"id": 5, "name": "kite", "isthing": 1}])
    assert 'no class of the network is called "kite"' in refusal(path)


def test_a_class_without_a_category_is_named(tmp_path):
    path = write(tmp_path / "c.json", CATEGORIES[:2])
    assert 'no category is called "disk"' in refusal(path)


def test_names_that_differ_in_case_are_two_names(tmp_path):
    path = write(tmp_path / "c.json", [{**c, "name": c["name"].title()} for c in CATEGORIES])
    message = refusal(path)
    assert '"Disk"' in message and '"disk"' in message


def test_two_classes_of_one_name_are_refused(tmp_path):
    path = write(tmp_path / "c.json", CATEGORIES)
    assert '"disk" for 0 and 3' in refusal(path, {**NAMES, 3: "disk"})


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"name": "x"}, "[3].id"),
        ({"id": "4", "name": "x"}, "[3].id"),
        ({"id": True, "name": "x"}, "[3].id"),
        ({"id": -1, "name": "x"}, "[3].id"),
        ({"id": 4}, "[3].name"),
        ({"id": 4, "name": ""}, "[3].name"),
        ({"id": 4, "name": "x", "isthing": 2}, "[3].isthing"),
        ({"id": 4, "name": "x", "isthing": "yes"}, "[3].isthing"),
        ({"id": 4, "name": "x", "color": [0, 0]}, "[3].color"),
        ({"id": 4, "name": "x", "color": [0, 0, 256]}, "[3].color"),
        ({"id": 4, "name": "x"}, "isthing is missing for x"),
        ({"id": 3, "name": "x", "isthing": 1}, "id 3 is there twice"),
        ({"id": 4, "name": "disk", "isthing": 1}, "name disk is there twice"),
        ("x", "[3]: has to be an object"),
    ],
)
def test_a_broken_category_is_named_by_entry_and_field(tmp_path, entry, words):
    path = write(tmp_path / "c.json", [*CATEGORIES, entry])
    assert words in refusal(path)


@pytest.mark.parametrize("value", [[], {}, 3, {"categories": []}])
def test_no_categories_at_all_are_refused(tmp_path, value):
    assert "non-empty list" in refusal(write(tmp_path / "c.json", value))


def test_a_categories_file_that_cannot_be_read_is_refused(tmp_path):
    assert "can't be read" in refusal(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("[")
    assert "not JSON" in refusal(tmp_path / "bad.json")
