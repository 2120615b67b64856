"""Columns of shared files that a hidden file has too: which of them are answers."""

from pathlib import Path

import pytest

from goalseek.workspace.answers import find_answer_columns

ROWS = "0 1 1 0 1 0 0 1 1".split()


def rows_of(*columns: str, header: str = "", by: str = ",", count: int = 9) -> str:
    """Rows of these columns, in which ``*`` is the answer and ``#`` the row's number; ``0`` is the same throughout."""
    special = [{"*": row, "#": str(number), "0": "0"} for number, row in enumerate(ROWS[:count])]
    lines = [by.join(row.get(one, f"{one}{row['#']}") for one in columns) for row in special]
    return "\n".join([header] * bool(header) + lines) + "\n"


@pytest.mark.parametrize(
    ("shared", "hidden", "names"),
    [
        (rows_of("a", "*", header="x,label"), rows_of("*", header="label"), ["label"]),
        (rows_of("a", "*", header="x;kind", by=";"), rows_of("*"), ["kind"]),
        (rows_of("a", "*", by="\t"), rows_of("#", "*", header="id,label"), ["2"]),
        (rows_of("#", "*", "a", header="id,y,x"), rows_of("#", "*", header="id,y"), ["y"]),
        (rows_of("#", "*", "a", header="id,y,x"), rows_of("#", "*", "b", header="id,y,w"), []),
        (rows_of("#", "a", "b", header="id,x,z"), rows_of("#", "a", "*", header="id,x,label"), []),
        (rows_of("a", "0", header="x,label"), rows_of("*", header="label"), []),
        (rows_of("a", "0", header="x,label"), rows_of("0", header="label"), []),
        (rows_of("a", "*", header="x,label", count=7), rows_of("*", count=7), []),
        (rows_of("a", "*", header="x,label", count=8), rows_of("*"), []),
        ("x,label\n1\n", rows_of("*"), []),
        ("\0" * 99, rows_of("*"), []),
        ("", "", []),
    ],
)
def test_answers_are_columns_by_their_values(tmp_path: Path, shared: str, hidden: str, names: list[str]) -> None:
    files = {name: tmp_path / name for name in ("test.csv", "hidden.csv", "none.csv")}
    files["test.csv"].write_text(shared)
    files["hidden.csv"].write_text(hidden)
    known = {name: file for name, file in files.items() if name != "test.csv"}
    found = list(find_answer_columns({name: files[name] for name in ("test.csv", "none.csv")}, known))
    assert [column.name for column in found] == names
    assert all((column.path, column.hidden, column.is_whole) == ("test.csv", "hidden.csv", False) for column in found)


def test_a_file_whose_columns_are_all_hidden_is_named_as_a_whole(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("a.csv", "b.csv")}
    files["a.csv"].write_text(rows_of("#", "*", header="id,label"))
    files["b.csv"].write_text(rows_of("#", "*", header="id;label", by=";"))
    (column,) = find_answer_columns({"a.csv": files["a.csv"]}, {"b.csv": files["b.csv"]})
    assert column.is_whole and column.name == "label"
