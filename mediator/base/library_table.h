// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A library's functions, as a table in a module of ours (cmake/VrdmaLibraryTable.cmake) that is
// loaded when it is needed. So a program starts on a host without the library.
#pragma once

#include <dlfcn.h>

#include <string>
#include <tl/expected.hpp>

namespace vrdma {

// Loads the module, which stays. The table is its only symbol. The error is for people.
template <typename Table>
tl::expected<const Table*, std::string> load_library_table(const char* file, const char* symbol) {
    void* const module = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const void* const table = module != nullptr ? ::dlsym(module, symbol) : nullptr;
    if (table == nullptr) {
        return tl::unexpected{std::string{::dlerror()}};
    }
    return static_cast<const Table*>(table);
}

} // namespace vrdma
