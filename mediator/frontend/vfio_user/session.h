// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The commands of one client to its function, and the answers. There is one C++ function per
// command, which checks all of the client's data.
#pragma once

#include "mediator/base/log.h"
#include "mediator/frontend/vfio_user/function.h"
#include "mediator/frontend/vfio_user/message.h"

namespace vrdma::vfio_user {

class Session {
  public:
    // Both must outlive the session.
    Session(Function& function, DeviceLog& log) : function_{function}, log_{log} {}

    // An error is the errno of the reply. The first command must be VERSION. If negotiated() is
    // false after that, the session has ended.
    Result<Answer> execute(Message& message);
    bool negotiated() const noexcept { return negotiated_; }

  private:
    Result<Answer> version(const Message& message);
    Result<Answer> map_dma(Message& message);
    Result<Answer> unmap_dma(const Message& message);
    Result<Answer> device_info(const Message& message);
    Result<Answer> region_info(const Message& message);
    Result<Answer> region_io_fds(const Message& message);
    Result<Answer> irq_info(const Message& message);
    Result<Answer> set_irqs(Message& message);
    Result<Answer> trigger(const vfio_user_irq_set& set, const Message& message);
    Result<Answer> read_region(const Message& message);
    Result<Answer> write_region(const Message& message);
    void warn_of_posted_write(std::uint32_t region);
    Result<Answer> reset();
    Result<Answer> feature(const Message& message);
    Result<Answer> migration(std::uint32_t flags, std::uint32_t room);
    Result<Answer> migration_state(std::uint32_t flags, std::uint32_t room, const Message& message);
    Result<Answer> read_state(const Message& message);
    Result<Answer> write_state(const Message& message);

    // Vectors in Interrupts.
    struct Vectors {
        unsigned first = 0;
        unsigned count = 0;
    };

    Result<vfio_user_region_access> access(const Message& message) const;
    Vectors vectors_of(std::uint32_t index) const noexcept;

    Function& function_;
    DeviceLog& log_;
    bool negotiated_ = false;
    bool warned_ = false;
};

} // namespace vrdma::vfio_user
