// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/registration.h"

#include <fmt/format.h>

#include <cstring>

namespace vrdma::mdev {
namespace {

template <std::size_t N>
bool put(char (&field)[N], const std::string& text) {
    if (text.size() >= N) {
        return false;
    }
    std::memcpy(field, text.data(), text.size());
    return true;
}

bool put_all(vrdma_mdev_register& request, std::span<const std::string> uplinks) {
    if (uplinks.size() > std::size(request.uplinks)) {
        return false;
    }
    for (const std::string& name : uplinks) {
        if (!put(request.uplinks[request.num_uplinks], name)) {
            return false;
        }
        ++request.num_uplinks;
    }
    return true;
}

std::string description(const DeviceType& type) {
    return fmt::format("{}{} QPs, {} CQs, {} MRs, {} user contexts, {} MiB pinned",
                       type.personality == PersonalityKind::pvrdma ? "VMware's PVRDMA, " : "",
                       type.limits.max_qp, type.limits.max_cq, type.limits.max_mr,
                       type.limits.max_ucontext(), type.max_pinned >> 20);
}

} // namespace

Result<vrdma_mdev_register> registration(const std::string& name, std::span<const DeviceType> types,
                                         std::span<const std::string> uplinks) {
    vrdma_mdev_register request{};
    request.abi_version = VRDMA_MDEV_ABI_VERSION;
    request.num_types = static_cast<std::uint32_t>(types.size());
    if (types.empty() || types.size() > VRDMA_MDEV_MAX_TYPES || !put(request.name, name)) {
        return fail(std::errc::invalid_argument);
    }
    if (!put_all(request, uplinks)) {
        return fail(std::errc::invalid_argument);
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
        vrdma_mdev_type& out = request.types[i];
        if (!put(out.name, types[i].name) || !put(out.description, description(types[i])) ||
            !put(out.uplink, types[i].uplink)) {
            return fail(std::errc::invalid_argument);
        }
        out.max_instances = types[i].max_instances;
        out.doorbell_pages = types[i].limits.doorbell_pages;
        out.vectors = types[i].limits.vectors;
        out.personality = types[i].personality == PersonalityKind::pvrdma
                              ? VRDMA_MDEV_PERSONALITY_PVRDMA
                              : VRDMA_MDEV_PERSONALITY_VRDMA;
        out.max_pinned = types[i].max_pinned;
    }
    return request;
}

} // namespace vrdma::mdev
