// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/offload/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/qp/receive_queue.h"
#include "mediator/hca/soft/qp/send_completion.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/offload/post.h"
#include "mediator/hca/soft/transport/peer.h"
#include "mediator/hca/soft/transport/send_queue.h"

namespace vrdma::hca::soft::offload {
namespace {

vrdma_vendor_err reason_of(ibv_wc_status status) noexcept {
    switch (status) {
        case IBV_WC_LOC_LEN_ERR:
            return VRDMA_VERR_LENGTH;
        case IBV_WC_LOC_PROT_ERR:
            return VRDMA_VERR_KEY; // the region has been deregistered since it was posted
        case IBV_WC_REM_INV_REQ_ERR:
        case IBV_WC_REM_ACCESS_ERR:
        case IBV_WC_REM_OP_ERR:
            return VRDMA_VERR_PEER_ERROR;
        default:
            return VRDMA_VERR_PEER;
    }
}

struct State {
    std::uint32_t version = 0x68636101; // which no other transport has
    std::uint32_t lost = 0;
};

} // namespace

Connection::Connection(QueuePair& qp_, Port& port_, std::optional<HostQp> host_)
    : qp{qp_}, port{port_}, host{std::move(host_)} {}

bool Connection::fits(std::uint8_t path_mtu) const noexcept {
    return mtu_bytes(path_mtu) <= port.max_mtu();
}

// Only the control thread changes routes and GIDs.
bool Connection::is_outward(const vrdma_qp_attr& attr) const {
    const GidKey* const source = qp.slice.gid(attr.av.sgid_index);
    if (source == nullptr) {
        return false;
    }
    Gid target;
    std::ranges::copy(attr.av.dgid, target.begin());
    return !port.engine().routes().knows({target, source->type, source->vlan});
}

Result<> Connection::forward(const vrdma_qp_attr& attr) {
    std::uint8_t path = 0;
    if ((attr.attr_mask & IBV_QP_AV) != 0) {
        const auto found = find_source(*port.device(), qp.slice, attr.av.sgid_index);
        if (!found) {
            port.log().warn("{} has no GID of a device that connects to the network",
                            port.device()->name());
            return fail(found.error());
        }
        path = *found;
    }
    HostAttr changed = host_attr_of(qp.slice, attr, path);
    return host->modify(changed.attr, changed.mask);
}

// The guest asks for RTR with a peer on the network.
Result<> Connection::prepare_outward(const vrdma_qp_attr& attr) {
    if (!host) {
        return fail(std::errc::operation_not_supported);
    }
    if (qp.pkey() != default_pkey) { // the HCA has no other
        return fail(std::errc::operation_not_supported);
    }
    if (const auto forwarded = forward(attr); !forwarded) {
        return forwarded;
    }
    state_ = IBV_QPS_RTR;
    outward_ = true;
    return {};
}

Result<> Connection::prepare(const vrdma_qp_attr& attr) {
    if ((attr.attr_mask & IBV_QP_STATE) == 0) {
        return outward_ ? forward(attr) : Result<>{};
    }
    switch (attr.state) {
        case IBV_QPS_INIT:
            if (host) {
                if (const auto forwarded = forward(attr); !forwarded) {
                    return forwarded;
                }
                state_ = IBV_QPS_INIT;
            }
            return {};
        case IBV_QPS_RTR:
            return is_outward(attr) ? prepare_outward(attr) : Result<>{};
        case IBV_QPS_RTS:
            if (outward_ && state_ == IBV_QPS_RTR) {
                if (const auto forwarded = forward(attr); !forwarded) {
                    return forwarded;
                }
                state_ = IBV_QPS_RTS;
            }
            return {};
        default:
            return {}; // the poller resets the host's QP when it knows that the QP has ended
    }
}

void Connection::start_receiving() noexcept {
    leaves_host_ = takes_receives_early_ = outward_;
    if (leaves_host_) {
        place = port.enter(*this);
    }
}

// What has completed before the reset keeps its status. The reset takes the rest back: the guest's
// queues are flushed, or forgotten.
void Connection::stop() noexcept {
    if (std::exchange(stopping_, true)) {
        return;
    }
    if (leaves_host_) {
        port.drain(host->completions);
    }
    if (host && state_.exchange(IBV_QPS_RESET) != IBV_QPS_RESET && !host->reset()) {
        port.complain("a QP cannot be reset");
    }
    if (leaves_host_) {
        port.drain(host->completions);
        if (!sends.empty()) {
            qp.sq.seek(sends.front().index);
        }
        port.leave(place);
    }
    sends.clear();
    receives.clear();
    held_.clear();
    port.looking.remove(*this);
    outward_ = false;
    leaves_host_ = takes_receives_early_ = false;
    stopping_ = false;
}

// The HCA cannot be told to keep still for a while. What it completes is held back.
void Connection::pause() noexcept {
    paused_ = true;
}

void Connection::resume() noexcept {
    paused_ = false;
    if (std::exchange(lost_, false)) {
        return enter_error_fatally(qp);
    }
    for (std::size_t left = held_.size(); left != 0 && !held_.empty(); --left) {
        const Held held = held_.front();
        held_.pop_front();
        complete(held.wc, held.receive, held.sequence);
    }
}

void Connection::let_go() noexcept {
    lost_ = lost_ || leaves_host_;
    stop();
    qp.sq_started = false;
}

// Only whether there was one: nothing of it can be carried on.
std::vector<std::byte> Connection::save() const {
    const State state{.lost = lost_};
    const auto bytes = std::as_bytes(std::span{&state, 1});
    return {bytes.begin(), bytes.end()};
}

// Other transports have other states. Their connections to peers on the network are lost here.
Result<> Connection::restore(std::span<const std::byte> bytes) {
    State state;
    if (bytes.size() == sizeof(state)) {
        std::memcpy(&state, bytes.data(), sizeof(state));
        if (state.version == State{}.version) {
            lost_ = state.lost != 0;
            return {};
        }
    }
    lost_ = is_outward(qp.attr);
    return {};
}

void Connection::look_for_receives() noexcept {
    if (!looks.linked) {
        port.looking.push_back(*this);
    }
}

void Connection::look() noexcept {
    take_receives(*this);
}

Turn Connection::send() noexcept {
    return post_sends(*this);
}

// The HCA has said what cannot be.
void Connection::distrust() noexcept {
    port.complain("a completion out of order");
    enter_error_fatally(qp);
}

void Connection::tell(ibv_event_type event) noexcept {
    switch (event) {
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
            qp.slice.announce(qp, event);
            return enter_error(qp);
        case IBV_EVENT_QP_FATAL:
            return enter_error_fatally(qp);
        case IBV_EVENT_COMM_EST:
            return establish(qp);
        default:
            return;
    }
}

void Connection::complete(const ibv_wc& wc, bool receive, std::uint16_t sequence) noexcept {
    if (!paused_) {
        receive ? completed_receive(wc, sequence) : completed_send(wc, sequence);
    } else if (!held_.full()) {
        held_.push_back({wc, receive, sequence});
    }
}

bool Connection::finish_oldest(ibv_wc_status status, vrdma_vendor_err reason) noexcept {
    const Posted oldest = sends.front();
    sends.pop_front();
    const WqeName wqe = qp.sq.retire(oldest.index);
    qp.sq_started = !sends.empty();
    const Message message = completed_message(oldest);
    if (status != IBV_WC_SUCCESS) {
        count_failure(qp, status);
    } else {
        count_success(qp, message);
        if (!message.signaled && !qp.signal_all) {
            return true;
        }
    }
    return write_completion(qp, wqe, message, status, reason);
}

void Connection::completed_send(const ibv_wc& wc, std::uint16_t sequence) noexcept {
    if (wc.status == IBV_WC_WR_FLUSH_ERR) {
        return stopping_ ? void() : enter_error(qp);
    }
    if (sends.empty() || static_cast<std::uint16_t>(sends.front().index) != sequence) {
        return distrust();
    }
    if (wc.status == IBV_WC_SUCCESS) {
        qp.note_arrival();
        if (!finish_oldest(IBV_WC_SUCCESS, VRDMA_VERR_NONE) || stopping_) {
            return;
        }
        if (qp.state() == IBV_QPS_SQD && sends.empty()) {
            drained(qp);
        }
        return qp.slice.engine().scheduler().wake(qp);
    }
    const ibv_wc_status status = wc.status;
    if (finish_oldest(status, reason_of(status)) && !stopping_) {
        enter_error(qp);
    }
}

void Connection::finish_receive(const ibv_wc& wc) noexcept {
    const Taken taken = receives.front();
    receives.pop_front();
    const bool write = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    vrdma_cqe entry{};
    entry.ctrl =
        VRDMA_SET(VRDMA_CQE_OPCODE, std::uint32_t{write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV});
    if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) {
        entry.ctrl |= VRDMA_CQE_WITH_IMM;
        entry.imm = wc.imm_data;
    }
    entry.byte_len = wc.byte_len;
    RecvWqe wqe;
    wqe.name = taken.name;
    qp.count(VRDMA_COUNTER_RX_MESSAGES);
    qp.count(VRDMA_COUNTER_RX_BYTES, wc.byte_len);
    // A completion does not tell whether the sender asked for an event, so it counts as if.
    if (complete_receive(qp, wqe, entry, true) && !stopping_) {
        establish(qp);
        take_receives(*this);
    }
}

