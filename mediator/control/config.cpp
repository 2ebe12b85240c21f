// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/config.h"

#include <fmt/format.h>
#include <grp.h>
#include <net/if.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdint>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "mediator/control/toml.h"
#include "mediator/wire/fabric/handover.h"
#include "mediator/wire/fabric/hello.h"
#include "vrdma/mdev.h"

namespace vrdma::control {
namespace {

// Thrown and caught in this file only.
struct BadConfig : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// One table of the file. Every key must be asked for: what is left over is an error.
class Section {
  public:
    Section(const toml::table* table, std::string path) : table_{table}, path_{std::move(path)} {}

    template <typename T>
    void integer(std::string_view key, T& out, std::int64_t min, std::int64_t max) {
        const toml::node* node = find(key);
        if (node == nullptr) {
            return;
        }
        const auto value = node->value_exact<std::int64_t>();
        if (!value || *value < min || *value > max) {
            throw BadConfig{
                fmt::format("{}: a number from {} to {} is wanted", name(key), min, max)};
        }
        out = static_cast<T>(*value);
    }

    void microseconds(std::string_view key, std::chrono::microseconds& out) {
        constexpr std::int64_t max = 60'000'000;
        std::int64_t value = out.count();
        integer(key, value, 0, max);
        out = std::chrono::microseconds{value};
    }

    void text(std::string_view key, std::string& out) {
        const toml::node* node = find(key);
        if (node == nullptr) {
            return;
        }
        const auto value = node->value_exact<std::string>();
        if (!value) {
            throw BadConfig{fmt::format("{}: a string is wanted", name(key))};
        }
        out = *value;
    }

    void boolean(std::string_view key, bool& out) {
        const toml::node* node = find(key);
        if (node == nullptr) {
            return;
        }
        const auto value = node->value_exact<bool>();
        if (!value) {
            throw BadConfig{fmt::format("{}: true or false is wanted", name(key))};
        }
        out = *value;
    }

    // The strings of an array.
    std::vector<std::string> texts(std::string_view key) {
        const toml::node* node = find(key);
        std::vector<std::string> texts;
        if (node == nullptr) {
            return texts;
        }
        if (!node->is_array() || (!node->as_array()->empty() &&
                                  !node->as_array()->is_homogeneous(toml::node_type::string))) {
            throw BadConfig{fmt::format("{}: an array of strings is wanted", name(key))};
        }
        texts.reserve(node->as_array()->size());
        for (const toml::node& text : *node->as_array()) {
            texts.push_back(*text.value_exact<std::string>());
        }
        return texts;
    }

    // The tables of [[key]].
    std::vector<Section> sections(std::string_view key) {
        const toml::node* node = find(key);
        std::vector<Section> sections;
        if (node == nullptr) {
            return sections;
        }
        if (!node->is_array_of_tables()) {
            throw BadConfig{fmt::format("{}: tables, [[{}]], are wanted", name(key), name(key))};
        }
        for (const toml::node& table : *node->as_array()) {
            sections.push_back(
                {table.as_table(), fmt::format("{}[{}]", name(key), sections.size())});
        }
        return sections;
    }

    Section section(std::string_view key) {
        const toml::node* node = find(key);
        if (node != nullptr && !node->is_table()) {
            throw BadConfig{fmt::format("{}: a table is wanted", name(key))};
        }
        return {node == nullptr ? nullptr : node->as_table(), name(key)};
    }

    bool has(std::string_view key) { return find(key) != nullptr; }

    std::vector<std::string> keys() const {
        std::vector<std::string> keys;
        if (table_ != nullptr) {
            for (const auto& [key, node] : *table_) {
                keys.emplace_back(key.str());
            }
        }
        return keys;
    }

    void finish() const {
        for (const std::string& key : keys()) {
            if (!known_.contains(key)) {
                throw BadConfig{fmt::format("{}: unknown", name(key))};
            }
        }
    }

    std::string name(std::string_view key) const {
        return path_.empty() ? std::string{key} : fmt::format("{}.{}", path_, key);
    }

  private:
    const toml::node* find(std::string_view key) {
        known_.emplace(key);
        return table_ == nullptr ? nullptr : table_->get(key);
    }

