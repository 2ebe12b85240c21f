// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Commands of random bytes, and doorbells of random bytes. Most commands have a page list and
// handles that may be right. If the device gives up, it is reset.
#include <algorithm>
#include <cstring>

#include "torture/hostile/function.h"
#include "torture/hostile/neighbours.h"

namespace vrdma::torture::hostile {
namespace {

constexpr std::uint64_t memory = 16 << 20;
constexpr unsigned commands_at_once = 16;

class Garbage {
  public:
    explicit Garbage(const Seat& seat)
        : function_{seat.socket, memory}, random_{Random::of({seat.seed})} {
        fill(std::as_writable_bytes(
            std::span{function_.at<std::uint64_t>(lists_), VRDMA_PAGE_LIST_ENTRIES}));
    }

    void throw_one() {
        vrdma_admin_cmd command{};
        if (random_.chance(30)) {
            fill(std::as_writable_bytes(std::span{command.bytes}));
        }
        if (random_.chance(70)) {
            command.create_cq.pages = pages();
        }
        for (unsigned left = random_.below(8); left > 0; --left) {
            const auto word = static_cast<std::uint32_t>(plausible());
            std::memcpy(&command.bytes[random_.below(30) * sizeof(word)], &word, sizeof(word));
        }
        function_.execute(random_.below(VRDMA_ADMIN_OPCODE_END + 2), command);
    }
    void ring() {
        auto& page = function_.doorbells()[random_.below(
            static_cast<std::uint32_t>(function_.doorbells().size()))];
        fill(std::as_writable_bytes(std::span{&page, 1}));
    }
    void recover() {
        if (random_.chance(5) ||
            (function_.read_register(VRDMA_REG_STATUS) & VRDMA_STATUS_ENABLED) == 0) {
            function_.reset();
            function_.enable();
        }
    }

  private:
    vrdma_page_list pages() {
        vrdma_page_list list{};
        list.root = random_.chance(80) ? lists_ : plausible();
        list.count = random_.length(VRDMA_PAGE_LIST_ENTRIES);
        list.page_shift = static_cast<std::uint8_t>(VRDMA_PAGE_SHIFT + random_.length(20));
        list.levels = static_cast<std::uint8_t>(random_.below(4));
        return list;
    }
    std::uint64_t plausible() {
        switch (random_.below(4)) {
            case 0:
                return random_.below(16);
            case 1:
                return 1ull << random_.below(64);
            case 2:
                return std::uint64_t{random_.below(memory / VRDMA_PAGE_SIZE)} * VRDMA_PAGE_SIZE;
            default:
                return random_.next();
        }
    }
    void fill(std::span<std::byte> bytes) {
        std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random_.next()); });
    }

    Function function_;
    Random random_;
    const std::uint64_t lists_ = function_.allocate(VRDMA_PAGE_SIZE);
};

} // namespace

void garbage_commands(const Seat& seat, Pace& pace) {
    Garbage garbage{seat};
    while (true) {
        for (unsigned i = 0; i < commands_at_once; ++i) {
            garbage.recover();
            garbage.throw_one();
        }
        garbage.ring();
        pace.rest();
    }
}

} // namespace vrdma::torture::hostile
