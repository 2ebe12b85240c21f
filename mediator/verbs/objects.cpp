// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/objects.h"

#include <array>

namespace vrdma::verbs {
namespace {

template <typename State>
constexpr SectionFormat format(Section section) {
    return {static_cast<std::uint32_t>(section), State::version};
}

} // namespace

std::span<const SectionFormat> Objects::formats() {
    static constexpr std::array formats{
        format<UcontextState>(Section::ucontexts),
        format<EqState>(Section::eqs),
        format<PdState>(Section::pds),
        format<MrState>(Section::mrs),
        format<CqState>(Section::cqs),
        format<GidState>(Section::gids),
        format<AhState>(Section::ahs),
        format<XrcdState>(Section::xrcds),
        format<CounterSetState>(Section::counter_sets),
        format<SrqState>(Section::srqs),
        format<QpState>(Section::qps),
        format<MwState>(Section::mws),
        format<MulticastState>(Section::multicast),
        format<ListenerState>(Section::listeners),
    };
    return formats;
}

Objects::Objects(const Limits& limits, FunctionId function_id_, GidRegistry& registry,
                 GuestMemory& memory, std::span<vrdma_doorbell_page> doorbells, hca::Slice& slice)
    : function_id{std::move(function_id_)},
      resources{limits, memory, slice},
      ucontexts{resources, doorbells},
      eqs{resources},
      pds{resources, ucontexts},
      mrs{resources, pds, keys},
      mws{resources, pds, keys},
      cqs{resources, ucontexts, eqs},
      gids{resources, function_id.identity(), registry},
      ahs{resources, pds, gids},
      xrcds{resources},
      counter_sets{resources},
      srqs{resources, ucontexts, pds, cqs, xrcds},
      qps{resources,    ucontexts, pds,
          cqs,          srqs,      xrcds,
          counter_sets, gids,      function_id.endport->qpns(function_id.function)},
      multicast{resources, qps},
      listeners{resources, function_id} {
    resources.pkeys = function_id.identity().pkeys.size();
}

Objects::Users Objects::users_of(Protocols protocols) const {
    return {qps.users_of(protocols), ahs.users_of(protocols)};
}

void Objects::save(StateWriter& writer) const {
    ucontexts.save(writer);
    eqs.save(writer);
    pds.save(writer);
    mrs.save(writer);
    cqs.save(writer);
    gids.save(writer);
    ahs.save(writer);
    xrcds.save(writer);
    counter_sets.save(writer);
    srqs.save(writer);
    qps.save(writer);
    mws.save(writer);
    multicast.save(writer);
    listeners.save(writer);
}

Result<> Objects::restore(StateReader& reader) {
    return ucontexts.restore(reader)
        .and_then([&] { return eqs.restore(reader); })
        .and_then([&] { return pds.restore(reader); })
        .and_then([&] { return mrs.restore(reader); })
        .and_then([&] { return cqs.restore(reader); })
        .and_then([&] { return gids.restore(reader); })
        .and_then([&] { return ahs.restore(reader); })
        .and_then([&] { return xrcds.restore(reader); })
        .and_then([&] { return counter_sets.restore(reader); })
        .and_then([&] { return srqs.restore(reader); })
        .and_then([&] { return qps.restore(reader); })
        .and_then([&] { return mws.restore(reader); })
        .and_then([&] { return multicast.restore(reader); })
        .and_then([&] { return listeners.restore(reader); });
}

} // namespace vrdma::verbs
