# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Memory windows of both types (IBA 10.6.7): the memory that a peer reaches through them, and the rules of binding."""

import errno

import pytest

from framework.endpoint import ALL_ACCESS, BUFFER, connect
from framework.verbs import refused

BINDABLE = ("LOCAL_WRITE", "MW_BIND")
READ_WRITE = ("REMOTE_READ", "REMOTE_WRITE")
TYPES = (1, 2)


class Owner:
    """The side that owns the memory: a region that can only be reached by windows, and a window."""

    def __init__(self, side, kind: int, access=BINDABLE, pd=None, window_pd=None) -> None:
        self.side = side
        self.kind = kind
        self.region = (pd or side.pd).mr(BUFFER, access)
        self.window = (window_pd or side.pd).mw(kind)

    def post_bind(self, offset: int = 0, length: int = BUFFER, access=READ_WRITE, qp=None) -> int:
        qp = qp or self.side.qp
        bind = qp.bind if self.kind == 1 else qp.post_bind
        return bind(self.window, self.region, offset, length, access)

    def bind(self, *place, **how) -> int:
        """Binds the window; returns its rkey."""
        rkey = self.post_bind(*place, **how)
        assert [(done.status, done.opcode) for done in self.side.send_cq.wait()] == [("SUCCESS", "BIND_MW")]
        return rkey


def write(left, address: int, rkey: int, length: int = 64) -> str:
    left.send("RDMA_WRITE", length=length, target=[address, rkey])
    return left.sent()[0]


def assert_bind_fails(owner: Owner, peer, *place, **how) -> None:
    """A bind that breaks a rule fails its queue pair, and no other."""
    owner.post_bind(*place, **how)
    assert owner.side.sent() == ["MW_BIND_ERR"]
    assert owner.side.state() == "ERR"
    assert peer.state() == "RTS"


@pytest.mark.parametrize("kind", TYPES)
def test_window_shows_its_bytes(connected, kind):
    """Binds a window into the middle of a region, and writes and reads there; expects the bytes in the region."""
    left, right = connected()
    owner = Owner(right, kind)
    rkey = owner.bind(4096, 8192)
    assert rkey != owner.region.rkey
    left.mr.write(0, "5a" * 64)
    assert write(left, owner.region.addr + 4096, rkey) == "SUCCESS"
    assert owner.region.read(4096, 64) == "5a" * 64
    left.send("RDMA_READ", offset=1024, length=64, target=[owner.region.addr + 4096, rkey])
    assert left.sent() == ["SUCCESS"]
    assert left.mr.read(1024, 64) == "5a" * 64


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("offset", [-64, -1, 8192 - 63, 8192], ids=["before", "across", "over_the_end", "behind"])
def test_beside_the_window(connected, kind, offset):
    """Writes bytes of the region that the window does not show; expects REM_ACCESS_ERR and both sides in error."""
    left, right = connected()
    owner = Owner(right, kind)
    rkey = owner.bind(4096, 8192)
    assert write(left, owner.region.addr + 4096 + offset, rkey) == "REM_ACCESS_ERR"
    assert (left.state(), right.state()) == ("ERR", "ERR")
    assert owner.region.read(0, BUFFER) == "00" * BUFFER


@pytest.mark.parametrize("kind", TYPES)
def test_window_lends_no_more_rights(connected, kind):
    """Writes through a window that was bound for reading; expects REM_ACCESS_ERR."""
    left, right = connected()
    owner = Owner(right, kind)
    rkey = owner.bind(access=("REMOTE_READ",))
    assert write(left, owner.region.addr, rkey) == "REM_ACCESS_ERR"


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("change", [1, 0x80, 0x100, 0x5a5a5a00], ids=["tag", "other_tag", "name", "other_name"])
def test_wrong_key(connected, kind, change):
    """Uses a key that differs from the window's in its tag or its name; expects REM_ACCESS_ERR."""
    left, right = connected()
    owner = Owner(right, kind)
    rkey = owner.bind()
    assert write(left, owner.region.addr, rkey ^ change) == "REM_ACCESS_ERR"


