// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A hostile etcd, and hosts that write anything to it: its answers, and a watch that is cut
// anywhere. Entries start out valid, and the input then spoils them. Answers are also taken
// directly from the input. All values that are accepted are within their bounds, and peers of the
// configuration keep their addresses.
//
// The input is a list of steps. The first byte of each selects its kind (enum Step).
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>

#include "mediator/control/owners.h"
#include "mediator/directory/answers.h"
#include "mediator/directory/entry_json.h"
#include "mediator/directory/messages.h"
#include "mediator/fuzz/input.h"
#include "mediator/fuzz/require.h"
#include "mediator/wire/fabric/hello.h"

namespace vrdma::control {
namespace {

using directory::Claims;
using directory::Entry;
using fuzz::Input;
using fuzz::require;

enum Step : std::uint8_t {
    step_all,       // number of keys, and each key
    step_change,    // one key, and where the line is cut
    step_all_raw,   // an answer to a range
    step_piece_raw, // a piece of the watch
    step_begin,     // a watch
    step_news,      // a valid message of the process to vrdmad, and spoilers
    step_news_raw,  // any bytes as such a message
    step_count,
};

constexpr int max_steps = 64;
constexpr std::size_t longest_line = 1 << 16;
const std::string prefix = "/vrdma/";
const std::string here = "here";

Gid gid_of(std::uint8_t n) {
    Gid gid{};
    std::ranges::copy(ipv4_prefix, gid.begin());
    gid[12] = 10;
    gid[15] = n;
    return gid;
}

std::string quote(const std::string& text) {
    return '"' + text + '"';
}

class Directory {
  public:
    Directory() { owners_.set(fixed_peer, {{gid_of(1), Owners::always}}); }

    void step(Input& input) {
        switch (input.take<std::uint8_t>() % step_count) {
            case step_all: {
                std::string pairs;
                const auto count = input.take<std::uint8_t>() % 8;
                for (int i = 0; i < count; ++i) {
                    pairs += (i == 0 ? "" : ",") + pair(input);
                }
                read(range(pairs, input.take<std::int64_t>()));
                break;
            }
            case step_change:
                change(input);
                break;
            case step_all_raw:
                read(raw(input));
                break;
            case step_piece_raw:
                hear(raw(input));
                break;
            case step_news:
                take_news(spoiled_news(input));
                break;
            case step_news_raw: {
                const std::string bytes = raw(input);
                take_news(std::as_bytes(std::span{bytes}));
                break;
            }
            default:
                begin();
                break;
        }
        check();
    }

  private:
    static std::string raw(Input& input) {
        std::string text(input.take<std::uint16_t>() % 2048, '\0');
        std::ranges::generate(text, [&] { return input.take<char>(); });
        return text;
    }

    static std::string key(const std::string& name) { return directory::key_prefix(prefix) + name; }

    static std::string pair(const std::string& key, const std::string& value,
                            std::int64_t revision) {
        return R"({"key":)" + quote(directory::encode(key)) + R"(,"value":)" +
               quote(directory::encode(value)) + R"(,"mod_revision":)" +
               quote(std::to_string(revision)) + "}";
    }

    static std::string name(Input& input) {
        switch (const auto kind = input.take<std::uint8_t>(); kind % 8) {
            case 0:
                return here;
            case 1:
                return raw(input);
            default:
                return "host-" + std::to_string(kind);
        }
    }

    static std::string pair(Input& input) {
        directory::Entry entry{{"10.0.1.9", "7471"}, {}};
        const std::string host = name(input);
        const auto claims = input.take<std::uint8_t>() % 8;
        for (int i = 0; i < claims; ++i) {
            const auto gid = gid_of(input.take<std::uint8_t>());
            entry.claims[gid] = input.take<std::int64_t>();
        }
        std::string value = directory::format_entry(entry);
        input.spoil<std::uint16_t>(std::as_writable_bytes(std::span{value}));
        return pair(key(host), value, input.take<std::int64_t>());
    }

    static std::string range(const std::string& pairs, std::int64_t revision) {
        return R"({"header":{"revision":)" + quote(std::to_string(revision)) + R"(},"kvs":[)" +
               pairs + "]}";
    }

