// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/entry_json.h"

#include <arpa/inet.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "mediator/base/gid_text.h"
#include "mediator/wire/fabric/hello.h"

namespace vrdma::directory {
namespace {

// C functions ignore text behind a null character.
bool has_null(const std::string& text) {
    return text.find('\0') != std::string::npos;
}

std::optional<Gid> gid_of(const std::string& text) {
    Gid gid{};
    if (has_null(text)) {
        return std::nullopt;
    }
    if (::inet_pton(AF_INET6, text.c_str(), gid.data()) == 1) {
        return gid;
    }
    std::ranges::copy(ipv4_prefix, gid.begin());
    return ::inet_pton(AF_INET, text.c_str(), gid.data() + ipv4_prefix.size()) == 1
               ? std::optional{gid}
               : std::nullopt;
}

tl::expected<Claims, std::string> read_claims(const nlohmann::json& gids, std::int64_t revision) {
    if (!gids.is_object() || gids.size() > Entry::max_gids) {
        return tl::unexpected{std::string{"'gids' is not a JSON object, or has too many entries"}};
    }
    const auto now = std::clamp<std::int64_t>(revision, 0, Entry::last_revision);
    Claims claims;
    for (const auto& [text, since] : gids.items()) {
        const auto gid = gid_of(text);
        if (!gid || !valid_gid(*gid) || !since.is_number_unsigned()) {
            return tl::unexpected{
                std::string{"'gids' has an entry that is not an address with a revision"}};
        }
        const auto claimed = since.get<std::uint64_t>();
        claims[*gid] = claimed == 0 || claimed > static_cast<std::uint64_t>(now)
                           ? now
                           : static_cast<std::int64_t>(claimed);
    }
    return claims;
}

} // namespace

std::string format_entry(const Entry& entry) {
    auto gids = nlohmann::json::object();
    for (const auto& [gid, since] : entry.claims) {
        gids[gid_text(gid)] = static_cast<std::uint64_t>(since);
    }
    return nlohmann::json{{"address", text_of(entry.address)}, {"gids", gids}}.dump();
}

tl::expected<Entry, std::string> parse_entry(std::string_view text, std::int64_t revision) {
    const auto json = text.size() <= Entry::max_size ? nlohmann::json::parse(text, nullptr, false)
                                                     : nlohmann::json{};
    if (!json.is_object()) {
        return tl::unexpected{std::string{"it is not a JSON object, or it is too large"}};
    }
    // A copy would take stack per level of nesting.
    static const nlohmann::json none;
    const auto at = [&json](const char* name) -> const nlohmann::json& {
        const auto found = json.find(name);
        return found != json.end() ? *found : none;
    };
    const auto& where = at("address");
    const std::string there = where.is_string() ? where.get<std::string>() : std::string{};
    const auto address = has_null(there) ? std::nullopt : wire::fabric::parse_address(there);
    if (!address || address->host.size() > Entry::max_host ||
        address->service.size() > Entry::max_service) {
        return tl::unexpected{std::string{"'address' is no address with a port"}};
    }
    auto claims = read_claims(at("gids"), revision);
    if (!claims) {
        return tl::unexpected{claims.error()};
    }
    return Entry{*address, std::move(*claims)};
}

std::string key_prefix(const std::string& prefix) {
    return prefix + "hosts/";
}

std::optional<std::string> host_of(std::string_view key, const std::string& prefix) {
    const std::string begin = key_prefix(prefix);
    if (!key.starts_with(begin) || !wire::fabric::valid_host(key.substr(begin.size()))) {
        return std::nullopt;
    }
    return std::string{key.substr(begin.size())};
}

} // namespace vrdma::directory
