// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The socket of vrdmactl(8), and the process that serves it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "mediator/base/event_loop.h"
#include "mediator/control/config/config.h"
#include "mediator/frontend/vfio_user/listening_socket.h"
#include "mediator/management/service.h"

namespace vrdma::control {

class ControlSocket {
  public:
    // Returns none if the configuration has none. Call it while programs can still be executed. The
    // error is for people. Clients that connect wait until the socket is served.
    static tl::expected<std::optional<ControlSocket>, std::string> open(
        const ControlSocketOptions& options, const std::string& forbidden);

    // The mediator must outlive this. On failure, logs the reason and returns false.
    bool serve(management::Mediator& mediator, EventLoop& loop);

  private:
    ControlSocket(vfio_user::ListeningSocket socket, UniqueFd network, UniqueFd process,
                  const management::Task& task)
        : socket_{std::move(socket)},
          network_{std::move(network)},
          process_{std::move(process)},
          task_{task} {}

    vfio_user::ListeningSocket socket_;
    UniqueFd network_; // for metrics, or none
    UniqueFd process_; // until it is served
    management::Task task_;
    std::unique_ptr<management::Service> service_;
};

} // namespace vrdma::control
