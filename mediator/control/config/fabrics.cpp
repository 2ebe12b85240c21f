// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <set>
#include <string>
#include <utility>

#include "mediator/control/config/names.h"
#include "mediator/control/config/readers.h"
#include "mediator/wire/fabric/handover.h"
#include "mediator/wire/fabric/hello.h"

namespace vrdma::control {
namespace {

std::string read_host(Section& section, std::string_view key, std::string name) {
    section.text(key, name);
    if (!wire::fabric::valid_host(name)) {
        section.refuse(key, "a host name such as host-1.example.net");
    }
    return name;
}

wire::fabric::Address read_address(Section& section, std::string_view key, std::string text = "") {
    section.text(key, text);
    auto address = wire::fabric::parse_address(text);
    if (!address) {
        section.refuse(key, "an address and a port such as 10.0.0.1:7471 or [fd00::1]:7471");
    }
    return std::move(*address);
}

std::vector<wire::Gid> read_gids(Section& section) {
    constexpr std::string_view key = "gids";
    const std::vector<std::string> texts = section.texts(key);
    std::vector<wire::Gid> gids;
    gids.reserve(texts.size());
    for (const std::string& text : texts) {
        const auto address = verbs::parse_prefixes(text);
        if (!address || address->size() != 1 || address->front().bits != 8 * sizeof(wire::Gid)) {
            section.refuse(key, "IP addresses such as \"10.0.0.5\"");
        }
        gids.push_back(address->front().address);
    }
    std::ranges::sort(gids);
    return gids;
}

FabricPeer read_peer(Section& section) {
    FabricPeer peer;
    peer.name = read_host(section, "name", "");
    peer.address = read_address(section, "address");
    peer.gids = read_gids(section);
    section.finish();
    return peer;
}

// Two hosts of a fabric must not have the same name or address.
void read_peers(Section& section, FabricOptions& fabric) {
    constexpr std::string_view key = "peer";
    std::set<std::string> names{fabric.host};
    std::set<wire::Gid> gids;
    for (Section& table : section.sections(key)) {
        const FabricPeer& peer = fabric.peers.emplace_back(read_peer(table));
        if (!names.insert(peer.name).second) {
            table.refuse("name", "the name of no other host of the fabric");
        }
        for (const wire::Gid& gid : peer.gids) {
            if (!gids.insert(gid).second) {
                table.refuse("gids", "addresses that no other host of the fabric has");
            }
        }
    }
    if (fabric.peers.size() > wire::fabric::Handover::max_peers) {
        throw BadConfig{fmt::format("{}: there are {}, and at most {} are allowed",
                                    section.name(key), fabric.peers.size(),
                                    wire::fabric::Handover::max_peers)};
    }
}

std::vector<directory::Endpoint> read_endpoints(Section& section) {
    constexpr std::string_view key = "endpoints";
    constexpr std::size_t most = 16;
    const std::vector<std::string> texts = section.texts(key);
    std::vector<directory::Endpoint> endpoints;
    endpoints.reserve(texts.size());
    for (const std::string& text : texts) {
        if (const auto endpoint = directory::parse_endpoint(text)) {
            endpoints.push_back(*endpoint);
        }
    }
    if (endpoints.empty() || endpoints.size() != texts.size() || endpoints.size() > most) {
        section.refuse(key, fmt::format("1 to {} URLs such as \"http://10.0.0.9:2379\"", most));
    }
    return endpoints;
}

FabricDirectory read_directory(Section section, const std::string& listen) {
    FabricDirectory directory;
    directory.etcd.endpoints = read_endpoints(section);
    section.text("ca_file", directory.etcd.ca_file);
    section.text("certificate_file", directory.etcd.certificate_file);
    section.text("private_key_file", directory.etcd.private_key_file);
    section.text("prefix", directory.prefix);
    if (!directory.prefix.ends_with('/')) {
        section.refuse("prefix", "a string that ends with /");
    }
    directory.address = read_address(section, "address", listen);
    section.finish();
    const bool certificate = !directory.etcd.certificate_file.empty();
    const bool private_key = !directory.etcd.private_key_file.empty();
    if (certificate && !private_key) {
        section.refuse("private_key_file", "the path of a file, as certificate_file is set");
    }
    if (private_key && !certificate) {
        section.refuse("certificate_file", "the path of a file, as private_key_file is set");
    }
    if (directory.address.host == "0.0.0.0" || directory.address.host == "::") {
        section.refuse("address",
                       "the address by which the other hosts reach this one, where "
                       "`listen` is that of all interfaces");
    }
    return directory;
}

wire::fabric::CredentialFiles read_credentials(Section& section) {
    wire::fabric::CredentialFiles files;
    for (const auto& [key, file] :
         {std::pair{"certificate_file", &files.certificate},
          std::pair{"private_key_file", &files.private_key}, std::pair{"ca_file", &files.ca}}) {
        section.text(key, *file);
        if (file->empty()) {
            section.refuse(key, "the path of a file");
        }
    }
    return files;
}

std::string this_host() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
}

FabricOptions read_fabric(Section& section) {
    FabricOptions fabric;
    section.text("name", fabric.name);
    if (!valid_uplink(fabric.name)) {
        section.refuse("name", valid_uplink_is);
    }
    fabric.host = read_host(section, "host", this_host());
    fabric.listen = read_address(section, "listen");
    section.text("provider", fabric.provider);
    fabric.credentials = read_credentials(section);
    read_peers(section, fabric);
    if (section.has("directory")) {
        std::string listen;
        section.text("listen", listen);
        fabric.directory = read_directory(section.section("directory"), listen);
    }
    section.finish();
    return fabric;
}

// The kernel module has room for at most this many uplinks and fabrics.
void check_count(const Config& config) {
    const std::size_t count = config.uplinks.size() + config.fabrics.size();
    if (count > VRDMA_MDEV_MAX_UPLINKS) {
        throw BadConfig{fmt::format("uplink, fabric: there are {}, and at most {} are allowed",
                                    count, VRDMA_MDEV_MAX_UPLINKS)};
    }
}

} // namespace

void read_fabrics(std::vector<Section> sections, Config& config) {
    for (Section& section : sections) {
        const FabricOptions& added = config.fabrics.emplace_back(read_fabric(section));
        if (std::ranges::count(config.fabrics, added.name, &FabricOptions::name) > 1 ||
            std::ranges::count(config.uplinks, added.name, &UplinkOptions::name) != 0) {
            section.refuse("name", "the name of no other uplink or fabric");
        }
    }
    check_count(config);
}

} // namespace vrdma::control
