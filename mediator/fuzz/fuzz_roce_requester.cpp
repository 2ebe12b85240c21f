// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A hostile responder: acknowledgements, NAKs and responses of any PSN, syndrome and payload, while
// the guest posts sends, READs and atomics, and its memory changes while it is read. Nothing may
// break, memory of another PD stays as it is, and the guest's device sends only valid packets.
//
// The input is a list of steps. The first byte of each selects its kind.
#include "mediator/fuzz/roce_stage.h"

namespace vrdma::test {
namespace {

void step(RoceStage& stage, fuzz::Input& input) {
    constexpr std::uint8_t answers[] = {
        VRDMA_ROCE_ACKNOWLEDGE,          VRDMA_ROCE_READ_RESPONSE_FIRST,
        VRDMA_ROCE_READ_RESPONSE_MIDDLE, VRDMA_ROCE_READ_RESPONSE_LAST,
        VRDMA_ROCE_READ_RESPONSE_ONLY,   VRDMA_ROCE_ATOMIC_ACKNOWLEDGE};
    const auto kind = input.take<std::uint8_t>();
    switch (kind % 8) {
        case 0:
            return kind > 240 ? stage.renew() : kind > 200 ? stage.change(input) : stage.poll();
        case 1:
        case 2:
            return stage.send(input);
        default:
            stage.packet(input, answers[input.take<std::uint8_t>() % std::size(answers)]);
            return stage.poll();
    }
}

} // namespace
} // namespace vrdma::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return vrdma::test::play({data, size}, vrdma::test::step);
}
