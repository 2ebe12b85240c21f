// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/port_speed.h"

#include <array>

namespace vrdma {
namespace {

constexpr std::uint8_t sdr = 1;   // 2.5 Gb/s
constexpr std::uint8_t ddr = 2;   // 5
constexpr std::uint8_t fdr10 = 8; // 10.3
constexpr std::uint8_t edr = 32;  // 25.8
constexpr std::uint8_t hdr = 64;  // 53
constexpr std::uint8_t ndr = 128; // 106

constexpr std::uint8_t width_1x = 1;
constexpr std::uint8_t width_4x = 2;
constexpr std::uint8_t width_8x = 4;

constexpr PortSpeed as_memory{edr, width_4x};

struct Step {
    std::uint32_t mbps;
    PortSpeed speed;
};
constexpr std::array steps{
    Step{800'000, {ndr, width_8x}}, Step{400'000, {ndr, width_4x}}, Step{200'000, {hdr, width_4x}},
    Step{100'000, {edr, width_4x}}, Step{50'000, {hdr, width_1x}},  Step{40'000, {fdr10, width_4x}},
    Step{25'000, {edr, width_1x}},  Step{20'000, {ddr, width_4x}},  Step{10'000, {fdr10, width_1x}},
    Step{5'000, {ddr, width_1x}},
};

} // namespace

PortSpeed port_speed(std::uint32_t mbps) noexcept {
    if (mbps == 0) {
        return as_memory;
    }
    for (const Step& step : steps) {
        if (mbps >= step.mbps) {
            return step.speed;
        }
    }
    return {sdr, width_1x};
}

} // namespace vrdma
