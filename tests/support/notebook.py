"""The guide's page on Python as a notebook: ``python tests/support/notebook.py`` writes it again after a change."""

import json
import re
from pathlib import Path
from typing import Any

from pages import GUIDE

_KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
NOTEBOOK = Path(__file__).parents[2] / "fixtures" / "notebook" / "python.ipynb"


def notebook_of_page() -> dict[str, Any]:
    """A cell of code for each block of Python, and one of text for what is between them."""
    cells: list[dict[str, Any]] = []
    for number, text in enumerate(
        re.split(r"^```(?:python\n)?", (GUIDE / "python.md").read_text(), flags=re.MULTILINE)
    ):
        code = {"cell_type": "code", "execution_count": None, "outputs": []}
        common = {"id": f"cell-{number}", "metadata": {}, "source": text.strip().splitlines(keepends=True)}
        cells.append({**(code if number % 2 else {"cell_type": "markdown"}), **common})
    return {"cells": cells, "metadata": _KERNEL, "nbformat": 4, "nbformat_minor": 5}


if __name__ == "__main__":
    NOTEBOOK.write_text(json.dumps(notebook_of_page(), indent=1, ensure_ascii=False) + "\n")
