// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/device.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace vrdma::torture {
namespace {

// If only one process can use the device, a killed process may not have released it yet.
constexpr std::chrono::seconds open_patience{10};
constexpr std::uint16_t default_pkey = 0xffff;

ibv_device* find(const std::string& name, ibv_device** list) {
    for (; *list != nullptr; ++list) {
        if (name == ::ibv_get_device_name(*list)) {
            return *list;
        }
    }
    fail("no device " + name);
}

ibv_context* open(const std::string& name) {
    ibv_device** const list = made(::ibv_get_device_list(nullptr), "ibv_get_device_list");
    ibv_device* const device = find(name, list);
    ibv_context* context = nullptr;
    for (const auto end = std::chrono::steady_clock::now() + open_patience;
         context == nullptr && std::chrono::steady_clock::now() < end;) {
        context = ::ibv_open_device(device);
    }
    ::ibv_free_device_list(list);
    return made(context, "ibv_open_device");
}

} // namespace

Device::Device(const std::string& name, int gid_index, OnEvent on_event)
    : context_{open(name)},
      gid_index_{gid_index},
      on_event_{std::move(on_event)},
      stop_{::eventfd(0, EFD_CLOEXEC)} {
    check(::ibv_query_gid(context(), port, gid_index, &gid_) != 0 ? errno : 0, "ibv_query_gid");
    const int index = ::ibv_get_pkey_index(context(), port, htobe16(default_pkey));
    require(index >= 0, "ibv_get_pkey_index does not find the default P_Key");
    pkey_index_ = static_cast<std::uint16_t>(index);
    ::fcntl(context()->async_fd, F_SETFL, O_NONBLOCK);
    events_ = std::thread{[this] { take_events(); }};
}

Device::~Device() {
    ::eventfd_write(stop_, 1);
    events_.join();
    ::close(stop_);
}

void Device::take_events() const {
    std::array<pollfd, 2> descriptors{{{context()->async_fd, POLLIN, 0}, {stop_, POLLIN, 0}}};
    while ((descriptors[1].revents & POLLIN) == 0) {
        ::poll(descriptors.data(), descriptors.size(), -1);
        ibv_async_event event;
        if (::ibv_get_async_event(context(), &event) == 0) {
            if (on_event_) {
                on_event_(event);
            }
            ::ibv_ack_async_event(&event);
        }
    }
}

ibv_ah_attr Device::address(const ibv_gid& to) const {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.grh.dgid = to;
    attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
    attr.grh.hop_limit = 64;
    attr.port_num = port;
    return attr;
}

Memory::Memory(std::size_t size) : start_{nullptr, Unmap{size}} {
    void* const start =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(start == MAP_FAILED ? errno : 0, "mmap");
    start_.reset(static_cast<std::byte*>(start));
}

void Memory::Unmap::operator()(std::byte* start) const {
    ::munmap(start, size);
}

Arena::Arena(const Device& device)
    : memory_{slots * stride}, pd_{made(::ibv_alloc_pd(device.context()), "ibv_alloc_pd")} {
    register_again();
    rkey_of_none_ = ~regions_[0]->rkey;
}

Mr Arena::registered(int access) const {
    return Mr{made(::ibv_reg_mr(pd(), memory_.data(), memory_.size(), access), "ibv_reg_mr")};
}

void Arena::register_again() {
    drop_window();
    for (Mr& region : regions_) {
        region = registered(all_access | IBV_ACCESS_MW_BIND);
    }
    without_rights_ = registered(0);
}

void Arena::drop_window() {
    if (window_) {
        rkey_of_none_ = window_->rkey;
        window_.reset();
    }
}

void Arena::bind_window(ibv_qp* qp) {
    drop_window();
    window_.reset(made(ibv_alloc_mw(pd(), IBV_MW_TYPE_1), "ibv_alloc_mw"));
    ibv_mw_bind bind{};
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info = whole(all_access & ~IBV_ACCESS_LOCAL_WRITE);
    check(ibv_bind_mw(qp, window_.get(), &bind), "ibv_bind_mw");
}

std::vector<ibv_sge> Arena::cut(Random& random, const std::byte* start, std::uint32_t length,
                                std::uint32_t pieces) const {
    std::vector<std::uint32_t> ends{length};
    for (std::uint32_t more = random.below(pieces); more > 0; --more) {
        ends.push_back(random.below(length + 1));
    }
    std::ranges::sort(ends);
    std::vector<ibv_sge> list;
    std::uint32_t from = 0;
    for (const std::uint32_t end : ends) {
        list.push_back({reinterpret_cast<std::uintptr_t>(start) + from, end - from, lkey(random)});
        from = end;
    }
    return list;
}

ibv_mw_bind_info Arena::whole(int access) const {
    return {.mr = regions_[0].get(),
            .addr = reinterpret_cast<std::uintptr_t>(memory_.data()),
            .length = memory_.size(),
            .mw_access_flags = static_cast<unsigned>(access)};
}

Arena::Address Arena::address() const {
    return {reinterpret_cast<std::uintptr_t>(memory_.data()),
            window_ ? window_->rkey : regions_[0]->rkey, without_rights_->rkey, rkey_of_none_};
}

} // namespace vrdma::torture
