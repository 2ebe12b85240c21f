// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/mdev.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "ctl/table.h"

namespace vrdma::ctl {
namespace {

namespace fs = std::filesystem;

constexpr char prefix[] = "vrdma-"; // of types; the kernel puts it before their names

// Returns 0 or an errno. An attribute is written by one call.
int write(const fs::path& attribute, const std::string& value) {
    const int file = ::open(attribute.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) {
        return errno;
    }
    const ssize_t written = ::write(file, value.data(), value.size());
    const int error = written < 0 ? errno : 0;
    ::close(file);
    return error;
}

std::string read(const fs::path& attribute) {
    std::ifstream file{attribute};
    std::string line;
    std::getline(file, line);
    return line;
}

// The word names a file in a directory, and none elsewhere.
bool is_file_name(const std::string& word) {
    return !word.empty() && word != "." && word != ".." && word.find('/') == std::string::npos;
}

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

// The UUID as the kernel names the device, or nothing if it is no UUID.
std::optional<std::string> canonical(std::string uuid) {
    constexpr std::string_view pattern = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    const bool valid = std::ranges::equal(uuid, pattern, [](char c, char wanted) {
        return wanted == 'x' ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : c == wanted;
    });
    if (!valid) {
        return std::nullopt;
    }
    std::ranges::transform(uuid, uuid.begin(), [](char c) {
        return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    });
    return uuid;
}

std::string types_in(const fs::path& directory) {
    std::set<std::string> types;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator{directory, ignored}) {
        const std::string name = entry.path().filename();
        if (name.starts_with(prefix)) {
            types.insert(name.substr(std::strlen(prefix)));
        }
    }
    return fmt::format("{}", fmt::join(types, ", "));
}

Problem why_not_created(int error, const NewMdev& wanted) {
    switch (error) {
        case EEXIST:
            return problem(error, fmt::format("there is a device '{}' already", wanted.uuid));
        case ENOSPC:
            return problem(error, fmt::format("no instance of the type '{}' is left", wanted.type));
        case ENODEV:
            return problem(error, fmt::format("no vrdmad serves '{}' now", wanted.parent));
        case EACCES:
        case EPERM:
            return problem(error, "only root may create mediated devices");
        default:
            return problem(error, fmt::format("the kernel does not create '{}'", wanted.uuid));
    }
}

Problem why_not_destroyed(int error, const std::string& uuid) {
    switch (error) {
        case EBUSY:
            return problem(error,
                           fmt::format("a VM has the device '{}'; --force takes it away", uuid));
        case ENOENT:
        case ENODEV:
        case EAGAIN:
            return problem(error, fmt::format("the device '{}' is being removed already", uuid));
        case EACCES:
        case EPERM:
            return problem(error, "only root may destroy mediated devices");
        default:
            return problem(error, fmt::format("the kernel does not remove '{}'", uuid));
    }
}

} // namespace

fs::path Mdevs::types_of(const std::string& parent) const {
    return sysfs_ / "class/mdev_bus" / parent / "mdev_supported_types";
}

fs::path Mdevs::device(const std::string& uuid) const {
    return sysfs_ / "bus/mdev/devices" / uuid;
}

// Other drivers have mediated devices, too.
bool Mdevs::is_ours(const std::string& uuid) const {
    std::error_code ignored;
    const fs::path type = fs::read_symlink(device(uuid) / "mdev_type", ignored);
    return type.filename().string().starts_with(prefix);
}

bool Mdevs::is_uuid(const std::string& name) {
    return canonical(name).has_value();
}

std::optional<Problem> Mdevs::find_parent(const std::string& name) const {
    if (!is_there(sysfs_ / "module/vrdma_mdev")) {
        return problem(ENODEV, "the kernel module vrdma_mdev is not loaded");
    }
    if (!is_file_name(name) || !is_there(types_of(name))) {
        return problem(ENODEV,
                       fmt::format("no vrdmad with the name '{}' serves mediated devices", name));
    }
    return std::nullopt;
}

Answer Mdevs::create(const NewMdev& wanted) const {
    const auto uuid =
        canonical(wanted.uuid.empty() ? read("/proc/sys/kernel/random/uuid") : wanted.uuid);
    if (!uuid) {
        return tl::unexpected{problem(EINVAL, fmt::format("'{}' is no UUID", wanted.uuid))};
    }
    if (auto missing = find_parent(wanted.parent)) {
        return tl::unexpected{std::move(*missing)};
    }
    const fs::path type = types_of(wanted.parent) / (prefix + wanted.type);
    if (!is_file_name(wanted.type) || !is_there(type)) {
        return tl::unexpected{
            problem(ENOENT, fmt::format("'{}' has no type '{}', but these: {}", wanted.parent,
                                        wanted.type, types_in(types_of(wanted.parent))))};
    }
    const int error = is_there(device(*uuid)) ? EEXIST : write(type / "create", *uuid);
    if (error != 0) {
        return tl::unexpected{why_not_created(error, {wanted.parent, wanted.type, *uuid})};
    }
    return nlohmann::json{{"name", *uuid}, {"parent", wanted.parent}, {"type", wanted.type}};
}

// The kernel tells whether a VM has the device only by refusing a new MAC, so the device gets the
// one that it has.
Answer Mdevs::destroy(const std::string& name, bool from_vm) const {
    const auto uuid = canonical(name);
    if (!uuid || !is_ours(*uuid)) {
        return tl::unexpected{
            problem(ENOENT, fmt::format("there is no mediated device '{}' of vrdma", name))};
    }
    const fs::path mac = device(*uuid) / "mac";
    int error = from_vm ? 0 : write(mac, read(mac));
    if (error == 0) {
        error = write(device(*uuid) / "remove", "1");
    }
    if (error != 0) {
        return tl::unexpected{why_not_destroyed(error, *uuid)};
    }
    return nlohmann::json{{"name", *uuid}};
}

} // namespace vrdma::ctl
