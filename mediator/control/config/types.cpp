// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "mediator/control/config/device_keys.h"
#include "mediator/control/config/names.h"
#include "mediator/control/config/readers.h"

namespace vrdma::control {
namespace {

DeviceType device_type(const char* name, std::uint32_t max_instances, std::uint64_t max_pinned,
                       std::uint32_t doorbell_pages, std::uint32_t max_qp, std::uint32_t max_mr,
                       std::uint64_t max_mr_size) {
    DeviceType type{name, max_instances, max_pinned, {}};
    type.max_holes = max_pinned;
    type.limits.doorbell_pages = doorbell_pages;
    type.limits.max_pd = std::max(64u, max_qp / 4);
    type.limits.max_cq = max_qp * 2;
    type.limits.max_qp = max_qp;
    type.limits.max_srq = max_qp;
    type.limits.max_ah = max_qp * 4;
    type.limits.max_mr = max_mr;
    type.limits.max_mr_size = max_mr_size;
    type.limits.max_blocks = max_mr_size >> VRDMA_PAGE_SHIFT;
    return type;
}

void set_vectors(verbs::Limits& limits, std::uint32_t vectors) {
    limits.vectors = vectors;
    limits.max_eq = vectors;
}

void read_type(Section& section, const Config& config, DeviceType& type) {
    constexpr std::int64_t million = 1 << 20;
    verbs::Limits& limits = type.limits;
    std::uint32_t vectors = limits.vectors;
    std::uint64_t pinned_mib = type.max_pinned >> 20;
    std::uint64_t holes_mib = type.max_holes >> 20;
    std::uint64_t mr_size_mib = limits.max_mr_size >> 20;
    std::uint64_t memory_mib = limits.max_memory >> 20;
    section.integer("max_instances", type.max_instances, 1, 4096);
    section.integer("max_pinned_mib", pinned_mib, 1, std::int64_t{1} << 30);
    section.integer("max_holes_mib", holes_mib, 0, std::int64_t{1} << 30);
    section.integer("doorbell_pages", limits.doorbell_pages, 2, 4096);
    section.integer("vectors", vectors, 2, VRDMA_MAX_VECTORS);
    section.integer("max_pd", limits.max_pd, 1, million);
    section.integer("max_mr", limits.max_mr, 1, million);
    section.integer("max_mr_size_mib", mr_size_mib, 1, 1 << 20);
    section.integer("max_cq", limits.max_cq, 1, million);
    section.integer("max_qp", limits.max_qp, 1, million);
    section.integer("max_srq", limits.max_srq, 1, million);
    section.integer("max_ah", limits.max_ah, 1, million);
    section.integer("max_blocks", limits.max_blocks, 1, std::int64_t{1} << 32);
    section.integer("max_memory_mib", memory_mib, 0, 1 << 20);
    read_binding(section, config, type.uplink);
    read_vlans(section, config, type.uplink, type.vlans);
    read_classes(section, type.traffic_classes, type.service_levels);
    read_port_speed(section, type.port_speed);
    read_pkeys(section, type.pkeys);
    read_share(section, type.share);
    if (!std::has_single_bit(limits.doorbell_pages)) {
        section.refuse("doorbell_pages", "a power of two from 2 to 4096");
    }
    type.max_pinned = pinned_mib << 20;
    type.max_holes = holes_mib << 20;
    limits.max_mr_size = mr_size_mib << 20;
    limits.max_memory = memory_mib << 20;
    set_vectors(limits, vectors);
    read_personality(section, limits, "it", type.personality);
    section.finish();
}

// For guests with VMware's driver, which cuts handles of QPs to 16 bits.
DeviceType for_pvrdma(DeviceType type) {
    constexpr std::uint32_t most_qps = 1 << 15;
    type.name = "pvrdma-" + type.name;
    type.personality = PersonalityKind::pvrdma;
    type.limits.max_qp = std::min(type.limits.max_qp, most_qps);
    type.limits.max_srq = std::min(type.limits.max_srq, most_qps);
    type.limits.max_cq = std::min(type.limits.max_cq, 2 * most_qps);
    return type;
}

} // namespace

std::vector<DeviceType> default_types() {
    constexpr std::uint64_t gib = 1ull << 30;
    std::vector<DeviceType> types{
        device_type("small", 256, 1 * gib, 16, 256, 2048, 4 * gib),
        device_type("medium", 64, 16 * gib, 256, 4096, 32768, 64 * gib),
        device_type("large", 16, 256 * gib, 4096, 65536, 262144, 512 * gib),
    };
    set_vectors(types[0].limits, 4);
    set_vectors(types[1].limits, 16);
    set_vectors(types[2].limits, VRDMA_MAX_VECTORS);
    for (std::size_t i = 0; i < 3; ++i) {
        types.push_back(for_pvrdma(types[i]));
    }
    return types;
}

// A type that is no default type begins as a copy of the first one.
void read_types(Section section, Config& config) {
    std::vector<DeviceType>& types = config.types;
    for (const std::string& name : section.keys()) {
        if (!valid_name(name)) {
            throw BadConfig{
                fmt::format("{}: the type must have {}", section.name(name), valid_name_is)};
        }
        auto type = std::ranges::find(types, name, &DeviceType::name);
        if (type == types.end()) {
            type = types.insert(types.end(), types.front());
            type->name = name;
        }
        Section table = section.section(name);
        read_type(table, config, *type);
    }
    if (types.size() > VRDMA_MDEV_MAX_TYPES) {
        throw BadConfig{fmt::format("types: there are {}, and at most {} are allowed", types.size(),
                                    VRDMA_MDEV_MAX_TYPES)};
    }
}

} // namespace vrdma::control
