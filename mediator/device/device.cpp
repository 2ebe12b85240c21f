// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/device.h"

#include <cassert>
#include <chrono>
#include <utility>

#include "mediator/base/errno.h"
#include "mediator/device/out_of_memory.h"
#include "mediator/device/pvrdma/pvrdma_personality.h"
#include "mediator/device/vrdma/vrdma_personality.h"

namespace vrdma {
namespace {

// How much of the control thread's time a device gets before others have their turn. The turn ends
// with the command that exceeds it.
constexpr int commands_per_turn = 32;
constexpr std::chrono::milliseconds turn_time{2};

bool is_within(const DeviceReport& has, const verbs::Quotas& quotas) {
    return has.pds.used <= quotas.pds && has.mrs.used <= quotas.mrs && has.cqs.used <= quotas.cqs &&
           has.qps.used <= quotas.qps && has.srqs.used <= quotas.srqs &&
           has.xrcds.used <= quotas.xrcds && has.ahs.used <= quotas.ahs &&
           has.blocks.used <= quotas.blocks && has.memory.used <= quotas.memory;
}

std::unique_ptr<Personality> make_personality(PersonalityKind kind, Personality::Owner& owner) {
    if (kind == PersonalityKind::pvrdma) {
        return std::make_unique<PvrdmaPersonality>(owner);
    }
    return std::make_unique<VrdmaPersonality>(owner);
}

} // namespace

Device::Enabled::Enabled(verbs::FunctionNumber number_, std::unique_ptr<hca::Slice> slice_,
                         const Device& device)
    : number{std::move(number_)}, slice{std::move(slice_)}, objects{device.type_.limits,
                                                                    number.id(),
                                                                    device.gids_,
                                                                    device.port_.memory(),
                                                                    device.port_.doorbells(),
                                                                    *slice} {
    objects.resources.set_quotas(device.quotas_);
}

Device::Device(std::string name, const DeviceType& type, verbs::FunctionId function_id,
               HostPort& port, hca::Hca& hca, verbs::GidRegistry& gids, PersonalityKind personality)
    : log_{std::move(name)},
      type_{type},
      function_id_{std::move(function_id)},
      port_{port},
      hca_{hca},
      gids_{gids},
      share_{type.share},
      personality_{make_personality(personality, *this)} {
    assert(port.doorbells().size() == type.limits.doorbell_pages);
    reserve_address();
    reset();
}

Device::~Device() {
    disable();
    give_back_address();
}

void Device::write_register(std::uint32_t offset, std::uint32_t value) {
    personality_->write_register(offset, value);
}

void Device::write_doorbell(std::uint64_t offset, std::uint32_t value) {
    personality_->write_doorbell(offset, value);
}

// --- life cycle ---

void Device::want_enabled(bool wanted) {
    const bool enables = wanted && !enabled_;
    if (enables && !port_.bus_master()) {
        fail_device("the driver enabled it while Bus Master is clear");
    } else if (suspended()) {
        enabled_later_ = enables;
    } else if (enables) {
        enable();
    }
}

void Device::enable() {
    const Change change{changes_};
    const auto enabled = with_what_memory_there_is([this] {
        return verbs::FunctionNumber::take_some(function_id_).and_then([this](auto number) {
            return try_enable(std::move(number));
        });
    });
    if (!enabled) {
        fail_device(
            fmt::format("cannot be enabled with these registers: {}", describe(enabled.error())));
        return;
    }
    personality_->show_enabled();
    log_.info("enabled");
    const verbs::Identity& identity = function_id_.identity();
    if (!identity.uplink.empty() && identity.prefixes.empty()) {
        log_.warn(
            "it is bound to uplink '{}' and may use only its link-local address there:"
            " give it 'addresses' (vrdmad.conf(5), vrdmad(8))",
            identity.uplink);
    }
}

Result<std::unique_ptr<hca::Slice>> Device::carve(const verbs::FunctionId& id) {
    const verbs::Limits& limits = type_.limits;
    auto slice = hca_.carve({.name = name(),
                             .memory = &port_.memory(),
                             .doorbells = port_.doorbells(),
                             .kick_fd = port_.kick_fd(),
                             .qpns = id.endport->qpns(id.function),
                             .uplink = function_id_.identity().uplink,
                             .mac = function_id_.identity().mac,
                             .traffic_classes = function_id_.identity().traffic_classes,
                             .service_levels = function_id_.identity().service_levels,
                             .pkeys = function_id_.identity().pkeys,
                             .share = share_,
                             .max_qp = limits.max_qp,
                             .max_cq = limits.max_cq,
                             .max_mr = limits.max_mr,
                             .format = personality_->queue_format(),
                             .loses_requests = !port_.keeps_doorbells()},
                            *this);
    if (!slice && slice.error() == std::errc::no_such_device) {
        log_.warn("there is no uplink '{}'", function_id_.identity().uplink);
    }
    return slice;
}

Result<> Device::try_enable(verbs::FunctionNumber number) {
    if (const auto prepared = personality_->prepare(); !prepared) {
        return prepared;
    }
    auto slice = carve(number.id());
    if (!slice) {
        return fail(slice.error());
    }
    if (const auto attached = personality_->attach(**slice); !attached) {
        return attached;
    }
    if (sniffer_) {
        (*slice)->set_sniffer(&*sniffer_);
    }
    enabled_.emplace(std::move(number), std::move(*slice), *this);
    return enabled_->objects.gids.allow(protocols_).and_then([this] { // there is no GID yet
        return personality_->start(enabled_->objects);
    });
}

void Device::set_share(const hca::Share& share) {
    if (share == share_) {
        return;
    }
    share_ = share;
    if (enabled_) {
        enabled_->slice->set_share(share);
    }
    log_.info("weight {}, {} bytes and {} operations per second (0: unlimited)", share.weight,
              share.bytes_per_second, share.operations_per_second);
}

Result<> Device::set_quotas(const verbs::Quotas& quotas) {
    if (!is_within(report(), quotas)) {
        return fail(std::errc::device_or_resource_busy);
    }
    quotas_ = quotas;
    if (enabled_) {
        enabled_->objects.resources.set_quotas(quotas);
    }
    return {};
}

verbs::Objects::Users Device::users_of(verbs::Protocols protocols) const {
    return enabled_ ? enabled_->objects.users_of(protocols) : verbs::Objects::Users{};
}

Result<> Device::set_protocols(verbs::Protocols protocols) {
    if (frozen_) { // after give_way(), its GIDs belong to another host
        return fail(std::errc::resource_unavailable_try_again);
    }
    const auto [qps, ahs] = users_of(protocols_ & ~protocols);
    if (qps + ahs != 0) {
        return fail(std::errc::device_or_resource_busy);
    }
    const auto allowed = enabled_ ? enabled_->objects.gids.allow(protocols) : Result<>{};
    if (allowed) {
        protocols_ = protocols;
    }
    return allowed;
}

void Device::set_pace(std::uint64_t bytes_per_second) {
    if (enabled_) {
        enabled_->slice->set_pace(bytes_per_second);
    }
}

void Device::revoke(Iova first, std::uint64_t length) {
    if (enabled_) {
        enabled_->slice->revoke(first, length);
    }
}

void Device::start_sniffer(sniffer::Ring ring) {
    sniffer_.emplace(std::move(ring));
    if (enabled_) {
        enabled_->slice->set_sniffer(&*sniffer_);
    }
    log_.info("a sniffer records its messages");
}

bool Device::stop_sniffer() {
    if (!sniffer_) {
        return false;
    }
    if (enabled_) {
        enabled_->slice->set_sniffer(nullptr);
    }
    log_.info("its sniffer has ended: {} frames, of which {} were dropped", sniffer_->frames(),
              sniffer_->dropped());
    sniffer_.reset();
    return true;
}

// After this, no poller calls this device's raise() or fatal(), or touches the memory.
void Device::disable() {
    const Change change{changes_};
    enabled_.reset();
    port_.memory().renew();
    personality_->stop();
    slice_failed_ = false;
    enabled_later_ = false;
    thawing_ = false;
}

void Device::reset() {
    personality_->show_reset();
    disable();
    failed_ = false;
    frozen_ = false;
    personality_->reset();
    log_.debug("reset");
}

void Device::suspend() {
    log_.info("suspended, because other devices waited for its memory");
    suspended_since_ = std::chrono::steady_clock::now();
    thawing_ = false;
    if (enabled_ && !frozen_) {
        enabled_->slice->freeze();
    }
}

void Device::resume() {
    const auto time = std::chrono::steady_clock::now() - *std::exchange(suspended_since_, {});
    log_.info("resumed after {} ms",
              std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
    if (std::exchange(enabled_later_, false)) {
        enable();
    } else {
        thawing_ = enabled_ && !frozen_;
    }
    service();
}

void Device::set_identity(verbs::Identity identity) {
    assert(!enabled_);
    give_back_address();
    function_id_.endport->identity = std::move(identity);
    reserve_address();
    personality_->show_identity();
}

// The device has its link-local address from the start, so that no other device can claim it first.
void Device::reserve_address() {
    const verbs::Identity& identity = function_id_.identity();
    address_reserved_ = gids_.claim(verbs::link_local(identity.mac), &identity).has_value();
    if (!address_reserved_) {
        log_.warn("another device has its MAC");
    }
}

void Device::give_back_address() {
    if (std::exchange(address_reserved_, false)) {
        gids_.give_back(verbs::link_local(function_id_.identity().mac));
    }
}

// NOLINTNEXTLINE(bugprone-exception-escape): the line's format was checked by the compiler
void Device::fatal(std::string_view why) noexcept {
    log_.warn("the slice stopped: {}", why);
    slice_failed_ = true;
    port_.wake();
}

void Device::fail_device(std::string_view why) {
    log_.warn("fatal: {}", why);
    disable();
    failed_ = true;
    personality_->show_failed();
    raise(personality_->failure_vector());
}

// --- work ---

void Device::service() {
    if (frozen_) {
        return;
    }
    if (slice_failed_) {
        fail_device("the slice stopped");
    }
    if (suspended()) {
        return;
    }
    const auto served = with_what_memory_there_is([this] {
        take_turn();
        return Result<>{};
    });
    if (!served) {
        fail_device("there is no memory to serve it");
    }
}

// The rest of the work is done in another turn, after other devices have had theirs.
void Device::take_turn() {
    thawing_ = thawing_ && enabled_->slice->thaw();
    if (thawing_ || (enabled_ && enabled_->slice->give_back())) {
        personality_->count_step();
        port_.wake();
    } else if (enabled_ && personality_->pending()) {
        serve_commands();
    }
}

void Device::abandon_command() {
    if (enabled_) {
        enabled_->objects.resources.lists.forget();
        personality_->abandon();
    }
}

// A step of a command that takes several steps ends the turn. The next command waits until the
// device has given back the pages that the previous one left, so a device never has more to give
// back than one command leaves. Other devices wait for neither.
void Device::serve_commands() {
    const Change change{changes_};
    const auto end = std::chrono::steady_clock::now() + turn_time;
    int served = 0;
    bool unused_left = false;
    auto last = Personality::Served::command;
    while (last == Personality::Served::command && !unused_left && served < commands_per_turn &&
           std::chrono::steady_clock::now() < end) {
        const auto now = personality_->serve(enabled_->objects);
        if (!now) {
            fail_device("its commands are not in the guest's memory");
            return;
        }
        last = *now;
        if (last == Personality::Served::step) {
            personality_->count_step();
        } else if (last == Personality::Served::command) {
            ++served;
            unused_left = enabled_->slice->give_back();
        }
    }
    if (served > 0) {
        personality_->end_turn();
    }
    if (personality_->pending() || unused_left) {
        port_.wake();
    }
}

} // namespace vrdma
