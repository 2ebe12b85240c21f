// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/cdi.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace vrdma::ctl {
namespace {

namespace fs = std::filesystem;

constexpr char kind[] = "vrdma.io/device";
constexpr char directories[] = "containers"; // in vrdmad's directory
constexpr char in_container[] = "/run/vrdma";

// The name of a device, as vrdmad and CDI both have it. It becomes a part of paths.
bool is_valid(std::string_view name) {
    constexpr std::size_t longest = 15;
    return !name.empty() && name.size() <= longest && !name.starts_with('-') &&
           !name.ends_with('-') &&
           name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == name.npos;
}

std::optional<Problem> failed(const std::string& path, int error) {
    return problem(error, fmt::format("{}: {}", path, std::strerror(error)));
}

class Directory {
  public:
    explicit Directory(const std::string& path)
        : fd_{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)} {}
    // Makes it with this mode if it is not there. It belongs to the owner of the directory above.
    Directory(const Directory& above, const char* name, mode_t mode) {
        if (!above.valid()) {
            return;
        }
        struct stat owner {};
        const bool made = ::mkdirat(above.fd_, name, mode) == 0;
        if (made || errno == EEXIST) {
            fd_ = ::openat(above.fd_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        const bool given = !made || (valid() && ::fstat(above.fd_, &owner) == 0 &&
                                     ::fchown(fd_, owner.st_uid, owner.st_gid) == 0 &&
                                     ::fchmod(fd_, mode) == 0); // whatever the umask is
        if (valid() && !given) {
            close();
        }
    }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    ~Directory() { close(); }

    // If not, errno says why.
    bool valid() const { return fd_ >= 0; }

  private:
    void close() {
        const int error = errno;
        if (valid()) {
            ::close(fd_);
        }
        fd_ = -1;
        errno = error;
    }

    int fd_ = -1;
};

// A range of addresses is none that the driver can ask for.
std::vector<std::string> addresses_in(const std::string& list) {
    std::vector<std::string> addresses;
    for (std::size_t begin = 0; begin < list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        std::string one = list.substr(begin, end - begin);
        std::erase(one, ' ');
        if (!one.empty() && one.find('/') == one.npos) {
            addresses.push_back(std::move(one));
        }
        begin = end + 1;
    }
    return addresses;
}

nlohmann::json mount_of(const std::string& host, const std::string& container) {
    return {{"hostPath", host},
            {"containerPath", container},
            {"options", {"bind", "ro", "nosuid", "nodev"}}};
}

// Replaces the file as a whole, because runtimes may read it at any time.
std::optional<Problem> replace(const std::string& path, const std::string& text) {
    constexpr mode_t for_all_to_read = 0644;
    const std::string fresh = fmt::format("{}.{}.new", path, ::getpid());
    std::ofstream file{fresh};
    file << text << std::flush;
    const bool written = file.good() && ::chmod(fresh.c_str(), for_all_to_read) == 0;
    if (written && ::rename(fresh.c_str(), path.c_str()) == 0) {
        return std::nullopt;
    }
    const int error = errno;
    ::unlink(fresh.c_str());
    return failed(path, error);
}

} // namespace

std::string installed_driver() {
    return VRDMA_DRIVER;
}

CdiDevice::CdiDevice(std::string name, const std::string& control_socket, CdiOptions options)
    : name_{std::move(name)},
      runtime_{fs::absolute(control_socket).parent_path()},
      options_{std::move(options)} {}

std::string CdiDevice::qualified_name() const {
    return fmt::format("{}={}", kind, name_);
}

std::string CdiDevice::host_directory() const {
    return fmt::format("{}/{}/{}", runtime_, directories, name_);
}

std::string CdiDevice::socket() const {
    return fmt::format("{}/{}.sock", host_directory(), name_);
}

// CDI's convention for names: VENDOR-CLASS_DEVICE.json.
std::string CdiDevice::file() const {
    return fmt::format("{}/vrdma.io-device_{}.json", options_.directory, name_);
}

// In the order in which they are loaded: the first one is found there by no other path.
std::vector<std::string> CdiDevice::libraries() const {
    if (options_.driver.empty()) {
        return {};
    }
    const fs::path driver = fs::absolute(options_.driver);
    return {driver / "libvrdma.so.1", driver / "vrdma/libvrdma-run.so"};
}

std::optional<Problem> CdiDevice::prepare() const {
    if (!is_valid(name_)) {
        return problem(EINVAL,
                       "a device of containers must have a name of at most 15 characters "
                       "a-z, 0-9 and -, which begins and ends with none of the latter");
    }
    for (const std::string& library : libraries()) {
        if (::access(library.c_str(), R_OK) != 0) {
            return problem(errno, fmt::format("{}: {}; install vrdma-run, or give --driver",
                                              library, std::strerror(errno)));
        }
    }
    // Only its owner and root may enter the outer one, and any user of a container the inner one.
    constexpr mode_t only_owner = 0700;
    constexpr mode_t all = 0755;
    const Directory runtime{runtime_};
    const Directory outer{runtime, directories, only_owner};
    if (const Directory own{outer, name_.c_str(), all}; !own.valid()) {
        return failed(host_directory(), errno);
    }
    return std::nullopt;
}

// A library is mounted where it is on the host. So an image that has vrdma-run itself does not get
// it a second time.
nlohmann::json CdiDevice::specification(const std::string& addresses) const {
    const std::string directory = fmt::format("{}/{}", in_container, name_);
    std::vector<std::string> device{fmt::format("{}/{}.sock", directory, name_)};
    std::ranges::move(addresses_in(addresses), std::back_inserter(device));
    nlohmann::json edits{
        {"env", {fmt::format("VRDMA_RUN_DEVICES={}", fmt::join(device, ","))}},
        {"mounts", nlohmann::json::array({mount_of(host_directory(), directory)})}};
    const std::vector<std::string> loaded = libraries();
    for (const std::string& library : loaded) {
        edits["mounts"].push_back(mount_of(library, library));
    }
    if (!loaded.empty()) {
        edits["env"].push_back(fmt::format("LD_PRELOAD={}", fmt::join(loaded, ":")));
    }
    const nlohmann::json device_edits{{"name", name_}, {"containerEdits", std::move(edits)}};
    return {{"cdiVersion", "0.5.0"},
            {"kind", kind},
            {"devices", nlohmann::json::array({device_edits})}};
}

std::optional<Problem> CdiDevice::write(const std::string& addresses) const {
    constexpr int indent = 2;
    std::error_code error;
    fs::create_directories(options_.directory, error);
    if (error) {
        return failed(options_.directory, error.value());
    }
    return replace(file(), specification(addresses).dump(indent) + "\n");
}

void CdiDevice::remove() const {
    if (is_valid(name_)) {
        ::unlink(file().c_str());
        remove_directory();
    }
}

void CdiDevice::remove_directory() const {
    ::rmdir(host_directory().c_str());
}

} // namespace vrdma::ctl
