// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/socket_devices.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "mediator/base/errno.h"
#include "mediator/control/refusal.h"
#include "mediator/device/out_of_memory.h"
#include "mediator/frontend/vfio_user/map_share.h"

namespace vrdma::control {
namespace {

using Devices = std::vector<VfioUserDevice>;
using Place = Devices::difference_type;

// The soft limit that a shell sets is too low for the files of guests' memory.
void raise_descriptor_limit() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)::setrlimit(RLIMIT_NOFILE, &files);
    }
}

std::size_t clients_of(Devices::const_iterator first, Devices::const_iterator last) {
    return std::accumulate(
        first, last, std::size_t{0},
        [](std::size_t sum, const VfioUserDevice& device) { return sum + device.clients; });
}

std::size_t clients_of_file(const Devices& devices) {
    return clients_of(devices.begin(),
                      devices.begin() + static_cast<Place>(count_of_file(devices)));
}

std::size_t clients_added(const Devices& devices) {
    return clients_of(devices.begin() + static_cast<Place>(count_of_file(devices)), devices.end());
}

// Spare clients take half of the limits, or less if there are more others. So a few clients of the
// configuration have about as many DMA maps as without any spare ones.
SocketDevices::MapShares shares_of_maps(std::size_t clients, std::size_t spare) {
    const auto limits = vfio_user::ProcessLimits::read();
    const auto share_of = [&](std::size_t some, std::size_t weight, std::size_t all) {
        return some == 0 ? 0
                         : vfio_user::map_share(limits.part(weight, all), some, VRDMA_MAX_VECTORS);
    };
    const std::size_t others = std::max(clients, spare);
    return {share_of(clients, others, others + spare), share_of(spare, spare, others + spare)};
}

// A client without maps has no memory, so a share of none is an error. Devices that can be created
// later must not keep others from being served.
std::optional<SocketDevices::MapShares> share_maps(Config& config) {
    const std::size_t clients = clients_of_file(config.vfio_user);
    unsigned& spare = config.control.spare_clients;
    spare = config.control.socket.path.empty() ? 0 : spare;
    auto shares = shares_of_maps(clients, spare);
    if (spare != 0 && (shares.created == 0 || (clients != 0 && shares.configured == 0))) {
        spdlog::warn(
            "no device behind a socket can be created later: vm.max_map_count or RLIMIT_NOFILE "
            "leave no DMA maps for {} spare clients",
            spare);
        spare = 0;
        shares = shares_of_maps(clients, spare);
    }
    if (shares.configured == 0 && clients != 0) {
        const auto limits = vfio_user::ProcessLimits::read();
        spdlog::critical(
            "{} clients are too many for vm.max_map_count ({}) or RLIMIT_NOFILE ({}): there are no "
            "DMA maps for each",
            clients, limits.mappings, limits.descriptors);
        return std::nullopt;
    }
    return shares;
}

// The others were added when the configuration allowed more of them.
void leave_out_more_than_spare(Config& config) {
    while (clients_added(config.vfio_user) > config.control.spare_clients) {
        spdlog::warn("{}: is not served any more: spare_clients is {}",
                     config.vfio_user.back().name, config.control.spare_clients);
        config.vfio_user.pop_back();
    }
}

// A device without a MAC of its own has its uplink's MAC, so to the network it is the host.
verbs::Identity identity_of(const VfioUserDevice& device, const Uplinks& uplinks) {
    verbs::Identity identity = device.identity;
    if (identity.mac == verbs::Mac{}) {
        identity.mac = uplinks.mac_of(identity.uplink);
    }
    return identity;
}

// The device is new, so it has nothing that would be in the way.
Result<> limit(Device& device, const VfioUserDevice& options) {
    const auto set = device.set_quotas(options.quotas);
    return set ? device.set_protocols(options.protocols) : set;
}

// Whether both are given one address, and not as a part of a range.
bool have_same_address(const verbs::Identity& a, const verbs::Identity& b) {
    constexpr unsigned whole = 8 * sizeof(Gid);
    const bool same_mac = a.mac == b.mac && a.mac != verbs::Mac{};
    return same_mac || std::ranges::any_of(a.prefixes, [&](const verbs::Prefix& one) {
               return one.bits == whole &&
                      std::ranges::any_of(b.prefixes, [&](const verbs::Prefix& other) {
                          return other.bits == whole && other.address == one.address;
                      });
           });
}

// A list of devices has one for each client, such as disk/0.
tl::unexpected<management::Refusal> refuse_destruction(const std::string& name) {
    return name.find('/') == name.npos
               ? refuse_unknown(name)
               : refuse(std::errc::no_such_file_or_directory,
                        fmt::format("'{}' is no name of a device; a device with several clients "
                                    "goes as a whole, by the name before the slash",
                                    name));
}

} // namespace

std::optional<SocketDevices::Opened> SocketDevices::open(Config& config) {
    raise_descriptor_limit();
    const auto most_maps = share_maps(config);
    if (!most_maps) {
        return std::nullopt;
    }
    leave_out_more_than_spare(config);
    Opened opened{{}, *most_maps};
    for (auto device = config.vfio_user.begin(); device != config.vfio_user.end();) {
        auto socket = vfio_user::ListeningSocket::open(device->socket);
        if (socket) {
            opened.sockets.push_back(std::move(*socket));
            ++device;
        } else if (!device->section.empty()) {
            spdlog::warn("{}: is not served any more: {}: {}", device->name, device->socket.path,
                         describe(socket.error()));
            device = config.vfio_user.erase(device);
        } else {
            spdlog::critical("{}: {}", device->socket.path, describe(socket.error()));
            return std::nullopt;
        }
    }
    return opened;
}

