// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/metrics.h"

#include <map>

#include "mediator/management/counter_texts.h"
#include "mediator/management/exposition.h"
#include "mediator/management/texts.h"
#include "release/release.h"

namespace vrdma::management {
namespace {

using Kind = Question::Kind;
using Type = Exposition::Type;

constexpr std::uint64_t bytes_per_megabit = 1'000'000 / 8;
constexpr double ns_per_second = 1e9;

// All that was read for one text.
struct Reading {
    std::vector<Device> devices;
    std::vector<Counters> counters;
    std::vector<Uplink> uplinks;
    std::vector<Peer> peers;
    std::vector<Poller> pollers;
    std::vector<Activity> activity; // one
};

template <typename Record>
bool take(Answered<std::vector<Record>> answered, std::vector<Record>& records, Refusal& refusal) {
    if (!answered) {
        refusal = answered.error();
        return false;
    }
    records = std::move(*answered);
    return true;
}

Answered<Reading> read_all(Asker& asker) {
    Reading reading;
    Refusal refusal;
    const bool complete = take(asker.all<Device>(Kind::devices), reading.devices, refusal) &&
                          take(asker.all<Counters>(Kind::counters), reading.counters, refusal) &&
                          take(asker.all<Uplink>(Kind::uplinks), reading.uplinks, refusal) &&
                          take(asker.all<Peer>(Kind::peers), reading.peers, refusal) &&
                          take(asker.all<Poller>(Kind::pollers), reading.pollers, refusal) &&
                          take(asker.one<Activity>(Kind::activity, ""), reading.activity, refusal);
    return complete ? Answered<Reading>{std::move(reading)} : tl::unexpected{std::move(refusal)};
}

std::string labels_of(const Device& device) {
    return Exposition::labels(
        {{"device", text_of(device.name)}, {"uplink", text_of(device.uplink)}});
}

using Labels = std::map<Name, std::string>; // by the device's name

Labels labels_of(const std::vector<Device>& devices) {
    Labels labels;
    for (const Device& device : devices) {
        labels.emplace(device.name, labels_of(device));
    }
    return labels;
}

// A gauge of each device. A value of 0 is left out where it stands for "none".
template <typename Value>
void write_gauge(Exposition& out, const Reading& reading, const Labels& labels, const char* name,
                 const char* help, bool zero_is_none, Value value_of) {
    out.family(name, Type::gauge, help);
    for (const Device& device : reading.devices) {
        const std::uint64_t value = value_of(device);
        if (value != 0 || !zero_is_none) {
            out.sample(labels.at(device.name), value);
        }
    }
}

void write_infos(Exposition& out, const Reading& reading) {
    out.family("vrdma_build_info", Type::gauge, "The release of vrdmad");
    out.sample(Exposition::labels({{"version", release}}), std::uint64_t{1});
    out.family("vrdma_device_info", Type::gauge, "What does not change of a device");
    for (const Device& device : reading.devices) {
        out.sample(Exposition::labels({{"device", text_of(device.name)},
                                       {"uplink", text_of(device.uplink)},
                                       {"type", text_of(device.type)},
                                       {"front_end", front_end_text(device)},
                                       {"mac", text_of(device.mac)}}),
                   std::uint64_t{1});
    }
}

void write_states(Exposition& out, const Reading& reading, const Labels& labels) {
    out.family("vrdma_device_state", Type::gauge, "1 for the state that the device has, else 0");
    for (const Device& device : reading.devices) {
        for (const char* const state : state_texts) {
            out.sample(labels.at(device.name) + "," + Exposition::labels({{"state", state}}),
                       std::uint64_t{state_text(device) == state ? 1u : 0u});
        }
    }
}

void write_link(Exposition& out, const Reading& reading, const Labels& labels) {
    write_gauge(out, reading, labels, "vrdma_device_mtu_bytes",
                "The largest MTU of a device in use", true,
                [](const Device& device) { return device.mtu; });
    write_gauge(out, reading, labels, "vrdma_device_speed_bytes_per_second",
                "The speed of the device's port", false,
                [](const Device& device) { return device.mbps * bytes_per_megabit; });
}

void write_share(Exposition& out, const Reading& reading, const Labels& labels) {
    write_gauge(out, reading, labels, "vrdma_device_weight",
                "The weight of the device among those of its poller", false,
                [](const Device& device) { return device.share.weight; });
    write_gauge(out, reading, labels, "vrdma_device_max_bytes_per_second",
                "The bytes per second that the device may move, if they are limited", true,
                [](const Device& device) { return device.share.bytes_per_second; });
    write_gauge(out, reading, labels, "vrdma_device_max_operations_per_second",
                "The operations per second that the device may do, if they are limited", true,
                [](const Device& device) { return device.share.operations_per_second; });
}

void write_objects(Exposition& out, const Reading& reading, const Labels& labels, const char* name,
                   const char* help, std::uint64_t Usage::*which) {
    constexpr auto objects = static_cast<std::size_t>(Resource::memory); // the last one
    out.family(name, Type::gauge, help);
    for (const Device& device : reading.devices) {
        const std::string& of_device = labels.at(device.name);
        for (std::size_t i = 0; i < objects; ++i) {
            out.sample(of_device + "," + Exposition::labels({{"resource", resource_texts[i]}}),
                       device.usages[i].*which);
        }
    }
}

void write_usages(Exposition& out, const Reading& reading, const Labels& labels) {
    write_objects(out, reading, labels, "vrdma_device_objects", "Objects that the device has",
                  &Usage::used);
    write_objects(out, reading, labels, "vrdma_device_max_objects",
                  "Objects that the device may have", &Usage::max);
    const auto memory_of = [](const Device& device) {
        return device.usages[static_cast<std::size_t>(Resource::memory)];
    };
    write_gauge(out, reading, labels, "vrdma_device_memory_bytes",
                "Bytes of vrdmad's memory that the device's objects take", false,
                [&](const Device& device) { return memory_of(device).used; });
    write_gauge(out, reading, labels, "vrdma_device_max_memory_bytes",
                "Bytes of vrdmad's memory that the objects of a device in use may take", true,
                [&](const Device& device) { return memory_of(device).max; });
}

// A device that has come between the two questions has no labels, and waits for the next reading.
void write_counters(Exposition& out, const Reading& reading, const Labels& labels) {
    for (std::size_t i = 0; i < counter_texts.size(); ++i) {
        out.family(fmt::format("vrdma_device_{}_total", counter_texts[i].name), Type::counter,
                   counter_texts[i].meaning);
        for (const Counters& counters : reading.counters) {
            if (const auto known = labels.find(counters.device); known != labels.end()) {
                out.sample(known->second, counters.values[i]);
            }
        }
    }
}

void write_network(Exposition& out, const Reading& reading) {
    out.family("vrdma_uplink_up", Type::gauge, "Whether the uplink has a carrier");
    for (const Uplink& uplink : reading.uplinks) {
        out.sample(
            Exposition::labels({{"uplink", text_of(uplink.name)}, {"kind", kind_text(uplink)}}),
            std::uint64_t{uplink.up});
    }
    out.family("vrdma_uplink_speed_bytes_per_second", Type::gauge,
               "The speed of the uplink, if it is known");
    for (const Uplink& uplink : reading.uplinks) {
        if (uplink.mbps != 0) {
            out.sample(Exposition::labels({{"uplink", text_of(uplink.name)}}),
                       uplink.mbps * bytes_per_megabit);
        }
    }
    out.family("vrdma_peer_up", Type::gauge, "Whether the other host of the fabric is connected");
    for (const Peer& peer : reading.peers) {
        out.sample(
            Exposition::labels({{"uplink", text_of(peer.uplink)}, {"peer", text_of(peer.name)}}),
            std::uint64_t{peer.up});
    }
}

void write_pollers(Exposition& out, const Reading& reading) {
    out.family("vrdma_poller_busy_seconds_total", Type::counter,
               "Time in which the poller had work");
    for (const Poller& poller : reading.pollers) {
        out.sample(Exposition::labels({{"poller", text_of(poller.name)}}),
                   static_cast<double>(poller.busy_ns) / ns_per_second);
    }
    out.family("vrdma_poller_cpu_seconds_total", Type::counter,
               "CPU time of the poller, with the time in which it looked for work and found none");
    for (const Poller& poller : reading.pollers) {
        out.sample(Exposition::labels({{"poller", text_of(poller.name)}}),
                   static_cast<double>(poller.cpu_ns) / ns_per_second);
    }
}

void write_activity(Exposition& out, const Activity& activity) {
    out.family("vrdma_control_verb_duration_seconds", Type::histogram,
               "Time that vrdmad took for a command of a guest's driver");
    std::uint64_t count = 0;
    for (const Activity::Bucket& bucket : activity.buckets) {
        count += bucket.count;
        const std::string bound =
            fmt::format("{}", static_cast<double>(bucket.longest_ns) / ns_per_second);
        out.sample("_bucket", Exposition::labels({{"le", bound}}), count);
    }
    count += activity.longer;
    out.sample("_bucket", Exposition::labels({{"le", "+Inf"}}), count);
    out.sample("_sum", "", static_cast<double>(activity.sum_ns) / ns_per_second);
    out.sample("_count", "", count);
    out.family("vrdma_migrations_total", Type::counter,
               "Devices that have come from or gone to another vrdmad");
    out.sample(Exposition::labels({{"direction", "in"}}), activity.migrations_in);
    out.sample(Exposition::labels({{"direction", "out"}}), activity.migrations_out);
}

} // namespace

Answered<std::string> read_metrics(Asker& asker) {
    return read_all(asker).map([](const Reading& reading) {
        const Labels labels = labels_of(reading.devices);
        Exposition out;
        write_infos(out, reading);
        write_states(out, reading, labels);
        write_link(out, reading, labels);
        write_share(out, reading, labels);
        write_usages(out, reading, labels);
        write_counters(out, reading, labels);
        write_network(out, reading);
        write_pollers(out, reading);
        if (!reading.activity.empty()) {
            write_activity(out, reading.activity.front());
        }
        return std::move(out).take();
    });
}

} // namespace vrdma::management
