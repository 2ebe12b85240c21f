// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The eventfds that a client's MSI-X vectors signal, and the one that asks the client to give its
// device back (VFIO_PCI_REQ_IRQ_INDEX).
//
// The client has the eventfds, too. It may fill one up and make it blocking, and then a write(2)
// would block the thread that raises the vector. A signal by the kernel never blocks. User space
// gets one by the completion of an asynchronous read (io_submit(2), IOCB_FLAG_RESFD).
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

    unsigned count() const noexcept { return static_cast<unsigned>(eventfds_.size()) - 1; }
    // The place of the request among the vectors.
    unsigned request() const noexcept { return count(); }

    // For any thread. A vector without an eventfd stays pending until it gets one.
    void raise(unsigned vector) noexcept;

    // Whether the client has set an eventfd there.
    bool has(unsigned vector) noexcept;

    // Sets the vectors from `start` on, all or none. They must exist.
    Result<> set(unsigned start, std::vector<UniqueFd> eventfds);
    void clear(unsigned start, unsigned count) noexcept;
    // Also clears pending vectors, as a reset does.
    void clear_all() noexcept;

  private:
    Interrupts(aio_context_t context, UniqueFd zero, unsigned vectors);

    void signal(int eventfd) noexcept;

    aio_context_t context_;
    UniqueFd zero_;
    // Guards the members below. It is held for one signal, or for at most as many eventfds as there
    // are vectors.
    InheritingMutex lock_;
    std::vector<UniqueFd> eventfds_;
    std::bitset<VRDMA_MAX_VECTORS + 1> pending_;
};

} // namespace vrdma::vfio_user
