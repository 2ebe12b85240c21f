// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The names of regions and windows. A key is a name of 24 bits that nobody can guess, and a tag
// (VRDMA_KEY_TAG). The owner of some keys may change the tag.
#pragma once

#include <unordered_set>

#include "mediator/base/memory_cost.h"
#include "mediator/hca/memory_region.h"
#include "mediator/verbs/object_table.h"

namespace vrdma::verbs {

class KeySpace {
  public:
    // How many bytes of the mediator's memory a key takes.
    static constexpr std::uint64_t cost = table_cost<std::uint32_t>();

    Result<Key> take() {
        const auto name = names_.pick([this](std::uint32_t id) { return taken_.contains(id); });
        if (!name) {
            return fail(name.error());
        }
        taken_.insert(*name);
        return Key{VRDMA_SET(~VRDMA_KEY_TAG, *name) | (random_u32() & VRDMA_KEY_TAG)};
    }

    // Takes this key.
    Result<> claim(Key key) {
        const bool free =
            names_.in_range(hca::name_of(key)) && taken_.insert(hca::name_of(key)).second;
        return free ? Result<>{} : fail(std::errc::invalid_argument);
    }

    void give_back(Key key) {
        taken_.erase(hca::name_of(key));
        names_.give_back(hca::name_of(key));
    }

  private:
    static constexpr std::uint32_t last_name = 0xffffff;

    RandomIds names_{0, last_name};
    std::unordered_set<std::uint32_t> taken_;
};

} // namespace vrdma::verbs
