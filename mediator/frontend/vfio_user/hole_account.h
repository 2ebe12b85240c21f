// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How many pages a device has made by touching holes in its clients' files. The kernel charges a
// page to vrdmad until the file loses the page, or is gone itself. So the page counts until then,
// also when the client is gone, because a client may have kept the file.
//
// A file cannot hold more such pages than it has pages. If a file has no name (memfd), the
// kernel reports its end (inotify(7)), and vrdmad need not keep it open. Any other file is looked
// at again only when it is mapped again. Until then its pages count.
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
        std::uint64_t made = 0; // pages, an upper bound
        int watch = none;
        bool unnamed = false;
        bool looked_at = false; // for callers that bound() many files
    };
    using Files = std::map<std::pair<dev_t, ino_t>, File>;

    // How many files that are not mapped any more are kept. The pages of further ones count for
    // ever.
    static constexpr std::size_t most_left = 256;

    explicit HoleAccount(std::uint64_t most) : most_{most} {}

    bool has_room() const noexcept { return used_ < most_; }
    std::uint64_t used() const noexcept { return used_; }

    // Returns how many pages a file has. Waits for a process that works on the file.
    static std::uint64_t pages_of(int fd) noexcept;

    // A file is mapped once more, or once less. `pages` is how many pages it has then.
    Files::iterator open(const struct stat& status);
    void close(Files::iterator file, int fd, std::uint64_t pages) noexcept;

    // These may be called in a signal handler. note(): a page was made. bound(): the file has this
    // many pages.
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
    std::size_t left_ = 0; // how many of them are not mapped
    UniqueFd notices_;
};

} // namespace vrdma::vfio_user
