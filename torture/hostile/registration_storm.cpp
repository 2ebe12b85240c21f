// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Registers and deregisters a region of the largest size that a page list can have. No two of its
// pages are neighbours.
#include <vector>

#include "torture/hostile/function.h"
#include "torture/hostile/neighbours.h"

namespace vrdma::torture::hostile {
namespace {

constexpr std::uint32_t most_blocks = 1 << 20;
constexpr std::uint64_t memory = 64 << 20;
constexpr std::uint64_t different_pages = 4096;

std::vector<std::uint64_t> pages_apart(std::uint64_t first) {
    std::vector<std::uint64_t> pages;
    for (std::uint32_t i = 0; i < most_blocks; ++i) {
        pages.push_back(first + i % different_pages * 2 * VRDMA_PAGE_SIZE);
    }
    return pages;
}

// Tries to register a page list at an address where the client has no memory. If the device has to
// look for such pages in later regions, this makes their deregistration slower.
void register_nothing(Function& function, vrdma_admin_cmd registration) {
    registration.reg_mr.pages = {
        .root = 2 * memory, .count = 2, .page_shift = VRDMA_PAGE_SHIFT, .levels = 1, .reserved = 0};
    registration.reg_mr.length = std::uint64_t{2} * VRDMA_PAGE_SIZE;
    static_cast<void>(function.execute(VRDMA_ADMIN_REG_MR, registration));
}

} // namespace

void registration_storm(const Seat& seat, Pace& pace) {
    Function function{seat.socket, memory};
    const std::uint64_t first = function.allocate(2 * different_pages * VRDMA_PAGE_SIZE);
    vrdma_admin_cmd registration{};
    registration.reg_mr.pd = function.create(VRDMA_ADMIN_ALLOC_PD);
    registration.reg_mr.access_flags = IBV_ACCESS_LOCAL_WRITE;
    register_nothing(function, registration);
    registration.reg_mr.pages = function.scattered(pages_apart(first));
    registration.reg_mr.length = std::uint64_t{most_blocks} * VRDMA_PAGE_SIZE;
    while (true) {
        vrdma_admin_cmd deregistration{};
        deregistration.handle.handle = function.create(VRDMA_ADMIN_REG_MR, registration);
        pace.rest();
        const vrdma_admin_cpl gone = function.execute(VRDMA_ADMIN_DEREG_MR, deregistration);
        check(static_cast<int>(gone.status), "DEREG_MR");
    }
}

} // namespace vrdma::torture::hostile
