"""tools/terms.py: words that are gone are found by file and line, where the list says so."""

import pytest
import terms

LIST = """
# a comment
fours | vec4
=ways | candidates | nnvk/ shaders/a.comp
time, unit: step | level | nnvk/
"""


def found(path: str, text: str) -> list[str]:
    return list(terms.uses(terms.read_terms(LIST), path, text))


def test_parts_of_identifiers_are_found():
    assert found("docs/a.md", "vec4\nwhole_fours(x)\nfourier") == ["docs/a.md:2: 'fours' is now 'vec4'"]


def test_whole_identifiers_only():
    assert found("nnvk/a.py", "ways, always, all_ways") == ["nnvk/a.py:1: 'ways' is now 'candidates'"]
    assert not found("nnvk/a.py", "always, all_ways")


def test_words_that_need_a_qualifier():
    text = "time step, Time\n# step time_step unit step range.step steps\na step\n\nstep_of(x, sometime step)"
    assert found("nnvk/a.py", text) == [f"nnvk/a.py:{line}: 'step' is now 'level'" for line in (3, 5)]


def test_paths():
    assert found("shaders/a.comp", "ways") and found("nnvk/x/y.py", "ways")
    assert not found("shaders/ab.comp", "ways") and not found("tests/a.py", "ways")


@pytest.mark.parametrize("line", ["fours", "| vec4", "a | b | c | d", "time: | vec4", ": step | vec4"])
def test_lines_of_another_form(line):
    with pytest.raises(ValueError, match="line 1"):
        terms.read_terms(line)


def test_the_list_of_the_project_can_be_read():
    found = terms.read_terms(terms.LIST.read_text(encoding="utf-8"))
    assert len({(term.word, term.paths) for term in found}) == len(found) > 20
    for term in found:
        for path in term.paths:
            assert path.split("/")[0] in ("nnvk", "shaders", "tests", "tools"), term
