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

// A way to the network, by an interface of the host.
struct UplinkOptions {
    std::string name;
    std::string interface;
    std::string device{}; // of the host's HCA; empty: frames of vrdmad's own
    wire::Transport transport = wire::Transport::automatic;
    Vlans vlans{}; // that guests may use, besides frames without a tag
    wire::Priorities priorities{};
    std::string section{}; // its text, if it was added while vrdmad runs (additions.h)
};

// Another mediator of a fabric.
struct FabricPeer {
    std::string name;
    wire::fabric::Address address;
    std::vector<wire::Gid> gids;
};

// The directory by which a fabric's hosts find each other.
struct FabricDirectory {
    directory::EtcdOptions etcd;
    std::string prefix = "/vrdma/"; // of its keys
    wire::fabric::Address address;  // at which others reach this host
};

// A way to the network, by connections of libfabric to other mediators.
struct FabricOptions {
    std::string name;
    std::string host; // this host's name for the others
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
    PersonalityKind personality = PersonalityKind::vrdma;
    verbs::Identity identity;                // without a MAC: that of its uplink's interface
    unsigned clients = 1;                    // at a time; each has the limits of the type
    std::uint64_t window = VRDMA_IOVA_SPACE; // bytes of IOVA space of each client
    hca::Share share;                        // of each client
    verbs::Quotas quotas{};                  // of each client, within the type's limits
    verbs::Protocols protocols = verbs::Protocols{}.set(); // of RoCE that it may use
    std::string section{}; // its text, if it was added while vrdmad runs (additions.h)
};

// In the runtime directory of a vrdmad that a service manager has started, because that is the one
// of this host. Others, as those of vrdma-run, must not take its path.
std::string default_control_path();

// The socket of vrdmactl(8). Without a path, there is none.
struct ControlSocketOptions {
    vfio_user::SocketOptions socket{.path = default_control_path()};
    bool group_changes = false; // the group may also change something
    std::optional<bool> sniffer{};
    std::optional<wire::fabric::Address> metrics{}; // where its process serves them to the network
    unsigned spare_clients = 16; // that devices may have which are created while vrdmad runs
    bool add_uplinks = false;    // also to a configuration that has none

    // Whether those who may change something may also read messages. Strangers must not come near
    // a process that can, so by default not where the network reaches it.
    bool sniffs() const { return sniffer.value_or(!metrics); }
};

struct Config {
    std::string name = "vrdma"; // of the HCA, and so of the parent device
    bool mdev = true;           // serve the kernel module
    spdlog::level::level_enum log_level = spdlog::level::info;
    hca::soft::Config soft;
    std::vector<UplinkOptions> uplinks;
    std::vector<FabricOptions> fabrics; // are uplinks, too
    std::vector<DeviceType> types = default_types();
    std::vector<VfioUserDevice> vfio_user;
    ControlSocketOptions control;
};

// The keys that set the share of a type or a device. A share may change while devices run.
inline constexpr std::array<std::string_view, 3> share_keys{"weight", "max_bytes_per_second",
                                                            "max_operations_per_second"};

// The error is for people, and names the key that is wrong.
tl::expected<std::string, std::string> read_config(const std::string& path); // returns the text
tl::expected<Config, std::string> parse_config(std::string_view text);

inline constexpr std::string_view log_levels =
    "trace, debug, info, warning, error, critical or off";
tl::expected<spdlog::level::level_enum, std::string> parse_log_level(const std::string& text);
std::string name_of(spdlog::level::level_enum level);

} // namespace vrdma::control
