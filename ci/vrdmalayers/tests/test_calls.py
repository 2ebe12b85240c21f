# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Errors of the check of a header's order, in a driver of two verbs above a queue."""

import pytest
from vrdmalayers.table import BEGIN, END

HEADER = """/*
 * Layers, each of which calls only itself and
 * those below it:
 *
 *	qp, cq		the verbs
 *	queue		what they write to
 *
 * {}
 */
"""
FILES = {
    "ARCHITECTURE.md": f"{BEGIN}\n| `driver/` | a driver | nobody |\n{END}\n",
    "driver/qp.c": "int create_qp(void)\n{\n\treturn push() + create_cq();\n}\n",
    "driver/cq.c": "int create_cq(void)\n{\n\treturn push();\n}\n",
    "driver/queue.c": "int push(void)\n{\n\treturn 0;\n}\n",
}
UPWARD = "int push(void)\n{\n\treturn create_cq();\n}\n"


@pytest.fixture
def found(check):
    """Checks the driver, with other files in addition to its own or instead. Its header ends with a remark."""

    def run(files: dict[str, str] | None = None, remark: str = "That is all.", header: str = HEADER) -> list[str]:
        return check({**FILES, "driver/driver.h": header.format(remark), **(files or {})})

    return run


def test_calls_downwards_and_in_a_layer_pass(found):
    assert found() == []


def test_an_upward_call_is_refused(found):
    assert found({"driver/queue.c": UPWARD}) == [
        "driver/driver.h: driver/queue.c may not call create_cq() of driver/cq.c"]


def test_an_upward_call_that_the_comment_names_passes(found):
    assert found({"driver/queue.c": UPWARD}, "A full queue is made anew: create_cq().") == []


def test_a_named_function_that_nothing_calls_upwards_is_reported(found):
    assert found(remark="A full queue is made anew: create_cq().") == [
        "driver/driver.h: nothing calls create_cq() upwards"]


def test_an_upward_use_of_a_table_is_refused(found):
    assert found({
        "driver/cq.c": "const struct ops cq_ops = {\n};\n",
        "driver/qp.c": "",
        "driver/queue.c": "int push(void)\n{\n\treturn cq_ops.count;\n}\n",
    }) == ["driver/driver.h: driver/queue.c may not call cq_ops() of driver/cq.c"]  # fmt: skip


def test_comments_and_strings_call_nothing(found):
    assert found({"driver/queue.c": 'int push(void)\n{\n\treturn log("create_cq"); /* create_cq() */\n}\n'}) == []


def test_a_file_in_no_layer_is_reported(found):
    assert found({"driver/mr.c": ""}) == ["driver/driver.h: driver/mr.c is in no layer"]


def test_a_layer_without_a_file_is_reported(found):
    header = HEADER.replace("queue\t", "queue, ring\t")
    assert found(header=header) == ["driver/driver.h: ring is no file"]


def test_a_header_that_claims_nothing_is_left_alone(found):
    assert found({"driver/queue.c": UPWARD}, header="/* A driver. {} */\n") == []
