# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Errors of the check of includes, in small trees of `top` above `middle` above `low`."""

import pytest
from vrdmalayers.table import BEGIN, END

ROWS = (
    "| `top/` | the program | `middle/` |",
    "| `middle/` | its objects | `low/` |",
    "| `low/` | types | nobody |",
)  # fmt: skip
FILES = {
    "top/main.c": '#include "middle/object.h"',
    "middle/object.h": '#include "low/type.h"\n#include <stdio.h>',
    "low/type.h": "",
}


@pytest.fixture
def found(check):
    """Checks the tree above, with other files in addition to its own or instead, or with another table."""

    def run(files: dict[str, str] | None = None, rows: tuple[str, ...] = ROWS) -> list[str]:
        page = "\n".join(["# A page", BEGIN, *rows, END, "| `elsewhere/` | another table | `nowhere/` |"])
        return check({**FILES, **(files or {}), "ARCHITECTURE.md": page})

    return run


def test_a_clean_tree_passes(found):
    assert found() == []


def test_an_upward_include_is_refused(found):
    assert "low/type.c:2: low/ may not know top/" in found({"low/type.c": '\n#include "top/main.h"', "top/main.h": ""})


def test_an_include_past_a_layer_is_refused(found):
    """`top` may include `middle`, but not therefore the layers that `middle` may include."""
    assert found({"top/more.c": '#include "low/type.h"'}) == ["top/more.c:1: top/ may not know low/"]


def test_a_relative_include_is_found(found):
    assert found({"top/more.c": '#include "../low/type.h"'}) == ["top/more.c:1: top/ may not know low/"]


def test_an_unknown_folder_is_refused(found):
    assert found({"new/a.c": ""}) == ["new/a.c: ARCHITECTURE.md has no row for new/"]


def test_a_folder_in_a_known_one_is_unknown(found):
    assert found({"low/inner/a.c": ""}) == ["low/inner/a.c: ARCHITECTURE.md has no row for low/inner/"]


def test_an_include_that_names_no_file_is_refused(found):
    """Otherwise a search path that is unknown to the check would hide the included file."""
    assert found({"low/type.c": '#include "hidden.h"'}) == ["low/type.c:1: hidden.h is no file of the project"]


def test_a_circle_is_refused(found):
    problems = found({"low/type.h": '#include "middle/object.h"'})
    assert problems == ["low/type.h:1: low/ may not know middle/", "a circle: low/, middle/"]


def test_a_circle_in_the_table_is_refused(found):
    problems = found(rows=(*ROWS[:2], "| `low/` | types | `top/` |"))
    assert "ARCHITECTURE.md:5: low/ may know only rows below it, and top/ is none" in problems


def test_a_permission_for_nobody_is_refused(found):
    problems = found(rows=(*ROWS[:2], "| `low/` | types | `lower/` |"))
    assert "ARCHITECTURE.md:5: low/ may know only rows below it, and lower/ is none" in problems


def test_an_unused_permission_is_reported(found):
    problems = found(rows=("| `top/` | the program | `middle/`, `low/` |", *ROWS[1:]))
    assert problems == ["ARCHITECTURE.md:3: top/ includes nothing of low/"]


def test_a_row_without_sources_is_reported(found):
    assert found(rows=(*ROWS, "| `gone/` | what was moved | nobody |")) == ["ARCHITECTURE.md:6: gone/ has no sources"]


def test_a_pattern_without_a_file_is_reported(found):
    rows = (*ROWS[:2], "| `low/{type,gone}.*` | types | nobody |")
    assert "ARCHITECTURE.md:5: low/gone.* has no sources" in found(rows=rows)


KNOT = ("| `top/` | the program | `middle/` |", "| `middle/`, `low/` | they are a circle | nobody |")


def test_a_circle_of_one_row_passes(found):
    assert found({"low/type.h": '#include "middle/object.h"'}, KNOT) == []


def test_a_circle_that_is_gone_is_reported(found):
    assert found(rows=KNOT) == ["ARCHITECTURE.md:4: low/, middle/ are no circle"]


def test_files_can_have_a_row(found):
    """The row of `low/type.*` is below that of the rest of its folder."""
    rows = (*ROWS[:1], "| `middle/` | its objects | `low/type.h` |", "| `low/` | more | `low/type.h` |",
            "| `low/{type,other}.*` | types | nobody |")  # fmt: skip
    assert found({"low/more.c": '#include "type.h"', "low/other.h": ""}, rows) == []
    assert found({"low/other.h": '#include "more.h"', "low/more.h": ""}, rows) == [
        "low/other.h:1: low/other.h may not know low/", "a circle: low/, low/{type,other}.*"]  # fmt: skip


def test_tests_may_know_what_they_test_and_helpers(found):
    assert found({
        "middle/tests/object_test.c": '#include "object.h"\n#include "low/type.h"\n#include "low/tests/helper.h"',
        "low/tests/helper.h": "",
    }) == []  # fmt: skip


def test_tests_may_know_nothing_above_what_they_test(found):
    problems = found({"middle/tests/object_test.c": '#include "top/main.h"', "top/main.h": ""})
    assert problems == ["middle/tests/object_test.c:1: middle/tests/ may not know top/"]


def test_nobody_else_may_know_tests(found):
    problems = found({"middle/object.c": '#include "low/tests/helper.h"', "low/tests/helper.h": ""})
    assert problems == ["middle/object.c:1: middle/ may not know low/tests/"]


def test_a_template_is_included_as_what_is_made_of_it(found):
    assert found({"low/version.h.in": "", "low/type.c": '#include "low/version.h"'}) == []
