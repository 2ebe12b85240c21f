// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Devices for containers. A specification of the Container Device Interface (CDI) tells the runtime
// of containers, such as podman, what a container gets with a device: the directory of the device's
// socket, the driver in user space, and the environment by which the driver finds the socket.
//
// Each device has a directory of its own, which is mounted, because the next vrdmad makes a new
// socket. vrdmad may make no directories, so vrdmactl makes it, with the rights of its caller.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ctl/client.h"

namespace vrdma::ctl {

struct CdiOptions {
    bool wanted = false;
    std::string directory = "/run/cdi"; // of specifications
    std::string driver;                 // the directory of its libraries; empty: the image has them
};

// The directory in which libvrdma was installed.
std::string installed_driver();

class CdiDevice {
  public:
    // The device of the vrdmad that has this control socket.
    CdiDevice(std::string name, const std::string& control_socket, CdiOptions options);

    std::string qualified_name() const; // such as vrdma.io/device=web
    std::string socket() const;

    // Before the device is created: checks all that can be, and makes the device's directory.
    std::optional<Problem> prepare() const;
    // After it has been. `addresses` are those of vrdmad.conf(5).
    std::optional<Problem> write(const std::string& addresses) const;
    // After it is gone. It is no error if the files are not there.
    void remove() const;
    // If it could not be created. The directory of another device of this name stays.
    void remove_directory() const;

    nlohmann::json specification(const std::string& addresses) const;

  private:
    std::string file() const;
    std::string host_directory() const;
    std::vector<std::string> libraries() const;

    std::string name_;
    std::string runtime_; // vrdmad's directory
    CdiOptions options_;
};

} // namespace vrdma::ctl
