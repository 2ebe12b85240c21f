// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A hostile requester: requests in any order, of any operation, PSN, length, key and payload, for
// QPs of RC, UC, UD and XRC. Nothing may break, memory of another PD stays as it is, and the
// guest's device answers only with valid packets.
//
// The input is a list of steps. The first byte of each selects its kind.
#include "mediator/fuzz/roce_stage.h"

namespace vrdma::test {
namespace {

void step(RoceStage& stage, fuzz::Input& input) {
    const auto kind = input.take<std::uint8_t>();
    switch (kind % 8) {
        case 0:
            return stage.poll();
        case 1:
            return stage.receive(input);
        case 2:
            return kind < 32    ? stage.raw(input)
                   : kind > 240 ? stage.renew()
                   : kind > 200 ? stage.change(input)
                                : stage.poll();
        default:
            return stage.packet(input, input.take<std::uint8_t>());
    }
}

} // namespace
} // namespace vrdma::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return vrdma::test::play({data, size}, vrdma::test::step);
}
