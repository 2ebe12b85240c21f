# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""framework/attached.py: commands of a lab that is not there."""

import pytest

from framework.attached import Attached

pytestmark = pytest.mark.native
TIMEOUT_S = 30.0


@pytest.mark.parametrize("state, complaint", [
    (None, "ci/lab: the lab is not up\n"),
    ("cut o", "ci/lab: JSONDecodeError("),
])  # fmt: skip
def test_command_ends(tmp_path, state, complaint):
    """Runs a command in a lab whose state is missing or cannot be read; expects the command to end, with a reason."""
    if state:
        (tmp_path / "state.json").write_text(state)
    command = Attached(tmp_path, "guest0", ["true"])
    assert command.wait(TIMEOUT_S) != 0
    assert command.stderr.read().startswith(complaint)
    command.kill()
