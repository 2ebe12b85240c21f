// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/steering.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>

#include "mediator/base/errno.h"
#include "mediator/wire/derived_mac.h"
#include "mediator/wire/uplink/link.h"

namespace vrdma::wire {
namespace {

// A filter's priority is that of its slot: filters with lower numbers come first. Its handle says
// that it is one of ours ("vrdm").
constexpr std::uint32_t first_priority = 16;
constexpr std::uint32_t filter_handle = 0x7672646d;

constexpr std::uint32_t ingress = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS);
constexpr std::uint32_t egress = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS);

tcmsg qdisc_of(int link_index) {
    tcmsg qdisc{};
    qdisc.tcm_family = AF_UNSPEC;
    qdisc.tcm_ifindex = link_index;
    qdisc.tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0);
    qdisc.tcm_parent = TC_H_CLSACT;
    return qdisc;
}

int change_membership(int socket, int option, int link_index, const Mac& mac) {
    packet_mreq request{};
    request.mr_ifindex = link_index;
    request.mr_type = is_group(mac) ? PACKET_MR_MULTICAST : PACKET_MR_UNICAST;
    request.mr_alen = mac.size();
    std::copy(mac.begin(), mac.end(), request.mr_address);
    return ::setsockopt(socket, SOL_PACKET, option, &request, sizeof(request));
}

} // namespace

Result<std::unique_ptr<Steering>> Steering::create(const std::string& interface) {
    auto steering = try_create(interface);
    if (!steering) {
        spdlog::warn(
            "uplink {}: cannot keep RoCE packets to devices from the host's stack and from "
            "bridges, "
            "which may answer them: {}",
            interface, describe(steering.error()));
    }
    return steering;
}

Result<std::unique_ptr<Steering>> Steering::try_create(const std::string& interface) {
    const auto link = read_link(interface);
    if (!link) {
        return fail(link.error());
    }
    auto netlink = Netlink::create();
    if (!netlink) {
        return fail(netlink.error());
    }
    auto program = SteeringProgram::load();
    if (!program) {
        return fail(program.error());
    }
    UniqueFd macs{::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)};
    if (!macs) {
        return fail_errno();
    }
    std::unique_ptr<Steering> steering{
        new Steering{link->index, std::move(*netlink), std::move(*program), std::move(macs)}};
    if (auto installed = steering->install(); !installed) {
        return fail(installed.error());
    }
    return steering;
}

Steering::Steering(int link_index, Netlink netlink, SteeringProgram program, UniqueFd macs)
    : link_index_{link_index},
      netlink_{std::move(netlink)},
      program_{std::move(program)},
      macs_{std::move(macs)} {}

Steering::~Steering() {
    if (slot_lock_) {
        remove_filter(slot_);
    }
    if (made_qdisc_) {
        remove_qdisc_if_unused();
    }
}

Result<> Steering::install() {
    if (auto made = make_qdisc(); !made) {
        return made;
    }
    const auto locks = SlotLocks::open(link_index_);
    if (!locks) {
        return fail(locks.error());
    }
    take_slot(*locks);
    if (!slot_lock_) {
        return fail(std::errc::device_or_resource_busy);
    }
    return make_filter();
}

Result<> Steering::make_qdisc() {
    NetlinkMessage message{RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, qdisc_of(link_index_)};
    message.put_string(TCA_KIND, "clsact");
    const auto made = netlink_.ask(message);
    if (!made && made.error() != std::errc::file_exists) {
        return made;
    }
    made_qdisc_ = made.has_value();
    return {};
}

// Takes the first free slot. A filter in a slot without an owner is of a daemon that died. If there
// are other daemons, or were, the qdisc is theirs: the last to go removes it.
void Steering::take_slot(const SlotLocks& locks) {
    for (unsigned slot = 0; slot < slots; ++slot) {
        UniqueFd lock = locks.take(slot);
        if (!lock || remove_filter(slot)) {
            made_qdisc_ = true;
        }
        if (lock && !slot_lock_) {
            slot_lock_ = std::move(lock);
            slot_ = slot;
        }
    }
}

tcmsg Steering::filter_at(unsigned slot) const {
    tcmsg filter{};
    filter.tcm_family = AF_UNSPEC;
    filter.tcm_ifindex = link_index_;
    filter.tcm_parent = ingress;
    filter.tcm_handle = filter_handle;
    filter.tcm_info = TC_H_MAKE((first_priority + slot) << 16, htons(ETH_P_ALL));
    return filter;
}

Result<> Steering::make_filter() {
    NetlinkMessage message{RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, filter_at(slot_)};
    message.put_string(TCA_KIND, "bpf");
    nlattr* options = message.begin(TCA_OPTIONS);
    message.put(TCA_BPF_FD, static_cast<std::uint32_t>(program_.fd()));
    message.put_string(TCA_BPF_NAME, "vrdma");
    message.put(TCA_BPF_FLAGS, std::uint32_t{TCA_BPF_FLAG_ACT_DIRECT});
    message.end(options);
    return netlink_.ask(message);
}

// Returns whether there was one.
bool Steering::remove_filter(unsigned slot) {
    NetlinkMessage message{RTM_DELTFILTER, 0, filter_at(slot)};
    message.put_string(TCA_KIND, "bpf");
    return netlink_.ask(message).has_value();
}

// Others may have filters there by now.
void Steering::remove_qdisc_if_unused() {
    bool used = false;
    for (const std::uint32_t parent : {ingress, egress}) {
        tcmsg filters{};
        filters.tcm_ifindex = link_index_;
        filters.tcm_parent = parent;
        NetlinkMessage question{RTM_GETTFILTER, NLM_F_DUMP, filters};
        const auto asked = netlink_.ask(question, [&](nlmsghdr*) { used = true; });
        used = used || !asked;
    }
    if (!used) {
        NetlinkMessage message{RTM_DELQDISC, 0, qdisc_of(link_index_)};
        (void)netlink_.ask(message); // it fails if the interface is gone
    }
}

Result<> Steering::add(const SteeredAddress& address) {
    if (auto added = program_.add(address); !added) {
        return added;
    }
    if (change_membership(macs_.get(), PACKET_ADD_MEMBERSHIP, link_index_, address.mac) != 0) {
        const auto failed = fail_errno();
        program_.remove(address);
        return failed;
    }
    return {};
}

void Steering::remove(const SteeredAddress& address) {
    if (program_.remove(address)) {
        change_membership(macs_.get(), PACKET_DROP_MEMBERSHIP, link_index_, address.mac);
    }
}

Result<> Steering::join(const Mac& group) {
    if (change_membership(macs_.get(), PACKET_ADD_MEMBERSHIP, link_index_, group) != 0) {
        return fail_errno();
    }
    return {};
}

void Steering::leave(const Mac& group) {
    change_membership(macs_.get(), PACKET_DROP_MEMBERSHIP, link_index_, group);
}

} // namespace vrdma::wire
