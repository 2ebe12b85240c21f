// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The secret by which mediators know each other.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "vrdma/fabric.h"

namespace vrdma::wire::fabric {

using Proof = std::array<std::uint8_t, VRDMA_FABRIC_PROOF_SIZE>;

class Key {
  public:
    static constexpr std::size_t smallest = 32;
    static constexpr std::size_t largest = 4096;

    explicit Key(std::vector<std::uint8_t> secret) : secret_{std::move(secret)} {}

    // All bytes of a file that nobody but its owner may read. The error is for people.
    static tl::expected<Key, std::string> load(const std::string& path);

    Proof prove(const vrdma_fabric_transcript& transcript) const;
    // In a time that does not depend on the proof.
    bool proves(const vrdma_fabric_transcript& transcript,
                std::span<const std::uint8_t, VRDMA_FABRIC_PROOF_SIZE> proof) const;

  private:
    std::vector<std::uint8_t> secret_;
};

} // namespace vrdma::wire::fabric
