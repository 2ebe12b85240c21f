// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The eventfds that a client wants its MSI-X vectors to signal.
//
// The client has them too: it may fill one up and make it blocking, and then a write(2) would hang
// whoever raises the vector. The kernel's own signal never blocks, and the way to have it from user
// space is the completion of an asynchronous read (io_submit(2), IOCB_FLAG_RESFD).
#pragma once

#include <linux/aio_abi.h>

#include <bitset>
#include <memory>
#include <vector>

#include "mediator/base/inheriting_mutex.h"
#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"
#include "vrdma/device.h"

namespace vrdma::vfio_user {

class Interrupts {
  public:
    static Result<std::unique_ptr<Interrupts>> create(unsigned vectors);
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;
    ~Interrupts();

    unsigned count() const noexcept { return static_cast<unsigned>(eventfds_.size()); }

    // From any thread. A vector without an eventfd stays pending until it gets one.
    void raise(unsigned vector) noexcept;

    // The vectors from start on; all or none. They lie within count().
    Result<> set(unsigned start, std::vector<UniqueFd> eventfds);
    void clear(unsigned start, unsigned count) noexcept;
    // As after a reset: nothing is pending either.
    void clear_all() noexcept;

  private:
    Interrupts(aio_context_t context, UniqueFd zero, unsigned vectors);

    void signal(int eventfd) noexcept;

    aio_context_t context_;
    UniqueFd zero_;
    // All below. Held for one signal, or for as many eventfds as there are vectors.
    InheritingMutex lock_;
    std::vector<UniqueFd> eventfds_;
    std::bitset<VRDMA_MAX_VECTORS> pending_;
};

} // namespace vrdma::vfio_user
