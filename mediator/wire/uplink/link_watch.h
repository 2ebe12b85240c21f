// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Reports changes of an interface: it goes down or up, gets another MTU or MAC, or goes away. Runs
// on the control thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "mediator/base/event_loop.h"
#include "mediator/wire/uplink/link.h"
#include "mediator/wire/uplink/netlink.h"

namespace vrdma::wire {

class LinkWatch {
  public:
    // no_such_device: the interface is gone.
    using Receiver = std::function<void(const Result<Link>& link)>;

    // The receiver is called after each change, with the state at that time.
    static Result<std::unique_ptr<LinkWatch>> create(EventLoop& loop, const std::string& interface,
                                                     Receiver receiver);

  private:
    LinkWatch(std::string interface, const Link& link, Netlink events, Receiver receiver);

    void on_events();

    std::string interface_;
    Result<Link> link_; // as last reported to the receiver
    Netlink events_;
    Receiver receiver_;
    EventLoop::Watch watch_;
};

} // namespace vrdma::wire
