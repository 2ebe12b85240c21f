// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/round.h"

#include <cstdio>
#include <map>
#include <thread>

#include "torture/conversation.h"
#include "torture/testimony.h"

namespace vrdma::torture {
namespace {

constexpr unsigned one_in_rounds = 3; // one round of so many kills a process

struct Hello {
    std::uint64_t seed;
    std::uint32_t round;
    std::uint32_t conversation;
};

// Indexed by conversation. The server takes the names from the client, because connections may come
// in any order, and after those of a killed process.
std::map<unsigned, ControlConnection> open_controls(const Round& round, const Side& side) {
    std::map<unsigned, ControlConnection> controls;
    while (controls.size() < round.conversations) {
        ControlConnection control = side.connect();
        Hello hello{round.seed, round.number, static_cast<std::uint32_t>(controls.size())};
        if (side.number == 0) {
            hello = control.receive<Hello>();
        } else {
            control.send(hello);
        }
        if (hello.seed == round.seed && hello.round == round.number) {
            controls.emplace(hello.conversation, std::move(control));
        }
    }
    return controls;
}

Counts run(const Round& round, const Device& device, unsigned side, unsigned number,
           ControlConnection control) {
    place = {round.seed, round.number, number};
    try {
        Conversation conversation{device, std::move(control), side, round.lossy != 0};
        converse(conversation, round.steps, number == 0 ? round.victim() : nobody);
        return conversation.counts;
    } catch (const PeerGone&) {
        return {};
    }
}

} // namespace

unsigned Round::victim() const {
    if (testifies != 0) {
        return nobody;
    }
    Random random = Random::of({seed, number});
    return random.below(one_in_rounds) == 0 ? random.below(2) : nobody;
}

void play(const Round& round, const Side& side) {
    place = {round.seed, round.number};
    if (round.testifies != 0) {
        testify(round, side);
        return;
    }
    const Device device{side.device, side.gid_index};
    std::vector<Counts> counts(round.conversations);
    std::vector<std::thread> threads;
    for (auto& [number, control] : open_controls(round, side)) {
        threads.emplace_back([&, which = number, to = std::move(control)]() mutable {
            counts[which] = run(round, device, side.number, which, std::move(to));
        });
    }
    Counts sum;
    for (std::size_t i = 0; i < threads.size(); ++i) {
        threads[i].join();
        sum.messages += counts[i].messages;
        sum.bytes += counts[i].bytes;
    }
    std::printf("seed %llu round %u: %llu messages, %.1f MB sent%s\n",
                static_cast<unsigned long long>(round.seed), round.number,
                static_cast<unsigned long long>(sum.messages), static_cast<double>(sum.bytes) / 1e6,
                round.victim() == nobody ? "" : ", the peer killed");
    static_cast<void>(std::fflush(stdout));
}

} // namespace vrdma::torture
