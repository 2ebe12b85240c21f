// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The messages that the kernel module passes on: attributes that somebody wrote to sysfs, and
// registers that a guest wrote, at any offset. Meanwhile the content of the guest's admin queue and
// page lists changes. A device has the addresses that its attributes name, and no others. The input
// is the attributes (struct vrdma_mdev_device_info), then messages, of the module's types or of
// those below.
#include <algorithm>
#include <cstring>

#include "mediator/frontend/mdev/identity.h"
#include "mediator/fuzz/bystander.h"
#include "mediator/fuzz/changing_memory.h"
#include "mediator/fuzz/input.h"
#include "mediator/tests/guest/admin_client.h"

namespace vrdma::mdev {
namespace {

using fuzz::Input;
using fuzz::require;

// Steps that are not messages of the module.
enum : std::uint32_t {
    store = VRDMA_MDEV_MESSAGE_SHARE + 1, // the guest stores to its memory, as to a register
    change,                               // its memory changes when it is next read; see plan()
    types,
};

constexpr int max_messages = 64;
constexpr std::uint64_t arena_size = 1 << 20;

// Whether the address is one that no device may have.
bool nobodys(const Gid& gid) {
    constexpr Gid loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    return gid == Gid{} || gid == loopback || is_multicast(gid);
}

void check(const verbs::Identity& identity, const vrdma_mdev_device_info& info) {
    require(identity.mac != verbs::Mac{});
    require(identity.uplink.size() <= sizeof(info.uplink));
    require(identity.prefixes_valid || identity.prefixes.empty());
    for (const verbs::Prefix& prefix : identity.prefixes) {
        require(prefix.bits <= 8 * sizeof(Gid));
        require(prefix.contains(prefix.address));
        require(identity.may_use(prefix.address).has_value() || nobodys(prefix.address));
    }
    constexpr Gid another{0x20, 0x01, 0x0d, 0xb8, 1};
    const bool named = std::ranges::any_of(
        identity.prefixes, [&](const verbs::Prefix& prefix) { return prefix.contains(another); });
    if (!identity.uplink.empty() || !identity.prefixes_valid) {
        require(named || !identity.may_use(another).has_value());
    }
}

void serve(hca::soft::SoftHca& hca, verbs::GidRegistry& gids, const vrdma_mdev_device_info& info,
           Input& input) {
    const DeviceType type{"fuzz", 1, arena_size, {}};
    const verbs::Identity identity = identity_of(info, type);
    check(identity, info);
    const hca::Share share = share_of(info, type);
    require(share.weight >= 1 && share.weight <= hca::Share::max_weight);
    test::GuestPort port{ArenaMemory::create(arena_size).value(), type};
    Device device{uuid_text(info.uuid), type, identity, port, hca, gids};
    fuzz::ChangingMemory changing{{port.memory().at(Iova{0}, arena_size), arena_size}};
    for (int i = 0; i < max_messages && !input.empty(); ++i) {
        const auto message = input.take<vrdma_mdev_message>();
        switch (message.type % types) {
            case VRDMA_MDEV_MESSAGE_RESET:
                device.reset();
                device.set_identity(identity);
                break;
            case store:
                std::memcpy(port.memory().at(Iova{message.offset / 4 * 4 % arena_size}, 4),
                            &message.value, sizeof(message.value));
                break;
            case change:
                changing.plan(input);
                break;
            default:
                changing.turn([&] { device.write_register(message.offset, message.value); });
        }
        for (int turn = 0; turn < max_messages && port.take_wake(); ++turn) {
            changing.turn([&] { device.service(); });
        }
        changing.turn([&] { hca.poll(); });
    }
}

} // namespace
} // namespace vrdma::mdev

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return vrdma::fuzz::beside_bystander({data, size}, [](auto& hca, auto& gids, auto& input) {
        const auto info = input.template take<vrdma_mdev_device_info>();
        vrdma::mdev::serve(hca, gids, info, input);
    });
}
