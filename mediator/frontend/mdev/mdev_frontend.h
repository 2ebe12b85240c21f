// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The front end for vrdma_mdev.ko. Registers the HCA and its types, and serves the devices that the
// administrator creates.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "mediator/frontend/mdev/mdev_device.h"

namespace vrdma::mdev {

class MdevFrontend {
  public:
    // `name` is that of the HCA and of the parent device. Devices stay when vrdmad ends. They can
    // be bound to `uplinks`. Devices that the vrdmad before has left continue.
    static Result<std::unique_ptr<MdevFrontend>> open(const Host& host, const std::string& name,
                                                      std::span<const std::string> uplinks);

    // To be called last: the devices wait for the next vrdmad, and then continue.
    void hand_over();

    // Gives the devices that exist the shares of their types. Later devices have them from the
    // start.
    void give_shares();

  private:
    MdevFrontend(const Host& host, UniqueFd fd) : host_{host}, fd_{std::move(fd)} {}

    void take_over();
    bool on_event();
    void add(std::uint32_t id);
    Result<> serve(std::uint32_t id);

    Host host_;
    UniqueFd fd_;
    std::unordered_map<std::uint32_t, std::unique_ptr<MdevDevice>> devices_;
    EventLoop::Watch events_;
};

} // namespace vrdma::mdev
