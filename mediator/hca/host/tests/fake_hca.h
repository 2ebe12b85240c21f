// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An HCA behind a libibverbs of a test's own. Its QPs reach each other by their numbers. It
// executes a message when it is posted, or when its peer can take it, on the test's thread. Pages
// that are registered are mapped a second time, as pinned pages stay when a mapping ends.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mediator/base/event_fd.h"
#include "mediator/base/gid.h"
#include "mediator/hca/host/libibverbs.h"

namespace vrdma::test {

class FakeHca {
  public:
    FakeHca();
    FakeHca(const FakeHca&) = delete;
    FakeHca& operator=(const FakeHca&) = delete;
    ~FakeHca();

    // The functions of the one that exists.
    static const hca::host::Libibverbs& library();
    static constexpr char name[] = "fake0";

    void add_gid(const Gid& gid) { gids_.push_back(gid); }
    void set_max_inline(std::uint32_t bytes) { max_inline_ = bytes; }
    // How many objects there are.
    std::size_t qps() const { return qps_.size(); }
    std::size_t mrs() const { return mrs_.size(); }
    std::size_t pds() const { return pds_; }
    std::optional<ibv_qp_state> state_of(std::uint32_t qpn) const;
    // A QP of its own, as a program of another host has it: in RTS, connected to that one.
    ibv_qp* connect_native(ibv_pd* pd, ibv_cq* cq, std::uint32_t peer);
    // What the next message is answered with.
    void fail_next(ibv_wc_status status) { next_status_ = status; }
    // Reports what never happened.
    void inject(const ibv_wc& wc);
    // The name of the last send, or receive, that was posted.
    std::uint64_t last_wr_id() const { return last_wr_id_; }
    std::uint64_t last_receive() const { return last_receive_; }
    void report(ibv_event_type event, std::uint32_t qpn);
    // poll_cq() fails from now on.
    void break_down() { broken_ = true; }

  private:
    struct Mr : ibv_mr {
        std::byte* pinned; // its pages
        std::size_t size;  // of them
        std::uint64_t iova;
        unsigned access;
        std::byte* at(std::uint64_t address) const { return first + (address - iova); }
        std::byte* first;
    };
    struct Recv {
        std::uint64_t wr_id;
        std::vector<ibv_sge> list;
    };
    struct Send {
        ibv_send_wr wr;
        std::vector<ibv_sge> list;
        std::vector<std::byte> inline_data;
    };
    struct Qp : ibv_qp {
        ibv_qp_attr attr;
        std::uint32_t max_inline;
        std::deque<Recv> receives;
        std::deque<Send> waiting; // for a receiver that is ready
    };
    struct Cq : ibv_cq {
        std::deque<ibv_wc> completions;
        bool armed;
    };
    struct Channel : ibv_comp_channel {
        EventFd signal;
    };

    static FakeHca& of(ibv_context* context);
    static int poll(ibv_cq* cq, int count, ibv_wc* wc);
    static int arm(ibv_cq* cq, int solicited_only);
    static int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
    static int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);

    void complete(Cq& cq, const ibv_wc& wc);
    void complete(Qp& qp, const ibv_send_wr& wr, ibv_wc_status status);
    // Returns nothing if the peer is not ready.
    std::optional<ibv_wc_status> execute(Qp& from, Send& send);
    std::optional<ibv_wc_status> deliver(Qp& to, const Send& send, std::span<const std::byte> data,
                                         const Qp& from);
    ibv_wc_status access(Qp& peer, Send& send, std::vector<std::byte>& data);
    bool gather(const Qp& qp, const Send& send, std::vector<std::byte>& data) const;
    bool scatter(const Qp& qp, std::span<const ibv_sge> list,
                 std::span<const std::byte> data) const;
    std::byte* find(const Qp& qp, std::uint32_t key, std::uint64_t address, std::size_t length,
                    unsigned access) const;
    void run(Qp& qp);
    Qp* find(std::uint32_t qpn);

    friend struct FakeFunctions;

    ibv_device device_{};
    verbs_context context_{};
    std::vector<Gid> gids_;
    std::uint32_t max_inline_ = 256;
    std::uint32_t next_ = 0x11;
    std::map<std::uint32_t, std::unique_ptr<Qp>> qps_;
    std::map<std::uint32_t, std::unique_ptr<Mr>> mrs_; // by key
    std::vector<std::unique_ptr<Cq>> cqs_;
    std::size_t pds_ = 0;
    std::deque<ibv_async_event> events_;
    EventFd async_ = *EventFd::create();
    std::optional<ibv_wc_status> next_status_;
    std::uint64_t last_wr_id_ = 0;
    std::uint64_t last_receive_ = 0;
    bool broken_ = false;
};

} // namespace vrdma::test