    const toml::table* table_;
    std::string path_;
    std::set<std::string, std::less<>> known_;
};

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

bool valid_name(std::string_view name) {
    return !name.empty() && name.size() < VRDMA_MDEV_NAME_SIZE &&
           name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == name.npos;
}

// As the kernel allows it; `name` is what an uplink is known by, and by default the same.
bool valid_interface(std::string_view name) {
    return !name.empty() && name.size() < IFNAMSIZ && name != "." && name != ".." &&
           std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~' && c != '/'; });
}

wire::Transport read_transport(Section& section) {
    constexpr std::string_view key = "transport";
    std::string name = "auto";
    section.text(key, name);
    if (name == "auto") {
        return wire::Transport::automatic;
    }
    if (name == "af_xdp") {
        return wire::Transport::af_xdp;
    }
    if (name == "af_packet") {
        return wire::Transport::af_packet;
    }
    throw BadConfig{section.name(key) + ": auto, af_xdp or af_packet is wanted"};
}

// "7" or "100-199", into `numbers`. False: it is neither, or they are not from `min` to `max`.
template <std::size_t N>
bool add_numbers(std::string_view text, unsigned min, unsigned max, std::bitset<N>& numbers) {
    const char* const end = text.data() + text.size();
    unsigned first = 0;
    auto parsed = std::from_chars(text.data(), end, first);
    unsigned last = first;
    if (parsed.ec == std::errc{} && parsed.ptr != end && *parsed.ptr == '-') {
        parsed = std::from_chars(parsed.ptr + 1, end, last);
    }
    if (parsed.ec != std::errc{} || parsed.ptr != end || first < min || last < first ||
        last > max) {
        return false;
    }
    for (unsigned number = first; number <= last; ++number) {
        numbers.set(number);
    }
    return true;
}

// Those in the place of what is there, if the file has the key.
template <std::size_t N>
void read_numbers(Section& section, std::string_view key, unsigned min, std::bitset<N>& out) {
    constexpr unsigned max = N - 1;
    if (!section.has(key)) {
        return;
    }
    out.reset();
    for (const std::string& text : section.texts(key)) {
        if (!add_numbers(text, min, max, out)) {
            throw BadConfig{
                fmt::format("{}: numbers from {} to {} are wanted, such as \"5\" or \"3-5\"",
                            section.name(key), min, max)};
        }
    }
}

void read_vlans(Section& section, Vlans& vlans) {
    read_numbers(section, "vlans", 1, vlans);
}

// "26:3" or "24-31:3", into what each of these numbers has. False: it is neither.
template <std::size_t N>
bool set_priority(std::string_view text, unsigned min, std::array<std::uint8_t, N>& priorities) {
    const std::size_t colon = text.find(':');
    if (colon == text.npos) {
        return false;
    }
    std::bitset<N> numbers;
    std::bitset<wire::Priorities::count> priority;
    if (!add_numbers(text.substr(0, colon), min, N - 1, numbers) ||
        !add_numbers(text.substr(colon + 1), 0, priority.size() - 1, priority) ||
        priority.count() != 1) {
        return false;
    }
    for (std::size_t i = 0; i < N; ++i) {
        if (numbers[i]) {
            priorities[i] = static_cast<std::uint8_t>(std::countr_zero(priority.to_ulong()));
        }
    }
    return true;
}

template <std::size_t N>
void read_priorities(Section& section, std::string_view key, unsigned min,
                     std::array<std::uint8_t, N>& priorities) {
    for (const std::string& text : section.texts(key)) {
        if (!set_priority(text, min, priorities)) {
            throw BadConfig{fmt::format(
                "{}: numbers from {} to {} with a priority from 0 to {} are wanted, such as "
                "\"5:3\" or \"3-5:3\"",
                section.name(key), min, N - 1, wire::Priorities::count - 1)};
        }
    }
}

Uplink read_uplink(Section section) {
    Uplink uplink;
    section.text("interface", uplink.interface);
    uplink.name = uplink.interface;
    section.text("name", uplink.name);
    for (const auto& [key, value] :
         {std::pair{"interface", uplink.interface}, std::pair{"name", uplink.name}}) {
        if (!valid_interface(value)) {
            throw BadConfig{section.name(key) + ": a name such as eth0 is wanted"};
        }
    }
    uplink.transport = read_transport(section);
    read_vlans(section, uplink.vlans);
    read_priorities(section, "dscp_priorities", 0, uplink.priorities.of_dscp);
    read_priorities(section, "sl_priorities", 1, uplink.priorities.of_service_level);
    section.finish();
    return uplink;
}

void read_uplinks(std::vector<Section> sections, std::vector<Uplink>& uplinks) {
    for (Section& section : sections) {
        const Uplink& added = uplinks.emplace_back(read_uplink(std::move(section)));
        if (std::ranges::count(uplinks, added.name, &Uplink::name) > 1) {
            throw BadConfig{fmt::format("uplink: two are named '{}'", added.name)};
        }
        if (std::ranges::count(uplinks, added.interface, &Uplink::interface) > 1) {
            throw BadConfig{fmt::format("uplink: two are by '{}'", added.interface)};
        }
    }
}

std::string read_host(Section& section, std::string_view key, std::string name) {
    section.text(key, name);
    if (!wire::fabric::valid_host(name)) {
        throw BadConfig{section.name(key) + ": a name such as host-1.example.net is wanted"};
    }
    return name;
}

wire::fabric::Address read_address(Section& section, std::string_view key, std::string text = "") {
    section.text(key, text);
    auto address = wire::fabric::parse_address(text);
    if (!address) {
        throw BadConfig{section.name(key) +
                        ": an address and a port such as 10.0.0.1:7471 or [fd00::1]:7471 are "
                        "wanted"};
    }
    return std::move(*address);
}

std::vector<wire::Gid> read_gids(Section& section) {
    const std::vector<std::string> texts = section.texts("gids");
    std::vector<wire::Gid> gids;
    gids.reserve(texts.size());
    for (const std::string& text : texts) {
        const auto address = verbs::parse_prefixes(text);
        if (!address || address->size() != 1 || address->front().bits != 8 * sizeof(wire::Gid)) {
            throw BadConfig{section.name("gids") + ": addresses such as 10.0.0.5 are wanted"};
        }
        gids.push_back(address->front().address);
    }
    std::ranges::sort(gids);
    return gids;
}

FabricPeer read_fabric_peer(Section section) {
    FabricPeer peer;
    peer.name = read_host(section, "name", "");
    peer.address = read_address(section, "address");
    peer.gids = read_gids(section);
    section.finish();
    return peer;
}

// Nobody has another's name or address.
void check_peers(const Fabric& fabric, const std::string& key) {
    std::set<std::string> names{fabric.host};
    std::set<wire::Gid> gids;
    for (const FabricPeer& peer : fabric.peers) {
        if (!names.insert(peer.name).second) {
            throw BadConfig{fmt::format("{}: two hosts are named '{}'", key, peer.name)};
        }
        for (const wire::Gid& gid : peer.gids) {
            if (!gids.insert(gid).second) {
                throw BadConfig{
                    fmt::format("{}: '{}' has an address that another has", key, peer.name)};
            }
        }
    }
    if (fabric.peers.size() > wire::fabric::Handover::max_peers) {
        throw BadConfig{fmt::format("{}: at most {}", key, wire::fabric::Handover::max_peers)};
    }
}

std::vector<directory::Endpoint> read_endpoints(Section& section) {
    constexpr std::size_t most = 16;
    const std::vector<std::string> texts = section.texts("endpoints");
    std::vector<directory::Endpoint> endpoints;
    endpoints.reserve(texts.size());
    for (const std::string& text : texts) {
        if (const auto endpoint = directory::parse_endpoint(text)) {
            endpoints.push_back(*endpoint);
        }
    }
    if (endpoints.empty() || endpoints.size() != texts.size() || endpoints.size() > most) {
        throw BadConfig{section.name("endpoints") +
                        ": URLs such as http://10.0.0.9:2379 are wanted"};
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
        throw BadConfig{section.name("prefix") + ": one that ends with / is wanted"};
    }
    directory.address = read_address(section, "address", listen);
    section.finish();
    if (directory.etcd.certificate_file.empty() != directory.etcd.private_key_file.empty()) {
        throw BadConfig{section.name("certificate_file") + ": private_key_file goes with it"};
    }
    if (directory.address.host == "0.0.0.0" || directory.address.host == "::") {
        throw BadConfig{section.name("address") + ": it has to be said, as listen is no host's"};
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
            throw BadConfig{section.name(key) + ": a file is wanted"};
        }
    }
    return files;
}

std::string this_host() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
}

