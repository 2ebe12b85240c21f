// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Saves a whole device as one image, and restores it.
#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "mediator/device/device.h"
#include "mediator/device/out_of_memory.h"
#include "mediator/verbs/saved_state.h"

namespace vrdma {
namespace {

struct DeviceState {
    static constexpr std::uint32_t version = 4;

    std::uint32_t status;
    std::uint32_t aq_depth;
    std::uint32_t aq_vector;
    std::uint32_t admin_taken;
    std::uint32_t admin_given;
    // The device that is restored must have the same values, so that the guest finds the same
    // function.
    std::uint32_t doorbell_pages;
    std::uint32_t vectors;
    std::uint32_t function_bits;
    std::uint32_t function; // the number of an enabled device; its QPNs contain it
    std::uint32_t admin_pending;
    std::uint8_t mac[6];
    std::uint16_t num_pkeys;
    std::uint16_t pkeys[VRDMA_MAX_PKEYS];
    std::uint64_t submissions;
    std::uint64_t completions;
    std::uint64_t status_page;
    std::uint64_t clock; // of an enabled device
};

// The P_Keys must be equal, because the guest's kernel has read them, and its QPs name them by
// their index.
bool has_pkeys(const DeviceState& state, const PKeys& pkeys) {
    const std::span all{state.pkeys};
    return state.num_pkeys == pkeys.size() && std::ranges::equal(all.first(pkeys.size()), pkeys) &&
           std::ranges::all_of(all.subspan(pkeys.size()), [](auto pkey) { return pkey == 0; });
}

} // namespace

void Device::freeze() {
    // An image cannot say that a device is to be enabled later, so it is enabled now.
    const bool enables = std::exchange(enabled_later_, false);
    if (enables) {
        enable();
    }
    frozen_ = true;
    thawing_ = false;
    abandon_command();
    if (enabled_ && (enables || !suspended())) {
        enabled_->slice->freeze();
    }
}

void Device::give_way() {
    if (enabled_ && frozen_) {
        enabled_->slice->give_way();
    }
}

void Device::thaw() {
    frozen_ = false;
    thawing_ = enabled_ && !suspended();
    service();
}

std::vector<std::byte> Device::save() const {
    StateWriter writer;
    const auto position = enabled_ ? enabled_->admin.position() : AdminQueue::Position{};
    DeviceState state{
        .status = shown(VRDMA_REG_STATUS),
        .aq_depth = registers_.admin.depth,
        .aq_vector = registers_.admin.vector,
        .admin_taken = position.taken,
        .admin_given = position.given,
        .doorbell_pages = type_.limits.doorbell_pages,
        .vectors = type_.limits.vectors,
        .function_bits = function_id_.endport->function_bits(),
        .function = enabled_ ? enabled_->number.id().function : 0,
        .admin_pending = admin_pending_,
        .mac = {},
        .num_pkeys = static_cast<std::uint16_t>(function_id_.identity().pkeys.size()),
        .pkeys = {},
        .submissions = raw(registers_.admin.submissions),
        .completions = raw(registers_.admin.completions),
        .status_page = raw(registers_.status_page),
        .clock = enabled_ ? enabled_->slice->clock() : 0,
    };
    std::ranges::copy(function_id_.identity().mac, state.mac);
    std::ranges::copy(function_id_.identity().pkeys, std::begin(state.pkeys));
    writer.begin(Section::device, DeviceState::version, 1);
    writer.put(state);
    if (enabled_) {
        enabled_->objects.save(writer);
    }
    writer.begin(Section::end, 0, 0);
    return writer.take();
}

Result<> Device::restore_enabled(StateReader& reader, unsigned function,
                                 AdminQueue::Position position) {
    auto number = verbs::FunctionNumber::take({function_id_.endport, function});
    if (!number) {
        return fail(number.error());
    }
    if (const auto enabled = try_enable(std::move(*number)); !enabled) {
        return enabled;
    }
    enabled_->slice->freeze();
    enabled_->admin.set_position(position);
    return enabled_->objects.restore(reader);
}

Result<> Device::restore_from(StateReader& reader) {
    const auto records = reader.open(Section::device, DeviceState::version);
    const auto state = reader.take<DeviceState>();
    if (!records || *records != 1 || !state ||
        !std::ranges::equal(state->mac, function_id_.identity().mac) ||
        state->doorbell_pages != type_.limits.doorbell_pages ||
        !has_pkeys(*state, function_id_.identity().pkeys) ||
        state->vectors != type_.limits.vectors ||
        state->function_bits != function_id_.endport->function_bits() || state->admin_pending > 1) {
        return fail(std::errc::invalid_argument);
    }
    registers_ = {
        {Iova{state->submissions}, Iova{state->completions}, state->aq_depth, state->aq_vector},
        Iova{state->status_page}};
    show_queue_registers();
    if (state->status == VRDMA_STATUS_ENABLED) {
        if (const auto restored =
                restore_enabled(reader, state->function, {state->admin_taken, state->admin_given});
            !restored) {
            return restored;
        }
        enabled_->slice->set_clock(state->clock);
        admin_pending_ = state->admin_pending == 1;
    } else if (state->status != VRDMA_STATUS_READY && state->status != VRDMA_STATUS_FATAL) {
        return fail(std::errc::invalid_argument);
    }
    const auto end = reader.open(Section::end, 0);
    if (!end || *end != 0 || !reader.at_end()) {
        return fail(std::errc::invalid_argument);
    }
    if (enabled_) {
        show_enabled();
    } else {
        failed_ = state->status == VRDMA_STATUS_FATAL;
        show(VRDMA_REG_STATUS, state->status);
    }
    return {};
}

Result<> Device::restore(std::span<const std::byte> image) {
    reset();
    StateReader reader{image, [this] { return port_.restores_on(); }};
    const auto restored = with_what_memory_there_is([&] { return restore_from(reader); });
    if (!restored) {
        reset();
        return restored;
    }
    frozen_ = true;
    return {};
}

} // namespace vrdma
