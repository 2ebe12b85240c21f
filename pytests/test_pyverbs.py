# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""rdma-core's conformance suite for pyverbs, as Debian ships it."""

from pathlib import Path

import pytest

from framework import pyverbs
from framework.lab import Guest
from framework.process import Failure, Result
from framework.pyverbs import Outcome

EXPECTED = Path(__file__).with_name("pyverbs.txt")
# For a part of the suite, natively and in the lab, whose processors are emulated. A busy machine took 490 s for all
# parts under ThreadSanitizer, and 300 s in the lab.
TIMEOUT_S = {"native": 300.0, "lab": 600.0}
# For the suite's tests of huge pages. Natively both sides use the same pool, and moving memory takes more of them.
HUGE_PAGES = "echo 8 > /proc/sys/vm/nr_hugepages"
NATIVE_HUGE_PAGES = 32
# These do not run under ThreadSanitizer. They start threads in forked children, where glibc gives them stacks of the
# parent's threads and so their ids. For GCC 12's runtime joinable ones are still alive there, and it ends the child
# ("dup thread with used id"). test_rdma_cm.py connects processes that are not forked.
START_THREADS_IN_CHILDREN = ("test_device.DMTest.test_multi_process_alloc_dm", "test_rdmacm.")


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Path:
    return pyverbs.unpack(tmp_path_factory.mktemp("suite"))


def faults(expected: dict[str, str], outcomes: list[Outcome]) -> list[str]:
    """The differences between the outcomes and the expected ones. The reason of a skipped test may have changed."""
    found = {outcome.test: outcome.result for outcome in outcomes}
    failed = [str(outcome) for outcome in outcomes if outcome.result == "failed"]
    not_run = [test for test in expected if test not in found]
    missing = [f"{len(not_run)} of {EXPECTED.name} not run: {' '.join(not_run)}"] if not_run else []
    changed = [f"{test}: {result}, but {expected.get(test, 'not')} in {EXPECTED.name} (see --update-pyverbs)"
               for test, result in found.items() if result not in ("failed", expected.get(test))]
    return failed + missing + changed


def test_faults():
    """Compares outcomes with a different list; expects each difference to be reported, and nothing else."""
    same = [Outcome("m.C.same", "passed"), Outcome("m.C.skips", "skipped", "for a new reason")]
    other = [Outcome("m.C.fails", "failed", "trace"), Outcome("m.C.drops_out", "skipped", "reason"),
             Outcome("m.C.works_now", "passed"), Outcome("m.C.new", "passed")]
    expected = {"m.C.same": "passed", "m.C.skips": "skipped", "m.C.fails": "passed", "m.C.drops_out": "passed",
                "m.C.works_now": "skipped", "m.C.gone": "passed"}
    told = faults(expected, same + other)
    assert [line.split(":")[0] for line in told] == [
        "m.C.fails", "1 of pyverbs.txt not run", "m.C.drops_out", "m.C.works_now", "m.C.new"]
    assert told[1].endswith(": m.C.gone")


def test_early_end():
    """Parses the output of a program that was killed while it printed; expects the test that was running to have
    failed, and the program's exit status and last lines."""
    begun, passed, cut = ('{"test": "m.C.done", "outcome": "begun", "why": ""}\n',
                          '{"test": "m.C.done", "outcome": "passed", "why": ""}\n', '{"test": "m.C.cut", "outco')
    died = begun.replace("done", "dies")
    assert pyverbs.parse(begun + passed + died + cut) == [
        Outcome("m.C.done", "passed"), Outcome("m.C.dies", "failed", "the program ended in it")]
    assert pyverbs.end(Result(0, "", "all is well")) == []
    (told,) = pyverbs.end(Result(-11, "", "".join(f"line {number}\n" for number in range(1000))))
    assert "exit status -11" in told and told.endswith("line 999") and "line 9\n" not in told


def test_parts(suite):
    """Expects each module of the suite to be in one part, and each part to have modules."""
    modules = [path.stem for path in suite.glob("tests/test_*.py")]
    parts = [part for pair in pyverbs.PAIRS for part in pair]
    found = [[module for module in modules if pyverbs.is_in(part, module)] for part in parts]
    assert all(found)
    assert sorted(sum(found, [])) == sorted(modules)


