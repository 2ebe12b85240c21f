// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/port_speed.h"

#include <algorithm>
#include <array>

namespace vrdma::verbs {
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

// All speeds and widths that fit into 8 bits. `rate` is the nominal Mb/s of a lane, or the number
// of lanes.
struct Name {
    std::string_view name;
    std::uint8_t value;
    std::uint32_t rate;
};
constexpr std::array speeds{Name{"SDR", sdr, 2'500},  Name{"DDR", ddr, 5'000},
                            Name{"QDR", 4, 10'000},   Name{"FDR10", fdr10, 10'000},
                            Name{"FDR", 16, 14'000},  Name{"EDR", edr, 25'000},
                            Name{"HDR", hdr, 50'000}, Name{"NDR", ndr, 100'000}};
constexpr std::array widths{Name{"1x", width_1x, 1}, Name{"2x", 16, 2}, Name{"4x", width_4x, 4},
                            Name{"8x", width_8x, 8}, Name{"12x", 8, 12}};

} // namespace

PortSpeed port_speed(std::uint32_t mbps, const PortSpeed& unknown) noexcept {
    if (mbps == 0) {
        return unknown;
    }
    for (const Step& step : steps) {
        if (mbps >= step.mbps) {
            return step.speed;
        }
    }
    return {sdr, width_1x};
}

std::uint32_t nominal_mbps(const PortSpeed& speed) noexcept {
    const auto* const lane = std::ranges::find(speeds, speed.speed, &Name::value);
    const auto* const lanes = std::ranges::find(widths, speed.width, &Name::value);
    return lane != speeds.end() && lanes != widths.end() ? lane->rate * lanes->rate : 0;
}

std::optional<PortSpeed> parse_port_speed(std::string_view text) noexcept {
    const std::size_t space = std::min(text.find(' '), text.size());
    const auto* const width = std::ranges::find(widths, text.substr(0, space), &Name::name);
    const std::string_view rest = text.substr(std::min(space + 1, text.size()));
    const auto* const speed = std::ranges::find(speeds, rest, &Name::name);
    if (width == widths.end() || speed == speeds.end()) {
        return std::nullopt;
    }
    return PortSpeed{speed->value, width->value};
}

} // namespace vrdma::verbs
