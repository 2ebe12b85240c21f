// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/slice/slice_core.h"

#include "mediator/base/rollback.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {
namespace {

template <typename Map, typename Key>
auto* find(const Map& map, const Key& key) noexcept {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : found->second.get();
}

// Of a slice whose port names its QPs.
constexpr QpnRange only_gsi{gsi_qpn.value, gsi_qpn.value};

} // namespace

SliceCore::SliceCore(Engine& engine, const SliceSpec& spec, SliceHost& host)
    : engine_{engine},
      memory_{*spec.memory},
      host_{host},
      port_{engine.find_port(spec.uplink)},
      member_{port_ != nullptr ? port_->join(std::hash<std::string>{}(spec.name)) : nullptr},
      qpns_{member_ != nullptr && member_->chooses_names() ? only_gsi : spec.qpns},
      mac_{spec.mac},
      format_{spec.format},
      loses_requests_{spec.loses_requests},
      pages_{spec.doorbells},
      doorbells_{engine.scheduler(), engine.doorbells()},
      traffic_classes_{spec.traffic_classes},
      service_levels_{spec.service_levels},
      pkeys_{spec.pkeys},
      run_queue_{spec.share},
      gate_{*spec.memory} {}

std::uint32_t SliceCore::max_mtu() const noexcept {
    return port_ != nullptr ? port_->max_mtu() : hca::max_mtu;
}

bool SliceCore::port_up() const noexcept {
    return port_ == nullptr || port_->up();
}

std::uint32_t SliceCore::port_mbps() const noexcept {
    return port_ != nullptr ? port_->mbps() : 0;
}

// A frozen slice announces its port when it is thawed.
void SliceCore::announce_port() noexcept {
    if (async_eq_ != nullptr && !frozen_) {
        async_eq_->set_port(port_up());
        engine_.events().activate(*async_eq_);
    }
}

EventQueue* SliceCore::eq(EqId id) const noexcept {
    return find(eqs_, id);
}
CompletionQueue* SliceCore::cq(Cqn id) const noexcept {
    return find(cqs_, id);
}
SharedReceiveQueue* SliceCore::srq(Srqn id) const noexcept {
    return find(srqs_, id);
}
QueuePair* SliceCore::qp(Qpn id) const noexcept {
    return find(qps_, id);
}

const AddressHandle* SliceCore::ah(AhId id) const noexcept {
    const auto found = ahs_.find(id);
    return found == ahs_.end() ? nullptr : &found->second;
}

CounterSet* SliceCore::counter_set(CounterSetId id) const noexcept {
    return find(counter_sets_, id);
}

const GidKey* SliceCore::gid(std::uint32_t index) const noexcept {
    return index < gids_.size() && gids_[index] ? &*gids_[index] : nullptr;
}

bool SliceCore::is_in_vlan(std::uint16_t vlan) const noexcept {
    return vlan == 0 || std::ranges::any_of(gids_, [&](const std::optional<GidKey>& key) {
               return key && key->vlan == vlan;
           });
}

std::span<QueuePair* const> SliceCore::group(const Gid& gid) const noexcept {
    const auto found = groups_.find(gid);
    return found != groups_.end() ? std::span<QueuePair* const>{found->second}
                                  : std::span<QueuePair* const>{};
}

bool SliceCore::attach(QueuePair& qp, const Gid& group) {
    auto& members = groups_[group];
    members.push_back(&qp);
    return members.size() == 1;
}

bool SliceCore::detach(QueuePair& qp, const Gid& group) noexcept {
    const auto found = groups_.find(group);
    if (found == groups_.end() || std::erase(found->second, &qp) == 0 || !found->second.empty()) {
        return false;
    }
    groups_.erase(found);
    return true;
}

std::vector<Gid> SliceCore::groups() const {
    std::vector<Gid> gids;
    for (const auto& [gid, members] : groups_) {
        gids.push_back(gid);
    }
    return gids;
}

Result<> SliceCore::set_status_page(Iova page) noexcept {
    std::byte* data = memory_.at(page, sizeof(vrdma_status_page));
    if (data == nullptr || raw(page) % VRDMA_PAGE_SIZE != 0) {
        return fail(std::errc::bad_address);
    }
    status_ = reinterpret_cast<vrdma_status_page*>(data);
    set_need_kick(false);
    return {};
}

