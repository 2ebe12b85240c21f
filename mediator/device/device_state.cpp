// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Saves a whole device as one image, and restores it.
#include "mediator/device/device_state.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "mediator/device/device.h"
#include "mediator/device/out_of_memory.h"
#include "mediator/verbs/saved_state.h"

namespace vrdma {
namespace {

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
    if (enabled_) {
        enabled_->slice->let_go();
    }
}

void Device::give_way() {
    if (enabled_ && frozen_) {
        enabled_->slice->give_way();
        if (Activity* const activity = port_.activity()) {
            ++activity->gave_way;
        }
    }
}

void Device::thaw() {
    frozen_ = false;
    thawing_ = enabled_ && !suspended();
    service();
}

DeviceState Device::state() const {
    DeviceState state{};
    personality_->save(state);
    state.doorbell_pages = type_.limits.doorbell_pages;
    state.vectors = type_.limits.vectors;
    state.function_bits = function_id_.endport->function_bits();
    state.function = enabled_ ? enabled_->number.id().function : 0;
    state.num_pkeys = static_cast<std::uint16_t>(function_id_.identity().pkeys.size());
    state.clock = enabled_ ? enabled_->slice->clock() : 0;
    std::ranges::copy(function_id_.identity().mac, state.mac);
    std::ranges::copy(function_id_.identity().pkeys, std::begin(state.pkeys));
    return state;
}

SavedState Device::save_state() const {
    StateWriter writer;
    writer.begin(Section::device, DeviceState::version, 1);
    writer.put(state());
    personality_->save_section(writer);
    if (enabled_) {
        enabled_->objects.save(writer);
    }
    writer.begin(Section::end, 0, 0);
    return writer.take_state();
}

SavedState Device::save_ahead() const {
    StateWriter writer;
    if (enabled_) {
        enabled_->objects.mrs.save_lasting(writer);
    }
    return writer.take_state();
}

Result<> Device::restore_enabled(StateReader& reader, const DeviceState& state) {
    auto number = verbs::FunctionNumber::take({function_id_.endport, state.function});
    if (!number) {
        return fail(number.error());
    }
    if (const auto enabled = try_enable(std::move(*number)); !enabled) {
        return enabled;
    }
    enabled_->slice->freeze();
    if (const auto restored = enabled_->objects.restore(reader); !restored) {
        return restored;
    }
    return admit_protocols();
}

// Logs what an administrator can change.
Result<> Device::admit_protocols() {
    const auto [qps, ahs] = users_of(~protocols_);
    if (qps + ahs != 0) {
        log_.warn(
            "refuses a device with {} QPs and {} AHs that use a version of RoCE which was"
            " taken from this one (vrdmactl(8))",
            qps, ahs);
        return fail(std::errc::protocol_not_supported);
    }
    return {};
}

// Logs what an administrator can change.
Result<DeviceState> Device::take_state(StateReader& reader) {
    const auto records = reader.open(Section::device, DeviceState::version);
    const auto state = reader.take<DeviceState>();
    if (!records || *records != 1 || !state || state->admin_pending > 1 ||
        state->function_bits != function_id_.endport->function_bits()) {
        return fail(std::errc::invalid_argument);
    }
    const verbs::Limits& limits = type_.limits;
    if (state->doorbell_pages != limits.doorbell_pages || state->vectors != limits.vectors) {
        log_.warn(
            "refuses a device with {} doorbell pages and {} vectors: the type '{}' has {}"
            " and {}",
            state->doorbell_pages, state->vectors, type_.name, limits.doorbell_pages,
            limits.vectors);
        return fail(std::errc::invalid_argument);
    }
    if (!std::ranges::equal(state->mac, function_id_.identity().mac)) {
        log_.warn("refuses a device that has another MAC");
        return fail(std::errc::invalid_argument);
    }
    if (!has_pkeys(*state, function_id_.identity().pkeys)) {
        log_.warn("refuses a device that has other P_Keys");
        return fail(std::errc::invalid_argument);
    }
    return state;
}

Result<> Device::restore_from(StateReader& reader) {
    const auto state = take_state(reader);
    if (!state) {
        return fail(state.error());
    }
    if (const auto taken = personality_->restore(*state, reader); !taken) {
        return taken;
    }
    if (state->status == VRDMA_STATUS_ENABLED) {
        if (const auto restored = restore_enabled(reader, *state); !restored) {
            return restored;
        }
        enabled_->slice->set_clock(state->clock);
        if (const auto restored = personality_->restore_enabled(*state, enabled_->objects);
            !restored) {
            return restored;
        }
    } else if (state->status != VRDMA_STATUS_READY && state->status != VRDMA_STATUS_FATAL) {
        return fail(std::errc::invalid_argument);
    }
    const auto end = reader.open(Section::end, 0);
    if (!end || *end != 0 || !reader.at_end()) {
        return fail(std::errc::invalid_argument);
    }
    if (enabled_) {
        personality_->show_enabled();
    } else if (state->status == VRDMA_STATUS_FATAL) {
        failed_ = true;
        personality_->show_failed();
    }
    return {};
}

Result<> Device::restore(std::span<const std::byte> image) {
    const Change change{changes_};
    reset();
    StateReader reader{image, [this] { return port_.restores_on(); }};
    const auto restored = with_what_memory_there_is([&] { return restore_from(reader); });
    if (!restored) {
        reset();
        return restored;
    }
    frozen_ = true;
    if (Activity* const activity = port_.activity(); activity != nullptr && enabled_) {
        ++activity->restored;
    }
    return {};
}

} // namespace vrdma
