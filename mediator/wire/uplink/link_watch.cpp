// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/link_watch.h"

#include <linux/rtnetlink.h>

namespace vrdma::wire {

Result<std::unique_ptr<LinkWatch>> LinkWatch::create(EventLoop& loop, const std::string& interface,
                                                     Receiver receiver) {
    auto events = Netlink::create();
    if (!events) {
        return fail(events.error());
    }
    if (auto subscribed = events->subscribe(RTNLGRP_LINK); !subscribed) {
        return fail(subscribed.error());
    }
    const auto link = read_link(interface);
    if (!link) {
        return fail(link.error());
    }
    std::unique_ptr<LinkWatch> watch{
        new LinkWatch{interface, *link, std::move(*events), std::move(receiver)}};
    auto watched =
        loop.watch(watch->events_.fd(), [self = watch.get()](std::uint32_t) { self->on_events(); });
    if (!watched) {
        return fail(watched.error());
    }
    watch->watch_ = std::move(*watched);
    return watch;
}

LinkWatch::LinkWatch(std::string interface, const Link& link, Netlink events, Receiver receiver)
    : interface_{std::move(interface)},
      link_{link},
      events_{std::move(events)},
      receiver_{std::move(receiver)} {}

// Reads the present state, whatever the events say, and whether some were lost.
void LinkWatch::on_events() {
    (void)events_.receive({});
    const auto link = read_link(interface_);
    if (link != link_) {
        link_ = link;
        receiver_(link_);
    }
}

} // namespace vrdma::wire
