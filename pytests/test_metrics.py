# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Metrics for Prometheus, the alert rules and the dashboard."""

import http.client
import json
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from framework.control import Control, public_directory, running
from framework.lab import TIMEOUT_S
from framework.native import BUILD, Native
from framework.process import Process, Record

pytestmark = [pytest.mark.native, pytest.mark.together]

PORT = 9469
PINGPONG_PORT = "18600"
SHARE = Path("mediator/management/share")
CONFIG = ('[metrics]\nlisten = "127.0.0.1:{port}"\n[types.tiny]\nmax_qp = 16\nmax_cq = 16\nmax_mr = 16\n'
          'doorbell_pages = 2\nmax_bytes_per_second = 1000000000\n'
          '[[vfio_user]]\nname = "busy"\nsocket = "{directory}/busy.sock"\ntype = "tiny"\nclients = 2\nwindow_gib = 1\n'
          '[[vfio_user]]\nname = "free"\nsocket = "{directory}/free.sock"\nwindow_gib = 1\n')


class LocalConnection(http.client.HTTPConnection):
    """To a UNIX socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


def get(connection: http.client.HTTPConnection, path: str = "/metrics") -> tuple[int, str]:
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def read(control: Control) -> str:
    status, text = get(LocalConnection(control.socket))
    assert status == 200
    return text


def families(text: str) -> dict[str, Metric]:
    """What Prometheus's own parser finds, by the names of series. It takes _total off a counter's name."""
    return {f"{family.name}_total" if family.type == "counter" else family.name: family
            for family in text_string_to_metric_families(text)}


def value(text: str, name: str, **labels: str) -> float:
    """The sample that has these labels, among others."""
    [sample] = [sample for family in text_string_to_metric_families(text) for sample in family.samples
                if sample.name == name and labels.items() <= sample.labels.items()]
    return float(sample.value)


@pytest.fixture(scope="module")
def control(lab: Native) -> Iterator[Control]:
    with (public_directory() as directory,
          running(directory, lab.sanitizers.ours(), CONFIG.format(port=PORT, directory=directory)) as control):
        yield control


@pytest.fixture(scope="module")
def metrics(control: Control) -> str:
    return read(control)


def pingpong(control: Control, lab: Native, *words: str) -> Process:
    return Process("ibv_rc_pingpong", [str(BUILD / "providers/vrdma/vrdma-run"), "--device",
                                       str(control.directory / "busy.sock"), "--", "stdbuf", "-oL", "ibv_rc_pingpong",
                                       "-g", "0", "-p", PINGPONG_PORT, *words], lab.sanitizers.foreign())


@pytest.fixture()
def traffic(control: Control, lab: Native, record: Record) -> Iterator[None]:
    """Between the two clients of a device."""
    server = record.add(pingpong(control, lab, "-n", "100000000"))
    server.await_line("local address", TIMEOUT_S, stream="stdout")
    client = record.add(pingpong(control, lab, "-n", "100000000", "127.0.0.1"))
    client.await_line("remote address", TIMEOUT_S, stream="stdout")
    yield
    for program in (client, server):
        program.kill()


def read_until(control: Control, condition: Callable[[str], bool]) -> str:
    """Reads until the metrics fulfil the condition."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition(text := read(control)):
        assert time.monotonic() < deadline, text
    return text


@pytest.mark.usefixtures("traffic")
def test_a_device_in_use(control: Control) -> None:
    """Reads twice while messages are sent; expects bytes, objects and times that fit."""
    before = read(control)
    sent = value(before, "vrdma_device_tx_messages_total", device="busy/0")
    text = read_until(control, lambda text: value(text, "vrdma_device_tx_messages_total", device="busy/0") != sent)
    for name in ("tx_bytes", "rx_bytes", "rx_messages"):
        assert value(text, f"vrdma_device_{name}_total", device="busy/0", uplink="") > 0
    assert value(text, "vrdma_device_state", device="busy/1", state="active") == 1
    assert value(text, "vrdma_device_objects", device="busy/0", resource="qp") == 1
    assert value(text, "vrdma_device_max_objects", device="busy/0", resource="qp") == 16
    assert value(text, "vrdma_device_max_bytes_per_second", device="busy/0") == 1e9
    assert 0 < value(text, "vrdma_device_memory_bytes", device="busy/0") <= value(
        text, "vrdma_device_max_memory_bytes", device="busy/0")
    assert value(text, "vrdma_control_verb_duration_seconds_count") >= 10
    assert value(text, "vrdma_poller_busy_seconds_total", poller="0") > 0
    assert value(text, "vrdma_poller_cpu_seconds_total", poller="0") > 0
    counted = json.loads(control.says("device", "stats", "busy/0", "--json"))["counters"]
    assert {f"vrdma_device_{name}_total" for name in counted} == {
        name for name in families(text) if name.startswith("vrdma_device_") and name.endswith("_total")}


@pytest.mark.usefixtures("traffic")
def test_the_network_costs_little(control: Control) -> None:
    """Reads many times by TCP and by the control socket; expects at most one new reading per second by TCP."""
    begin = time.monotonic()
    readings = {get(http.client.HTTPConnection("127.0.0.1", PORT, timeout=TIMEOUT_S))[1] for _ in range(50)}
    assert len(readings) <= time.monotonic() - begin + 2
    first = read(control)
    read_until(control, lambda text: text != first)


