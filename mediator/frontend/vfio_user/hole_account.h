// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How many pages a device has made in files of its clients, where these had none. They are charged
// to us until the file has them no more, or is gone itself, so they count as long, also when the
// client is gone: it may have kept the file.
//
// What a file has at all bounds what we have made in it. When a file that nobody can have by a
// name (memfd) ends, the kernel tells us (inotify(7)), without our keeping it. Of another file that
// is not mapped any more we hear only when it is mapped again: until then its pages count.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "mediator/base/unique_fd.h"

struct stat;

namespace vrdma::vfio_user {

class HoleAccount {
  public:
    static constexpr int none = -1;

    struct File {
        std::size_t maps = 0;
        std::uint64_t made = 0; // pages, at most
        int watch = none;
        bool unnamed = false;
        bool looked_at = false; // whoever bounds many sets it
    };
    using Files = std::map<std::pair<dev_t, ino_t>, File>;

    // Files that are not mapped any more; what was made in others counts for ever.
    static constexpr std::size_t most_left = 256;

    explicit HoleAccount(std::uint64_t most) : most_{most} {}

    bool has_room() const noexcept { return used_ < most_; }
    std::uint64_t used() const noexcept { return used_; }

    // How many pages a file has. To ask waits for whoever has hold of the file.
    static std::uint64_t pages_of(int fd) noexcept;

    // A file is mapped once more, or once less: then it has so many pages.
    Files::iterator open(const struct stat& status);
    void close(Files::iterator file, int fd, std::uint64_t pages) noexcept;

    // For a signal handler: a page was made; and the file has so many.
    void note(File& file) noexcept {
        ++file.made;
        ++used_;
    }
    void bound(File& file, std::uint64_t pages) noexcept;

  private:
    void settle() noexcept;
    void watch(File& file, int fd) noexcept;
    void forget(Files::iterator file) noexcept;

    const std::uint64_t most_;
    std::uint64_t used_ = 0;
    Files files_;
    std::size_t left_ = 0; // of these, not mapped
    UniqueFd notices_;
};

} // namespace vrdma::vfio_user
