// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/managed.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "mediator/base/errno.h"
#include "mediator/control/refusal.h"
#include "mediator/control/section_of.h"
#include "mediator/directory/entry.h"
#include "mediator/management/select.h"
#include "mediator/management/texts.h"
#include "mediator/sniffer/ring.h"

namespace vrdma::control {
namespace {

using management::Range;

struct Served {
    vrdma::Device* device;
    bool behind_socket;

    const std::string& name() const { return device->name(); }
};

std::vector<Served> all_devices(const Managed::Parts& parts) {
    std::vector<Served> all;
    for (const auto& server : parts.sockets.servers()) {
        for (vrdma::Device* const device : server->devices()) {
            all.push_back({device, true});
        }
    }
    if (parts.module) {
        for (vrdma::Device* const device : parts.module->devices()) {
            all.push_back({device, false});
        }
    }
    return all;
}

const Served* find(const std::vector<Served>& devices, const std::string& name) {
    const auto found = std::ranges::find(devices, name, &Served::name);
    return found != devices.end() ? &*found : nullptr;
}

// RoCE is what an Ethernet uplink carries.
bool speaks_roce(const Managed::Parts& parts, const std::string& uplink) {
    const auto& ethernets = parts.uplinks.ethernets();
    const auto& hcas = parts.uplinks.hcas();
    return std::ranges::find(ethernets, uplink, &ServedUplink::name) != ethernets.end() ||
           std::ranges::find(hcas, uplink, &ServedHca::name) != hcas.end();
}

std::string text_of(verbs::Protocols protocols) {
    const bool v1 = protocols[VRDMA_GID_ROCE_V1];
    return protocols.all() ? "RoCE v1 and v2" : v1 ? "RoCE v1" : "RoCE v2";
}

management::Answered<> refuse_protocols(const std::string& name, const std::string& uplink) {
    return refuse(std::errc::operation_not_supported,
                  uplink.empty()
                      ? fmt::format("the device '{}' has no uplink", name)
                      : fmt::format("'{}', the uplink of '{}', does not carry RoCE", uplink, name));
}

management::Answered<> set_protocols(vrdma::Device& device, verbs::Protocols wanted) {
    const auto set = device.set_protocols(wanted);
    if (set) {
        return {};
    }
    const verbs::Protocols taken = device.protocols() & ~wanted;
    const auto [qps, ahs] = device.users_of(taken);
    return refuse(set.error(), qps + ahs != 0 ? fmt::format("{} connected QPs and {} AHs use {}",
                                                            qps, ahs, text_of(taken))
                                              : fmt::format("'{}' cannot change it now: {}",
                                                            device.name(), describe(set.error())));
}

static_assert(management::max_weight == hca::Share::max_weight);

// Both in the order of management::Resource.
constexpr std::array<DeviceReport::Usage DeviceReport::*, management::resources> usages{
    &DeviceReport::pds, &DeviceReport::mrs,    &DeviceReport::cqs,
    &DeviceReport::qps, &DeviceReport::srqs,   &DeviceReport::xrcds,
    &DeviceReport::ahs, &DeviceReport::blocks, &DeviceReport::memory};
constexpr std::array<std::uint64_t verbs::Quotas::*, management::resources> device_quotas{
    &verbs::Quotas::pds, &verbs::Quotas::mrs,    &verbs::Quotas::cqs,
    &verbs::Quotas::qps, &verbs::Quotas::srqs,   &verbs::Quotas::xrcds,
    &verbs::Quotas::ahs, &verbs::Quotas::blocks, &verbs::Quotas::memory};

management::Answered<> refuse_quota(const DeviceReport& report, std::size_t resource,
                                    std::uint64_t quota) {
    const auto& [used, max, limit] = report.*(usages.at(resource));
    const char* const text = management::resource_texts.at(resource);
    if (used > quota) {
        return refuse(std::errc::device_or_resource_busy,
                      fmt::format("'{}' has {} of {} already", report.name, used, text));
    }
    return refuse(std::errc::invalid_argument,
                  fmt::format("the type of '{}' allows {} of {}", report.name, limit, text));
}

// All of them, or none.
management::Answered<> set_quotas(vrdma::Device& device, const management::Quotas& wanted) {
    const DeviceReport report = device.report();
    verbs::Quotas quotas = device.quotas();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i] == management::quota_stays) {
            continue;
        }
        const auto& [used, max, limit] = report.*(usages[i]);
        if (usages[i] == &DeviceReport::memory && wanted[i] == 0) { // as in vrdmad.conf(5)
            quotas.memory = verbs::Quotas::none;
            continue;
        }
        if (wanted[i] < used || (limit != 0 && wanted[i] > limit)) {
            return refuse_quota(report, i, wanted[i]);
        }
        quotas.*(device_quotas[i]) = wanted[i];
    }
    const auto set = device.set_quotas(quotas);
    return set ? management::Answered<>{} : refuse(set.error(), describe(set.error()));
}