void Connection::completed_receive(const ibv_wc& wc, std::uint16_t sequence) noexcept {
    if (wc.status == IBV_WC_WR_FLUSH_ERR) {
        return stopping_ ? void() : enter_error(qp);
    }
    if (receives.empty() || static_cast<std::uint16_t>(qp.rq.head()) != sequence) {
        return distrust();
    }
    if (wc.status == IBV_WC_SUCCESS) {
        const bool fits = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM ||
                          (wc.opcode == IBV_WC_RECV && wc.byte_len <= receives.front().length);
        return fits ? finish_receive(wc) : distrust();
    }
    RecvWqe wqe;
    wqe.name = receives.front().name;
    receives.pop_front();
    const ibv_wc_status status = wc.status;
    vrdma_cqe entry{};
    entry.ctrl = VRDMA_SET(VRDMA_CQE_STATUS, static_cast<std::uint32_t>(status)) |
                 VRDMA_SET(VRDMA_CQE_OPCODE, std::uint32_t{IBV_WC_RECV});
    entry.vendor_err = reason_of(status);
    qp.count(VRDMA_COUNTER_LOCAL_ERRORS);
    if (complete_receive(qp, wqe, entry, true) && !stopping_) {
        enter_error(qp);
    }
}

} // namespace vrdma::hca::soft::offload
