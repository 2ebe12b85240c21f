// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/control_socket.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "mediator/base/errno.h"
#include "mediator/control/tcp_listener.h"
#include "mediator/helper/launch.h"

namespace vrdma::control {

tl::expected<std::optional<ControlSocket>, std::string> ControlSocket::open(
    const ControlSocketOptions& options, const std::string& forbidden) {
    if (options.socket.path.empty()) {
        return std::nullopt;
    }
    auto socket = vfio_user::ListeningSocket::open(options.socket);
    if (!socket) {
        return tl::unexpected{options.socket.path + ": " + describe(socket.error())};
    }
    auto network = options.metrics ? listen_at(*options.metrics) : UniqueFd{};
    if (!network) { // another program may have the port, which must not keep devices from their VMs
        spdlog::warn("no metrics at {}:{}: {}", options.metrics->host, options.metrics->service,
                     describe(network.error()));
        network = UniqueFd{};
    }
    const std::string program = helper::program_path("vrdma-management");
    auto launched = helper::launch(program, forbidden);
    if (!launched) {
        return tl::unexpected{program + ": " + describe(launched.error())};
    }
    const management::Task task{options.group_changes ? 1u : 0u, 0};
    return ControlSocket{std::move(*socket), std::move(*network), std::move(launched->socket),
                         task};
}

bool ControlSocket::serve(management::Mediator& mediator, EventLoop& loop) {
    auto service = management::Service::open(std::move(process_), {socket_.fd(), network_.get()},
                                             task_, mediator, loop);
    if (!service) {
        spdlog::critical("control socket: {}", describe(service.error()));
        return false;
    }
    service_ = std::move(*service);
    return true;
}

} // namespace vrdma::control
