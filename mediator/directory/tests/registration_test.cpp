// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/registration.h"

#include "etcd_server.h"
#include "lossy_relay.h"
#include "mediator/directory/entry_json.h"

namespace vrdma::directory {
namespace {

constexpr Gid one{0xfd, 1};
constexpr Gid two{0xfd, 2};

class RegistrationTest : public testing::Test {
  protected:
    RegistrationOptions options() const {
        return {"test", server.options(), key, {"10.0.0.1", "7471"}, {}, std::chrono::seconds{4}};
    }
    std::optional<Entry> entry() {
        const auto range = etcd.range(key);
        if (!range || range->values.empty()) {
            return std::nullopt;
        }
        EXPECT_EQ(range->values.size(), 1u);
        const auto parsed = parse_entry(*range->values[0].value, range->values[0].revision);
        EXPECT_TRUE(parsed);
        return *parsed;
    }
    // Returns the revision since which the address is claimed.
    std::int64_t await(const Gid& gid) {
        std::optional<Entry> now;
        until([&] { return (now = entry()) && now->claims.contains(gid); });
        return now->claims[gid];
    }

    const std::string key = "/vrdma/hosts/alpha";
    EtcdServer server;
    Etcd etcd{server.options()};
};

TEST_F(RegistrationTest, IsThereWhileItLives) {
    server.start();
    {
        Registration registration{options()};
        until([&] { return entry().has_value(); });
        EXPECT_EQ(entry()->address, (wire::fabric::Address{"10.0.0.1", "7471"}));
        EXPECT_TRUE(entry()->claims.empty());
        // Longer than the lease.
        std::this_thread::sleep_for(std::chrono::seconds{7});
        EXPECT_TRUE(entry());
    }
    EXPECT_FALSE(entry());
}

TEST_F(RegistrationTest, AnAddressKeepsItsTime) {
    server.start();
    Registration registration{options()};
    registration.set({one});
    const std::int64_t since = await(one);
    registration.set({one, two});
    EXPECT_GT(await(two), since);
    EXPECT_EQ(await(one), since);
    registration.set({two});
    until([&] { return !entry()->claims.contains(one); });
    registration.set({one, two});
    EXPECT_GT(await(one), await(two)) << "it has come back";
}

TEST_F(RegistrationTest, WhatWasTakenAwayIsRepeated) {
    server.start();
    Registration registration{options()};
    registration.set({one});
    const std::int64_t since = await(one);
    const auto lease = etcd.grant(std::chrono::seconds{60});
    ASSERT_TRUE(etcd.put(key, "nonsense", *lease));
    ASSERT_TRUE(etcd.revoke(*lease));
    ASSERT_FALSE(entry());
    registration.repeat();
    EXPECT_EQ(await(one), since);
}

TEST_F(RegistrationTest, EtcdComesAndGoes) {
    Registration registration{options()};
    registration.set({one});
    server.start();
    const std::int64_t since = await(one);
    server.stop();
    registration.set({one, two});
    std::this_thread::sleep_for(std::chrono::seconds{1});
    server.start();
    await(two);
    EXPECT_EQ(await(one), since);
    // Another etcd, which has no data, and fewer revisions.
    server.stop();
    server.forget_all();
    server.start();
    EXPECT_LE(await(one), 2);
}

// Lose the answer to the write that claims `one`, and let the registration write again; expect the
// claim to keep the revision that other hosts have read already.
TEST_F(RegistrationTest, AClaimKeepsTheTimeOfAWriteWhoseAnswerWasLost) {
    server.start();
    const LossyRelay relay{server.endpoint(), "/v3/kv/put"};
    RegistrationOptions through = options();
    through.etcd = relay.options();
    through.gids = {one};
    Registration registration{through};
    const std::int64_t since = await(one);
    until([&] { return relay.lost(); });
    registration.set({one, two});
    EXPECT_GT(await(two), since);
    EXPECT_EQ(await(one), since);
}

} // namespace
} // namespace vrdma::directory
