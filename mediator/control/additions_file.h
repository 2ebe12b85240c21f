// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The file beside the control socket from which the next vrdmad learns what was added to the
// configuration of this one. It goes when the host starts again, as does all below /run.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "mediator/base/result.h"

namespace vrdma::control {

class AdditionsFile {
  public:
    // Without a control socket nothing can be added, and there is no file.
    explicit AdditionsFile(const std::string& control_socket)
        : path_{control_socket.empty() ? "" : control_socket + ".added"} {}

    const std::string& path() const { return path_; }

    // Empty: there is no file. EACCES: another user may have written it.
    Result<std::string> read() const;
    // Replaces the file as a whole, or not at all.
    Result<> write(const std::string& text) const;

  private:
    std::string path_;
};

} // namespace vrdma::control
