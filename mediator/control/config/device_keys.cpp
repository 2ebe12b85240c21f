// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/config/device_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mediator/base/rate.h"
#include "mediator/control/config/number_lists.h"
#include "vrdma/pvrdma/device.h"

namespace vrdma::control {
namespace {

// The P_Key of a text such as "0xffff", or 0.
std::uint16_t parse_pkey(std::string_view text) {
    constexpr std::string_view prefix = "0x";
    std::uint16_t pkey = 0;
    if (!text.starts_with(prefix)) {
        return 0;
    }
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + prefix.size(), end, pkey, 16);
    return parsed.ec == std::errc{} && parsed.ptr == end && partition_of(pkey) != 0
               ? pkey
               : std::uint16_t{0};
}

} // namespace

void read_binding(Section& section, const Config& config, std::string& name) {
    constexpr std::string_view key = "uplink";
    section.text(key, name);
    std::vector<std::string> names;
    std::ranges::transform(config.uplinks, std::back_inserter(names), &UplinkOptions::name);
    std::ranges::transform(config.fabrics, std::back_inserter(names), &FabricOptions::name);
    if (!name.empty() && std::ranges::count(names, name) == 0) {
        section.refuse(key, names.empty() ? "the name of an [[uplink]] or a [[fabric]], and there "
                                            "is none"
                                          : fmt::format("one of the uplinks and fabrics {}",
                                                        fmt::join(names, ", ")));
    }
}

void read_vlans(Section& section, const Config& config, const std::string& uplink, Vlans& vlans) {
    read_numbers(section, "vlans", 1, vlans);
    const auto bound = std::ranges::find(config.uplinks, uplink, &UplinkOptions::name);
    if (bound != config.uplinks.end() && (vlans & ~bound->vlans).any()) {
        section.refuse("vlans", fmt::format("VLANs that uplink '{}' has, too", uplink));
    }
}

void read_classes(Section& section, hca::TrafficClasses& traffic_classes,
                  hca::ServiceLevels& service_levels) {
    read_numbers(section, "traffic_classes", 0, traffic_classes);
    read_numbers(section, "service_levels", 0, service_levels);
}

void read_port_speed(Section& section, verbs::PortSpeed& speed) {
    constexpr std::string_view key = "port_speed";
    std::string text;
    section.text(key, text);
    if (!section.has(key)) {
        return;
    }
    const auto parsed = verbs::parse_port_speed(text);
    if (!parsed) {
        section.refuse(key,
                       "1x, 2x, 4x, 8x or 12x with SDR, DDR, QDR, FDR10, FDR, EDR, HDR or NDR, "
                       "such as \"4x EDR\"");
    }
    speed = *parsed;
}

// PVRDMA's driver uses three vectors, and cuts handles of QPs to 16 bits.
void read_personality(Section& section, const verbs::Limits& limits, std::string_view whose,
                      PersonalityKind& personality) {
    constexpr std::string_view key = "personality";
    std::string text = personality == PersonalityKind::pvrdma ? "pvrdma" : "vrdma";
    section.text(key, text);
    if (text != "vrdma" && text != "pvrdma") {
        section.refuse(key, R"("vrdma" or "pvrdma")");
    }
    personality = text == "pvrdma" ? PersonalityKind::pvrdma : PersonalityKind::vrdma;
    if (personality == PersonalityKind::pvrdma &&
        (limits.vectors < PVRDMA_VECTORS || limits.max_qp >= PVRDMA_MAX_QP)) {
        section.refuse(key, fmt::format(R"("vrdma", as {} has fewer than {} vectors, or {} QPs )"
                                        "or more",
                                        whose, PVRDMA_VECTORS, PVRDMA_MAX_QP));
    }
}

void read_pkeys(Section& section, PKeys& pkeys) {
    constexpr std::string_view key = "pkeys";
    if (!section.has(key)) {
        return;
    }
    pkeys.clear();
    std::set<std::uint16_t> partitions;
    for (const std::string& text : section.texts(key)) {
        pkeys.push_back(parse_pkey(text));
        if (pkeys.back() == 0 || !partitions.insert(partition_of(pkeys.back())).second) {
            section.refuse(key, "P_Keys of different partitions such as \"0xffff\" and \"0x8001\"");
        }
    }
    if (pkeys.empty() || pkeys.size() > VRDMA_MAX_PKEYS) {
        section.refuse(key, fmt::format("1 to {} P_Keys", VRDMA_MAX_PKEYS));
    }
}

void read_share(Section& section, hca::Share& share) {
    section.integer(share_keys[0], share.weight, 1, hca::Share::max_weight);
    section.integer(share_keys[1], share.bytes_per_second, 0, max_rate);
    section.integer(share_keys[2], share.operations_per_second, 0, max_rate);
}

void read_quotas(Section& section, const verbs::Limits& limits, verbs::Quotas& quotas) {
    constexpr std::uint64_t most_memory = 1ull << 40;
    const auto read = [&](std::string_view key, std::uint64_t& quota, std::uint64_t limit) {
        section.integer(key, quota, 0, static_cast<std::int64_t>(limit));
    };
    read("max_pd", quotas.pds, limits.max_pd);
    read("max_mr", quotas.mrs, limits.max_mr);
    read("max_cq", quotas.cqs, limits.max_cq);
    read("max_qp", quotas.qps, limits.max_qp);
    read("max_srq", quotas.srqs, limits.max_srq);
    read("max_xrcd", quotas.xrcds, limits.max_xrcd);
    read("max_ah", quotas.ahs, limits.max_ah);
    read("max_blocks", quotas.blocks, limits.max_blocks);
    read("max_memory", quotas.memory, limits.max_memory != 0 ? limits.max_memory : most_memory);
}

void read_protocol(Section& section, bool ethernet, verbs::Protocols& protocols) {
    constexpr std::string_view key = "protocol";
    std::string text;
    section.text(key, text);
    if (!section.has(key)) {
        return;
    }
    if (text != "both" && !ethernet) {
        section.refuse(key, R"("both", as the device has no Ethernet uplink)");
    }
    const bool both = text == "both";
    protocols[VRDMA_GID_ROCE_V1] = both || text == "roce-v1";
    protocols[VRDMA_GID_ROCE_V2] = both || text == "roce-v2";
    if (protocols.none()) {
        section.refuse(key, R"("roce-v1", "roce-v2" or "both")");
    }
}

} // namespace vrdma::control
