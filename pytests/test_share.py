# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""framework/share.py: the files that several parallel runs take."""

import pytest

from framework.share import Share


@pytest.mark.native  # the result is the same everywhere
def test_each_file_is_taken_once(tmp_path):
    """Has two runs ask for files in turn; expects each to get files that no run had before, and to keep them."""
    left, right = (Share(f"{tmp_path}/{number}") for number in (1, 2))
    assert (left.number, right.number) == (1, 2)
    assert [left.has("a"), right.has("a"), right.has("b"), left.has("b"), left.has("c")] == [True, False, True, False,
                                                                                             True]
    assert [share.has(name) for share in (left, right) for name in "abc"] == [True, False, True, False, True, False]
