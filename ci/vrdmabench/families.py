# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The families of measurements."""

from collections.abc import Callable
from dataclasses import dataclass

from . import isolation, lifecycle, perftest, programs, ucx, wire
from .bench import Bench
from .point import Point


@dataclass(frozen=True)
class Family:
    name: str
    title: str
    text: str  # explanation for readers of the page
    measure: Callable[[Bench], list[Point]]


def _verbs(family: str, pattern: str, *devices: str, quick: str = "") -> Callable[[Bench], list[Point]]:
    """Benchmarks of bench/ by pattern; `quick` is the pattern of a quick run."""
    return lambda bench: programs.verbs(bench, family, bench.quick and quick or pattern, list(devices))


def _engine(bench: Bench) -> list[Point]:
    quick = ("half_round_trip/pollers:1|message_rate/pollers:1|sniffed_rate|bandwidth/65536|packets|"
             "tracked_rate|tracked_bandwidth/1048576")
    pattern = quick if bench.quick else "."
    operations = ("write",) if bench.quick else ("write", "read")
    return programs.engine(bench, pattern) + [programs.instructions(bench, operation) for operation in operations]


FAMILIES = [
    Family("floor", "What the machine gives",
           "Cache-line ping-pong of two and of three parties (half a round trip; the third copies a word from line to "
           "line), and memcpy by size. In <i>three threads</i> each party is a thread that may run anywhere, as two "
           "programs and a poller do; otherwise one thread plays both ends.",
           _verbs("floor", "^floor_", quick="^floor_t|^floor_memcpy/65536/")),
    Family("latency", "Latency through libibverbs",
           "Half a round trip by size. One thread plays both ends, so that it and the poller are all who spin. "
           "Baseline, in turns with it: the three-party floor with as many threads on the same "
           "cores.", _verbs("latency", "^(write|send)_latency", "dedicated", quick="_latency/(8|4096)/")),
    Family("among", "One active QP among idle ones",
           "Half a round trip of 8 B by the number of connected QPs of the device. "
           "Baseline, in turns with it: the only QP of another vrdmad.",
           _verbs("among", "^among_", "dedicated", "quiet", quick="^among_latency/(1|100)/")),
    Family("rate", "Small WRITEs",
           "Inline WRITEs of 8 B that one poller executes in a second, by the number of QPs that send.",
           _verbs("rate", "^message_rate", "dedicated", quick="^message_rate/(1|8|64)/")),
    Family("bandwidth", "Bandwidth of WRITEs",
           "By size. Baseline, in turns with it: memcpy between the same buffers by one thread. <i>askew</i>: the "
           "source begins 16 bytes into a cache line, as a buffer of malloc() does.",
           _verbs("bandwidth", "^write_bandwidth", "dedicated", quick="^write_bandwidth.*/65536/")),
    Family("isolation", "Beside a hostile neighbour",
           "A victim's WRITE of 8 B from posting to arrival, ibv_query_qp, and ibv_create_cq with ibv_destroy_cq: p99, "
           "beside one of the neighbours that <i>vrdma-torture --list</i> tells of. Baseline, in turns with it: the "
           "same alone. The poller has a core to itself; what was measured while it or the victim lost the processor "
           "to somebody is left out. <i>bandwidths apart</i>: of two tenants that WRITE 64 KiB all the time, one by "
           "one QP and the other by so many. <i>scrapes</i> are no neighbour: the metrics of 1,000 open devices, or "
           "of as many as RLIMIT_NOFILE allows vrdmad, are read without a pause. <i>device list</i> and "
           "<i>scrape</i>: the time of vrdmactl, and of one reading.", isolation.measure),
    Family("lifecycle", "A device that moves",
           "A device with so many busy QPs moves from one vrdmad to another. A peer on another host WRITEs to it. "
           "<i>gap</i>: the longest time between two completions of a QP of the peer. <i>crash_gap</i>: the same "
           "if the first vrdmad is killed. <i>state</i>: what is "
           "transferred while the device stands still.", lifecycle.measure),
    Family("registration", "Registering memory",
           "ibv_reg_mr by size: of memory that was never touched, of memory that was, and of memory that was "
           "registered before. Baseline of the second, in turns with it: memcpy into memory that was never touched.",
           _verbs("registration", "^reg_mr", "shared", quick="^reg_mr/.*/(4096|1048576|16777216)/")),
    Family("control", "Control verbs",
           "Making and destroying objects, and each state of a QP; <i>connect</i> is a QP from ibv_create_qp to RTS. "
           "Baseline, in turns with it: a round trip by eventfds between two threads that sleep, four of them for "
           "<i>connect</i>.", _verbs("control", "^control_verb", "shared")),
    Family("wakeup", "When nobody spins",
           "From posting to a sleeping poller until the bytes are there (<i>wakeup_write</i>) or ibv_get_cq_event has "
           "returned (<i>wakeup_event</i>). Baseline, in turns with it: a thread woken by an eventfd that answers in "
           "the same way. <i>idle_cpu</i>: what vrdmad takes of a core while so many QPs are connected.",
           _verbs("wakeup", "^wakeup_|^idle_cpu", "shared", quick="^wakeup_|^idle_cpu/1/")),
    Family("perftest", "perftest",
           "Two processes through vrdmad, with its defaults. WRITE and SEND: half a round trip; READ and atomics: a "
           "whole one. On two cores both programs and the poller share them in ib_write_lat and ib_send_lat, and the "
           "scheduler is what they measure: compare with <i>three threads</i>.", perftest.measure),
    Family("wire", "Between two hosts",
           "perftest between two network namespaces joined by a veth pair, with a vrdmad each: RoCE v2 with payloads "
           "of 1 KiB, IP packets of 1500 bytes at most. Baseline, in turns with it: TCP by the same interfaces (qperf; "
           "half a round trip for SEND and WRITE, a whole one for READ; a stream for bandwidth). TCP has its packets "
           "cut by nobody here: veth takes 64 KiB at a time. <i>ucx</i> is UCX over TCP. <i>events</i>: both programs "
           "sleep until a completion comes, as those of TCP do; without, they spin, as do two pollers, which takes "
           "four cores. <i>lossy</i>: by a path that loses one packet in a hundred, baseline the same without loss, "
           "where TCP sends packets of 1500 bytes; <i>beside TCP</i> has TCP's under the same loss as its baseline. "
           "<i>af_xdp</i>: by AF_XDP with copies, baseline the same by AF_PACKET, which all others have. "
           "<i>packets</i>: of one way, in a second of the stream of 64 KiB, and <i>a core</i>: in a second of both "
           "pollers' processor time, which includes what the kernel does for them.", wire.measure),
    Family("ucx", "UCX", "Between two processes that spin: shared memory, and TCP over the loopback. No third party.",
           ucx.measure),
    Family("engine", "The soft HCA alone",
           "Without libibverbs and vrdmad: guests in the engine's own process. Baselines as above. <i>packets</i>: "
           "what each packet of 1 KiB costs requester and responder together, by a cable of memory between two "
           "engines; <i>tracked</i>: while a VM monitor asks every 100 ms which pages were written, by the size of "
           "the memory that is written again and again, baseline without questions; <i>instructions</i>: of packets, "
           "as callgrind counts them (of a processor with AVX2, whatever this "
           "one has).", _engine),
]  # fmt: skip
NAMES = [family.name for family in FAMILIES]