Fabric read_fabric(Section section) {
    Fabric fabric;
    section.text("name", fabric.name);
    if (!valid_interface(fabric.name)) {
        throw BadConfig{section.name("name") + ": a name such as wan is wanted"};
    }
    fabric.host = read_host(section, "host", this_host());
    fabric.listen = read_address(section, "listen");
    section.text("provider", fabric.provider);
    fabric.credentials = read_credentials(section);
    for (Section& peer : section.sections("peer")) {
        fabric.peers.push_back(read_fabric_peer(std::move(peer)));
    }
    check_peers(fabric, section.name("peer"));
    if (section.has("directory")) {
        std::string listen;
        section.text("listen", listen);
        fabric.directory = read_directory(section.section("directory"), listen);
    }
    section.finish();
    return fabric;
}

void read_fabrics(std::vector<Section> sections, Config& config) {
    for (Section& section : sections) {
        const Fabric& added = config.fabrics.emplace_back(read_fabric(std::move(section)));
        if (std::ranges::count(config.fabrics, added.name, &Fabric::name) > 1 ||
            std::ranges::count(config.uplinks, added.name, &Uplink::name) != 0) {
            throw BadConfig{fmt::format("fabric: two uplinks are named '{}'", added.name)};
        }
    }
}

// The module knows no more.
void check_uplinks(const Config& config) {
    if (config.uplinks.size() + config.fabrics.size() > VRDMA_MDEV_MAX_UPLINKS) {
        throw BadConfig{fmt::format("uplink: at most {}, and each fabric is one of them",
                                    VRDMA_MDEV_MAX_UPLINKS)};
    }
}

