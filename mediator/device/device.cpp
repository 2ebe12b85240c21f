// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/device.h"

#include <cassert>
#include <chrono>
#include <utility>

#include "mediator/base/errno.h"
#include "mediator/device/admin_commands.h"
#include "mediator/device/out_of_memory.h"
#include "mediator/memory/shared_words.h"

namespace vrdma {
namespace {

// How much of the control thread's time a device gets before others have their turn. The turn ends
// with the command that exceeds it.
constexpr int commands_per_turn = 32;
constexpr std::chrono::milliseconds turn_time{2};

constexpr unsigned async_vector = 0;

void set_low(Iova& address, std::uint32_t value) {
    address = Iova{(raw(address) & ~0xffffffffull) | value};
}

void set_high(Iova& address, std::uint32_t value) {
    address = Iova{(raw(address) & 0xffffffffull) | std::uint64_t{value} << 32};
}

std::uint32_t low(Iova address) {
    return static_cast<std::uint32_t>(raw(address));
}
std::uint32_t high(Iova address) {
    return static_cast<std::uint32_t>(raw(address) >> 32);
}

bool is_within(const DeviceReport& has, const verbs::Quotas& quotas) {
    return has.pds.used <= quotas.pds && has.mrs.used <= quotas.mrs && has.cqs.used <= quotas.cqs &&
           has.qps.used <= quotas.qps && has.srqs.used <= quotas.srqs &&
           has.xrcds.used <= quotas.xrcds && has.ahs.used <= quotas.ahs &&
           has.blocks.used <= quotas.blocks && has.memory.used <= quotas.memory;
}

} // namespace

Device::Enabled::Enabled(verbs::FunctionNumber number_, std::unique_ptr<hca::Slice> slice_,
                         AdminQueue admin_, const Device& device)
    : number{std::move(number_)},
      slice{std::move(slice_)},
      admin{admin_},
      objects{device.type_.limits,      number.id(), device.gids_, device.port_.memory(),
              device.port_.doorbells(), *slice} {
    objects.resources.set_quotas(device.quotas_);
}

Device::Device(std::string name, const DeviceType& type, verbs::FunctionId function_id,
               HostPort& port, hca::Hca& hca, verbs::GidRegistry& gids)
    : log_{std::move(name)},
      type_{type},
      function_id_{std::move(function_id)},
      port_{port},
      hca_{hca},
      gids_{gids},
      share_{type.share} {
    assert(port.doorbells().size() == type.limits.doorbell_pages);
    reserve_address();
    reset();
}

Device::~Device() {
    disable();
    give_back_address();
}

// --- registers ---

void Device::show(std::uint32_t offset, std::uint32_t value) noexcept {
    std::atomic_ref{port_.registers()[offset / sizeof(value)]}.store(value,
                                                                     std::memory_order_release);
}

std::uint32_t Device::shown(std::uint32_t offset) const noexcept {
    return std::atomic_ref{port_.registers()[offset / sizeof(std::uint32_t)]}.load(
        std::memory_order_acquire);
}

void Device::show_constants() {
    const verbs::Mac& mac = function_id_.identity().mac;
    show(VRDMA_REG_MAGIC, VRDMA_MAGIC);
    show(VRDMA_REG_VERSION, VRDMA_VERSION);
    show(VRDMA_REG_MAC_LOW, mac[0] | mac[1] << 8 | mac[2] << 16 | std::uint32_t{mac[3]} << 24);
    show(VRDMA_REG_MAC_HIGH, mac[4] | mac[5] << 8);
    show(VRDMA_REG_DOORBELL_PAGES, type_.limits.doorbell_pages);
    show(VRDMA_REG_VECTORS, type_.limits.vectors);
}

void Device::show_queue_registers() {
    show(VRDMA_REG_ASQ_LOW, low(registers_.admin.submissions));
    show(VRDMA_REG_ASQ_HIGH, high(registers_.admin.submissions));
    show(VRDMA_REG_ACQ_LOW, low(registers_.admin.completions));
    show(VRDMA_REG_ACQ_HIGH, high(registers_.admin.completions));
    show(VRDMA_REG_AQ_DEPTH, registers_.admin.depth);
    show(VRDMA_REG_AQ_VECTOR, registers_.admin.vector);
    show(VRDMA_REG_STATUS_PAGE_LOW, low(registers_.status_page));
    show(VRDMA_REG_STATUS_PAGE_HIGH, high(registers_.status_page));
}

void Device::write_register(std::uint32_t offset, std::uint32_t value) {
    if (offset == VRDMA_REG_CONTROL) {
        write_control(value);
    } else if (offset == VRDMA_REG_ADMIN_DOORBELL) {
        admin_pending_ = true;
        service();
    } else if (!enabled_ && !failed_ && write_queue_register(offset, value)) {
        show(offset, value);
    } else {
        log_.debug("write of {:#x} to register {:#x} dropped", value, offset);
    }
}

bool Device::write_queue_register(std::uint32_t offset, std::uint32_t value) {
    switch (offset) {
        case VRDMA_REG_ASQ_LOW:
            set_low(registers_.admin.submissions, value);
            return true;
        case VRDMA_REG_ASQ_HIGH:
            set_high(registers_.admin.submissions, value);
            return true;
        case VRDMA_REG_ACQ_LOW:
            set_low(registers_.admin.completions, value);
            return true;
        case VRDMA_REG_ACQ_HIGH:
            set_high(registers_.admin.completions, value);
            return true;
        case VRDMA_REG_AQ_DEPTH:
            registers_.admin.depth = value;
            return true;
        case VRDMA_REG_AQ_VECTOR:
            registers_.admin.vector = value;
            return true;
        case VRDMA_REG_STATUS_PAGE_LOW:
            set_low(registers_.status_page, value);
            return true;
        case VRDMA_REG_STATUS_PAGE_HIGH:
            set_high(registers_.status_page, value);
            return true;
        default:
            return false;
    }
}

void Device::write_control(std::uint32_t value) {
    if ((value & VRDMA_CONTROL_RESET) != 0) {
        reset();
        return;
    }
    if (failed_) {
        return;
    }
    if ((value & ~VRDMA_CONTROL_ENABLE) != 0) {
        fail_device("unknown bits in CONTROL");
    } else if ((value & VRDMA_CONTROL_ENABLE) != 0 && !enabled_ && !port_.bus_master()) {
        fail_device("the driver enabled it while Bus Master is clear");
    } else if (suspended()) {
        enabled_later_ = (value & VRDMA_CONTROL_ENABLE) != 0 && !enabled_;
    } else if ((value & VRDMA_CONTROL_ENABLE) != 0 && !enabled_) {
        enable();
    }
}

// --- life cycle ---

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
    show_enabled();
    log_.info("enabled");
    const verbs::Identity& identity = function_id_.identity();
    if (!identity.uplink.empty() && identity.prefixes.empty()) {
        log_.warn(
            "it is bound to uplink '{}' and may use only its link-local address there:"
            " give it 'addresses' (vrdmad.conf(5), vrdmad(8))",
            identity.uplink);
    }
}