std::array<management::Usage, management::resources> usages_of(const DeviceReport& report) {
    std::array<management::Usage, management::resources> all{};
    std::ranges::transform(usages, all.begin(), [&](const auto usage) {
        return management::Usage{(report.*usage).used, (report.*usage).max};
    });
    return all;
}

// In the order of DeviceReport::State.
management::Device::State state_of(const DeviceReport& report) {
    using State = management::Device::State;
    constexpr std::array states{State::unused, State::active, State::down, State::failed,
                                State::suspended};
    return states.at(static_cast<std::size_t>(report.state));
}

management::Device report_of(const Managed::Parts& parts, const Served& served) {
    const DeviceReport report = served.device->report();
    management::Device device{};
    helper::write(device.name, report.name);
    helper::write(device.type, report.type);
    helper::write(device.uplink, report.uplink);
    device.mac = report.mac;
    device.state = state_of(report);
    device.behind_socket = served.behind_socket ? 1 : 0;
    device.mtu = report.mtu;
    device.mbps = report.mbps;
    device.protocols = speaks_roce(parts, report.uplink)
                           ? static_cast<std::uint32_t>(served.device->protocols().to_ulong())
                           : 0;
    device.share = {report.share.weight, report.share.bytes_per_second,
                    report.share.operations_per_second};
    device.usages = usages_of(report);
    return device;
}

template <typename ByEthernet>
management::Uplink report_of_ethernet(const ByEthernet& served) {
    management::Uplink uplink{};
    helper::write(uplink.name, served.name());
    helper::write(uplink.detail, served.interface());
    uplink.mac = served.mac();
    uplink.kind = management::Uplink::Kind::ethernet;
    uplink.up = served.up() ? 1 : 0;
    uplink.mbps = served.mbps();
    return uplink;
}

management::Uplink report_of(const ServedFabric& served) {
    management::Uplink uplink{};
    helper::write(uplink.name, served.name());
    helper::write(uplink.detail, served.provider());
    uplink.mac = served.mac();
    uplink.kind = management::Uplink::Kind::fabric;
    uplink.up = 1;
    uplink.peers = static_cast<std::uint32_t>(served.peers().size());
    return uplink;
}

management::Peer report_of(const std::string& uplink, const ServedFabric::Peer& known) {
    management::Peer peer{};
    helper::write(peer.name, known.options.name);
    helper::write(peer.address, directory::text_of(known.options.address));
    helper::write(peer.uplink, uplink);
    peer.up = known.up ? 1 : 0;
    peer.addresses = static_cast<std::uint32_t>(known.addresses);
    return peer;
}

std::uint64_t nanoseconds(std::chrono::nanoseconds time) {
    return static_cast<std::uint64_t>(time.count());
}

