// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Replaces the process's log, for tests of what is logged.
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <sstream>
#include <string>

namespace vrdma {

class CapturedLog {
  public:
    CapturedLog() {
        auto logger = std::make_shared<spdlog::logger>(
            "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
        logger->set_pattern("%l %v");
        spdlog::set_default_logger(std::move(logger));
    }
    CapturedLog(const CapturedLog&) = delete;
    CapturedLog& operator=(const CapturedLog&) = delete;
    ~CapturedLog() { spdlog::set_default_logger(std::move(usual_)); } // usual_ kept its level

    std::string str() const { return text_.str(); }
    std::ptrdiff_t lines() const { return std::ranges::count(str(), '\n'); }

  private:
    std::shared_ptr<spdlog::logger> usual_ = spdlog::default_logger();
    std::ostringstream text_;
};

} // namespace vrdma
