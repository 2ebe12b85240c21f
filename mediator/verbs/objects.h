// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// All verbs objects of one device, while it is enabled. They end together with the slice. A reset
// does not destroy them one by one.
#pragma once

#include "mediator/verbs/ah.h"
#include "mediator/verbs/counter_set.h"
#include "mediator/verbs/cq.h"
#include "mediator/verbs/endport.h"
#include "mediator/verbs/eq.h"
#include "mediator/verbs/gid.h"
#include "mediator/verbs/key_space.h"
#include "mediator/verbs/listener.h"
#include "mediator/verbs/mr.h"
#include "mediator/verbs/multicast.h"
#include "mediator/verbs/mw.h"
#include "mediator/verbs/pd.h"
#include "mediator/verbs/qp.h"
#include "mediator/verbs/srq.h"
#include "mediator/verbs/ucontext.h"
#include "mediator/verbs/xrcd.h"

namespace vrdma::verbs {

// The version in which this vrdmad saves and restores a section.
struct SectionFormat {
    static constexpr std::uint32_t version = 1;

    std::uint32_t section;
    std::uint32_t section_version;

    bool operator==(const SectionFormat&) const = default;
};

class Objects {
  public:
    // The sections that save() writes.
    static std::span<const SectionFormat> formats();

    Objects(const Limits& limits, FunctionId function_id, GidRegistry& registry,
            GuestMemory& memory, std::span<vrdma_doorbell_page> doorbells, hca::Slice& slice);

    void save(StateWriter& writer) const;
    // Only for a set without objects. After an error, the set is unusable.
    Result<> restore(StateReader& reader);

    // That are connected, or send, by one of these protocols.
    struct Users {
        std::size_t qps = 0;
        std::size_t ahs = 0;
    };
    Users users_of(Protocols protocols) const;

    const FunctionId function_id;
    Resources resources;

    // Tables come after those whose objects they use.
    UcontextTable ucontexts;
    EqTable eqs;
    PdTable pds;
    KeySpace keys;
    MrTable mrs;
    MwTable mws;
    CqTable cqs;
    GidTable gids;
    AhTable ahs;
    XrcdTable xrcds;
    CounterSetTable counter_sets;
    SrqTable srqs;
    QpTable qps;
    MulticastTable multicast;
    ListenerTable listeners;
};

} // namespace vrdma::verbs
