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
    // be bound to `uplinks`. Devices that the vrdmad before has left are restored, and continue at
    // the end of the gathering.
    static Result<std::unique_ptr<MdevFrontend>> open(const Host& host, const std::string& name,
                                                      std::span<const std::string> uplinks);

    // At the end of a vrdmad: freezes all devices, and leaves them to the next vrdmad, which
    // continues them. After hand_over(), the front end is only to be destroyed.
    void freeze();
    void hand_over();

    std::vector<Device*> devices() const;

    // Gives the devices that exist the shares of their types. Later devices have them from the
    // start.
    void give_shares();

  private:
    MdevFrontend(const Host& host, UniqueFd fd) : host_{host}, fd_{std::move(fd)} {}

    void take_over();
    void resume();
    bool on_event();
    void add(std::uint32_t id);
    Result<> serve(std::uint32_t id);

    Host host_;
    UniqueFd fd_;
    std::unordered_map<std::uint32_t, std::unique_ptr<MdevDevice>> devices_;
    EventLoop::Watch events_;
    Gathering::Held resumes_;
};

} // namespace vrdma::mdev
