// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A provider as libfabric describes it, and a listener at which others connect to us by it.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <memory>
#include <string>

#include "mediator/base/result.h"
#include "mediator/wire/fabric/address.h"
#include "mediator/wire/fabric/libfabric.h"

namespace vrdma::wire::fabric {

template <typename T>
struct CloseFid {
    void operator()(T* fid) const noexcept { ::fi_close(&fid->fid); }
};
template <typename T>
using Fid = std::unique_ptr<T, CloseFid<T>>;

struct FreeInfo {
    void operator()(fi_info* info) const noexcept { (*libfabric())->freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

using SharedFabric = std::shared_ptr<fid_fabric>;

// Most of libfabric's errors are errno values.
tl::unexpected<std::errc> fail_fabric(long error);

// Describes a connection to an address, by a provider of that name.
Result<Info> info_to(const std::string& provider, const Address& address);
Result<SharedFabric> open_fabric(const fi_info& info);

// A queue of events on which a thread can sleep.
struct EventQueue {
    static Result<EventQueue> open(SharedFabric fabric);

    // fd() can be watched. A thread must not wait for it unless quiet() is true, or it may miss
    // events.
    int fd() const noexcept;
    bool quiet() const noexcept;

    SharedFabric fabric;
    Fid<fid_eq> eq;
};

// Listens for connections to us.
class Listener {
  public:
    static Result<std::unique_ptr<Listener>> listen(const std::string& provider,
                                                    const Address& address);

    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    // Refuses all requests that have not been looked at: libfabric keeps a request until it has an
    // answer.
    ~Listener();

    int fd() const noexcept { return events_.fd(); }
    // Returns the next request to connect; none if there is none.
    Info next();
    // Refuses a request for which no endpoint was opened, by its handle.
    void refuse(fid_t handle) const noexcept;
    const SharedFabric& fabric() const noexcept { return events_.fabric; }

  private:
    Listener(EventQueue events, Info info, Fid<fid_pep> endpoint)
        : events_{std::move(events)}, info_{std::move(info)}, endpoint_{std::move(endpoint)} {}

    EventQueue events_;
    Info info_;
    Fid<fid_pep> endpoint_;
};

// Describes an address of a socket, for people.
std::string describe_address(const void* address, std::size_t size);

} // namespace vrdma::wire::fabric
