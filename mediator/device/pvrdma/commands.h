// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Executes commands of a driver of PVRDMA, and finds the objects that its doorbells name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "mediator/verbs/objects.h"
#include "vrdma/pvrdma/queue.h"

namespace vrdma::pvrdma {

// Whether the driver waits for the command's response.
bool has_response(std::uint32_t command) noexcept;

class Commands {
  public:
    // UAR page 0 has this number in the guest's memory map. Completions go to `events`. The objects
    // must outlive it.
    Commands(verbs::Objects& objects, std::uint64_t uar_frame, EqId events);

    // Validates and runs a command that was copied out of guest memory. Returns its response, which
    // has an error or the command's number; or nothing after one step of several, and then the
    // caller runs the same command again.
    std::optional<pvrdma_response> run(const pvrdma_request& request);

    struct QpHandle {
        Qpn qpn;
        UcontextId ucontext; // its doorbell page
        std::uint32_t slot;
    };
    // The object of a doorbell on that UAR page. nullptr: its user context has no such object.
    const QpHandle* find_qp(std::uint64_t uar, std::uint32_t handle) const;
    bool has_cq(std::uint64_t uar, std::uint32_t handle) const;

    // The user contexts by their UAR pages. The handles of QPs are saved with the QPs.
    struct Page {
        std::uint32_t number;
        std::uint32_t ucontext;
    };
    std::vector<Page> pages() const;
    // Only for a new one, whose objects have been restored. EINVAL: the pages or the handles of the
    // objects cannot be those of a driver.
    Result<> restore(std::span<const Page> pages);

  private:
    struct Command;
    using Handler = Result<> (Commands::*)(const pvrdma_request&, pvrdma_response&);
    static const Command* find(std::uint32_t command) noexcept;
    friend bool has_response(std::uint32_t command) noexcept;

    Result<> query_port(const pvrdma_request& request, pvrdma_response& response);
    Result<> query_pkey(const pvrdma_request& request, pvrdma_response& response);
    Result<> create_pd(const pvrdma_request& request, pvrdma_response& response);
    Result<> destroy_pd(const pvrdma_request& request, pvrdma_response& response);
    Result<> create_mr(const pvrdma_request& request, pvrdma_response& response);
    Result<> destroy_mr(const pvrdma_request& request, pvrdma_response& response);
    Result<> create_cq(const pvrdma_request& request, pvrdma_response& response);
    Result<> destroy_cq(const pvrdma_request& request, pvrdma_response& response);
    Result<> create_qp(const pvrdma_request& request, pvrdma_response& response);
    Result<> modify_qp(const pvrdma_request& request, pvrdma_response& response);
    Result<> query_qp(const pvrdma_request& request, pvrdma_response& response);
    Result<> destroy_qp(const pvrdma_request& request, pvrdma_response& response);
    Result<> create_uc(const pvrdma_request& request, pvrdma_response& response);
    Result<> destroy_uc(const pvrdma_request& request, pvrdma_response& response);
    Result<> create_bind(const pvrdma_request& request, pvrdma_response& response);
    Result<> destroy_bind(const pvrdma_request& request, pvrdma_response& response);
    Result<> create_srq(const pvrdma_request& request, pvrdma_response& response);
    Result<> modify_srq(const pvrdma_request& request, pvrdma_response& response);
    Result<> query_srq(const pvrdma_request& request, pvrdma_response& response);
    Result<> destroy_srq(const pvrdma_request& request, pvrdma_response& response);

    Result<Key> create_region(const pvrdma_create_mr& cmd);
    Result<vrdma_cmd_create_qp> qp_command(const pvrdma_create_qp& cmd);
    Result<verbs::NewQp> add_qp(const vrdma_cmd_create_qp& cmd, std::uint32_t& handle);
    std::optional<UcontextId> ucontext_of(std::uint64_t uar) const;
    Result<> restore_handles();
    Result<Qpn> qpn_of(std::uint32_t handle) const;

    verbs::Objects& objects_;
    const std::uint64_t uar_frame_;
    const EqId events_;
    std::vector<std::optional<UcontextId>> ucontexts_; // by their UAR page
    verbs::DenseIds qp_handles_;
    std::unordered_map<std::uint32_t, QpHandle> qps_;
};

} // namespace vrdma::pvrdma
