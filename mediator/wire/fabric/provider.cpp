// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/provider.h"

#include <netdb.h>
#include <rdma/fi_errno.h>
#include <sys/socket.h>

#include <cstring>

#include "mediator/base/errno.h"

namespace vrdma::wire::fabric {
namespace {

constexpr std::uint32_t api_version = FI_VERSION(1, 14);

// Asks for messages by connections, in order. Memory is registered if a provider wants that.
Result<Info> info_of(const std::string& provider, const Address& address, std::uint64_t flags) {
    if (!libfabric()) {
        return fail(std::errc::function_not_supported);
    }
    const Info hints{(*libfabric())->dupinfo(nullptr)};
    if (hints == nullptr) {
        return fail(std::errc::not_enough_memory);
    }
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = ::strdup(provider.c_str()); // freed with the hints
    fi_info* found = nullptr;
    const int error = (*libfabric())
                          ->getinfo(api_version, address.host.c_str(), address.service.c_str(),
                                    flags | FI_NUMERICHOST, hints.get(), &found);
    if (error != 0) {
        return fail_fabric(error);
    }
    return Info{found};
}

} // namespace

tl::unexpected<std::errc> fail_fabric(long error) {
    constexpr long first_of_libfabric = FI_EOTHER;
    const long number = -error;
    return fail(number > 0 && number < first_of_libfabric ? static_cast<std::errc>(number)
                                                          : std::errc::io_error);
}

Result<Info> info_to(const std::string& provider, const Address& address) {
    return info_of(provider, address, 0);
}

Result<SharedFabric> open_fabric(const fi_info& info) {
    fid_fabric* fabric = nullptr;
    if (const int error = (*libfabric())->fabric(info.fabric_attr, &fabric, nullptr); error != 0) {
        return fail_fabric(error);
    }
    return SharedFabric{fabric, CloseFid<fid_fabric>{}};
}

Result<EventQueue> EventQueue::open(SharedFabric fabric) {
    fi_eq_attr attributes{};
    attributes.wait_obj = FI_WAIT_FD;
    fid_eq* queue = nullptr;
    if (const int error = ::fi_eq_open(fabric.get(), &attributes, &queue, nullptr); error != 0) {
        return fail_fabric(error);
    }
    return EventQueue{std::move(fabric), Fid<fid_eq>{queue}};
}

int EventQueue::fd() const noexcept {
    int fd = -1;
    ::fi_control(&eq->fid, FI_GETWAIT, &fd);
    return fd;
}

bool EventQueue::quiet() const noexcept {
    fid* queue = &eq->fid;
    return ::fi_trywait(fabric.get(), &queue, 1) == 0;
}

Result<std::unique_ptr<Listener>> Listener::listen(const std::string& provider,
                                                   const Address& address) {
    auto info = info_of(provider, address, FI_SOURCE);
    if (!info) {
        return fail(info.error());
    }
    auto fabric = open_fabric(**info);
    if (!fabric) {
        return fail(fabric.error());
    }
    auto events = EventQueue::open(std::move(*fabric));
    if (!events) {
        return fail(events.error());
    }
    fid_pep* opened = nullptr;
    if (const int error = ::fi_passive_ep(events->fabric.get(), info->get(), &opened, nullptr);
        error != 0) {
        return fail_fabric(error);
    }
    Fid<fid_pep> endpoint{opened};
    int error = ::fi_pep_bind(opened, &events->eq->fid, 0);
    if (error == 0) {
        error = ::fi_listen(opened);
    }
    if (error != 0) {
        return fail_fabric(error);
    }
    return std::unique_ptr<Listener>{
        new Listener{std::move(*events), std::move(*info), std::move(endpoint)}};
}

Listener::~Listener() {
    constexpr int most = 1024; // requests that come meanwhile
    for (int i = 0; i < most; ++i) {
        const Info request = next();
        if (request == nullptr) {
            return;
        }
        refuse(request->handle);
    }
}

// A connection that failed before it was established is an error of the queue, and is ignored.
Info Listener::next() {
    constexpr int most = 64;
    for (int i = 0; i < most; ++i) {
        fi_eq_cm_entry entry{};
        std::uint32_t event = 0;
        const auto got = ::fi_eq_read(events_.eq.get(), &event, &entry, sizeof(entry), 0);
        if (got == -FI_EAVAIL) {
            fi_eq_err_entry error{};
            ::fi_eq_readerr(events_.eq.get(), &error, 0);
        } else if (got < 0) {
            if (events_.quiet()) {
                return {};
            }
        } else if (event == FI_CONNREQ) {
            return Info{entry.info};
        }
    }
    return {};
}

void Listener::refuse(fid_t handle) const noexcept {
    ::fi_reject(endpoint_.get(), handle, nullptr, 0);
}

std::string describe_address(const void* address, std::size_t size) {
    char host[NI_MAXHOST];
    char service[NI_MAXSERV];
    if (address == nullptr ||
        ::getnameinfo(static_cast<const sockaddr*>(address), static_cast<socklen_t>(size), host,
                      sizeof(host), service, sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV)) {
        return "an unknown address";
    }
    return std::string{host} + " port " + service;
}

} // namespace vrdma::wire::fabric
