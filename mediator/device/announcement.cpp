// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a device needs of the one that takes its place on another host. The other host learns it
// while the virtual machine still runs on its own, and can refuse it then. The guest may still
// change its device, so the image is checked once more when it has arrived.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "mediator/base/errno.h"
#include "mediator/base/gid_text.h"
#include "mediator/device/device.h"
#include "mediator/device/out_of_memory.h"
#include "mediator/verbs/saved_state.h"

namespace vrdma {
namespace {

struct Usage {
    static constexpr std::uint32_t version = 1;

    std::uint32_t uplink; // 1: it is bound to one
    std::uint32_t pds;
    std::uint32_t mrs;
    std::uint32_t cqs;
    std::uint32_t qps;
    std::uint32_t srqs;
    std::uint32_t ahs;
    std::uint32_t reserved;
    std::uint64_t memory; // bytes of the mediator's
    std::uint64_t blocks;
};

Usage usage_of(const verbs::Objects& objects, const verbs::Identity& identity) {
    const auto count = [](const auto& table) { return static_cast<std::uint32_t>(table.size()); };
    return {.uplink = identity.uplink.empty() ? 0u : 1u,
            .pds = count(objects.pds),
            .mrs = count(objects.mrs),
            .cqs = count(objects.cqs),
            .qps = count(objects.qps),
            .srqs = count(objects.srqs),
            .ahs = count(objects.ahs),
            .reserved = 0,
            .memory = objects.resources.budget.bytes_taken(),
            .blocks = objects.resources.budget.blocks_taken()};
}

// A vrdmad that does not announce the format of its connections has this one.
constexpr verbs::SectionFormat first_connections{static_cast<std::uint32_t>(Section::connections),
                                                 1};

// One limit of a type, under its name in vrdmad.conf, and what a device has of it.
struct Limited {
    std::string_view limit;
    std::uint64_t allowed;
    std::uint64_t used;
};

std::array<Limited, 8> limited(const Usage& usage, const verbs::Limits& limits) {
    const std::uint64_t any = ~std::uint64_t{0};
    return {{{"max_pd", limits.max_pd, usage.pds},
             {"max_mr", limits.max_mr, usage.mrs},
             {"max_cq", limits.max_cq, usage.cqs},
             {"max_qp", limits.max_qp, usage.qps},
             {"max_srq", limits.max_srq, usage.srqs},
             {"max_ah", limits.max_ah, usage.ahs},
             {"max_blocks", limits.max_blocks, usage.blocks},
             {"max_memory_mib (in bytes)", limits.max_memory != 0 ? limits.max_memory : any,
              usage.memory}}};
}

} // namespace

// The formats of an image's parts. A connection has its engine's.
std::vector<verbs::SectionFormat> Device::formats() const {
    const auto sections = verbs::Objects::formats();
    std::vector formats(sections.begin(), sections.end());
    formats.push_back(
        {static_cast<std::uint32_t>(Section::connections), hca_.connection_version()});
    if (const auto own = personality_->section()) {
        formats.push_back(*own);
    }
    return formats;
}

std::vector<std::byte> Device::announce() const {
    StateWriter writer;
    const auto own = formats();
    writer.begin(Section::device, DeviceState::version, 1);
    writer.put(state());
    writer.begin(Section::formats, verbs::SectionFormat::version, own.size());
    writer.put_all<verbs::SectionFormat>(own);
    if (enabled_) {
        writer.begin(Section::usage, Usage::version, 1);
        writer.put(usage_of(enabled_->objects, function_id_.identity()));
        enabled_->objects.gids.save(writer);
    }
    writer.begin(Section::end, 0, 0);
    return writer.take();
}

std::uint64_t Device::estimate_rest() const {
    // A connected QP takes the most: its rings, and the messages under way.
    constexpr std::uint64_t bytes_per_qp = 1024;
    constexpr std::uint64_t bytes_per_other = 128;
    if (!enabled_) {
        return 0;
    }
    const Usage usage = usage_of(enabled_->objects, function_id_.identity());
    const std::uint64_t others = std::uint64_t{usage.pds} + usage.cqs + usage.srqs + usage.ahs;
    return usage.qps * bytes_per_qp + others * bytes_per_other;
}

Result<> Device::admit_formats(StateReader& reader) {
    const auto count = reader.open(Section::formats, verbs::SectionFormat::version);
    auto theirs = count ? reader.take_all<verbs::SectionFormat>(*count) : fail(count.error());
    if (!theirs) {
        return fail(theirs.error());
    }
    const auto own = formats();
    if (theirs->size() + 1 == own.size()) {
        theirs->push_back(first_connections);
    }
    if (*theirs != own) {
        log_.warn(
            "refuses a device of another personality, or from a vrdmad that saves it in"
            " another format");
        return fail(std::errc::protocol_not_supported);
    }
    return {};
}

Result<> Device::admit_usage(StateReader& reader, unsigned function) {
    const auto records = reader.open(Section::usage, Usage::version);
    const auto usage = reader.take<Usage>();
    if (!records || *records != 1 || !usage || usage->uplink > 1 || usage->reserved != 0) {
        return fail(std::errc::invalid_argument);
    }
    for (const auto& [limit, allowed, used] :
         limited(*usage, verbs::within(type_.limits, quotas_))) {
        if (used > allowed) {
            log_.warn("refuses a device that has {} of {}: {} are allowed here", used, limit,
                      allowed);
            return fail(std::errc::not_enough_memory);
        }
    }
    if (usage->uplink == 1 && function_id_.identity().uplink.empty()) {
        log_.warn("refuses a device that has an uplink: this one has none");
        return fail(std::errc::no_such_device);
    }
    const auto number = verbs::FunctionNumber::take({function_id_.endport, function});
    if (!number) {
        return fail(number.error());
    }
    return carve(number->id()).map([](const std::unique_ptr<hca::Slice>&) {});
}

// The addresses are free if this device could claim them.
Result<> Device::admit_gids(StateReader& reader) {
    const verbs::Identity& identity = function_id_.identity();
    return restore_records(
        reader, Section::gids, verbs::GidState::version, [&](StateReader& records) -> Result<> {
            const auto state = records.take<verbs::GidState>();
            if (!state) {
                return fail(state.error());
            }
            if (state->vlan > VRDMA_MAX_VLAN) {
                return fail(std::errc::invalid_argument);
            }
            const auto may = identity.may_use(state->gid, state->vlan).and_then([&] {
                return gids_.claim(state->gid, &identity, state->vlan);
            });
            if (!may) {
                log_.warn("refuses a device that has the address {} (VLAN {}): {}",
                          gid_text(state->gid), state->vlan, describe(may.error()));
                return may;
            }
            gids_.give_back(state->gid, state->vlan);
            return {};
        });
}

Result<> Device::admit(std::span<const std::byte> announcement) {
    return with_what_memory_there_is([&]() -> Result<> {
        StateReader reader{announcement, [this] { return port_.restores_on(); }};
        const auto state = take_state(reader);
        auto admitted = state ? admit_formats(reader) : fail(state.error());
        if (admitted && state->status == VRDMA_STATUS_ENABLED) {
            admitted =
                admit_usage(reader, state->function).and_then([&] { return admit_gids(reader); });
        }
        if (!admitted) {
            return admitted;
        }
        const auto end = reader.open(Section::end, 0);
        return end && *end == 0 && reader.at_end() ? Result<>{} : fail(std::errc::invalid_argument);
    });
}

} // namespace vrdma