// Which one a device is bound to; none if it says "".
void read_binding(Section& section, const Config& config, std::string& name) {
    section.text("uplink", name);
    if (!name.empty() && std::ranges::count(config.uplinks, name, &Uplink::name) == 0 &&
        std::ranges::count(config.fabrics, name, &Fabric::name) == 0) {
        throw BadConfig{fmt::format("{}: there is no [[uplink]] or [[fabric]] of the name '{}'",
                                    section.name("uplink"), name)};
    }
}

// VLANs for a device, of those that its uplink is open to. A fabric leads to no switch.
void read_vlans(Section& section, const Config& config, const std::string& uplink, Vlans& vlans) {
    read_vlans(section, vlans);
    const auto bound = std::ranges::find(config.uplinks, uplink, &Uplink::name);
    if (bound != config.uplinks.end() && (vlans & ~bound->vlans).any()) {
        throw BadConfig{fmt::format("{}: uplink '{}' is not open to all of them",
                                    section.name("vlans"), uplink)};
    }
}

// "0xffff"; 0 is none.
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

// Of a type or of a device.
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
            throw BadConfig{section.name(key) +
                            ": P_Keys of different partitions such as \"0xffff\" and \"0x8001\" "
                            "are wanted"};
        }
    }
    if (pkeys.empty() || pkeys.size() > VRDMA_MAX_PKEYS) {
        throw BadConfig{fmt::format("{}: 1 to {} are wanted", section.name(key), VRDMA_MAX_PKEYS)};
    }
}

// Of a type or of a device.
template <typename Item>
void read_port_speed(Section& section, Item& item) {
    std::string text;
    section.text("port_speed", text);
    if (!section.has("port_speed")) {
        return;
    }
    const auto speed = verbs::parse_port_speed(text);
    if (!speed) {
        throw BadConfig{section.name("port_speed") +
                        ": 1x, 2x, 4x, 8x or 12x with SDR, DDR, QDR, FDR10, FDR, EDR, HDR or NDR "
                        "is wanted, such as \"4x EDR\""};
    }
    item.port_speed = *speed;
}

// What packets may ask of the network: of a type or of a device.
template <typename Item>
void read_classes(Section& section, Item& item) {
    read_numbers(section, "traffic_classes", 0, item.traffic_classes);
    read_numbers(section, "service_levels", 0, item.service_levels);
}

void read_share(Section& section, hca::Share& share) {
    constexpr std::int64_t most = 1'000'000'000'000'000;
    section.integer(share_keys[0], share.weight, 1, hca::Share::max_weight);
    section.integer(share_keys[1], share.bytes_per_second, 0, most);
    section.integer(share_keys[2], share.operations_per_second, 0, most);
}

