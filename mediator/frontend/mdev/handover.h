// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Passes a frozen device on to the vrdmad that comes next, by a file that the module keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::mdev {

// Writes the device's image into a file in memory.
Result<UniqueFd> to_file(std::span<const std::byte> image);

// Leaves the file to the next vrdmad. This one then only closes `fd`, the device fd. An error is
// the module's, which keeps nothing then.
Result<> hand_over(int fd, const UniqueFd& file);

// Calls restore() with the image that the vrdmad before has left. Returns false if it has left
// none. The errors are those of a StreamReader and of restore().
Result<bool> take_over(int fd, std::uint64_t max_length,
                       const std::function<Result<>(std::span<const std::byte>)>& restore);

} // namespace vrdma::mdev