bool SocketDevices::serve(Opened opened) {
    most_maps_ = opened.most_maps;
    for (std::size_t i = 0; i < config_.vfio_user.size(); ++i) {
        const VfioUserDevice& device = config_.vfio_user[i];
        auto server = serve_one(device, std::move(opened.sockets[i]));
        if (!server) {
            spdlog::critical("{}: {}", device.socket.path, describe(server.error()));
            return false;
        }
        servers_.push_back(std::move(*server));
    }
    return true;
}

Result<std::unique_ptr<vfio_user::Server>> SocketDevices::serve_one(
    const VfioUserDevice& device, vfio_user::ListeningSocket socket) {
    const auto type = std::ranges::find(host_.types, device.type, &DeviceType::name);
    const std::size_t most_maps =
        device.section.empty() ? most_maps_.configured : most_maps_.created;
    const auto endport =
        std::make_shared<verbs::Endport>(identity_of(device, uplinks_), device.clients);
    std::vector<std::unique_ptr<vfio_user::Function>> functions;
    for (unsigned i = 0; i < device.clients; ++i) {
        const std::string name =
            device.clients == 1 ? device.name : fmt::format("{}/{}", device.name, i);
        auto function = vfio_user::Function::create(
            {name, *type, {endport, i}, device.window, most_maps, device.personality}, host_);
        if (!function) {
            return fail(function.error());
        }
        if (const auto limited = limit((*function)->device(), device); !limited) {
            return fail(limited.error());
        }
        functions.push_back(std::move(*function));
    }
    auto server =
        vfio_user::Server::listen(std::move(socket), device.name, std::move(functions), host_.loop);
    if (server) {
        (*server)->set_share(device.share);
    }
    return server;
}

management::Answered<std::string> SocketDevices::create(const toml::table& section) {
    const auto name = section["name"].value_or(std::string{});
    if (std::ranges::count(config_.vfio_user, name, &VfioUserDevice::name) != 0) {
        return refuse(std::errc::file_exists, fmt::format("there is a device '{}' already", name));
    }
    if (const auto added = add_device(section, config_); !added) {
        return refuse(std::errc::invalid_argument, added.error());
    }
    const auto created = admit_last().and_then([this] { return serve_last(); });
    if (!created) {
        config_.vfio_user.pop_back();
        return tl::unexpected{created.error()};
    }
    return config_.vfio_user.back().socket.path;
}

// The last device of the configuration is about to be served.
management::Answered<> SocketDevices::admit_last() const {
    const VfioUserDevice& last = config_.vfio_user.back();
    if (const std::size_t clients = clients_added(config_.vfio_user);
        clients > config_.control.spare_clients) {
        return refuse(std::errc::no_space_on_device,
                      fmt::format("created devices would have {} clients, and spare_clients in "
                                  "[control] allows {}",
                                  clients, config_.control.spare_clients));
    }
    const auto others = std::span{config_.vfio_user}.first(servers_.size());
    const auto same = std::ranges::find_if(others, [&](const VfioUserDevice& other) {
        return have_same_address(last.identity, other.identity);
    });
    if (same != others.end()) {
        return refuse(
            std::errc::address_in_use,
            fmt::format("the device '{}' has this MAC or one of these addresses", same->name));
    }
    return {};
}

// If the next vrdmad would not learn of it, it is not served.
management::Answered<> SocketDevices::serve_last() {
    const VfioUserDevice& last = config_.vfio_user.back();
    auto socket = vfio_user::ListeningSocket::open(last.socket);
    if (!socket) {
        return refuse(socket.error(),
                      fmt::format("{}: {}", last.socket.path, describe(socket.error())));
    }
    std::unique_ptr<vfio_user::Server> server;
    const auto served = with_what_memory_there_is([&] {
        return serve_one(last, std::move(*socket)).map([&](auto made) {
            server = std::move(made);
        });
    });
    if (!served) {
        return refuse(served.error(), fmt::format("'{}' cannot be served: {}", last.name,
                                                  describe(served.error())));
    }
    if (const auto kept = keep(); !kept) {
        return refuse(kept.error(), fmt::format("{}: {}", file_.path(), describe(kept.error())));
    }
    servers_.push_back(std::move(server));
    return {};
}

management::Answered<> SocketDevices::destroy(const std::string& name, bool force) {
    const auto found = std::ranges::find(config_.vfio_user, name, &VfioUserDevice::name);
    if (found == config_.vfio_user.end()) {
        return refuse_destruction(name);
    }
    if (found->section.empty()) {
        return refuse_configured("device", name);
    }
    const auto place = found - config_.vfio_user.begin();
    const auto server = servers_.begin() + place;
    if (const std::size_t clients = (*server)->clients(); clients != 0 && !force) {
        return refuse(std::errc::device_or_resource_busy,
                      fmt::format("the device '{}' has clients: {}", name, clients));
    }
    const VfioUserDevice destroyed = *found;
    config_.vfio_user.erase(found);
    if (const auto kept = keep(); !kept) {
        config_.vfio_user.insert(config_.vfio_user.begin() + place, destroyed);
        return refuse(kept.error(), fmt::format("{}: {}", file_.path(), describe(kept.error())));
    }
    (*server)->hang_up();
    servers_.erase(server);
    spdlog::info("{}: destroyed", name);
    return {};
}

Result<> SocketDevices::keep() const {
    return file_.write(additions_of(config_));
}

void SocketDevices::give_shares() {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
        servers_[i]->set_share(config_.vfio_user[i].share);
    }
}

} // namespace vrdma::control
