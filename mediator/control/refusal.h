// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Why something that was asked for by the control socket is not done.
#pragma once

#include <fmt/format.h>

#include <string>
#include <system_error>
#include <utility>

#include "mediator/management/mediator.h"

namespace vrdma::control {

inline tl::unexpected<management::Refusal> refuse(std::errc error, std::string reason) {
    return tl::unexpected{management::Refusal{error, std::move(reason)}};
}

inline tl::unexpected<management::Refusal> refuse_unknown(const std::string& name) {
    return refuse(std::errc::no_such_file_or_directory,
                  fmt::format("there is no device '{}'", name));
}

inline tl::unexpected<management::Refusal> refuse_configured(const char* kind,
                                                             const std::string& name) {
    return refuse(std::errc::operation_not_supported,
                  fmt::format("the {} '{}' is one of the configuration: remove it there, and "
                              "restart vrdmad",
                              kind, name));
}

} // namespace vrdma::control
