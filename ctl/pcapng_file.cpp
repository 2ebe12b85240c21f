// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/pcapng_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace vrdma::ctl {
namespace {

enum Block : std::uint32_t { statistics = 5, packet = 6 };

constexpr std::size_t smallest_block = 12; // its type, its length, and its length again
constexpr std::size_t largest_block = 1 << 20;

template <typename T>
T number_at(std::string_view bytes, std::size_t at) {
    T number{};
    std::memcpy(&number, bytes.data() + at, sizeof(number));
    return number;
}

std::uint32_t length_of(std::string_view block) {
    return number_at<std::uint32_t>(block, sizeof(std::uint32_t));
}

// The number of frames that were dropped, by the statistics of an interface.
std::optional<std::uint64_t> drops_of(std::string_view block) {
    constexpr std::size_t first_option = 20;
    constexpr std::uint16_t dropped = 5;
    constexpr std::size_t header = 4;
    for (std::size_t at = first_option; at + header <= block.size();) {
        const auto code = number_at<std::uint16_t>(block, at);
        const auto length = number_at<std::uint16_t>(block, at + sizeof(code));
        if (code == dropped && at + header + sizeof(std::uint64_t) <= block.size()) {
            return number_at<std::uint64_t>(block, at + header);
        }
        at += header + (length + header - 1U) / header * header;
    }
    return std::nullopt;
}

} // namespace

PcapngFile::~PcapngFile() {
    if (fd_ > STDERR_FILENO) {
        ::close(fd_);
    }
}

bool PcapngFile::fail(int error) {
    reader_left_ = error == EPIPE;
    problem_ = (path_ == "-" ? "standard output" : path_) + ": " + std::strerror(error);
    return false;
}

bool PcapngFile::open() {
    constexpr mode_t only_mine = 0600; // it has others' data
    fd_ = path_ == "-" ? STDOUT_FILENO
                       : ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, only_mine);
    return fd_ >= 0 || fail(errno);
}

bool PcapngFile::add(std::string_view bytes) {
    if (fd_ < 0 && !open()) {
        return false;
    }
    rest_ += bytes;
    std::size_t whole = 0;
    while (rest_.size() - whole >= smallest_block) {
        const std::string_view left = std::string_view{rest_}.substr(whole);
        const std::size_t length = length_of(left);
        if (length < smallest_block || length > largest_block) {
            problem_ = "the answer is no pcapng";
            return false;
        }
        if (length > left.size()) {
            break;
        }
        count(left.substr(0, length));
        whole += length;
    }
    const bool written = write(std::string_view{rest_}.substr(0, whole));
    rest_.erase(0, whole);
    return written;
}

void PcapngFile::count(std::string_view block) {
    const auto type = number_at<std::uint32_t>(block, 0);
    frames_ += type == packet ? 1 : 0;
    if (type == statistics) {
        dropped_ = drops_of(block).value_or(dropped_);
    }
}

// If not all of it can be written, the file ends as before.
bool PcapngFile::write(std::string_view blocks) {
    const std::size_t all = blocks.size();
    while (!blocks.empty()) {
        const ssize_t written = ::write(fd_, blocks.data(), blocks.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            const int error = errno;
            static_cast<void>(path_ != "-" && ::ftruncate(fd_, static_cast<off_t>(size_)) != 0);
            return fail(error);
        }
        blocks.remove_prefix(static_cast<std::size_t>(written));
    }
    size_ += all;
    return true;
}

} // namespace vrdma::ctl
