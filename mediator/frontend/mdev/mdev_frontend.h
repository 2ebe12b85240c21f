// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The front end for vrdma_mdev.ko: registers the HCA and its types, and serves the devices that
// the administrator makes of them.
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
    // The HCA's name is that of the parent device; its devices outlive the mediator. They can be
    // bound to these uplinks.
    static Result<std::unique_ptr<MdevFrontend>> open(const Host& host, const std::string& name,
                                                      std::span<const std::string> uplinks);

    // To the devices that are there, those of their types; others have them from the start.
    void give_shares();

  private:
    MdevFrontend(const Host& host, UniqueFd fd) : host_{host}, fd_{std::move(fd)} {}

    void on_event();
    void add(std::uint32_t id);
    Result<> serve(std::uint32_t id);

    Host host_;
    UniqueFd fd_;
    std::unordered_map<std::uint32_t, std::unique_ptr<MdevDevice>> devices_;
    EventLoop::Watch events_;
};

} // namespace vrdma::mdev
