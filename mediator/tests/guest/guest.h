// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A guest within the test's process: memory, doorbell pages, interrupts and objects. The objects
// are made directly on a slice of an HCA, without a device in between.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <memory>

#include "mediator/base/event_fd.h"
#include "mediator/hca/hca.h"
#include "mediator/memory/arena_memory.h"
#include "mediator/tests/guest/completion_queue.h"
#include "mediator/tests/guest/event_queue.h"
#include "mediator/tests/guest/queue_pair.h"
#include "mediator/tests/guest/shared_receive_queue.h"

namespace vrdma::test {

// ::ffff:10.0.0.n
hca::Gid ipv4_gid(std::uint8_t n);

struct MemoryRegion {
    Buffer buffer;
    Key key;
    std::uint64_t start = 0;

    vrdma_sge sge(std::uint64_t offset, std::uint32_t length) const {
        return {start + offset, length, key.value};
    }
    vrdma_sge sge() const { return sge(0, static_cast<std::uint32_t>(buffer.size())); }
};

inline constexpr std::uint32_t all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

struct MrOptions {
    PdId pd{1};
    std::uint32_t access_flags = all_access;
    bool scattered = true;
};

class Guest final : public hca::SliceHost {
  public:
    static constexpr std::uint32_t doorbell_pages = 64;
    static constexpr unsigned vectors = 4;
    static constexpr PdId pd{1};

    Guest(hca::Hca& hca, std::string name, const hca::Gid& gid,
          std::unique_ptr<GuestMemory> memory = default_memory(), const hca::QpnRange& qpns = {},
          std::string uplink = {}, const hca::TrafficClasses& traffic_classes = {},
          const hca::ServiceLevels& service_levels = {}, PKeys pkeys = {default_pkey});
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;
    ~Guest() override;

    hca::Slice& slice() { return *slice_; }
    GuestMemory& memory() { return *memory_; }
    PageAllocator& pages() { return pages_; }
    const hca::Gid& gid() const { return gid_; }
    const vrdma_status_page& status() const { return *status_; }
    // The async event queue.
    GuestEq& eq() { return *eq_; }

    MemoryRegion register_mr(std::uint64_t size, const MrOptions& options = {});
    MemoryRegion register_mr(Buffer buffer, const MrOptions& options = {});
    // No page of the region is mapped.
    MemoryRegion register_on_demand(std::uint64_t size, std::uint32_t access_flags = all_access);
    // A region without memory; a memory window.
    Key allocate_mr(std::uint32_t pages, PdId mr_pd = pd);
    Key allocate_mw(std::uint32_t type, PdId mw_pd = pd);
    // The other fields of the spec are taken as given.
    GuestCq create_cq(std::uint32_t depth = 64, hca::CqSpec spec = {});
    Result<> resize_cq(GuestCq& cq, std::uint32_t depth);
    GuestSrq create_srq(const SrqShape& shape = {});
    Result<> resize_srq(GuestSrq& srq, std::uint32_t depth,
                        std::optional<std::uint32_t> limit = {});
    GuestQp create_qp(const GuestCq& send_cq, const GuestCq& recv_cq, const QpShape& shape = {},
                      std::uint32_t doorbell_page = 1);
    // Such a QP has neither queues nor CQs.
    Qpn create_xrc_recv(XrcdId xrcd);
    AhId create_ah(const hca::Gid& to, PdId ah_pd = pd);

    Doorbell doorbell(std::uint32_t page, std::uint32_t slot);

    // Freezes the slice, and creates another for the same memory, with the same objects in the
    // saved state. Live migration does the same to a device. The guest notices nothing.
    void migrate(hca::Hca& to);
    // Executes all steps of a thaw.
    void thaw() {
        while (slice_->thaw()) {
        }
    }

    unsigned interrupts(unsigned vector) const { return interrupts_[vector].load(); }
    unsigned kicks() const { return kicks_.load(); }

    void raise(unsigned vector) noexcept override { interrupts_.at(vector).fetch_add(1); }
    // Ends the test. The engine must not give a device up, whatever its guest does.
    void fatal(std::string_view why) noexcept override;

    static std::unique_ptr<GuestMemory> default_memory();

  private:
    void carve(hca::Hca& hca);
    void create_objects();

    const std::string name_;
    hca::Gid gid_;
    const hca::QpnRange qpns_;
    const std::string uplink_;
    const hca::TrafficClasses traffic_classes_;
    const hca::ServiceLevels service_levels_;
    const PKeys pkeys_;
    std::unique_ptr<GuestMemory> memory_;
    PageAllocator pages_;
    std::unique_ptr<vrdma_doorbell_page[], void (*)(void*)> doorbells_;
    std::array<std::atomic<unsigned>, vectors> interrupts_{};
    EventFd kick_ = *EventFd::create();
    std::atomic<unsigned> kicks_{0};
    std::unique_ptr<hca::Slice> slice_;
    vrdma_status_page* status_ = nullptr;
    Iova status_page_{};
    std::unique_ptr<GuestEq> eq_;
    std::vector<hca::EqSpec> eq_specs_;
    std::vector<hca::CqSpec> cq_specs_;
    std::vector<hca::MrSpec> mr_specs_;
    std::vector<hca::MwSpec> mw_specs_;
    std::vector<hca::AhSpec> ah_specs_;
    std::vector<hca::SrqSpec> srq_specs_;
    std::vector<hca::QpSpec> qp_specs_;
    std::uint32_t next_id_ = 0x101;
};

// Attributes for the transitions up to RTS.
vrdma_qp_attr init_attr(std::uint32_t access_flags = all_access);
vrdma_qp_attr rtr_attr(const hca::Gid& dgid, Qpn dest_qpn);
vrdma_qp_attr rts_attr();
vrdma_qp_attr state_attr(ibv_qp_state state);

void move_to_init(Guest& guest, const GuestQp& qp, std::uint32_t access_flags = all_access);
// From RESET to RTS, connected to a peer, or (UD) to no particular one.
void connect(Guest& guest, const GuestQp& qp, const hca::Gid& peer_gid, Qpn peer);
void connect(Guest& guest, Qpn qp, const hca::Gid& peer_gid, Qpn peer);
// Connects each QP to the other.
void connect_both(Guest& a, const GuestQp& a_qp, Guest& b, const GuestQp& b_qp);
void activate_ud(Guest& guest, const GuestQp& qp, std::uint32_t qkey);
ibv_qp_state state_of(Guest& guest, const GuestQp& qp);

} // namespace vrdma::test
