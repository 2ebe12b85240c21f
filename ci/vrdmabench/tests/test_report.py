# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The page."""

from xml.etree import ElementTree

import pytest
from vrdmabench.tests.points import bandwidth, latency
from vrdmabench.bars import judge
from vrdmabench.compare import compare
from vrdmabench.report import bars_text, page
from vrdmabench.results import Results

POINTS = [
    latency(160, 100, distribution={"min": 90, "p50": 170, "p99": 300, "p99.9": 900}),
    latency(400, 100, x=4096, distribution={"min": 300, "p50": 410, "p99": 500, "p99.9": 2000}),
    bandwidth(95, 100),
    latency(0, family="wakeup", series="idle_cpu", unit="%", x=1),
    latency(50, 30, family="control", series="control_verb <create>", unit="us", x=None),
]


@pytest.fixture
def html() -> str:
    results = Results({"cores": 2, "processor": "<&>"}, POINTS)
    return page(results, judge(POINTS, 2), compare([latency(100, 100)], POINTS))


def test_it_needs_no_other_file(html: str) -> None:
    for reference in ("src=", "<link", "<script", "@import", 'href="http'):
        assert reference not in html


def test_each_family_has_a_picture_that_is_well_formed(html: str) -> None:
    pictures = html.split("<svg")[1:]
    assert len(pictures) == len({point.family for point in POINTS})
    for picture in pictures:
        ElementTree.fromstring("<svg" + picture.partition("</svg>")[0] + "</svg>")


def test_bars_say_met_or_missed(html: str) -> None:
    table = html.partition("<h2>Bars</h2>")[2].partition("</table>")[0]
    for row, word in zip(table.split("<tr>")[2:], ("missed", "met", "met", "met"), strict=True):
        assert f'<td class="{word}">{word}</td>' in row
    assert "<td>160 ns</td><td>100 ns</td><td>1.6</td>" in table


def test_what_is_worse_than_the_saved_run_is_marked(html: str) -> None:
    assert '<td class="WORSE">WORSE</td>' in html


def test_names_are_escaped(html: str) -> None:
    assert "&lt;create&gt;" in html
    assert "&lt;&amp;&gt;" in html


def test_the_page_says_that_cores_are_few(html: str) -> None:
    assert "has 2 cores, fewer" in html
    assert "fewer than" not in page(Results({"cores": 8}, POINTS), [], [])


def test_the_same_bars_as_text() -> None:
    lines = bars_text(judge(POINTS, 2)).splitlines()
    assert lines[0].split() == ["bar", "ours", "baseline", "ratio"]
    assert lines[1].split()[-6:] == ["160", "ns", "100", "ns", "1.6", "missed"]
