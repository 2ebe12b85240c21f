// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// RC over a network that loses, repeats, reorders, delays and spoils packets. All data must be
// exact, and each message must arrive once and in order. All randomness is seeded.
#include <gtest/gtest.h>

#include <random>

#include "mediator/hca/soft/soft_hca.h"
#include "mediator/hca/soft/transport/roce/tests/cable.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::test {
namespace {

// Frames per thousand.
struct Climate {
    const char* name;
    unsigned lost = 0;
    unsigned repeated = 0;
    unsigned reordered = 0;
    unsigned spoiled = 0;
    unsigned delayed = 0;
};

// No two consecutive frames are lost or spoiled. Otherwise a limit of retries would mean nothing.
class BadWeather {
  public:
    BadWeather(const Climate& climate, unsigned seed) : climate_{climate}, random_{seed} {}

    void operator()(const Frame& frame, std::deque<Frame>& arriving) {
        const bool spared = std::exchange(struck_, false);
        if (!spared && happens(climate_.lost)) {
            struck_ = true;
        } else if (!spared && happens(climate_.spoiled)) {
            struck_ = true;
            arriving.push_back(frame);
            arriving.back()[random_() % frame.size()] ^= std::byte{1};
        } else if (happens(climate_.delayed)) {
            late_.push_back(frame);
        } else if (happens(climate_.reordered) && !arriving.empty()) {
            arriving.insert(arriving.end() - 1, frame);
        } else {
            arriving.push_back(frame);
        }
        if (happens(climate_.repeated)) {
            arriving.push_back(frame);
        }
        if (late_.size() > most_late) {
            arriving.push_back(late_.front());
            late_.pop_front();
        }
    }

  private:
    static constexpr std::size_t most_late = 3;

    bool happens(unsigned of_thousand) { return random_() % 1000 < of_thousand; }

    Climate climate_;
    std::mt19937 random_;
    bool struck_ = false;
    std::deque<Frame> late_;
};

class TwoHosts {
  protected:
    static constexpr char cable[] = "cable";

    TwoHosts(Cable::Weather there, Cable::Weather back)
        : TwoHosts{Cable::lay(std::move(there), std::move(back))} {}

    void connect_pair(std::uint8_t timeout, std::uint8_t retry_cnt) {
        const auto up = [&](Guest& guest, const GuestQp& qp, const Guest& peer,
                            const GuestQp& peer_qp) {
            move_to_init(guest, qp);
            vrdma_qp_attr attr = rtr_attr(peer.gid(), peer_qp.id());
            attr.path_mtu = IBV_MTU_1024;
            ASSERT_TRUE(guest.slice().modify_qp(qp.id(), attr));
            attr = rts_attr();
            attr.timeout = timeout;
            attr.retry_cnt = retry_cnt;
            ASSERT_TRUE(guest.slice().modify_qp(qp.id(), attr));
        };
        up(a_, a_qp_, b_, b_qp_);
        up(b_, b_qp_, a_, a_qp_);
    }

    Completion wait(GuestCq& cq) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        while (std::chrono::steady_clock::now() < limit) {
            if (const auto completion = cq.poll()) {
                return *completion;
            }
            a_hca_->poll();
            b_hca_->poll();
        }
        ADD_FAILURE() << "no completion";
        return {.status = IBV_WC_GENERAL_ERR};
    }

  private:
    using Ends = std::pair<std::unique_ptr<wire::Uplink>, std::unique_ptr<wire::Uplink>>;

    explicit TwoHosts(Ends ends)
        : a_hca_{make_hca(std::move(ends.first))}, b_hca_{make_hca(std::move(ends.second))} {}

    static std::unique_ptr<hca::soft::SoftHca> make_hca(std::unique_ptr<wire::Uplink> end) {
        hca::soft::Config config;
        config.threads = false;
        auto hca = std::move(*hca::soft::SoftHca::create(config));
        EXPECT_TRUE(hca->add_uplink(cable, std::move(end)));
        hca->with_port(cable, [](hca::soft::roce::Port& port) {
            for (const std::uint8_t n : {1, 2}) {
                port.set_neighbour(ipv4_gid(n), wire::Mac{2, 0, 0, 0, 0, n});
            }
        });
        return hca;
    }

