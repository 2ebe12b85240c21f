// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The mechanism of the admin queue: commands come in, completions go out.
#pragma once

#include <cstdint>
#include <optional>

#include "mediator/base/result.h"
#include "mediator/memory/guest_memory.h"
#include "vrdma/device.h"

namespace vrdma {

struct AdminQueueSpec {
    Iova submissions{};
    Iova completions{};
    std::uint32_t depth = 0;
    std::uint32_t vector = 0;
};

class AdminQueue {
  public:
    // Free-running counts of commands taken and completions given.
    struct Position {
        std::uint32_t taken = 0;
        std::uint32_t given = 0;
    };

    // Refuses registers that do not describe a queue.
    static Result<AdminQueue> create(GuestMemory& memory, const AdminQueueSpec& spec,
                                     std::uint32_t vectors);

    // Returns a private copy of the next command, if there is one. Fails if the queue is not in the
    // guest's memory (any more).
    Result<std::optional<vrdma_admin_cmd>> take();

    // The last command, which had no completion yet, will be taken again.
    void put_back() { --position_.taken; }

    // Sets the phase in the header.
    void complete(vrdma_admin_cpl completion);

    unsigned vector() const { return spec_.vector; }
    Position position() const { return position_; }
    void set_position(Position position) { position_ = position; }

  private:
    AdminQueue(GuestMemory& memory, const AdminQueueSpec& spec) : memory_{&memory}, spec_{spec} {}

    Iova entry(Iova queue, std::uint32_t count) const;
    std::uint32_t phase(std::uint32_t count) const;

    GuestMemory* memory_;
    AdminQueueSpec spec_;
    Position position_;
};

} // namespace vrdma
