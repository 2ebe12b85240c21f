// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Keeps the packets that come in by an uplink for devices' addresses to the uplink. The host's
// stack must not answer them (with ICMP, because nobody listens there), and a bridge must not pass
// them on to a guest's NIC, whose stack would answer.
//
// A program drops them where the interface's frames enter the stack (clsact's ingress, cls_bpf),
// which is behind packet sockets and before bridges. RoCE to other addresses passes. It needs
// sch_ingress, cls_bpf and bpf(2), which Linux distributions have.
#pragma once

#include <linux/rtnetlink.h>

#include <memory>
#include <string>

#include "mediator/base/unique_fd.h"
#include "mediator/wire/uplink/netlink.h"
#include "mediator/wire/uplink/slot_locks.h"
#include "mediator/wire/uplink/steering_program.h"

namespace vrdma::wire {

class Steering {
  public:
    // The number of daemons that can steer one interface.
    static constexpr unsigned slots = 8;

    // Removes what daemons that died have left at the interface. A failure is logged.
    static Result<std::unique_ptr<Steering>> create(const std::string& interface);
    ~Steering();
    Steering(const Steering&) = delete;
    Steering& operator=(const Steering&) = delete;

    // From now on, packets to the address reach the interface, and stop there. file_exists: they do
    // already.
    Result<> add(const SteeredAddress& address);
    void remove(const SteeredAddress& address);

    // Frames to a group's MAC reach the interface until the group was left as often as joined.
    Result<> join(const Mac& group);
    void leave(const Mac& group);

    // The table of addresses (bpf(2)).
    int addresses() const noexcept { return program_.addresses(); }

  private:
    Steering(int link_index, Netlink netlink, SteeringProgram program, UniqueFd macs);

    static Result<std::unique_ptr<Steering>> try_create(const std::string& interface);
    Result<> install();
    Result<> make_qdisc();
    void take_slot(const SlotLocks& locks);
    Result<> make_filter();
    bool remove_filter(unsigned slot);
    void remove_qdisc_if_unused();
    tcmsg filter_at(unsigned slot) const;

    int link_index_;
    Netlink netlink_;
    SteeringProgram program_;
    UniqueFd macs_; // a packet socket, for which the interface receives frames to them
    UniqueFd slot_lock_;
    unsigned slot_ = 0;       // if there is a lock
    bool made_qdisc_ = false; // by us, or by another daemon
};

} // namespace vrdma::wire
