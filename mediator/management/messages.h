// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The messages between vrdmad and the process that serves its control socket (vrdma-management), by
// a socket of SOCK_SEQPACKET. The process reads strangers' input, and a stranger may have taken it
// over: vrdmad accepts a question only if all of its bytes are valid. The process asks one question
// at a time, and vrdmad answers each with one message.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "mediator/helper/fields.h"
#include "mediator/management/mediator.h"

namespace vrdma::management {

using helper::Message;
inline constexpr std::size_t max_message = 64 << 10;

struct Question {
    enum class Kind : std::uint32_t {
        task,    // a worker begins; the answer is its task, with a listening socket
        network, // the answer comes with a listening socket for the network; ENOENT: there is none
        devices,
        counters,
        uplinks,
        peers,
        pollers,
        activity,
        log_level,
        set_log_level, // to `name`
        set_limits,    // of the device `name`; no lines are the answer
        set_protocols, // likewise
        start_sniffer, // of the device `name`; the answer comes with a sniffer::Ring's file
        stop_sniffer,  // likewise; no lines are the answer
        reload,
        create_device,  // its settings follow; its socket is the answer
        destroy_device, // by its name
        add_uplink,     // its settings follow; its name is the answer
        remove_uplink,  // by its name
    };
    static constexpr Kind last = Kind::remove_uplink;

    Kind kind;
    std::uint32_t id;        // of the answer, too
    std::uint32_t exact;     // this and the name are those of a Range
    std::uint32_t protocols; // 0, except for set_protocols
    std::uint32_t settings;  // how many follow: some for create_device and add_uplink, else none
    std::uint32_t force;     // 0, except for destroy_device: also a device that is in use
    Name name;
    std::uint32_t payload_limit; // 0, except for start_sniffer
    std::uint32_t reserved;
    Share share; // this and the quotas are zero, except for set_limits
    Quotas quotas;
};
static_assert(sizeof(Question) == 224);

// Begins an answer. Records or lines follow.
struct Answer {
    std::uint32_t id;
    std::uint32_t error; // an errno, whose reason is a Line; or 0
    std::uint32_t more;  // things come after the last one here
    std::uint32_t count; // of lines, of which the rest are others: see Reloaded
};

struct Task {
    std::uint32_t others_change; // users whom the socket's mode lets in, besides root and our own
    std::uint32_t reserved;
};

struct Asked {
    Question question;
    Settings settings;
};
inline constexpr std::size_t max_question = sizeof(Question) + max_settings * sizeof(Setting);

Message pack(Question question, const Settings& settings = {});
std::optional<Asked> read_question(std::span<const std::byte> message);

template <typename Record>
inline constexpr std::size_t records_each = (max_message - sizeof(Answer)) / sizeof(Record);
inline constexpr std::size_t lines_each = records_each<Line>;
// Asking pollers takes time, which others on the control thread want, too.
inline constexpr std::size_t counters_each = 64;

template <typename Record>
Message pack(std::uint32_t id, bool more, const std::vector<Record>& records) {
    Message message;
    helper::append(message, Answer{id, 0, more ? 1u : 0u, 0});
    for (const Record& record : records) {
        helper::append(message, record);
    }
    return message;
}
Message pack_error(std::uint32_t id, std::errc error, const std::string& reason);
Message pack_lines(std::uint32_t id, const std::vector<std::string>& some,
                   const std::vector<std::string>& others = {});

// The rest of a message, or nothing if it is no such records.
template <typename Record>
std::optional<std::vector<Record>> read_records(std::span<const std::byte> rest) {
    if (rest.size() % sizeof(Record) != 0) {
        return std::nullopt;
    }
    std::vector<Record> records;
    while (const auto record = helper::take<Record>(rest)) {
        records.push_back(*record);
    }
    return records;
}

} // namespace vrdma::management