template <typename Record>
std::string record_name(const Record& record) {
    return helper::read(record.name).value_or("");
}

} // namespace

std::vector<management::Device> Managed::devices(const Range& range) const {
    std::vector<management::Device> described;
    for (const Served& served : management::select(all_devices(parts_), range, &Served::name)) {
        described.push_back(report_of(parts_, served));
    }
    return described;
}

// Only devices in use count, so only these have a place on a page.
std::vector<management::Counters> Managed::counters(const Range& range) const {
    std::vector<Served> used = all_devices(parts_);
    std::erase_if(used, [](const Served& served) { return !served.device->enabled(); });
    std::vector<management::Counters> counted;
    for (const Served& served : management::select(std::move(used), range, &Served::name)) {
        const vrdma_counters counters = *served.device->counters();
        management::Counters& record = counted.emplace_back();
        helper::write(record.device, served.name());
        std::ranges::copy(counters.value, record.values.begin());
    }
    return counted;
}

std::vector<management::Uplink> Managed::uplinks(const Range& range) const {
    std::vector<management::Uplink> all;
    for (const auto& served : parts_.uplinks.ethernets()) {
        all.push_back(report_of_ethernet(*served));
    }
    for (const auto& served : parts_.uplinks.hcas()) {
        all.push_back(report_of_ethernet(*served));
    }
    for (const auto& served : parts_.uplinks.fabrics()) {
        all.push_back(report_of(*served));
    }
    return management::select(std::move(all), range, &record_name<management::Uplink>);
}

// Fabrics may have peers of the same name, so the order is that of management::full_name().
std::vector<management::Peer> Managed::peers(const Range& range) const {
    std::vector<management::Peer> all;
    for (const auto& served : parts_.uplinks.fabrics()) {
        for (const ServedFabric::Peer& peer : served->peers()) {
            all.push_back(report_of(served->name(), peer));
        }
    }
    return management::select(std::move(all), range, &management::full_name);
}

std::vector<management::Poller> Managed::pollers(const Range& range) const {
    std::vector<management::Poller> all;
    for (std::size_t i = 0; i < parts_.hca.pollers(); ++i) {
        const auto times = parts_.hca.poller_times(i);
        management::Poller& poller = all.emplace_back();
        helper::write(poller.name, std::to_string(i));
        poller.busy_ns = nanoseconds(times.busy);
        poller.cpu_ns = nanoseconds(times.cpu);
    }
    return management::select(std::move(all), range, &record_name<management::Poller>);
}

std::vector<management::Activity> Managed::activity(const Range& /*range*/) const {
    const CommandTimes& times = parts_.activity.command_times;
    management::Activity activity{};
    static_assert(CommandTimes::bounds.size() == activity.buckets.size());
    for (std::size_t i = 0; i < activity.buckets.size(); ++i) {
        activity.buckets[i] = {nanoseconds(CommandTimes::bounds[i]), times.counts[i]};
    }
    activity.longer = times.counts.back();
    activity.sum_ns = nanoseconds(times.sum);
    activity.migrations_in = parts_.activity.restored;
    activity.migrations_out = parts_.activity.gave_way;
    return {activity};
}

management::Answered<> Managed::set_limits(const std::string& name, const management::Share& share,
                                           const management::Quotas& quotas) {
    const auto all = all_devices(parts_);
    const Served* const found = find(all, name);
    if (found == nullptr) {
        return refuse_unknown(name);
    }
    auto set = set_quotas(*found->device, quotas);
    if (set) {
        found->device->set_share({static_cast<std::uint32_t>(share.weight), share.bytes_per_second,
                                  share.operations_per_second});
    }
    return set;
}

