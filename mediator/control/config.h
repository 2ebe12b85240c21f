// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad's configuration: see vrdmad.conf(5).
#pragma once

#include <spdlog/common.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "mediator/device/device_type.h"
#include "mediator/directory/etcd_options.h"
#include "mediator/frontend/vfio_user/server.h"
#include "mediator/hca/soft/config.h"
#include "mediator/wire/fabric/address.h"
#include "mediator/wire/fabric/credential_files.h"
#include "mediator/wire/packet.h"
#include "mediator/wire/priorities.h"
#include "mediator/wire/uplink/transport.h"
#include "vrdma/device.h"

namespace vrdma::control {

std::vector<DeviceType> default_types();

using verbs::Vlans;

// A way to the network, by an interface of the host's.
struct Uplink {
    std::string name;
    std::string interface;
    wire::Transport transport = wire::Transport::automatic;
    Vlans vlans{}; // of guests, beside what has no tag
    wire::Priorities priorities{};
};

// A way to other mediators, by connections of libfabric.
struct FabricPeer {
    std::string name;
    wire::fabric::Address address;
    std::vector<wire::Gid> gids;
};

// Where a fabric's hosts find each other.
struct FabricDirectory {
    directory::EtcdOptions etcd;
    std::string prefix = "/vrdma/"; // of its keys
    wire::fabric::Address address;  // where others reach us
};

struct Fabric {
    std::string name;
    std::string host; // what the others call us
    std::string provider = "tcp";
    wire::fabric::Address listen;
    wire::fabric::CredentialFiles credentials;
    std::vector<FabricPeer> peers;
    std::optional<FabricDirectory> directory;
};

// A device behind a socket.
struct VfioUserDevice {
    std::string name;
    vfio_user::SocketOptions socket;
    std::string type = "small";
    verbs::Identity identity;                // without a MAC it has that of its uplink's interface
    unsigned clients = 1;                    // at a time; each has what the type says
    std::uint64_t window = VRDMA_IOVA_SPACE; // bytes of IOVA space of each
    hca::Share share;                        // of each
};

struct Config {
    std::string name = "vrdma"; // of the HCA, and so of the parent device
    bool mdev = true;           // serve the kernel module
    spdlog::level::level_enum log_level = spdlog::level::info;
    hca::soft::Config soft;
    std::vector<Uplink> uplinks;
    std::vector<Fabric> fabrics; // uplinks, too
    std::vector<DeviceType> types = default_types();
    std::vector<VfioUserDevice> vfio_user;
};

// The keys of a type and of a device that make their share, which may change while they are used.
inline constexpr std::array<std::string_view, 3> share_keys{"weight", "max_bytes_per_second",
                                                            "max_operations_per_second"};

// The error is for people and names the key.
tl::expected<std::string, std::string> read_config(const std::string& path); // its text
tl::expected<Config, std::string> parse_config(std::string_view text);

tl::expected<spdlog::level::level_enum, std::string> parse_log_level(const std::string& text);

} // namespace vrdma::control
