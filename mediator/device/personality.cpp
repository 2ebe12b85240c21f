// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/personality.h"

#include <atomic>

namespace vrdma {

void Personality::show(std::uint32_t offset, std::uint32_t value) noexcept {
    std::atomic_ref{owner_.port().registers()[offset / sizeof(value)]}.store(
        value, std::memory_order_release);
}

std::uint32_t Personality::shown(std::uint32_t offset) const noexcept {
    return std::atomic_ref{owner_.port().registers()[offset / sizeof(std::uint32_t)]}.load(
        std::memory_order_acquire);
}

void Personality::show_mac(std::uint32_t low, std::uint32_t high) noexcept {
    const verbs::Mac& mac = owner_.function_id().identity().mac;
    show(low, mac[0] | mac[1] << 8 | mac[2] << 16 | std::uint32_t{mac[3]} << 24);
    show(high, mac[4] | mac[5] << 8);
}

void Personality::count_time(std::chrono::steady_clock::time_point taken) {
    if (Activity* const activity = owner_.port().activity()) {
        activity->command_times.add(std::chrono::steady_clock::now() - taken);
    }
}

bool Personality::is_of_others(std::uint32_t error) noexcept {
    const auto code = static_cast<std::errc>(error);
    return code == std::errc::permission_denied || code == std::errc::address_in_use;
}

} // namespace vrdma
