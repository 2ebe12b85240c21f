// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The device of a client maps the client's file. While the client punches holes into the file, each
// access to a missing page waits for the kernel. The more mappings the file has, the longer this
// takes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "torture/hostile/neighbours.h"
#include "torture/hostile/queues.h"

namespace vrdma::torture::hostile {
namespace {

constexpr std::size_t region_size = 64 << 20;
constexpr unsigned views = 32;
constexpr std::uint32_t depth = 256;
constexpr std::uint32_t message = 8;

// The file and range to which the driver has moved the memory.
struct Place {
    int file = -1;
    off_t offset = 0;
    off_t length = 0;
};

int own_file(ino_t inode) {
    for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
        const int fd = std::stoi(entry.path().filename());
        struct stat status {};
        if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_ino == inode) {
            return fd;
        }
    }
    fail("the driver's file is not open");
}

// The driver maps the first and the last page separately.
Place find(std::uint64_t address) {
    std::ifstream maps{"/proc/self/maps"};
    Place place;
    ino_t file = 0;
    std::uint64_t next = address;
    for (std::string line; std::getline(maps, line);) {
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
        std::uint64_t offset = 0;
        ino_t inode = 0;
        std::string rights;
        std::string device;
        char dash = 0;
        std::istringstream words{line};
        words >> std::hex >> begin >> dash >> end >> rights >> offset >> device >> std::dec >>
            inode;
        if (inode == 0 || next < begin || end <= next) {
            continue;
        }
        const auto here = static_cast<off_t>(offset + next - begin);
        if (file == 0) {
            file = inode;
            place = {own_file(inode), here, 0};
        } else if (inode != file || here != place.offset + place.length) {
            break;
        }
        place.length += static_cast<off_t>(end - next);
        next = end;
    }
    require(file != 0, "the driver has moved no memory into a file");
    return place;
}

} // namespace

void hole_punching(const Seat& seat, Pace& pace) {
    const Device device{seat.device, seat.gid_index};
    const Pd pd = make_pd(device);
    const Region region{pd.get(), region_size};
    const Place place = find(region.address());
    const off_t length = std::min<off_t>(place.length, region_size);
    for (unsigned i = 0; i < views; ++i) {
        require(::mmap(nullptr, static_cast<std::size_t>(length), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_POPULATE, place.file, place.offset) != MAP_FAILED,
                "mmap");
    }
    const Cq cq = make_cq(device, depth);
    const Qp qp = connected_to_itself(device, pd.get(), cq.get(), depth);
    Random random = Random::of({seat.seed});
    std::uint32_t room = depth;
    while (true) {
        for (; room > 0; --room) {
            ibv_sge piece = region.piece(random.below(region_size - message), message);
            ibv_send_wr wr = write_request(piece, region, random.below(region_size - message));
            wr.send_flags = IBV_SEND_SIGNALED;
            require(post(qp.get(), wr), "a send queue has no room");
        }
        check(::fallocate(place.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place.offset,
                          length) != 0
                  ? errno
                  : 0,
              "fallocate");
        pace.rest();
        drain(cq.get(), [&](const ibv_wc&) { ++room; });
    }
}

} // namespace vrdma::torture::hostile
