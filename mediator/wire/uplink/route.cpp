// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/route.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include "mediator/wire/uplink/ip_address.h"

namespace vrdma::wire {
namespace {

std::span<const std::uint8_t> bytes_of(nlattr* attribute) {
    return {static_cast<const std::uint8_t*>(nla_data(attribute)),
            static_cast<std::size_t>(nla_len(attribute))};
}

std::optional<Gid> gateway_in(nlattr* const* attributes) {
    if (attributes[RTA_GATEWAY] != nullptr) {
        return gid_of(bytes_of(attributes[RTA_GATEWAY]));
    }
    if (attributes[RTA_VIA] != nullptr) { // of the other family; the address follows the family
        const auto via = bytes_of(attributes[RTA_VIA]);
        return via.size() > sizeof(rtvia) ? gid_of(via.subspan(sizeof(rtvia))) : std::nullopt;
    }
    return std::nullopt;
}

struct Question {
    int link_index;
    std::optional<Gid> source;
    const Gid& target;
    unsigned flags;
};

Result<Route> ask(Netlink& netlink, const Question& question) {
    const auto put = [](NetlinkMessage& message, int attribute, const Gid& gid) {
        const auto address = address_of(gid);
        message.put(attribute, address.data(), address.size());
    };
    rtmsg header{};
    header.rtm_family = family_of(question.target);
    header.rtm_dst_len = static_cast<std::uint8_t>(address_of(question.target).size() * 8);
    header.rtm_src_len = question.source ? header.rtm_dst_len : std::uint8_t{0};
    header.rtm_flags = question.flags;
    NetlinkMessage message{RTM_GETROUTE, 0, header};
    put(message, RTA_DST, question.target);
    if (question.source) {
        put(message, RTA_SRC, *question.source);
    }
    message.put(RTA_OIF, question.link_index);

    Route answer;
    const auto asked = netlink.ask(
        message, [&](nlmsghdr* received) { answer = parse_route(received).value_or(Route{}); });
    if (!asked) {
        return fail(asked.error());
    }
    return answer;
}

// If the source is not the host's, the kernel finds no route. Its error differs by version.
Result<Route> ask_from_anywhere(Netlink& netlink, Question question) {
    auto answer = ask(netlink, question);
    if (!answer && question.source &&
        (answer.error() == std::errc::invalid_argument ||
         answer.error() == std::errc::network_unreachable)) {
        question.source.reset();
        answer = ask(netlink, question);
    }
    return answer;
}

} // namespace

std::optional<Route> parse_route(nlmsghdr* message) {
    std::array<nlattr*, RTA_MAX + 1> attributes{};
    std::array<nla_policy, RTA_MAX + 1> policy{};
    policy[RTA_OIF].type = NLA_U32;
    if (nlmsg_parse(message, sizeof(rtmsg), attributes.data(), RTA_MAX, policy.data()) < 0) {
        return std::nullopt;
    }
    Route route;
    route.type = static_cast<rtmsg*>(nlmsg_data(message))->rtm_type;
    route.gateway = gateway_in(attributes.data());
    if (attributes[RTA_OIF] != nullptr) {
        route.link_index = static_cast<int>(nla_get_u32(attributes[RTA_OIF]));
    }
    return route;
}

int parse_bridge(nlmsghdr* message) {
    std::array<nlattr*, IFLA_MAX + 1> link{};
    std::array<nlattr*, IFLA_INFO_MAX + 1> info{};
    std::array<nla_policy, IFLA_MAX + 1> link_policy{};
    std::array<nla_policy, IFLA_INFO_MAX + 1> info_policy{};
    link_policy[IFLA_MASTER].type = NLA_U32;
    info_policy[IFLA_INFO_SLAVE_KIND].type = NLA_STRING;
    if (nlmsg_parse(message, sizeof(ifinfomsg), link.data(), IFLA_MAX, link_policy.data()) < 0 ||
        link[IFLA_MASTER] == nullptr || link[IFLA_LINKINFO] == nullptr ||
        nla_parse_nested(info.data(), IFLA_INFO_MAX, link[IFLA_LINKINFO], info_policy.data()) < 0) {
        return 0;
    }
    nlattr* const kind = info[IFLA_INFO_SLAVE_KIND];
    return kind != nullptr && nla_strcmp(kind, "bridge") == 0
               ? static_cast<int>(nla_get_u32(link[IFLA_MASTER]))
               : 0;
}

int addressed_link(Netlink& netlink, int link_index) {
    ifinfomsg header{};
    header.ifi_index = link_index;
    NetlinkMessage message{RTM_GETLINK, 0, header};
    int bridge = 0;
    (void)netlink.ask(message, [&](nlmsghdr* received) { bridge = parse_bridge(received); });
    return bridge != 0 ? bridge : link_index;
}

Result<Gid> next_hop(Netlink& netlink, int link_index, const Gid& source, const Gid& target) {
    Question question{link_index, std::nullopt, target, 0};
    if (family_of(source) == family_of(target)) {
        question.source = source;
    }
    if (is_ipv4(target)) {
        // If no route leads out by that interface, IPv4 takes the target for a neighbour, unless
        // the question asks for the route itself.
        question.flags = RTM_F_FIB_MATCH;
        if (const auto route = ask_from_anywhere(netlink, question); !route) {
            return fail(route.error());
        }
        question.flags = 0;
    }
    const auto answer = ask_from_anywhere(netlink, question);
    if (!answer) {
        return fail(answer.error());
    }
    if (answer->type != RTN_UNICAST || answer->link_index != link_index) {
        return fail(std::errc::network_unreachable);
    }
    return answer->gateway.value_or(target);
}

} // namespace vrdma::wire
