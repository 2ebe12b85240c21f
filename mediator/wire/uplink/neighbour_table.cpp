// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/neighbour_table.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include <cstring>

#include "mediator/wire/uplink/ip_address.h"

namespace vrdma::wire {
namespace {

constexpr unsigned confirmed_states = NUD_REACHABLE | NUD_PERMANENT | NUD_NOARP;
constexpr unsigned states_with_mac = confirmed_states | NUD_STALE | NUD_DELAY | NUD_PROBE;

NetlinkMessage message_about(int link_index, const Gid& address, int type, int flags,
                             std::uint8_t neighbour_flags) {
    ndmsg header{};
    header.ndm_family = family_of(address);
    header.ndm_ifindex = link_index;
    header.ndm_flags = neighbour_flags;
    NetlinkMessage message{type, flags, header};
    const auto bytes = address_of(address);
    message.put(NDA_DST, bytes.data(), bytes.size());
    return message;
}

} // namespace

std::optional<Neighbour> parse_neighbour(nlmsghdr* message) {
    std::array<nlattr*, NDA_MAX + 1> attributes{};
    if (message->nlmsg_type != RTM_NEWNEIGH ||
        nlmsg_parse(message, sizeof(ndmsg), attributes.data(), NDA_MAX, nullptr) < 0 ||
        attributes[NDA_DST] == nullptr) {
        return std::nullopt;
    }
    const auto address = gid_of({static_cast<const std::uint8_t*>(nla_data(attributes[NDA_DST])),
                                 static_cast<std::size_t>(nla_len(attributes[NDA_DST]))});
    if (!address) {
        return std::nullopt;
    }
    const auto& header = *static_cast<const ndmsg*>(nlmsg_data(message));
    Neighbour neighbour{header.ndm_ifindex, *address, std::nullopt,
                        (header.ndm_state & confirmed_states) != 0,
                        (header.ndm_state & NUD_FAILED) != 0};
    nlattr* mac = attributes[NDA_LLADDR];
    if ((header.ndm_state & states_with_mac) != 0 && mac != nullptr &&
        nla_len(mac) == sizeof(Mac)) {
        std::memcpy(neighbour.mac.emplace().data(), nla_data(mac), sizeof(Mac));
    }
    return neighbour;
}

Result<Neighbour> read_neighbour(Netlink& netlink, int link_index, const Gid& address) {
    auto question = message_about(link_index, address, RTM_GETNEIGH, 0, 0);
    Neighbour neighbour;
    const auto asked = netlink.ask(question, [&](nlmsghdr* message) {
        neighbour = parse_neighbour(message).value_or(Neighbour{});
    });
    if (!asked && asked.error() != std::errc::no_such_file_or_directory) {
        return fail(asked.error());
    }
    return neighbour;
}

Result<> ask_for_neighbour(Netlink& netlink, int link_index, const Gid& address) {
    auto order = message_about(link_index, address, RTM_NEWNEIGH, NLM_F_CREATE, NTF_USE);
    return netlink.ask(order);
}

} // namespace vrdma::wire
