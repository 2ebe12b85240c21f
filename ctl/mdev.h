// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Mediated devices are made and removed by writes to sysfs. vrdmactl writes there itself, with the
// rights of its caller, because vrdmad may not.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "ctl/client.h"

namespace vrdma::ctl {

struct NewMdev {
    std::string parent; // the name of a vrdmad
    std::string type;   // as vrdmad.conf has it
    std::string uuid;   // empty: a random one
};

class Mdevs {
  public:
    explicit Mdevs(std::filesystem::path sysfs = "/sys") : sysfs_{std::move(sysfs)} {}

    // Returns {"name": UUID, "parent": ..., "type": ...}.
    Answer create(const NewMdev& wanted) const;

    // Whether it is the name of a mediated device. No other device has a UUID for its name.
    static bool is_uuid(const std::string& name);

    // Refuses a device that a VM has, unless it is told to take it from the VM. Then this waits for
    // the VM. Returns {"name": UUID}.
    Answer destroy(const std::string& name, bool from_vm) const;

  private:
    std::optional<Problem> find_parent(const std::string& name) const;
    std::filesystem::path types_of(const std::string& parent) const;
    std::filesystem::path device(const std::string& uuid) const;
    bool is_ours(const std::string& uuid) const;

    std::filesystem::path sysfs_;
};

} // namespace vrdma::ctl
