// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An HCA that moves no data. It records its calls, and fails when a test asks it to.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "mediator/hca/hca.h"

namespace vrdma::hca {

class FakeSlice final : public Slice {
  public:
    std::optional<std::errc> next_error; // of the next call that can fail
    bool out_of_memory = false;          // that call throws std::bad_alloc instead

    Share share{};
    std::uint64_t pace = 0;
    sniffer::Ring* sniffer_ring = nullptr;
    Iova status_page{};
    std::uint64_t clock_now = 0;
    bool frozen = false;
    int steps_to_touch = 0; // for a ring
    int steps_to_thaw = 0;
    bool gave_way = false;
    std::optional<std::errc> touch_error;
    int unused = 0; // steps of give_back() that are left
    int unused_of_a_region = 0;
    std::map<std::uint32_t, Gid> gids;
    std::map<std::uint32_t, std::uint16_t> vlans; // by the GID's index
    std::map<EqId, EqSpec> eqs;
    std::map<Cqn, CqSpec> cqs;
    std::map<Key, MrSpec> mrs;
    std::map<Key, MwSpec> mws;
    std::map<AhId, AhSpec> ahs;
    std::map<Srqn, SrqSpec> srqs;
    std::map<Qpn, QpSpec> qps;
    std::map<Gid, std::set<Qpn>> groups;
    std::set<std::uint64_t> services;
    std::map<EqId, EqState> eq_states;
    std::map<Cqn, CqState> cq_states;
    std::map<Srqn, SrqState> srq_states;
    std::map<Key, FastMrState> fast_states;
    std::map<Key, std::vector<Iova>> fast_pages;
    std::map<Key, MwState> mw_states;
    std::map<Qpn, QpState> qp_states;
    std::map<Qpn, std::vector<vrdma_sge>> held_receives;
    std::map<Qpn, std::vector<std::byte>> connections; // of those that are connected
    vrdma_counters counted{};
    vrdma_counters counted_of_qp{};
    vrdma_counters counted_of_set{};
    vrdma_counters counted_of_sets{};
    std::set<CounterSetId> counter_sets;
    std::map<Qpn, CounterSetId> bound;
    std::uint8_t mtu = IBV_MTU_4096;
    bool up = true;
    std::uint32_t mbps = 0;
    std::map<Key, std::map<std::uint64_t, std::pair<Iova, bool>>> mapped; // page: where, writable
    std::vector<std::pair<Key, std::pair<std::uint64_t, std::uint64_t>>> refused;
    std::vector<EqId> eq_order; // in which they were created
    std::function<void()> during_create_eq;

    Costs costs() const override { return {}; }
    QueueFormat queue_format = QueueFormat::vrdma;
    QueueFormat format() const override { return queue_format; }
    std::vector<std::pair<Cqn, bool>> armed; // solicited only?
    void arm_cq(Cqn id, bool solicited_only) override { armed.emplace_back(id, solicited_only); }
    void set_share(const Share& wanted) override { share = wanted; }
    void set_pace(std::uint64_t bytes_per_second) override { pace = bytes_per_second; }
    void set_sniffer(sniffer::Ring* ring) override { sniffer_ring = ring; }

    Result<bool> touch(const Translation&, std::uint64_t&) override {
        if (touch_error) {
            return fail(*std::exchange(touch_error, {}));
        }
        steps_to_touch = std::max(steps_to_touch - 1, 0);
        return steps_to_touch != 0;
    }

    Result<> set_status_page(Iova page) override {
        status_page = page;
        return outcome();
    }

    Result<> set_gid(std::uint32_t index, std::uint8_t, const Gid& gid,
                     std::uint16_t vlan) override {
        return outcome().map([&] {
            if (gid == Gid{}) {
                gids.erase(index);
            } else {
                gids[index] = gid;
                vlans[index] = vlan;
            }
        });
    }

    std::uint8_t max_mtu() const override { return mtu; }
    bool port_up() const override { return up; }
    std::uint32_t port_mbps() const override { return mbps; }

    Result<> create_eq(const EqSpec& spec) override {
        if (during_create_eq) {
            during_create_eq();
        }
        return add(eqs, eq_states, spec).map([&] { eq_order.push_back(spec.id); });
    }
    void destroy_eq(EqId id) override { remove(eqs, eq_states, id); }

    Result<> create_cq(const CqSpec& spec) override { return add(cqs, cq_states, spec); }
    Result<> resize_cq(Cqn id, const Translation& pages, std::uint32_t depth) override {
        return outcome().map([&] {
            cqs.at(id).pages = pages;
            cqs.at(id).depth = depth;
        });
    }
    Result<> moderate_cq(Cqn id, const CqModeration& moderation) override {
        return outcome().map([&] { cqs.at(id).moderation = moderation; });
    }
    void destroy_cq(Cqn id) override { remove(cqs, cq_states, id); }

