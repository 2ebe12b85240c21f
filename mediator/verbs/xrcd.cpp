// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/xrcd.h"

namespace vrdma::verbs {

XrcdTable::XrcdTable(Resources& resources)
    : ids_{resources.limits.max_xrcd}, table_{resources.allowed.max_xrcd, resources.budget, 0} {}

Result<XrcdId> XrcdTable::alloc() {
    const auto id = ids_.take();
    if (!id) {
        return fail(id.error());
    }
    if (const auto added = table_.insert(XrcdId{*id}, {}); !added) {
        ids_.give_back(*id);
        return fail(added.error());
    }
    return XrcdId{*id};
}

Result<> XrcdTable::dealloc(XrcdId id) {
    const Xrcd* xrcd = table_.find(id);
    if (xrcd == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    if (xrcd->users.busy()) {
        return fail(std::errc::device_or_resource_busy);
    }
    table_.erase(id);
    ids_.give_back(id.value);
    return {};
}

void XrcdTable::save(StateWriter& writer) const {
    writer.begin(Section::xrcds, XrcdState::version, table_.size());
    for (const XrcdId id : table_.sorted_ids()) {
        writer.put(XrcdState{id.value});
    }
}

Result<> XrcdTable::restore_one(StateReader& reader) {
    const auto state = reader.take<XrcdState>();
    if (!state || !ids_.claim(state->id)) {
        return fail(std::errc::invalid_argument);
    }
    return table_.insert(XrcdId{state->id}, {});
}

Result<> XrcdTable::restore(StateReader& reader) {
    return restore_records(reader, Section::xrcds, XrcdState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