@pytest.mark.parametrize("kind", TYPES)
def test_unbound_window(connected, kind):
    """Uses a window that was never bound; expects REM_ACCESS_ERR."""
    left, right = connected()
    owner = Owner(right, kind)
    assert write(left, owner.region.addr, owner.window.rkey) == "REM_ACCESS_ERR"


def test_binding_again_ends_the_old_key(connected):
    """Binds a type 1 window twice; expects the second key to work and the first to be invalid."""
    left, right = connected()
    owner = Owner(right, 1)
    first, second = owner.bind(), owner.bind()
    assert first != second
    assert write(left, owner.region.addr, second) == "SUCCESS"
    assert write(left, owner.region.addr, first) == "REM_ACCESS_ERR"


def test_binding_nothing_unbinds(connected):
    """Binds a type 1 window with length 0; expects its keys not to work and its region to be unbound."""
    left, right = connected()
    owner = Owner(right, 1)
    bound, unbound = owner.bind(), owner.bind(0, 0, ())
    owner.region.close()
    assert bound != unbound
    assert write(left, 0, unbound) == "REM_ACCESS_ERR"


def test_type_2_belongs_to_its_queue_pair(connected):
    """Uses a type 2 window through another queue pair of the same domain; expects REM_ACCESS_ERR there only."""
    left, right = connected()
    other_left, other_right = left.another(), right.another()
    connect(other_left, other_right)
    owner = Owner(right, 2)
    rkey = owner.bind()
    assert write(other_left, owner.region.addr, rkey) == "REM_ACCESS_ERR"
    assert write(left, owner.region.addr, rkey) == "SUCCESS"


def test_type_1_belongs_to_its_domain(connected):
    """Uses a type 1 window through another queue pair of the same domain; expects success."""
    left, right = connected()
    other_left, other_right = left.another(), right.another()
    connect(other_left, other_right)
    owner = Owner(right, 1)
    assert write(other_left, owner.region.addr, owner.bind()) == "SUCCESS"


def test_window_is_no_local_key(connected):
    """Sends from a window by its key; expects LOC_PROT_ERR."""
    left, right = connected()
    owner = Owner(right, 1)
    rkey = owner.bind()
    right.qp.post_send("SEND", 1, [[owner.region.addr, 64, rkey]])
    assert right.sent() == ["LOC_PROT_ERR"]
    assert right.state() == "ERR"
    assert left.state() == "RTS"


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("access", [("LOCAL_WRITE",), ALL_ACCESS], ids=["local", "remote"])
def test_region_must_allow_windows(connected, kind, access):
    """Binds to a region without MW_BIND; expects MW_BIND_ERR."""
    left, right = connected()
    assert_bind_fails(Owner(right, kind, access), left)


@pytest.mark.parametrize("right_wanted", ["REMOTE_WRITE", "REMOTE_ATOMIC"])
def test_remote_changes_need_local_write(connected, right_wanted):
    """Binds for writing to a region that its owner may not write; expects MW_BIND_ERR, but success for reading."""
    left, right = connected()
    owner = Owner(right, 1, ("MW_BIND",))
    owner.bind(access=("REMOTE_READ",))
    assert_bind_fails(owner, left, access=(right_wanted,))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("place", [(-1, 64), (BUFFER - 63, 64), (0, BUFFER + 1), (1, (1 << 64) - 1)],
                         ids=["before", "over_the_end", "longer", "endless"])
def test_window_must_fit(connected, kind, place):
    """Binds beyond the region; expects MW_BIND_ERR."""
    left, right = connected()
    assert_bind_fails(Owner(right, kind), left, *place)


@pytest.mark.parametrize("foreign", ["pd", "window_pd"])
def test_window_region_and_queue_pair_share_a_domain(connected, foreign):
    """Binds with a region, or a window, of another domain; expects MW_BIND_ERR."""
    left, right = connected()
    assert_bind_fails(Owner(right, 2, **{foreign: right.device.pd()}), left)


