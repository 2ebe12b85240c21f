// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Facts about processes from the kernel, for tests of helpers.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace vrdma::helper {

// The child processes of `parent`.
inline std::vector<pid_t> children_of(pid_t parent) {
    std::vector<pid_t> children;
    for (const auto& process : std::filesystem::directory_iterator{"/proc"}) {
        std::ifstream stat{process.path() / "stat"};
        std::string word;
        pid_t id = 0;
        pid_t its_parent = 0;
        if (stat >> id && stat >> word >> word >> its_parent && its_parent == parent) {
            children.push_back(id);
        }
    }
    return children;
}

inline std::string status_of(pid_t process, const std::string& key) {
    std::ifstream status{"/proc/" + std::to_string(process) + "/status"};
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(key + ":")) {
            return line.substr(line.find_last_of('\t') + 1);
        }
    }
    return {};
}

} // namespace vrdma::helper
