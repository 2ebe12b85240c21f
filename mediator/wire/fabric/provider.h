// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What libfabric knows of a provider, and where others connect to us by it.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <memory>
#include <string>

#include "mediator/base/result.h"
#include "mediator/wire/fabric/address.h"

namespace vrdma::wire::fabric {

template <typename T>
struct CloseFid {
    void operator()(T* fid) const noexcept { ::fi_close(&fid->fid); }
};
template <typename T>
using Fid = std::unique_ptr<T, CloseFid<T>>;

struct FreeInfo {
    void operator()(fi_info* info) const noexcept { ::fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

using SharedFabric = std::shared_ptr<fid_fabric>;

// libfabric's errors are mostly errno's.
tl::unexpected<std::errc> fail_fabric(long error);

// How to connect to an address, by a provider of that name.
Result<Info> info_to(const std::string& provider, const Address& address);
Result<SharedFabric> open_fabric(const fi_info& info);

// The kind of queue of events that a thread sleeps on.
struct EventQueue {
    static Result<EventQueue> open(SharedFabric fabric);

    // To be watched; and what has to be true before a wait for it may find nothing.
    int fd() const noexcept;
    bool quiet() const noexcept;

    SharedFabric fabric;
    Fid<fid_eq> eq;
};

// Whoever connects to us.
class Listener {
  public:
    static Result<std::unique_ptr<Listener>> listen(const std::string& provider,
                                                    const Address& address);

    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    // Refuses all that have not been looked at: libfabric keeps a request until it has an answer.
    ~Listener();

    int fd() const noexcept { return events_.fd(); }
    // The next who wants to; none if there is nobody.
    Info next();
    // Whom no endpoint was opened for, by the handle in its request.
    void refuse(fid_t handle) const noexcept;
    const SharedFabric& fabric() const noexcept { return events_.fabric; }

  private:
    Listener(EventQueue events, Info info, Fid<fid_pep> endpoint)
        : events_{std::move(events)}, info_{std::move(info)}, endpoint_{std::move(endpoint)} {}

    EventQueue events_;
    Info info_;
    Fid<fid_pep> endpoint_;
};

// Of a socket, for people.
std::string describe_address(const void* address, std::size_t size);

} // namespace vrdma::wire::fabric