void SliceCore::set_need_kick(bool need) noexcept {
    if (status_ != nullptr && !frozen_) {
        store_relaxed(status_->need_kick, need ? 1u : 0u);
    }
}

void SliceCore::set_gid(std::uint32_t index, const std::optional<GidKey>& key) {
    if (index >= gids_.size()) {
        gids_.resize(index + 1);
    }
    gids_[index] = key;
}

Result<> SliceCore::insert(std::unique_ptr<EventQueue> eq) {
    EventQueue* const added = eq.get();
    if (!eqs_.emplace(added->id(), std::move(eq)).second) {
        return fail(std::errc::file_exists);
    }
    if (async_eq_ == nullptr) {
        async_eq_ = added;
        announce_port();
    }
    return {};
}

Result<> SliceCore::insert(std::unique_ptr<CompletionQueue> cq) {
    const Cqn id = cq->id();
    if (!cqs_.emplace(id, std::move(cq)).second) {
        return fail(std::errc::file_exists);
    }
    Rollback undo{[&] { remove(id); }};
    engine_.completion_queue_added();
    undo.keep();
    return {};
}

Result<> SliceCore::insert(std::unique_ptr<SharedReceiveQueue> srq) {
    const Srqn id = srq->id;
    if (!srqs_.emplace(id, std::move(srq)).second) {
        return fail(std::errc::file_exists);
    }
    return {};
}

Result<std::uint32_t> SliceCore::insert(std::unique_ptr<QueuePair> qp) {
    QueuePair& added = *qp;
    if (added.doorbell_page >= pages_.size()) {
        return fail(std::errc::invalid_argument);
    }
    if (!qps_.emplace(added.id, std::move(qp)).second) {
        return fail(std::errc::file_exists);
    }
    if (added.send_cq != nullptr) {
        added.send_cq->members.push_back(added.send_member);
    }
    if (added.recv_cq != nullptr) {
        added.recv_cq->members.push_back(added.recv_member);
    }
    Rollback undo{[&] { take_out(added.id); }};
    engine_.queue_pair_added();
    const std::uint32_t slot = doorbells_.attach(page_of(added), added);
    undo.keep();
    return slot;
}

Result<> SliceCore::insert(AhId id, AddressHandle ah) {
    if (!ahs_.emplace(id, std::move(ah)).second) {
        return fail(std::errc::file_exists);
    }
    return {};
}

Result<> SliceCore::insert(CounterSetId id, std::unique_ptr<CounterSet> set) {
    return counter_sets_.emplace(id, std::move(set)).second ? Result<>{}
                                                            : fail(std::errc::file_exists);
}

std::unique_ptr<EventQueue> SliceCore::remove(EqId id) noexcept {
    auto node = eqs_.extract(id);
    if (node.empty()) {
        return nullptr;
    }
    EventQueue& eq = *node.mapped();
    engine_.events().forget(eq);
    eq.dismiss();
    if (async_eq_ == &eq) {
        async_eq_ = nullptr;
    }
    return std::move(node.mapped());
}

std::unique_ptr<CompletionQueue> SliceCore::remove(Cqn id) noexcept {
    auto node = cqs_.extract(id);
    if (node.empty()) {
        return nullptr;
    }
    CompletionQueue& cq = *node.mapped();
    engine_.events().forget(cq);
    if (cq.eq() != nullptr) {
        cq.eq()->leave(cq.completion_event);
    }
    if (async_eq_ != nullptr) {
        async_eq_->leave(cq.error_event);
    }
    engine_.completion_queue_removed();
    return std::move(node.mapped());
}

std::unique_ptr<SharedReceiveQueue> SliceCore::take_out(Srqn id) noexcept {
    auto node = srqs_.extract(id);
    if (node.empty()) {
        return nullptr;
    }
    if (async_eq_ != nullptr) {
        async_eq_->leave(node.mapped()->async_events);
    }
    return std::move(node.mapped());
}