  protected:
    std::unique_ptr<hca::soft::SoftHca> a_hca_;
    std::unique_ptr<hca::soft::SoftHca> b_hca_;
    Guest a_{*a_hca_, "a", ipv4_gid(1), Guest::default_memory(), {}, cable};
    Guest b_{*b_hca_, "b", ipv4_gid(2), Guest::default_memory(), {}, cable};
    GuestCq a_cq_ = a_.create_cq();
    GuestCq b_cq_ = b_.create_cq();
    GuestQp a_qp_ = a_.create_qp(a_cq_, a_cq_);
    GuestQp b_qp_ = b_.create_qp(b_cq_, b_cq_);
    MemoryRegion a_mr_ = a_.register_mr(1 << 16);
    MemoryRegion b_mr_ = b_.register_mr(1 << 17);
};

// Messages of all kinds, several of them under way at a time. The n-th is of kind n % 4.
class Traffic : public TwoHosts {
  protected:
    static constexpr std::uint32_t slot = 4096;
    static constexpr std::uint32_t under_way = 8;
    static constexpr std::uint64_t receives = 0; // places in b's region
    static constexpr std::uint64_t written = 1 << 15;
    static constexpr std::uint64_t readable = 1 << 16;
    static constexpr std::uint64_t counter = readable + (1 << 15);

    Traffic(Cable::Weather there, Cable::Weather back)
        : TwoHosts{std::move(there), std::move(back)} {
        connect_pair(10, 7);
        b_mr_.buffer.write(readable, Buffer::pattern(77, 1 << 15));
        for (std::uint32_t i = 0; i < under_way; ++i) {
            post_receive(i);
        }
    }

    void post_receive(std::uint32_t n) {
        const vrdma_sge to = b_mr_.sge(receives + std::uint64_t{n % under_way} * slot, slot);
        b_qp_.post_recv({&to, 1});
    }
    // Lengths of up to several packets, and sometimes 0.
    static std::uint32_t length_of(std::uint32_t n) { return n * 977 % (slot - 1); }
    static std::uint64_t local(std::uint32_t n) { return std::uint64_t{n % under_way} * slot; }

    void post(std::uint32_t n) {
        constexpr vrdma_sq_opcode opcodes[] = {VRDMA_SQ_SEND, VRDMA_SQ_RDMA_WRITE,
                                               VRDMA_SQ_RDMA_READ, VRDMA_SQ_ATOMIC_FETCH_AND_ADD};
        const std::uint64_t targets[] = {0, written + local(n), readable + n % slot, counter};
        const std::uint32_t kind = n % 4;
        const vrdma_sge sge = a_mr_.sge(local(n), kind == 3 ? 8 : length_of(n));
        a_mr_.buffer.write(local(n), Buffer::pattern(static_cast<std::uint8_t>(n), slot));
        a_qp_.post_send({.opcode = opcodes[kind],
                         .sges = {&sge, 1},
                         .rkey = kind == 0 ? Key{} : b_mr_.key,
                         .raddr = kind == 0 ? 0 : b_mr_.start + targets[kind],
                         .compare_add = 1});
    }

    void check(std::uint32_t n) {
        ASSERT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS) << n;
        const auto sent = Buffer::pattern(static_cast<std::uint8_t>(n), length_of(n));
        switch (n % 4) {
            case 0: {
                ASSERT_EQ(wait(b_cq_).byte_len, length_of(n));
                const std::uint32_t receive = n / 4;
                EXPECT_EQ(b_mr_.buffer.read(receives + std::uint64_t{receive % under_way} * slot,
                                            length_of(n)),
                          sent);
                return post_receive(receive);
            }
            case 1:
                EXPECT_EQ(b_mr_.buffer.read(written + local(n), length_of(n)), sent);
                return;
            case 2:
                EXPECT_EQ(a_mr_.buffer.read(local(n), length_of(n)),
                          b_mr_.buffer.read(readable + n % slot, length_of(n)));
                return;
            default:
                EXPECT_EQ(*a_mr_.buffer.at<std::uint64_t>(local(n)), n / 4);
        }
    }
};

