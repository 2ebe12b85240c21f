// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Queue pairs. The slice keeps their attributes, since it moves them to SQE and ERR by itself.
#pragma once

#include "mediator/verbs/address_vector.h"
#include "mediator/verbs/counter_set.h"
#include "mediator/verbs/cq.h"
#include "mediator/verbs/pd.h"
#include "mediator/verbs/resources.h"
#include "mediator/verbs/srq.h"
#include "mediator/verbs/xrcd.h"

namespace vrdma::verbs {

struct QpState {
    static constexpr std::uint32_t version = 6;

    std::uint32_t qpn;
    std::uint32_t ucontext;
    std::uint32_t pd;
    std::uint32_t send_cq;
    std::uint32_t recv_cq;
    std::uint32_t srq;
    std::uint32_t xrcd;
    std::uint32_t counter_set;
    std::uint32_t sq_depth;
    std::uint32_t rq_depth;
    std::uint32_t max_inline;
    std::uint16_t max_send_sge;
    std::uint16_t max_recv_sge;
    std::uint8_t sq_stride_shift;
    std::uint8_t rq_stride_shift;
    std::uint8_t qp_type;
    std::uint8_t flags;
    hca::QpState slice;
};

// Behind the record and the held receive of a QP of PVRDMA.
struct PvrdmaQpState {
    std::uint64_t held_number; // of the held receive
    std::uint32_t handle;
    std::uint32_t reserved;
};

struct Qp {
    UcontextId ucontext;
    hca::QpSpec spec;
    std::uint32_t doorbell_slot = 0;
    MemoryBudget::Lease lease;
    UseCount::Hold owner;
    UseCount::Hold pd;
    UseCount::Hold send_cq;
    UseCount::Hold recv_cq;
    UseCount::Hold srq;
    UseCount::Hold xrcd;
    CounterSetId counter_set;
    UseCount::Hold held_counter_set;
    UseCount users; // multicast groups
};

struct NewQp {
    Qpn qpn;
    std::uint32_t doorbell_slot;
};

class QpTable {
  public:
    QpTable(Resources& resources, UcontextTable& ucontexts, PdTable& pds, CqTable& cqs,
            SrqTable& srqs, XrcdTable& xrcds, CounterSetTable& counter_sets, const GidTable& gids,
            const hca::QpnRange& qpns);

    // The handle is for guests of PVRDMA, which have one beside the QPN.
    Result<NewQp> create(const vrdma_cmd_create_qp& cmd, std::uint32_t handle = 0);
    Result<> modify(const vrdma_cmd_modify_qp& cmd);
    Result<vrdma_qp_attr> query(Qpn id) const;
    Result<vrdma_counters> counters(Qpn id) const;
    // CounterSetId{} unbinds the QP.
    Result<> bind_counter_set(Qpn id, CounterSetId set);
    Result<> destroy(Qpn id);
    Qp* find(Qpn id) { return table_.find(id); }

    std::size_t size() const { return table_.size(); }
    std::vector<Qpn> ids() const { return table_.sorted_ids(); }
    // Those that are connected by one of these. Datagrams have their AHs.
    std::size_t users_of(Protocols protocols) const;
    void save(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    Result<> check(const Qp& qp) const;
    Result<> check_owner(UcontextId ucontext, const hca::QpSpec& spec) const;
    Result<> check_srq(UcontextId ucontext, const hca::QpSpec& spec) const;
    Result<> check_xrc_recv(const Qp& qp) const;
    Result<> check_sizes(const hca::QpSpec& spec) const;
    Result<Qpn> pick_number(const hca::QpSpec& spec, std::uint8_t type);
    bool valid_number(const QpState& state) const;
    Result<> check_path(const vrdma_qp_attr& attr) const;
    Result<Buffer> read_queues(const vrdma_cmd_create_qp& cmd, const hca::QpSpec& spec);
    Result<std::uint32_t> add(Qp qp, Buffer buffer);
    Result<PvrdmaQpState> take_pvrdma_state(StateReader& reader) const;
    Result<> restore_slice(Qpn id, const QpState& state, std::span<const vrdma_sge> held,
                           const PvrdmaQpState& pvrdma);
    Result<> restore_one(StateReader& reader);

    Resources& resources_;
    UcontextTable& ucontexts_;
    PdTable& pds_;
    CqTable& cqs_;
    SrqTable& srqs_;
    XrcdTable& xrcds_;
    CounterSetTable& counter_sets_;
    const GidTable& gids_;
    RandomIds qpns_;
    ObjectTable<Qpn, Qp> table_;
};

} // namespace vrdma::verbs
