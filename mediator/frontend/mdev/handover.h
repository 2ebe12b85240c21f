// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Passes a frozen device on to the vrdmad that comes next, by a file that the module keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mediator/base/result.h"

namespace vrdma::mdev {

// Leaves the device's image to the next vrdmad. This one then only closes `fd`, the device fd. An
// error is the module's, which keeps nothing then.
Result<> hand_over(int fd, std::span<const std::byte> image);

// Takes the image that the vrdmad before has left, if there is one. The errors are those of a
// StreamReader.
Result<std::optional<std::vector<std::byte>>> take_over(int fd, std::uint64_t max_length);

} // namespace vrdma::mdev
