// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/hostile/neighbour.h"

#include <array>

#include "torture/hostile/neighbours.h"

namespace vrdma::torture::hostile {
namespace {

constexpr std::array all{
    Neighbour{"write_flood", "2048 QPs that WRITE 256 KiB each, all the time", Needs::verbs,
              write_flood},
    Neighbour{"moderated_cqs", "8192 armed CQs whose events are put off for ever", Needs::verbs,
              moderated_cqs},
    Neighbour{"registration_storm", "2^20 scattered pages, registered and deregistered",
              Needs::socket, registration_storm},
    Neighbour{"hole_punching", "WRITEs to memory whose file loses its pages meanwhile",
              Needs::socket, hole_punching},
    Neighbour{"multicast_flood", "datagrams to a group of 64 QPs", Needs::verbs, multicast_flood},
    Neighbour{"packet_flood", "packets of RoCE from the network that no QP waits for",
              Needs::network, packet_flood},
    Neighbour{"doorbell_storm", "every doorbell of a thousand pages rung", Needs::socket,
              doorbell_storm},
    Neighbour{"odp_storm", "messages to memory whose pages go again and again", Needs::verbs,
              odp_storm},
    Neighbour{"odp_silence", "messages to memory whose page faults nobody answers", Needs::verbs,
              odp_silence},
    Neighbour{"garbage_requests", "work requests of random fields", Needs::verbs, garbage_requests},
    Neighbour{"garbage_commands", "admin commands of random bytes", Needs::socket,
              garbage_commands},
};

} // namespace

bool Neighbour::possible(const Seat& seat) const {
    switch (needs) {
        case Needs::socket:
            return !seat.socket.empty();
        case Needs::network:
            return !seat.network.empty();
        case Needs::verbs:
            break;
    }
    return true;
}

std::span<const Neighbour> neighbours() {
    return all;
}

} // namespace vrdma::torture::hostile
