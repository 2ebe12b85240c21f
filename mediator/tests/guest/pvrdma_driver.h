// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A model of Linux's driver for PVRDMA: its accesses to the registers, its shared region, and its
// commands, in its order. It reaches the device by a bus, which may be a call or a socket.
#pragma once

#include <functional>
#include <optional>

#include "mediator/tests/guest/admin_client.h"
#include "mediator/tests/guest/guest.h"
#include "mediator/tests/guest/pvrdma_rings.h"
#include "vrdma/pvrdma/queue.h"

namespace vrdma::test {

struct PvBus {
    std::function<std::uint32_t(std::uint32_t offset)> read;
    std::function<void(std::uint32_t offset, std::uint32_t value)> write;
    std::function<void(std::uint32_t offset, std::uint32_t value)> ring; // UAR
    std::function<unsigned(unsigned vector)> interrupts;                 // so far
    std::function<void()> let_run;                                       // the device, for a moment
};

class PvDriver {
  public:
    static constexpr std::uint64_t uar_frame = 0xfe800; // where the guest sees the UAR pages
    static constexpr std::uint32_t event_pages = 4;

    PvDriver(PvBus bus, GuestMemory& memory, GuestAllocator& allocator);

    // Returns false if the device cannot be used. A test may change the shared region before.
    bool probe();
    bool offer_region(); // the first half
    bool activate();     // the second half
    void remove() { bus_.write(PVRDMA_REG_CONTROL, PVRDMA_CONTROL_RESET); }

    // Writes the command, and waits for its response. Nothing: it failed, or there was none.
    std::optional<pvrdma_response> execute(std::uint32_t command, const pvrdma_request& content);
    // The same for a command without a response. Returns the errno.
    std::uint32_t run(std::uint32_t command, const pvrdma_request& content);
    std::uint32_t destroy(std::uint32_t command, std::uint32_t handle);
    // The handle of a new object, 0 after an error.
    std::uint32_t create(std::uint32_t command, const pvrdma_request& content);

    std::uint32_t create_uc(std::uint32_t page);
    std::uint32_t create_pd(std::uint32_t uc = 0);
    std::uint32_t bind(std::uint32_t index, const Gid& gid);
    struct Mr {
        std::uint32_t handle = 0;
        Key key;
        std::uint64_t start = 0;
        Buffer buffer;
        vrdma_sge sge(std::uint64_t offset, std::uint32_t length) const {
            return {start + offset, length, key.value};
        }
    };
    Mr create_mr(std::uint32_t pd, std::uint64_t length);
    struct Cq {
        std::uint32_t handle = 0;
        PvCq ring;
    };
    Cq create_cq(std::uint32_t depth = 64, std::uint32_t uc = 0);
    void arm(const Cq& cq, std::uint32_t uar = 0) {
        bus_.ring(uar * PVRDMA_PAGE_SIZE + PVRDMA_UAR_CQ, cq.handle | PVRDMA_UAR_CQ_ARM);
    }
    pvrdma_request qp_request(std::uint32_t pd, std::uint32_t cq, const Buffer& buffer,
                              const PvShape& shape, std::uint8_t type = 2);
    // handle 0: it was refused.
    PvQp create_qp(std::uint32_t pd, std::uint32_t cq, const PvShape& shape = {},
                   std::uint32_t uar = 0);
    // To RTS; the errno of the step that failed.
    std::uint32_t connect(std::uint32_t qp, const Gid& peer, std::uint32_t peer_qpn);
    std::uint32_t modify(std::uint32_t qp, std::uint32_t mask, const pvrdma_qp_attr& attr);

    Buffer allocate(std::uint64_t size);
    std::uint64_t directory(const Buffer& buffer);

    pvrdma_shared_region& region() { return *region_; }
    pvrdma_request& command_slot() { return *command_; }
    PvConsumer<pvrdma_async_event>& async() { return async_; }
    PvConsumer<pvrdma_completion_event>& completions() { return completions_; }

  private:
    PvBus bus_;
    GuestMemory& memory_;
    GuestAllocator& allocator_;
    Iova region_at_;
    pvrdma_shared_region* region_;
    pvrdma_request* command_;
    pvrdma_response* response_;
    PvConsumer<pvrdma_async_event> async_;
    PvConsumer<pvrdma_completion_event> completions_;
};

} // namespace vrdma::test
