"""tools/lines.py: folders keep to their budgets and give up what they do not need, and functions are short."""

import lines
import pytest

LIST = """
# a comment
300 nnvk/
1000 nnvk/importers/
"""
FILES = [("nnvk/a.py", 250), ("nnvk/importers/b.py", 900), ("nnvk/importers/onnx/c.py", 90), ("nnvkx.py", 7)]


def test_a_file_counts_in_the_innermost_folder():
    assert lines.lines_by_folder(FILES, lines.read_budgets(LIST)) == {"nnvk/": 250, "nnvk/importers/": 990}


def test_folders_within_their_budgets():
    assert not lines.complaints({"a/": 300, "b/": 1000}, {"a/": 300, "b/": 1000 - lines.SPARE})


def test_what_is_not_within():
    over, under, gone = lines.complaints({"a/": 300, "b/": 1000, "c/": 500}, {"a/": 301, "b/": 999 - lines.SPARE})
    assert over == "a/ has 301 lines, and scripts/lines.txt allows 300: remove some, or raise it"
    assert under == "b/ has 899 lines, and scripts/lines.txt allows 1000: lower it"
    assert gone == "c/ has 0 lines, and scripts/lines.txt allows 500: lower it"


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_functions_that_are_too_long(keyword):
    signature = f"class Some:\n    {keyword} short(self):\n"
    fitting = signature + "        pass\n" * (lines.MOST_OF_FUNCTION - 1)
    assert not lines.long_functions("a.py", fitting)
    (found,) = lines.long_functions("a.py", fitting + "        pass\n")
    assert found == "a.py:2: short has 61 lines, at most 60 are allowed: divide it"


@pytest.mark.parametrize("line", ["nnvk/ 300", "300 nnvk", "x nnvk/", "300", "300 nnvk/\n300 nnvk/"])
def test_lines_of_another_form(line):
    with pytest.raises(ValueError, match="of the budgets must be"):
        lines.read_budgets(line)


def test_the_budgets_of_the_project_can_be_read():
    assert all((lines.ROOT / folder).is_dir() for folder in lines.read_budgets(lines.BUDGETS.read_text()))