def test_type_1_of_another_domain(connected):
    """Binds a type 1 window and its region, both of another domain than the queue pair; expects MW_BIND_ERR. If only
    one of them is of another domain, expects EPERM from libibverbs."""
    left, right = connected()
    other = right.device.pd()
    for foreign in ("pd", "window_pd"):
        assert refused(Owner(right, 1, **{foreign: other}).post_bind) == errno.EPERM
    assert_bind_fails(Owner(right, 1, pd=other, window_pd=other), left)


def test_type_2_is_bound_once(connected):
    """Binds a bound type 2 window; expects MW_BIND_ERR."""
    left, right = connected()
    owner = Owner(right, 2)
    owner.bind()
    assert_bind_fails(owner, left)


def test_type_2_is_not_bound_to_nothing(connected):
    """Binds a type 2 window with length 0; expects MW_BIND_ERR, because only an invalidation unbinds it."""
    left, right = connected()
    assert_bind_fails(Owner(right, 2), left, 0, 0)


@pytest.mark.parametrize("kind", TYPES)
def test_region_with_windows_stays(connected, kind):
    """Deregisters a region to which a window is bound; expects EBUSY until the window is gone."""
    left, right = connected()
    owner = Owner(right, kind)
    rkey = owner.bind()
    assert refused(owner.region.close) == errno.EBUSY
    assert write(left, owner.region.addr, rkey) == "SUCCESS"
    owner.window.close()
    owner.region.close()
    assert write(left, 0, rkey) == "REM_ACCESS_ERR"


def test_type_2_falls_with_its_queue_pair(connected):
    """Destroys the queue pair of a bound type 2 window; expects its region and the window to be unbound."""
    _, right = connected()
    owner = Owner(right, 2)
    owner.bind()
    right.qp.close()
    owner.region.close()
    owner.window.close()


def test_unknown_type(endpoint, guest0):
    """Allocates a window of type 3; expects EINVAL."""
    assert refused(endpoint(guest0).pd.mw, 3) == errno.EINVAL


def test_type_2_on_ibv_bind_mw(connected):
    """Calls ibv_bind_mw() with a type 2 window; expects EINVAL, and an unchanged queue pair."""
    _, right = connected()
    owner = Owner(right, 2)
    assert refused(right.qp.bind, owner.window, owner.region, 0, 64, READ_WRITE) == errno.EINVAL
    assert right.state() == "RTS"


def test_type_1_in_a_work_request(connected):
    """Posts a bind of a type 1 window; expects EINVAL, and an unchanged queue pair."""
    _, right = connected()
    owner = Owner(right, 1)
    assert refused(right.qp.post_bind, owner.window, owner.region, 0, 64, READ_WRITE) == errno.EINVAL
    assert right.state() == "RTS"


def test_zero_based_window(connected):
    """Binds a zero-based type 2 window; expects its addresses to begin at 0. Does so with type 1; expects a refusal."""
    left, right = connected()
    owner = Owner(right, 2)
    rkey = owner.bind(4096, 4096, (*READ_WRITE, "ZERO_BASED"))
    left.mr.write(0, "77" * 64)
    assert write(left, 64, rkey) == "SUCCESS"
    assert owner.region.read(4096 + 64, 64) == "77" * 64
    assert refused(Owner(right, 1).post_bind, 0, 64, (*READ_WRITE, "ZERO_BASED")) == errno.EINVAL
    assert write(left, owner.region.addr + 4096, rkey) == "REM_ACCESS_ERR"


def test_datagram_queue_pairs_bind_nothing(endpoint, guest0):
    """Posts a bind to a UD queue pair; expects EINVAL."""
    side = endpoint(guest0, "UD").initialize()
    side.qp.modify(qp_state="RTR")
    side.qp.modify(qp_state="RTS", sq_psn=0)
    owner = Owner(side, 2)
    assert refused(owner.post_bind) == errno.EINVAL
