// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The process's end of the socket to vrdmad: it asks one question at a time and waits for the
// answer.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "mediator/base/random.h"
#include "mediator/management/messages.h"

namespace vrdma::management {

class Asker {
  public:
    // vrdmad itself gives a reload up after 10 s.
    static constexpr std::chrono::milliseconds usual_limit{15'000};

    explicit Asker(int socket, std::chrono::milliseconds limit = usual_limit)
        : socket_{socket}, limit_{limit} {}

    // All of the kind, in the order of their names.
    template <typename Record>
    Answered<std::vector<Record>> all(Question::Kind kind) {
        std::vector<Record> records;
        Question question{};
        question.kind = kind;
        for (bool more = true; more;) {
            auto page = ask(question).and_then(&records_of<Record>);
            if (!page) {
                return tl::unexpected{page.error()};
            }
            more = page->more && !page->records.empty();
            if (more) {
                question.name = name_of(page->records.back());
            }
            records.insert(records.end(), page->records.begin(), page->records.end());
        }
        return records;
    }

    // The one of that name, or none.
    template <typename Record>
    Answered<std::vector<Record>> one(Question::Kind kind, const std::string& name) {
        Question question{};
        question.kind = kind;
        question.exact = 1;
        if (!helper::write(question.name, name)) {
            return std::vector<Record>{};
        }
        return ask(question).and_then(&records_of<Record>).map([](Page<Record> page) {
            return std::move(page.records);
        });
    }

    struct Lines {
        std::vector<std::string> some;
        std::vector<std::string> others;
    };
    Answered<Lines> lines(Question::Kind kind, const std::string& name = {}) {
        Question question{};
        question.kind = kind;
        return lines(question, name);
    }
    // The question has its kind, and the values that it sets.
    Answered<Lines> lines(Question question, const std::string& name,
                          const Settings& settings = {});

    // Returns the file of a sniffer::Ring.
    Answered<UniqueFd> start_sniffer(const std::string& device, std::uint32_t payload_limit);

    // Whether vrdmad has closed the socket.
    bool ended() const { return ended_; }

  private:
    template <typename Record>
    struct Page {
        bool more = false;
        std::vector<Record> records;
    };
    struct Whole {
        Answer answer;
        Message rest;
        UniqueFd descriptor; // or none
    };

    template <typename Record>
    static Answered<Page<Record>> records_of(const Whole& whole) {
        auto records = read_records<Record>(whole.rest);
        if (!records) {
            return tl::unexpected{unreadable()};
        }
        return Page<Record>{whole.answer.more != 0, std::move(*records)};
    }
    static Name name_of(const Device& device) { return device.name; }
    static Name name_of(const Counters& counters) { return counters.device; }
    static Name name_of(const Uplink& uplink) { return uplink.name; }
    static Name name_of(const Poller& poller) { return poller.name; }
    static Name name_of(const Peer& peer) {
        Name name{};
        helper::write(name, full_name(peer));
        return name;
    }

    static Refusal unreadable();
    Answered<Whole> ask(Question question, const Settings& settings = {});
    Answered<Whole> await(std::uint32_t id);

    const int socket_;
    const std::chrono::milliseconds limit_;
    std::uint32_t last_id_ = random_u32(); // an earlier worker's answers may still come
    bool ended_ = false;
};

} // namespace vrdma::management
