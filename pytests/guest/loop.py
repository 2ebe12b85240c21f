# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Two queue pairs of one device, connected to each other."""

from constants import e

from endpoints import Cq, Device, Pd, Qp

DEPTH = 16


class Loop:
    def __init__(self, device: Device, gid_index: int) -> None:
        self.pd: Pd = device.pd()
        self.cq: Cq = device.cq(DEPTH)
        self._left, self._right = (Qp(self.pd.pd, "RC", self.cq, self.cq, None, {}) for _ in range(2))
        dgid = str(self.pd.context.query_gid(1, gid_index))
        for own, peer in ((self._left, self._right), (self._right, self._left)):
            own.modify(qp_state="INIT", pkey_index=0, port_num=1, qp_access_flags=["LOCAL_WRITE", "REMOTE_WRITE"])
            own.modify(qp_state="RTR", ah_attr={"dgid": dgid, "sgid_index": gid_index}, path_mtu=e.IBV_MTU_1024,
                       dest_qp_num=peer.qp.qp_num, rq_psn=0, max_dest_rd_atomic=1, min_rnr_timer=12)
            own.modify(qp_state="RTS", sq_psn=0, timeout=14, retry_cnt=7, rnr_retry=7, max_rd_atomic=1)

    def write(self, source: tuple[int, int, int], target: tuple[int, int]) -> None:
        """Has the device copy a scatter/gather element to an address with its rkey."""
        self._left.post_send("RDMA_WRITE", 0, [[*source]], target=[*target])
        (completion,) = self.cq.wait(1)
        assert completion["status"] == "SUCCESS", completion
