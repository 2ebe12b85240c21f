// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A slice at its port: its connections that have something to answer, and its questions. Slices
// take turns in both.
#pragma once

#include "mediator/hca/soft/slice/slice_core.h"
#include "mediator/hca/soft/transport/roce/connection.h"
#include "mediator/hca/soft/transport/roce/questions.h"

namespace vrdma::hca::soft::roce {

struct alignas(cache_line) Member final : NetworkMember {
    explicit Member(std::uint64_t device) noexcept { questions.device = device; }

    List<Connection, &Connection::answers> answers;
    ListHook<Member> answering;
    Questions questions;
};

// All members are made by a port of this transport.
inline Member& member_of(const SliceCore& slice) noexcept {
    return static_cast<Member&>(*slice.member());
}

} // namespace vrdma::hca::soft::roce