    Result<> register_mr(MrSpec spec) override {
        return outcome().map([&] {
            if (spec.fast_pages != 0) {
                fast_states[spec.key].key = spec.key.value;
                fast_pages[spec.key] = {};
            }
            mrs.emplace(spec.key, std::move(spec));
        });
    }
    Result<> reregister_mr(MrSpec spec) override {
        return outcome().map([&] { mrs.at(spec.key) = std::move(spec); });
    }
    bool give_back() override {
        unused = std::max(unused - 1, 0);
        return unused != 0;
    }

    Result<> deregister_mr(Key key) override {
        return outcome().map([&] {
            mrs.erase(key);
            unused += unused_of_a_region;
        });
    }

    Result<> allocate_mw(const MwSpec& spec) override {
        return outcome().map([&] {
            mws.emplace(spec.key, spec);
            mw_states[spec.key].key = spec.key.value;
        });
    }
    void deallocate_mw(Key key) override {
        mws.erase(key);
        mw_states.erase(key);
    }

    void map_pages(Key key, std::uint64_t first, std::span<const Iova> pages,
                   bool writable) override {
        for (std::size_t i = 0; i < pages.size(); ++i) {
            mapped[key][first + i] = {pages[i], writable};
        }
    }
    void refuse_pages(Key key, std::uint64_t first, std::uint64_t count) override {
        refused.push_back({key, {first, count}});
    }
    void unmap_pages(Key key, std::uint64_t first, std::uint64_t count) override {
        std::erase_if(mapped[key], [&](const auto& page) {
            return page.first >= first && page.first - first < count;
        });
    }

    Result<> create_ah(const AhSpec& spec) override {
        return outcome().map([&] { ahs.emplace(spec.id, spec); });
    }
    void destroy_ah(AhId id) override { ahs.erase(id); }

    Result<> create_srq(const SrqSpec& spec) override { return add(srqs, srq_states, spec); }
    Result<> modify_srq(Srqn id, std::uint32_t limit) override {
        return outcome().map([&] { srq_states.at(id).limit = limit; });
    }
    Result<> resize_srq(Srqn id, const Translation& pages, std::uint32_t depth,
                        std::optional<std::uint32_t> limit) override {
        return outcome().map([&] {
            srqs.at(id).pages = pages;
            srqs.at(id).depth = depth;
            srq_states.at(id).limit = limit.value_or(srq_states.at(id).limit);
        });
    }
    Result<std::uint32_t> query_srq(Srqn id) const override { return srq_states.at(id).limit; }
    void destroy_srq(Srqn id) override { remove(srqs, srq_states, id); }

    Result<std::uint32_t> create_qp(const QpSpec& spec) override {
        return add(qps, qp_states, spec).map([&] {
            held_receives[spec.id] = {};
            return qp_states[spec.id].doorbell_slot =
                       VRDMA_DOORBELL_FIRST_SLOT + static_cast<std::uint32_t>(qps.size());
        });
    }

    // Keeps the attributes that the mask names, as a QP does.
    Result<> modify_qp(Qpn id, const vrdma_qp_attr& attr) override {
        return outcome().map([&] { merge(qp_states.at(id).attr, attr); });
    }
    Result<vrdma_qp_attr> query_qp(Qpn id) const override { return qp_states.at(id).attr; }
    Result<> attach_multicast(Qpn id, const Gid& group) override {
        return outcome().map([&] { groups[group].insert(id); });
    }
    void detach_multicast(Qpn id, const Gid& group) override { groups.at(group).erase(id); }

    void listen(std::uint64_t service) override {
        if (std::exchange(out_of_memory, false)) {
            throw std::bad_alloc{};
        }
        services.insert(service);
    }
    void unlisten(std::uint64_t service) override { services.erase(service); }
    void destroy_qp(Qpn id) override {
        remove(qps, qp_states, id);
        held_receives.erase(id);
        connections.erase(id);
    }

    vrdma_counters counters() const override { return counted; }
    Result<vrdma_counters> qp_counters(Qpn) const override { return counted_of_qp; }
    Result<> create_counter_set(CounterSetId id) override {
        return outcome().map([&] { counter_sets.insert(id); });
    }
    void destroy_counter_set(CounterSetId id) override { counter_sets.erase(id); }
    void bind_counter_set(Qpn qp, CounterSetId set) override { bound[qp] = set; }
    Result<vrdma_counters> set_counters(CounterSetId) const override { return counted_of_set; }
    vrdma_counters counters_of_sets() const override { return counted_of_sets; }

    std::uint64_t clock() const override { return clock_now; }
    void set_clock(std::uint64_t now) override { clock_now = now; }

    void freeze() override { frozen = true; }
    void give_way() override { gave_way = true; }
    bool thaw() override {
        frozen = false;
        steps_to_thaw = std::max(steps_to_thaw - 1, 0);
        return steps_to_thaw != 0;
    }