class RoceLoss : public Traffic, public ::testing::TestWithParam<Climate> {
  protected:
    RoceLoss() : Traffic{BadWeather{GetParam(), 1}, BadWeather{GetParam(), 2}} {}
};

// Send, write, read and add, hundreds of times; expect each message once, complete and in order.
TEST_P(RoceLoss, NobodyNotices) {
    constexpr std::uint32_t messages = 400;
    for (std::uint32_t n = 0; n < messages + under_way; ++n) {
        if (n >= under_way) {
            check(n - under_way);
            ASSERT_FALSE(HasFatalFailure());
        }
        if (n < messages) {
            post(n);
        }
    }
    EXPECT_FALSE(a_cq_.poll());
    EXPECT_FALSE(b_cq_.poll());
    EXPECT_EQ(*b_mr_.buffer.at<std::uint64_t>(counter), messages / 4);
}

INSTANTIATE_TEST_SUITE_P(, RoceLoss,
                         ::testing::Values(Climate{.name = "fair"},
                                           Climate{.name = "loss_1", .lost = 10},
                                           Climate{.name = "loss_5", .lost = 50},
                                           Climate{.name = "loss_20", .lost = 250},
                                           Climate{.name = "repeated", .repeated = 100},
                                           Climate{.name = "reordered", .reordered = 50},
                                           Climate{.name = "spoiled", .spoiled = 50},
                                           Climate{.name = "delayed", .delayed = 30},
                                           Climate{"all", 20, 20, 20, 20, 20}),
                         [](const auto& info) { return std::string{info.param.name}; });

// Guests migrate between hosts while messages are under way.
class RoceReunion : public Traffic, public ::testing::Test {
  protected:
    RoceReunion() : Traffic{{}, {}} {}

    // Exchanges some messages, and calls `happens` in the middle of them.
    template <typename Happens>
    void exchange(Happens&& happens) {
        for (std::uint32_t n = 0; n < under_way; ++n) {
            post(next_ + n);
        }
        for (std::uint32_t i = random_() % most_rounds; i > 0; --i) {
            a_hca_->poll();
            b_hca_->poll();
        }
        happens();
        for (std::uint32_t n = 0; n < under_way; ++n) {
            check(next_ + n);
        }
        next_ += under_way;
    }

    void travel(Guest& guest, hca::Hca& there, hca::Hca& back) {
        constexpr int journeys = 40;
        for (int i = 0; i < journeys && !HasFatalFailure(); ++i) {
            exchange([&] { guest.migrate(i % 2 == 0 ? there : back); });
            exchange([] {});
        }
        EXPECT_EQ(*b_mr_.buffer.at<std::uint64_t>(counter), next_ / 4);
    }

    static constexpr std::uint32_t most_rounds = 12;

    std::uint32_t next_ = 0;
    std::mt19937 random_{5}; // NOLINT(cert-msc32-c,cert-msc51-cpp): failures must come again
};

// The receiver migrates to the sender's host in the middle of messages, and back in the middle of
// others; expect each message once, complete and in order.
TEST_F(RoceReunion, PeerComesAndGoes) {
    travel(b_, *a_hca_, *b_hca_);
}

// The same with the sender migrating.
TEST_F(RoceReunion, SenderComesAndGoes) {
    travel(a_, *b_hca_, *a_hca_);
}

class RoceLinkDown : public TwoHosts, public ::testing::Test {
  protected:
    RoceLinkDown() : TwoHosts{weather(), {}} {}

    Cable::Weather weather() {
        return [this](const Frame& frame, std::deque<Frame>& arriving) {
            if (down_ == 0) {
                arriving.push_back(frame);
            } else {
                --down_;
            }
        };
    }

    unsigned down_ = 0; // number of frames that are lost
};

// The link is down for fewer frames than there are retries; expect the message to arrive. It is
// down for more; expect RETRY_EXC_ERR, a flush, and a QP in error.
TEST_F(RoceLinkDown, RetriesAreCounted) {
    connect_pair(9, 3);
    b_qp_.post_recv({});
    down_ = 2;
    a_qp_.post_send({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    down_ = ~0u;
    a_qp_.post_send({});
    a_qp_.post_send({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_ERR);
    EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_RTS);
}

} // namespace
} // namespace vrdma::test
