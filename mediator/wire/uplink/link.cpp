// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/link.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <limits>

#include "mediator/base/errno.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::wire {
namespace {

ifreq request_about(const std::string& interface) {
    ifreq request{};
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    return request;
}

// Asks the kernel one question. The answer is in the request afterwards.
bool ask(int socket, unsigned long question, const std::string& interface, ifreq& request) {
    request = request_about(interface);
    return ::ioctl(socket, question, &request) == 0;
}

// Two questions. The kernel answers the first with the length of its lists of modes. It answers the
// second, which names that length, with the settings.
std::uint32_t read_mbps(int socket, const std::string& interface) {
    constexpr std::size_t lists = 3;
    constexpr std::size_t longest = std::numeric_limits<__s8>::max() * sizeof(__u32);
    alignas(ethtool_link_settings)
        std::array<std::byte, sizeof(ethtool_link_settings) + lists * longest>
            room{};
    auto& settings = *reinterpret_cast<ethtool_link_settings*>(room.data());
    __s8 words = 0;
    for (const bool asks_length : {true, false}) {
        settings = {};
        settings.cmd = ETHTOOL_GLINKSETTINGS;
        settings.link_mode_masks_nwords = static_cast<__s8>(-words);
        ifreq request = request_about(interface);
        request.ifr_data = reinterpret_cast<char*>(&settings);
        if (::ioctl(socket, SIOCETHTOOL, &request) != 0) {
            return 0;
        }
        words = settings.link_mode_masks_nwords;
        if (asks_length != (words < 0)) {
            return 0;
        }
    }
    const std::uint32_t speed = settings.speed;
    return speed == static_cast<std::uint32_t>(SPEED_UNKNOWN) ? 0 : speed;
}

} // namespace

Result<Link> read_link(const std::string& interface) {
    if (interface.empty() || interface.size() >= IFNAMSIZ) {
        return fail(std::errc::no_such_device);
    }
    const UniqueFd socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    Link link;
    ifreq request;
    if (!ask(socket.get(), SIOCGIFHWADDR, interface, request)) {
        return fail_errno();
    }
    if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER) {
        return fail(std::errc::not_supported);
    }
    std::memcpy(link.mac.data(), request.ifr_hwaddr.sa_data, link.mac.size());
    if (!ask(socket.get(), SIOCGIFINDEX, interface, request)) {
        return fail_errno();
    }
    link.index = request.ifr_ifindex;
    const auto mtu = read_mtu(socket.get(), interface);
    if (!mtu) {
        return fail(mtu.error());
    }
    link.mtu = *mtu;
    link.mbps = read_mbps(socket.get(), interface);
    if (!ask(socket.get(), SIOCGIFFLAGS, interface, request)) {
        return fail_errno();
    }
    link.up = (request.ifr_flags & IFF_UP) != 0 && (request.ifr_flags & IFF_RUNNING) != 0;
    return link;
}

Result<std::uint32_t> read_mtu(int socket, const std::string& interface) noexcept {
    ifreq request;
    if (!ask(socket, SIOCGIFMTU, interface, request)) {
        return fail_errno();
    }
    return static_cast<std::uint32_t>(request.ifr_mtu);
}

} // namespace vrdma::wire