void Device::show_enabled() {
    show(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    show(VRDMA_REG_STATUS, VRDMA_STATUS_ENABLED);
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
                             .max_mr = limits.max_mr},
                            *this);
    if (!slice && slice.error() == std::errc::no_such_device) {
        log_.warn("there is no uplink '{}'", function_id_.identity().uplink);
    }
    return slice;
}

Result<> Device::try_enable(verbs::FunctionNumber number) {
    const verbs::Limits& limits = type_.limits;
    const Iova status_page = registers_.status_page;
    if (status_page == Iova{0} || raw(status_page) % VRDMA_PAGE_SIZE != 0 ||
        port_.memory().at(status_page, VRDMA_PAGE_SIZE) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    auto admin = AdminQueue::create(port_.memory(), registers_.admin, limits.vectors);
    if (!admin) {
        return fail(admin.error());
    }
    auto slice = carve(number.id());
    if (!slice) {
        return fail(slice.error());
    }
    if (const auto set = (*slice)->set_status_page(status_page); !set) {
        return set;
    }
    if (sniffer_) {
        (*slice)->set_sniffer(&*sniffer_);
    }
    enabled_.emplace(std::move(number), std::move(*slice), *admin, *this);
    return enabled_->objects.gids.allow(protocols_); // there is no GID yet
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
    admin_pending_ = false;
    slice_failed_ = false;
    enabled_later_ = false;
    thawing_ = false;
}

void Device::reset() {
    show(VRDMA_REG_STATUS, 0);
    disable();
    failed_ = false;
    frozen_ = false;
    registers_ = {};
    show_constants();
    show_queue_registers();
    show(VRDMA_REG_CONTROL, 0);
    show(VRDMA_REG_STATUS, VRDMA_STATUS_READY);
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
    show_constants();
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
    show(VRDMA_REG_STATUS, VRDMA_STATUS_FATAL);
    port_.raise(async_vector);
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
        count_step();
        port_.wake();
    } else if (enabled_ && admin_pending_) {
        serve_admin();
    }
}