def test_list(tmp_path):
    """Writes outcomes of both places and reads them again; expects one line if they agree, and that a comment and the
    outcomes of another part stay."""
    path = tmp_path / "list.txt"
    path.write_text("# comment\ntest_z.C.other: passed\n")
    same, skips = Outcome("test_m.C.same", "passed"), Outcome("test_m.C.differs", "skipped", "why: it does")
    lab = Outcome("test_m.C.lab", "passed")
    pyverbs.write(path, "native", "m-n", [same, skips, Outcome("test_m.C.goes", "passed")])
    pyverbs.write(path, "native", "m-n", [same, skips])
    pyverbs.write(path, "lab", "m-n", [same, Outcome("test_m.C.differs", "passed"), lab])
    assert path.read_text().splitlines() == [
        "# comment", "test_m.C.differs (native): skipped: why: it does", "test_m.C.differs (lab): passed",
        "test_m.C.lab (lab): passed", "test_m.C.same: passed", "test_z.C.other: passed"]
    assert pyverbs.read(path, "native", "m-n") == {"test_m.C.differs": "skipped", "test_m.C.same": "passed"}
    assert pyverbs.read(path, "lab") == {
        "test_m.C.differs": "passed", "test_m.C.lab": "passed", "test_m.C.same": "passed", "test_z.C.other": "passed"}


@pytest.fixture
def huge_pages(native):
    """Reserves huge pages of this machine for a native test, and gives them back."""
    reserved = Path("/proc/sys/vm/nr_hugepages")
    before = int(reserved.read_text())
    if native:
        reserved.write_text(str(max(before, NATIVE_HUGE_PAGES)))
    yield
    if native:
        reserved.write_text(str(before))


def beyond_few(expected: dict[str, str]) -> list[str]:
    """All but the first test of each class that passes."""
    first: dict[str, str] = {}
    for test, outcome in expected.items():
        if outcome == "passed":
            first.setdefault(test.rpartition(".")[0], test)
    return [test for test in expected if test not in first.values()]


def test_few():
    """Takes few of two classes' tests; expects one of each that is not skipped."""
    expected = {"m.A.skips": "skipped", "m.A.first": "passed", "m.A.second": "passed", "m.B.only": "passed"}
    assert beyond_few(expected) == ["m.A.skips", "m.A.second"]


@pytest.mark.together
@pytest.mark.every_case
@pytest.mark.parametrize("parts", pyverbs.PAIRS, ids="+".join)
def test_suite(parts, device, lab, guest0, guest1, suite, native, huge_pages, pytestconfig):
    """Runs a part of the suite on each device at once; expects the listed outcome of each test. With --few-cases,
    it is one test of each class."""
    place = "native" if native else "lab"
    left_out = beyond_few(pyverbs.read(EXPECTED, place)) if pytestconfig.getoption("few_cases") else []
    if native and lab.sanitizers.of_threads:
        left_out += [test for test in pyverbs.read(EXPECTED, place) if test.startswith(START_THREADS_IN_CHILDREN)]

    def start(guest: Guest, part: str):
        if not native:
            guest.script(HUGE_PAGES)
        program = f"/usr/bin/python3 {guest.programs}/pyverbs_suite.py"
        return guest.start(" ".join([program, guest.bring(suite), device, part, *left_out]))

    running = [start(*each) for each in zip((guest0, guest1), parts, strict=True)]
    results = [process.wait(TIMEOUT_S[place], check=False) for process in running]
    told = []
    for part, process, result in zip(parts, running, results, strict=True):
        outcomes = pyverbs.parse(result.stdout)
        if pytestconfig.getoption("update_pyverbs"):
            pyverbs.write(EXPECTED, place, part, outcomes)
        expected = {test: result for test,
                    result in pyverbs.read(EXPECTED, place, part).items() if test not in left_out}
        told += [f"{process.title}\n{line}" for line in [*faults(expected, outcomes), *pyverbs.end(result)]]
    if told:
        raise Failure("\n".join(told))