void read_type(Section section, const Config& config, DeviceType& type) {
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
    read_classes(section, type);
    read_port_speed(section, type);
    read_pkeys(section, type.pkeys);
    read_share(section, type.share);
    section.finish();
    if (!std::has_single_bit(limits.doorbell_pages)) {
        throw BadConfig{section.name("doorbell_pages") + ": a power of two is wanted"};
    }
    type.max_pinned = pinned_mib << 20;
    type.max_holes = holes_mib << 20;
    limits.max_mr_size = mr_size_mib << 20;
    limits.max_memory = memory_mib << 20;
    set_vectors(limits, vectors);
}

// A type that is not there by default begins as a copy of the first one.
void read_types(Section section, Config& config) {
    std::vector<DeviceType>& types = config.types;
    for (const std::string& name : section.keys()) {
        if (!valid_name(name)) {
            throw BadConfig{section.name(name) + ": a name of a-z, 0-9 and - is wanted"};
        }
        auto type = std::ranges::find(types, name, &DeviceType::name);
        if (type == types.end()) {
            type = types.insert(types.end(), types.front());
            type->name = name;
        }
        read_type(section.section(name), config, *type);
    }
    if (types.size() > VRDMA_MDEV_MAX_TYPES) {
        throw BadConfig{fmt::format("types: at most {}", VRDMA_MDEV_MAX_TYPES)};
    }
}

void read_soft(Section section, hca::soft::Config& soft) {
    section.integer("pollers", soft.pollers, 1, 256);
    section.microseconds("spin_min_us", soft.poll.spin_min);
    section.microseconds("spin_max_us", soft.poll.spin_max);
    section.integer("realtime_priority", soft.realtime_priority, 0, 99);
    section.integer("hot_queues", soft.hot_queues, 0, 65536);
    section.microseconds("hot_idle_us", soft.hot_idle);
    section.integer("turn_wqes", soft.turn_wqes, 1, 65536);
    section.integer("turn_bytes", soft.turn_bytes, 4096, std::int64_t{1} << 31);
    section.integer("shared_turn_bytes", soft.shared_turn_bytes, 4096, std::int64_t{1} << 31);
    section.finish();
    if (soft.poll.spin_min > soft.poll.spin_max) {
        throw BadConfig{section.name("spin_min_us") + ": more than spin_max_us"};
    }
}

verbs::Mac parse_mac(std::string_view text, const std::string& key) {
    verbs::Mac mac{};
    bool valid = text.size() == 3 * mac.size() - 1;
    for (std::size_t i = 0; valid && i < mac.size(); ++i) {
        const char* const digits = text.data() + 3 * i;
        const auto [end, error] = std::from_chars(digits, digits + 2, mac[i], 16);
        valid =
            error == std::errc{} && end == digits + 2 && (i + 1 == mac.size() || digits[2] == ':');
    }
    if (!valid || (mac[0] & 1) != 0) {
        throw BadConfig{key + ": a MAC address such as 02:00:00:00:00:01 is wanted"};
    }
    return mac;
}

void read_identity(Section& section, VfioUserDevice& device) {
    std::string mac;
    std::string addresses;
    section.text("mac", mac);
    section.text("addresses", addresses);
    if (!mac.empty()) {
        device.identity.mac = parse_mac(mac, section.name("mac"));
    } else if (device.identity.uplink.empty()) {
        device.identity.mac = verbs::derived_mac(
            {reinterpret_cast<const std::uint8_t*>(device.name.data()), device.name.size()});
    }
    if (!device.identity.uplink.empty() && !section.has("addresses")) {
        throw BadConfig{fmt::format("{}: those that it may have on uplink '{}' are wanted",
                                    section.name("addresses"), device.identity.uplink)};
    }
    auto prefixes = verbs::parse_prefixes(addresses);
    if (!prefixes) {
        throw BadConfig{section.name("addresses") +
                        ": addresses such as 10.0.0.5,fd00::/64 are wanted"};
    }
    device.identity.prefixes = std::move(*prefixes);
}

// A user or group of this machine.
template <typename Entry, typename Number>
void read_id(Section& section, std::string_view key, Entry* (*look_up)(const char*),
             Number Entry::*id, Number& out) {
    std::string name;
    section.text(key, name);
    if (name.empty()) {
        return;
    }
    const Entry* const entry = look_up(name.c_str());
    if (entry == nullptr) {
        throw BadConfig{fmt::format("{}: '{}' does not exist here", section.name(key), name)};
    }
    out = entry->*id;
}