// A guest that asks for an address of another one is logged as a warning. Other errors concern only
// the guest itself.
void Device::log_command(const vrdma_admin_cmd& cmd, const vrdma_admin_cpl& cpl) {
    if (VRDMA_GET(VRDMA_ADMIN_OPCODE, cmd.header) == VRDMA_ADMIN_SET_GID &&
        (cpl.status == static_cast<std::uint32_t>(std::errc::permission_denied) ||
         cpl.status == static_cast<std::uint32_t>(std::errc::address_in_use))) {
        log_.warn("{}", describe(cmd, cpl));
    } else if (spdlog::should_log(spdlog::level::debug)) {
        log_.debug("{}", describe(cmd, cpl));
    }
}

// A driver that waits for an answer sees by the count that the device is at work.
void Device::count_step() {
    auto* const page = reinterpret_cast<vrdma_status_page*>(
        port_.memory().at(registers_.status_page, sizeof(vrdma_status_page)));
    store_relaxed(page->admin_steps, ++admin_steps_);
}

// Puts the command that is under way back into the queue, as if it had not been taken yet.
void Device::abandon_command() {
    if (enabled_ && std::exchange(enabled_->under_way, std::nullopt)) {
        enabled_->objects.resources.lists.forget();
        enabled_->admin.put_back();
    }
}

// The one that is under way, or the next one in the queue.
Result<std::optional<Device::Command>> Device::next_command() {
    if (enabled_->under_way) {
        return enabled_->under_way;
    }
    return enabled_->admin.take().map([](const std::optional<vrdma_admin_cmd>& cmd) {
        return cmd ? std::optional{Command{*cmd, std::chrono::steady_clock::now()}} : std::nullopt;
    });
}

void Device::complete(const Command& command, const vrdma_admin_cpl& cpl) {
    enabled_->under_way.reset();
    log_command(command.cmd, cpl);
    enabled_->admin.complete(cpl);
    if (Activity* const activity = port_.activity()) {
        activity->command_times.add(std::chrono::steady_clock::now() - command.taken);
    }
}

// A step of a command that takes several steps ends the turn. The next command waits until the
// device has given back the pages that the previous one left, so a device never has more to give
// back than one command leaves. Other devices wait for neither.
void Device::serve_admin() {
    const Change change{changes_};
    const auto end = std::chrono::steady_clock::now() + turn_time;
    int served = 0;
    bool unused_left = false;
    while (!unused_left && served < commands_per_turn && std::chrono::steady_clock::now() < end) {
        const auto next = next_command();
        if (!next) {
            fail_device("the admin queue is not in the guest's memory");
            return;
        }
        if (!*next) {
            admin_pending_ = false;
            break;
        }
        const auto cpl = run_admin_command(enabled_->objects, (*next)->cmd);
        port_.note_faults();
        if (!cpl) {
            enabled_->under_way = **next;
            count_step();
            break;
        }
        complete(**next, *cpl);
        ++served;
        unused_left = enabled_->slice->give_back();
    }
    if (served > 0) {
        port_.raise(enabled_->admin.vector());
    }
    if (admin_pending_ || unused_left) {
        port_.wake();
    }
}

} // namespace vrdma
