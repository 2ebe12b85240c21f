// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/config/users.h"

#include <grp.h>
#include <pwd.h>

#include <cstdint>
#include <limits>
#include <string>

namespace vrdma::control {
namespace {

template <typename Entry, typename Number>
void read_id(Section& section, std::string_view key, std::string_view must_be,
             Entry* (*look_up)(const char*), Number Entry::*id, Number& out) {
    if (!section.has(key)) {
        return;
    }
    if (section.has_integer(key)) {
        section.integer(key, out, 0, std::numeric_limits<std::int32_t>::max());
        return;
    }
    std::string name;
    if (section.has_text(key)) {
        section.text(key, name);
    }
    const Entry* const entry = look_up(name.c_str());
    if (entry == nullptr) {
        section.refuse(key, must_be);
    }
    out = entry->*id;
}

} // namespace

void read_user(Section& section, std::string_view key, uid_t& out) {
    read_id(section, key, "the name or the number of a user of this host", ::getpwnam,
            &passwd::pw_uid, out);
}

void read_group(Section& section, std::string_view key, gid_t& out) {
    read_id(section, key, "the name or the number of a group of this host", ::getgrnam,
            &::group::gr_gid, out);
}

} // namespace vrdma::control