    void change(Input& input) {
        const bool deleted = input.take<std::uint8_t>() % 4 == 0;
        const std::string line = R"({"result":{"events":[{"type":)" +
                                 quote(deleted ? "DELETE" : "PUT") + R"(,"kv":)" + pair(input) +
                                 "}]}}\n";
        const std::size_t cut = input.take<std::uint16_t>() % line.size();
        hear(std::string_view{line}.substr(0, cut));
        hear(std::string_view{line}.substr(cut));
    }

    void read(const std::string& answer) {
        if (const auto range = directory::read_range(answer)) {
            require(range->revision >= 0 && range->revision < INT64_MAX);
            std::ranges::for_each(range->values, [this](const auto& value) { change(value); });
        }
        // The same text, read as the other kinds of answers.
        (void)directory::read_lease(answer);
        (void)directory::read_time_to_live(answer);
        (void)directory::read_revision(answer);
    }

    void hear(std::string_view piece) {
        if (!reader_.hear(piece)) {
            begin();
        }
    }

    void begin() { reader_ = watch(); }

    directory::WatchReader watch() {
        return {longest_line, [this](const std::vector<directory::Value>& changes) {
                    std::ranges::for_each(changes, [this](const auto& to) { change(to); });
                    return true;
                }};
    }

    void change(const directory::Value& value) {
        require(value.revision >= 0 && value.revision < INT64_MAX);
        const auto name = directory::host_of(value.key, prefix);
        require(!name || wire::fabric::valid_host(*name));
        const auto entry = name && value.value
                               ? directory::parse_entry(*value.value, value.revision)
                               : tl::unexpected{std::string{}};
        if (!name || *name == here) {
            return;
        }
        const unsigned peer =
            peers_.try_emplace(*name, fixed_peer + 1 + static_cast<unsigned>(peers_.size()))
                .first->second;
        owners_.set(peer, entry ? entry->claims : Claims{});
        require(!entry || (!has_null(*entry) && entry->claims.size() <= Entry::max_gids));
        for (const auto& [gid, since] : entry ? entry->claims : Claims{}) {
            require(gid != Gid{} && !is_multicast(gid));
            require(since >= 0 && since < Owners::always);
            require(owners_.owner(gid).has_value());
        }
    }

    static bool has_null(const Entry& entry) {
        return entry.address.host.find('\0') != std::string::npos ||
               entry.address.service.find('\0') != std::string::npos;
    }

    static directory::Message spoiled_news(Input& input) {
        directory::Entry entry{{"10.0.1.9", "7471"}, {}};
        const auto claims = input.take<std::uint8_t>() % 8;
        for (std::uint8_t i = 0; i < claims; ++i) {
            entry.claims[gid_of(i)] = i;
        }
        const std::array<directory::News, 5> all{
            directory::Began{}, directory::Said{directory::Said::Level::warn, "it is gone"},
            directory::Here{"host-1", entry}, directory::Gone{"host-1"}, directory::Complete{}};
        auto message = directory::pack(all.at(input.take<std::uint8_t>() % all.size()));
        input.spoil<std::uint16_t>(message);
        return message;
    }

    // vrdmad ignores no byte of a message that it accepts.
    static void take_news(std::span<const std::byte> message) {
        const auto news = directory::read_news(message);
        if (!news) {
            return;
        }
        require(std::ranges::equal(directory::pack(*news), message));
        if (const auto* const here = std::get_if<directory::Here>(&*news)) {
            require(wire::fabric::valid_host(here->name) && !has_null(here->entry));
            require(here->entry.claims.size() <= Entry::max_gids);
        }
    }

    void check() const { require(owners_.owner(gid_of(1)) == fixed_peer); }

    static constexpr unsigned fixed_peer = 0;

    directory::WatchReader reader_ = watch();
    Owners owners_;
    std::map<std::string, unsigned> peers_;
};

} // namespace
} // namespace vrdma::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    spdlog::set_level(spdlog::level::off);
    vrdma::control::Directory directory;
    vrdma::fuzz::Input input{{data, size}};
    for (int i = 0; i < vrdma::control::max_steps && !input.empty(); ++i) {
        directory.step(input);
    }
    return 0;
}