def test_an_unused_device(metrics: str) -> None:
    """Reads the metrics of a device that no program has opened; expects its state and limits, and no counters."""
    assert value(metrics, "vrdma_device_state", device="free", state="unused") == 1
    assert value(metrics, "vrdma_device_info", device="free", front_end="socket", type="small") == 1
    assert value(metrics, "vrdma_device_objects", device="free", resource="qp") == 0
    assert not [sample for family in families(metrics).values() if family.type == "counter" for sample in family.samples
                if sample.labels.get("device") == "free"]


def test_the_network(control: Control) -> None:
    """Asks by TCP; expects metrics, and nothing else."""
    status, text = get(http.client.HTTPConnection("127.0.0.1", PORT, timeout=TIMEOUT_S))
    assert status == 200 and value(text, "vrdma_build_info") == 1
    for path in ("/v1/devices", "/v1/log-level", "/", "/metrics/../v1/devices"):
        assert get(http.client.HTTPConnection("127.0.0.1", PORT, timeout=TIMEOUT_S), path)[0] == 403
    with socket.create_connection(("127.0.0.1", PORT), TIMEOUT_S) as stranger:
        stranger.sendall(b"POST /v1/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert stranger.recv(100).startswith(b"HTTP/1.1 403 ")


def test_strangers_cost_others_nothing(control: Control) -> None:
    """Opens hundreds of silent connections by TCP; expects the control socket to answer."""
    silent = [socket.create_connection(("127.0.0.1", PORT), TIMEOUT_S) for _ in range(300)]
    assert control.says("log-level") == "info\n"
    for connection in silent:
        connection.close()


def expressions() -> Iterable[str]:
    """Those of the dashboard, with its variables as Grafana fills them in."""
    dashboard = json.loads((SHARE / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$device", ".*")


def test_all_names_exist(metrics: str) -> None:
    """Takes the names of metrics from the alert rules, the dashboard and the page; expects vrdmad to serve each."""
    served = set(re.findall(r"^# TYPE (\S+)", metrics, re.MULTILINE))
    named = {"rules": (SHARE / "alerts.yaml").read_text(), "dashboard": "\n".join(expressions()),
             "page": Path("docs/metrics.md").read_text()}
    for source, text in named.items():
        names = {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\bvrdma_[a-z_]+[a-z]\b", text)}
        assert len(names) > 10 and not names - served - {"vrdma_device"}, source


def promtool(*words: str, text: str = "") -> None:
    done = subprocess.run(["promtool", *words], input=text, capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_names_all_counters(metrics: str) -> None:
    """Expects docs/metrics.md to have each counter of a device."""
    page = Path("docs/metrics.md").read_text()
    counters = {name.removeprefix("vrdma_device_").removesuffix("_total") for name in families(metrics)
                if name.startswith("vrdma_device_") and name.endswith("_total")}
    assert counters and not {name for name in counters if f"`{name}`" not in page}


def test_promtool_accepts_all(metrics: str, tmp_path: Path) -> None:
    """Gives promtool the metrics, the rules, and the dashboard's expressions as rules; expects no complaint."""
    promtool("check", "metrics", text=metrics)
    promtool("check", "rules", str(SHARE / "alerts.yaml"))
    rules = [{"record": f"panel_{number}", "expr": text} for number, text in enumerate(expressions())]
    (tmp_path / "panels.yaml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(tmp_path / "panels.yaml"))


ALERTS = """
rule_files: [{rules}]
tests:
  - interval: 1m
    input_series:
      - {{series: 'vrdma_build_info{{version="1"}}', values: "1x20"}}
      - {{series: 'vrdma_device_state{{device="a",state="failed"}}', values: "0x3 1x16"}}
      - {{series: 'vrdma_device_objects{{device="a",resource="qp"}}', values: "15x20"}}
      - {{series: 'vrdma_device_max_objects{{device="a",resource="qp"}}', values: "16x20"}}
      - {{series: 'vrdma_device_retransmits_total{{device="a"}}', values: "0+2x20"}}
      - {{series: 'vrdma_device_tx_packets_total{{device="a"}}', values: "0+1000x20"}}
    alert_rule_test:
      - {{eval_time: 3m, alertname: VrdmaDeviceFailed, exp_alerts: []}}
      - eval_time: 10m
        alertname: VrdmaDeviceFailed
        exp_alerts:
          - exp_labels: {{severity: warning, device: a, state: failed}}
            exp_annotations:
              summary: The device a has failed
              description: Its guest broke a rule, and has to reset the device. The log of vrdmad says which rule.
      - eval_time: 10m
        alertname: VrdmaObjectsNearLimit
        exp_alerts:
          - exp_labels: {{severity: warning, device: a, resource: qp}}
            exp_annotations: {{summary: The device a has 93.75% of its qp}}
      - {{eval_time: 10m, alertname: VrdmaPacketsLost, exp_alerts: []}}
      - {{eval_time: 10m, alertname: VrdmaAbsent, exp_alerts: []}}
"""


def test_alerts_fire(tmp_path: Path) -> None:
    """Plays a device that fails, one near its limit, and one that loses few packets; expects the first two to fire."""
    (tmp_path / "test.yaml").write_text(ALERTS.format(rules=(SHARE / "alerts.yaml").resolve()))
    promtool("test", "rules", str(tmp_path / "test.yaml"))
