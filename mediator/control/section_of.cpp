// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/section_of.h"

#include <string>

#include "mediator/control/refusal.h"

namespace vrdma::control {
namespace {

using management::Setting;

void append(toml::table& section, const std::string& key, const std::string& item) {
    if (!section.contains(key)) {
        section.insert(key, toml::array{});
    }
    if (toml::array* const items = section[key].as_array()) {
        items->push_back(item);
    }
}

} // namespace

management::Answered<toml::table> section_of(const management::Settings& settings) {
    toml::table section;
    for (const Setting& setting : settings) {
        const std::string key = helper::read(setting.key).value_or("");
        const std::string text = helper::read(setting.text).value_or("");
        const bool of_user = key == "owner" || key == "group";
        if (of_user && setting.kind != Setting::Kind::number) {
            return refuse(std::errc::invalid_argument, key + " must be a number");
        }
        switch (setting.kind) {
            case Setting::Kind::text:
                section.insert_or_assign(key, text);
                break;
            case Setting::Kind::number:
                section.insert_or_assign(key, setting.number);
                break;
            case Setting::Kind::flag:
                section.insert_or_assign(key, setting.number != 0);
                break;
            case Setting::Kind::item:
                append(section, key, text);
                break;
        }
    }
    return section;
}

} // namespace vrdma::control