void read_socket(Section& section, VfioUserDevice& device) {
    device.socket.path = fmt::format("/run/vrdma/{}.sock", device.name);
    section.text("socket", device.socket.path);
    read_id(section, "owner", ::getpwnam, &passwd::pw_uid, device.socket.owner);
    read_id(section, "group", ::getgrnam, &::group::gr_gid, device.socket.group);
    std::string mode;
    section.text("mode", mode);
    if (!mode.empty()) {
        const auto [end, error] =
            std::from_chars(mode.data(), mode.data() + mode.size(), device.socket.mode, 8);
        if (error != std::errc{} || end != mode.data() + mode.size() || device.socket.mode > 0777) {
            throw BadConfig{section.name("mode") + ": a mode such as \"0660\" is wanted"};
        }
    }
}

VfioUserDevice read_vfio_user(Section section, const Config& config) {
    VfioUserDevice device;
    section.text("name", device.name);
    if (!valid_name(device.name)) {
        throw BadConfig{section.name("name") + ": a name of a-z, 0-9 and - is wanted"};
    }
    section.text("type", device.type);
    const auto type = std::ranges::find(config.types, device.type, &DeviceType::name);
    if (type == config.types.end()) {
        throw BadConfig{section.name("type") + ": no such type"};
    }
    device.identity.uplink = type->uplink;
    read_binding(section, config, device.identity.uplink);
    if (device.identity.uplink == type->uplink) {
        device.identity.vlans = type->vlans;
        device.identity.traffic_classes = type->traffic_classes;
        device.identity.service_levels = type->service_levels;
    }
    read_vlans(section, config, device.identity.uplink, device.identity.vlans);
    read_classes(section, device.identity);
    device.identity.port_speed = type->port_speed;
    read_port_speed(section, device.identity);
    device.identity.pkeys = type->pkeys;
    read_pkeys(section, device.identity.pkeys);
    device.share = type->share;
    read_share(section, device.share);
    section.integer("clients", device.clients, 1, verbs::Endport::max_functions);
    std::uint64_t window_gib = device.window >> 30;
    section.integer("window_gib", window_gib, 1, 16384);
    device.window = window_gib << 30;
    read_socket(section, device);
    read_identity(section, device);
    section.finish();
    return device;
}

void read_vfio_users(std::vector<Section> sections, Config& config) {
    for (Section& section : sections) {
        config.vfio_user.push_back(read_vfio_user(std::move(section), config));
        const VfioUserDevice& added = config.vfio_user.back();
        if (std::ranges::count(config.vfio_user, added.name, &VfioUserDevice::name) > 1) {
            throw BadConfig{fmt::format("vfio_user: two devices are named '{}'", added.name)};
        }
    }
}

Config read(const toml::table& file) {
    Config config;
    Section root{&file, ""};
    std::string level;
    root.text("log_level", level);
    if (!level.empty()) {
        const auto parsed = parse_log_level(level);
        if (!parsed) {
            throw BadConfig{"log_level: " + parsed.error()};
        }
        config.log_level = *parsed;
    }
    root.text("name", config.name);
    if (!valid_name(config.name)) {
        throw BadConfig{"name: a name of a-z, 0-9 and - is wanted"};
    }
    root.boolean("mdev", config.mdev);
    read_soft(root.section("soft"), config.soft);
    read_uplinks(root.sections("uplink"), config.uplinks);
    read_fabrics(root.sections("fabric"), config);
    check_uplinks(config);
    read_types(root.section("types"), config);
    read_vfio_users(root.sections("vfio_user"), config);
    root.finish();
    return config;
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
    return types;
}

tl::expected<spdlog::level::level_enum, std::string> parse_log_level(const std::string& text) {
    const auto level = spdlog::level::from_str(text);
    if (level == spdlog::level::off && text != "off") {
        return tl::unexpected{
            fmt::format("'{}' is none of trace, debug, info, warning, error, critical, off", text)};
    }
    return level;
}

tl::expected<Config, std::string> parse_config(std::string_view text) {
    try {
        return read(toml::parse(text));
    } catch (const toml::parse_error& error) {
        return tl::unexpected{
            fmt::format("line {}: {}", error.source().begin.line, error.description())};
    } catch (const BadConfig& error) {
        return tl::unexpected{error.what()};
    }
}

tl::expected<std::string, std::string> read_config(const std::string& path) {
    std::ifstream file{path};
    if (!file) {
        return tl::unexpected{std::string{"cannot be read"}};
    }
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

} // namespace vrdma::control