management::Answered<> Managed::set_protocols(const std::string& name, std::uint32_t protocols) {
    const auto all = all_devices(parts_);
    const Served* const found = find(all, name);
    if (found == nullptr) {
        return refuse_unknown(name);
    }
    const std::string uplink = found->device->report().uplink;
    if (!speaks_roce(parts_, uplink)) {
        return refuse_protocols(name, uplink);
    }
    const verbs::Protocols wanted{protocols};
    auto set = control::set_protocols(*found->device, wanted);
    if (set) {
        log_.info("{}: may use {}", name, text_of(wanted));
    }
    return set;
}

management::Answered<std::string> Managed::create_device(const management::Settings& settings) {
    return section_of(settings).and_then(
        [this](const toml::table& section) { return parts_.sockets.create(section); });
}

management::Answered<> Managed::destroy_device(const std::string& name, bool force) {
    return parts_.sockets.destroy(name, force);
}

management::Answered<std::string> Managed::add_uplink(const management::Settings& settings) {
    return section_of(settings).and_then(
        [this](const toml::table& section) { return parts_.uplinks.add(section); });
}

// A device may be bound to it that no driver has enabled yet.
management::Answered<> Managed::remove_uplink(const std::string& name) {
    std::vector<std::string> bound;
    for (const Served& served : all_devices(parts_)) {
        if (served.device->report().uplink == name) {
            bound.push_back(served.name());
        }
    }
    if (bound.empty()) {
        return parts_.uplinks.remove(name);
    }
    constexpr std::size_t most_named = 4;
    const std::size_t more = bound.size() - std::min(bound.size(), most_named);
    bound.resize(bound.size() - more);
    return refuse(
        std::errc::device_or_resource_busy,
        fmt::format("these devices have the uplink '{}': {}{}", name, fmt::join(bound, ", "),
                    more != 0 ? fmt::format(" and {} more", more) : ""));
}

// Each takes memory, and time of the process that reads it.
management::Answered<UniqueFd> Managed::start_sniffer(const std::string& name,
                                                      std::uint32_t payload_limit) {
    constexpr std::ptrdiff_t most = 4;
    if (!parts_.sniffers) {
        return refuse(std::errc::permission_denied,
                      "sniffers take sniffer = true in [control] of the configuration");
    }
    const auto all = all_devices(parts_);
    const Served* const found = find(all, name);
    if (found == nullptr) {
        return refuse_unknown(name);
    }
    if (found->device->sniffed()) {
        return refuse(std::errc::device_or_resource_busy,
                      fmt::format("the device '{}' has a sniffer already", name));
    }
    if (std::ranges::count_if(all, [](const Served& each) { return each.device->sniffed(); }) >=
        most) {
        return refuse(std::errc::device_or_resource_busy,
                      fmt::format("{} devices have sniffers, and no more can have one", most));
    }
    auto ring = sniffer::Ring::create(payload_limit);
    if (!ring) {
        return refuse(ring.error(), describe(ring.error()));
    }
    found->device->start_sniffer(std::move(ring->ring));
    return std::move(ring->file);
}

management::Answered<> Managed::stop_sniffer(const std::string& name) {
    const auto all = all_devices(parts_);
    const Served* const found = find(all, name);
    if (found == nullptr) {
        return refuse_unknown(name);
    }
    return found->device->stop_sniffer()
               ? management::Answered<>{}
               : refuse(std::errc::no_such_file_or_directory,
                        fmt::format("the device '{}' has no sniffer", name));
}

void Managed::stop_all_sniffers() {
    for (const Served& served : all_devices(parts_)) {
        served.device->stop_sniffer();
    }
}

std::string Managed::log_level() const {
    return control::name_of(spdlog::get_level());
}

bool Managed::set_log_level(const std::string& level) {
    const auto parsed = parse_log_level(level);
    if (parsed) {
        log_.warn("the log level becomes {}", level); // with the new one it may not be seen
        spdlog::set_level(*parsed);
    }
    return parsed.has_value();
}

void Managed::reload(std::function<void(management::Reloaded)> done) {
    parts_.reloader.reload(std::move(done));
}

} // namespace vrdma::control