std::unique_ptr<QueuePair> SliceCore::take_out(Qpn id) noexcept {
    auto node = qps_.extract(id);
    if (node.empty()) {
        return nullptr;
    }
    QueuePair& qp = *node.mapped();
    doorbells_.detach(page_of(qp), qp);
    engine_.routes().changed();
    if (qp.send_cq != nullptr) {
        qp.send_cq->members.remove(qp.send_member);
    }
    if (qp.recv_cq != nullptr) {
        qp.recv_cq->members.remove(qp.recv_member);
    }
    if (qp.srq != nullptr) {
        qp.srq->holders.remove(qp.srq_holder);
    }
    if (async_eq_ != nullptr) {
        async_eq_->leave(qp.async_events);
    }
    engine_.queue_pair_removed();
    return std::move(node.mapped());
}

AddressHandle SliceCore::remove(AhId id) noexcept {
    auto node = ahs_.extract(id);
    return node.empty() ? AddressHandle{} : std::move(node.mapped());
}

std::unique_ptr<CounterSet> SliceCore::remove(CounterSetId id) noexcept {
    auto node = counter_sets_.extract(id);
    return node.empty() ? nullptr : std::move(node.mapped());
}

Result<> SliceCore::move_doorbell(QueuePair& qp, std::uint32_t slot) {
    const std::uint32_t old = qp.doorbell_slot;
    doorbells_.detach(page_of(qp), qp);
    const auto moved = doorbells_.attach(page_of(qp), qp, slot);
    if (!moved) {
        static_cast<void>(doorbells_.attach(page_of(qp), qp, old));
    }
    return moved;
}

void SliceCore::announce(QueuePair& qp, ibv_event_type event) noexcept {
    engine_.events().announce(async_eq_, qp.async_events, event);
}

void SliceCore::announce_overrun(CompletionQueue& cq) noexcept {
    engine_.events().announce(async_eq_, cq.error_event, IBV_EVENT_CQ_ERR);
}

void SliceCore::announce(SharedReceiveQueue& srq, ibv_event_type event) noexcept {
    engine_.events().announce(async_eq_, srq.async_events, event);
}

void SliceCore::announce_page_faults() noexcept {
    gate_.faults().tell(
        [this](EventSource& source) noexcept { engine_.events().announce(async_eq_, source, 0); });
}

void SliceCore::announce_waiting(CompletionQueue& cq, const CqState& state) noexcept {
    const bool due = cq.format() == QueueFormat::pvrdma && cq.wants_event();
    if (due || (state.events & CqState::completion_waits) != 0) {
        engine_.events().announce(cq.eq(), cq.completion_event, 0);
    }
    if ((state.events & CqState::error_waits) != 0) {
        announce_overrun(cq);
    }
}

void SliceCore::withdraw(QueuePair& qp) noexcept {
    engine_.scheduler().withdraw(qp);
}

void SliceCore::freeze() noexcept {
    gate_.faults().forget_all(); // messages will meet them again
    set_need_kick(true);
    frozen_ = true;
    const auto now = Clock::now();
    frozen_since_ = now < rests_again_ ? frozen_since_ : now;
}

void SliceCore::freeze(CompletionQueue& cq) noexcept {
    engine_.events().hurry(cq);
}

bool SliceCore::freeze(EventQueue& eq) noexcept {
    engine_.events().forget(eq);
    return eq.deliver() == EventQueue::Delivery::more;
}

void SliceCore::thaw() noexcept {
    constexpr int share = 10; // of the time that it must run
    const auto now = Clock::now();
    rests_again_ = now + share * (now - frozen_since_);
    halted_ = false;
    frozen_ = false;
    set_need_kick(false);
    announce_port();
    for (const auto& [id, eq] : eqs_) {
        engine_.events().activate(*eq);
    }
}

void SliceCore::set_pace(std::uint64_t bytes_per_second) noexcept {
    if (bytes_per_second == account().pace()) {
        return;
    }
    paced_ = bytes_per_second != 0;
    engine_.scheduler().set_pace(run_queue_, bytes_per_second);
}

vrdma_doorbell_page& SliceCore::page_of(const QueuePair& qp) const noexcept {
    return pages_[qp.doorbell_page];
}

} // namespace vrdma::hca::soft
