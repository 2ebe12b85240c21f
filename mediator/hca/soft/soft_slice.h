// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The control thread's side of a slice: prepares objects, then links them in on the poller's
// thread, so that pollers neither allocate nor wait. soft_slice_*.cpp have its calls, object by
// object.
#pragma once

#include <functional>

#include "mediator/hca/soft/memory/unused_pages.h"
#include "mediator/hca/soft/poller/pollers.h"
#include "mediator/hca/soft/slice/slice_core.h"

namespace vrdma::hca::soft {

inline constexpr auto no_such_object = std::errc::no_such_file_or_directory;

class SoftSlice : public Slice {
  public:
    static Result<std::unique_ptr<SoftSlice>> carve(Pollers& pollers, const SliceSpec& spec,
                                                    SliceHost& host);
    SoftSlice(const SoftSlice&) = delete;
    SoftSlice& operator=(const SoftSlice&) = delete;
    ~SoftSlice() override;

    Costs costs() const override;
    QueueFormat format() const override { return core_->format(); }
    void set_share(const Share& share) override;
    void set_pace(std::uint64_t bytes_per_second) override;
    void set_sniffer(sniffer::Ring* ring) override;

    Result<bool> touch(const Translation& ring, std::uint64_t& offset) override;
    Result<> set_status_page(Iova page) override;
    Result<> set_gid(std::uint32_t index, std::uint8_t type, const Gid& gid,
                     std::uint16_t vlan) override;
    std::uint8_t max_mtu() const override;
    HardwareLimits hardware_limits() const override {
        return core_->port() != nullptr ? core_->port()->limits() : HardwareLimits{};
    }
    bool port_up() const override { return core_->port_up(); }
    std::uint32_t port_mbps() const override { return core_->port_mbps(); }

    Result<> create_eq(const EqSpec& spec) override;
    void destroy_eq(EqId id) override;

    Result<> create_cq(const CqSpec& spec) override;
    Result<> resize_cq(Cqn id, const Translation& pages, std::uint32_t depth) override;
    Result<> moderate_cq(Cqn id, const CqModeration& moderation) override;
    void arm_cq(Cqn id, bool solicited_only) override;
    void destroy_cq(Cqn id) override;

    Result<> register_mr(MrSpec spec) override;
    Result<> reregister_mr(MrSpec spec) override;
    Result<> deregister_mr(Key key) override;

    void map_pages(Key key, std::uint64_t first, std::span<const Iova> pages,
                   bool writable) override;
    void refuse_pages(Key key, std::uint64_t first, std::uint64_t count) override;
    void unmap_pages(Key key, std::uint64_t first, std::uint64_t count) override;

    Result<> allocate_mw(const MwSpec& spec) override;
    void deallocate_mw(Key key) override;

    bool chooses_names() const override;
    Result<std::optional<Qpn>> name_qp(const QpSpec& spec) override;
    Result<std::optional<Key>> name_mr(const MrSpec& spec) override;

    Result<> create_ah(const AhSpec& spec) override;
    void destroy_ah(AhId id) override;

    Result<> create_srq(const SrqSpec& spec) override;
    Result<> modify_srq(Srqn id, std::uint32_t limit) override;
    Result<> resize_srq(Srqn id, const Translation& pages, std::uint32_t depth,
                        std::optional<std::uint32_t> limit) override;
    Result<std::uint32_t> query_srq(Srqn id) const override;
    void destroy_srq(Srqn id) override;

    Result<std::uint32_t> create_qp(const QpSpec& spec) override;
    Result<> modify_qp(Qpn id, const vrdma_qp_attr& attr) override;
    Result<vrdma_qp_attr> query_qp(Qpn id) const override;
    void destroy_qp(Qpn id) override;

    Result<> attach_multicast(Qpn id, const Gid& group) override;
    void detach_multicast(Qpn id, const Gid& group) override;

    void listen(std::uint64_t service) override;
    void unlisten(std::uint64_t service) override;

    bool give_back() override;
    void revoke(Iova first, std::uint64_t length) override;

    vrdma_counters counters() const override;
    Result<vrdma_counters> qp_counters(Qpn id) const override;
    Result<> create_counter_set(CounterSetId id) override;
    void destroy_counter_set(CounterSetId id) override;
    void bind_counter_set(Qpn qp, CounterSetId set) override;
    Result<vrdma_counters> set_counters(CounterSetId id) const override;
    vrdma_counters counters_of_sets() const override;
    std::uint64_t clock() const override;
    void set_clock(std::uint64_t now) override;

    void freeze() override;
    void let_go() override;
    void give_way() override;
    bool thaw() override;

    EqState save_eq(EqId id) const override;
    CqState save_cq(Cqn id) const override;
    SrqState save_srq(Srqn id) const override;
    FastMrState save_fast_mr(Key key) const override;
    std::vector<Iova> save_fast_pages(Key key) const override;
    MwState save_mw(Key key) const override;
    QpState save_qp(Qpn id) const override;
    std::vector<vrdma_sge> save_held_receive(Qpn id) const override;
    std::uint64_t save_held_number(Qpn id) const override;
    std::vector<std::byte> save_connection(Qpn id) const override;
    Result<> restore_eq(EqId id, const EqState& state) override;
    Result<> restore_cq(Cqn id, const CqState& state) override;
    Result<> restore_srq(Srqn id, const SrqState& state) override;
    Result<> restore_fast_mr(Key key, const FastMrState& state,
                             std::span<const Iova> pages) override;
    Result<> restore_mw(Key key, const MwState& state) override;
    Result<> restore_qp(Qpn id, const QpState& state,
                        std::span<const vrdma_sge> held_receive) override;
    Result<> restore_held_number(Qpn id, std::uint64_t number) override;
    Result<> restore_connection(Qpn id, std::span<const std::byte> state) override;

    const Poller& poller() const noexcept { return poller_; }

  private:
    SoftSlice(Pollers& pollers, const SliceSpec& spec, SliceHost& host);

    // Ensures that the guest has the pages of a ring. Does nothing if they were touched before, or
    // if the slice is frozen and must not touch guest memory.
    Result<> populate(const GuestBuffer& ring, const Translation& pages) const;

    // Executes call(core) on the poller's thread, and returns its result.
    template <typename Call>
    auto on_poller(Call&& call) const {
        decltype(call(*core_)) result{};
        poller_.run([&](Engine&) { result = call(*core_); });
        return result;
    }

    // Returns a function that executes a step on the poller's thread.
    auto on_poller_in_steps() const {
        return [this](auto&& step) { poller_.run([&](Engine&) { step(); }); };
    }

    Result<> give_to_network(const MrSpec& spec, MemoryRegion& region);
    void add_name(Qpn id);
    void remove_name(Qpn id);
    template <typename Resize>
    Result<> replace_ring(const Translation& pages, Resize&& resize);
    void halt();
    void dismantle();
    void clear_gid(std::uint32_t index);
    void for_each_gid(const std::function<void(RoutingTable&, const GidKey&)>& change);
    void retire(MemoryRegion& region);
    void leave(const Gid& group);
    // Waits until nobody touches memory that this slice no longer has.
    void drain() { pollers_.drain(poller_); }

    Pollers& pollers_;
    Poller& poller_; // the slice's own
    AddressKeeper* const keeper_;
    std::unique_ptr<SliceCore> core_;
    Poller::Watch kick_;
    std::vector<std::uint64_t> services_; // that it listens to
    UnusedPages unused_;
    bool gave_way_ = false;
    SliceCore::Qps::const_iterator next_to_thaw_; // set by the first step of thaw()
};

} // namespace vrdma::hca::soft