    EqState save_eq(EqId id) const override { return saved(eq_states, id); }
    CqState save_cq(Cqn id) const override { return saved(cq_states, id); }
    SrqState save_srq(Srqn id) const override { return saved(srq_states, id); }
    FastMrState save_fast_mr(Key key) const override { return saved(fast_states, key); }
    std::vector<Iova> save_fast_pages(Key key) const override { return saved(fast_pages, key); }
    MwState save_mw(Key key) const override { return saved(mw_states, key); }
    QpState save_qp(Qpn id) const override { return saved(qp_states, id); }
    Result<> restore_eq(EqId id, const EqState& state) override {
        return outcome().map([&] { eq_states[id] = state; });
    }
    Result<> restore_cq(Cqn id, const CqState& state) override {
        return outcome().map([&] { cq_states[id] = state; });
    }
    Result<> restore_srq(Srqn id, const SrqState& state) override {
        return outcome().map([&] { srq_states[id] = state; });
    }
    Result<> restore_fast_mr(Key key, const FastMrState& state,
                             std::span<const Iova> pages) override {
        return outcome().map([&] {
            fast_states[key] = state;
            fast_pages[key] = {pages.begin(), pages.end()};
        });
    }
    Result<> restore_mw(Key key, const MwState& state) override {
        return outcome().map([&] { mw_states[key] = state; });
    }
    std::vector<vrdma_sge> save_held_receive(Qpn id) const override {
        return saved(held_receives, id);
    }
    std::uint64_t save_held_number(Qpn) const override { return 0; }
    Result<> restore_held_number(Qpn, std::uint64_t) override { return {}; }
    std::vector<std::byte> save_connection(Qpn id) const override { return saved(connections, id); }
    Result<> restore_connection(Qpn id, std::span<const std::byte> state) override {
        return outcome().map([&] { connections[id] = {state.begin(), state.end()}; });
    }
    Result<> restore_qp(Qpn id, const QpState& state, std::span<const vrdma_sge> held) override {
        return outcome().map([&] {
            qp_states[id] = state;
            held_receives[id] = {held.begin(), held.end()};
        });
    }

  private:
    Result<> outcome() {
        if (std::exchange(out_of_memory, false)) {
            throw std::bad_alloc{};
        }
        if (next_error) {
            return fail(*std::exchange(next_error, {}));
        }
        return {};
    }

    template <typename Specs, typename States, typename Spec>
    Result<> add(Specs& specs, States& states, const Spec& spec) {
        return outcome().map([&] {
            assert(!specs.contains(spec.id));
            specs.emplace(spec.id, spec);
            states[spec.id] = {};
        });
    }

    template <typename Specs, typename States, typename IdType>
    void remove(Specs& specs, States& states, IdType id) {
        assert(specs.contains(id));
        specs.erase(id);
        states.erase(id);
    }

    template <typename States, typename IdType>
    typename States::mapped_type saved(const States& states, IdType id) const {
        assert(frozen);
        return states.at(id);
    }

    static void merge(vrdma_qp_attr& all, const vrdma_qp_attr& some) {
        const auto take = [&](std::uint32_t field, auto vrdma_qp_attr::*member) {
            if ((some.attr_mask & field) != 0) {
                all.*member = some.*member;
            }
        };
        if ((some.attr_mask & IBV_QP_STATE) != 0 && some.state == IBV_QPS_RESET) {
            all = {};
            return;
        }
        all.attr_mask |= some.attr_mask;
        take(IBV_QP_STATE, &vrdma_qp_attr::state);
        take(IBV_QP_PATH_MTU, &vrdma_qp_attr::path_mtu);
        take(IBV_QP_PORT, &vrdma_qp_attr::port_num);
        take(IBV_QP_QKEY, &vrdma_qp_attr::qkey);
        take(IBV_QP_RQ_PSN, &vrdma_qp_attr::rq_psn);
        take(IBV_QP_SQ_PSN, &vrdma_qp_attr::sq_psn);
        take(IBV_QP_DEST_QPN, &vrdma_qp_attr::dest_qpn);
        take(IBV_QP_ACCESS_FLAGS, &vrdma_qp_attr::access_flags);
        take(IBV_QP_TIMEOUT, &vrdma_qp_attr::timeout);
        take(IBV_QP_AV, &vrdma_qp_attr::av);
    }
};

// Gives tests access to the newest slice and its host.
class FakeHca final : public Hca {
  public:
    std::optional<std::errc> next_error;
    FakeSlice* slice = nullptr;
    SliceHost* host = nullptr;
    SliceSpec spec;
    unsigned carved = 0;
    bool out_of_memory = false; // the next carve() throws std::bad_alloc
    std::uint32_t version = 1;  // of connections

    Result<std::unique_ptr<Slice>> carve(const SliceSpec& spec_, SliceHost& host_) override {
        if (std::exchange(out_of_memory, false)) {
            throw std::bad_alloc{};
        }
        if (next_error) {
            return fail(*std::exchange(next_error, {}));
        }
        auto made = std::make_unique<FakeSlice>();
        made->queue_format = spec_.format;
        slice = made.get();
        host = &host_;
        spec = spec_;
        ++carved;
        return made;
    }
    std::uint32_t connection_version() const noexcept override { return version; }
};

} // namespace vrdma::hca
