// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/roster.h"

#include "etcd_server.h"
#include "mediator/directory/entry_json.h"

namespace vrdma::directory {
namespace {

class RosterTest : public testing::Test {
  protected:
    static Entry entry_at(const char* host) { return {{host, "7471"}, {}}; }

    std::unique_ptr<Roster> open() const {
        return Roster::create({"test", server.options(), "/vrdma/"}).value();
    }
    void put(const std::string& name, const std::string& text) {
        const auto put = etcd.put("/vrdma/hosts/" + name, text, lease);
        ASSERT_TRUE(put) << put.error();
    }
    void put(const std::string& name, const Entry& entry) { put(name, format_entry(entry)); }
    void start() {
        server.start();
        lease = *etcd.grant(std::chrono::seconds{600});
    }
    static void await(Roster& roster, const std::map<std::string, Entry>& expected) {
        until([&] {
            const Hosts hosts = roster.take();
            return std::ranges::equal(hosts, expected, [](const auto& host, const auto& wanted) {
                return host.first == wanted.first && *host.second == wanted.second;
            });
        });
    }

    const Entry one = entry_at("10.0.0.1");
    const Entry two = entry_at("10.0.0.2");
    EtcdServer server;
    Etcd etcd{server.options()};
    std::int64_t lease = 0;
};

TEST_F(RosterTest, HostsComeChangeAndGo) {
    start();
    put("alpha", one);
    const auto roster = open();
    await(*roster, {{"alpha", one}});
    const auto alpha = roster->take().at("alpha");
    put("beta", one);
    await(*roster, {{"alpha", one}, {"beta", one}});
    put("beta", two);
    await(*roster, {{"alpha", one}, {"beta", two}});
    EXPECT_EQ(roster->take().at("alpha"), alpha) << "the same";
    ASSERT_TRUE(etcd.revoke(lease));
    await(*roster, {});
}

TEST_F(RosterTest, WhatMakesNoSenseIsIgnored) {
    start();
    put("alpha", one);
    put("evil", "{");
    put("not/a/name", one);
    const auto roster = open();
    await(*roster, {{"alpha", one}});
    put("\x1b[2J", one);
    put("gamma", std::string(Entry::max_size + 1, ' '));
    put("beta", two);
    await(*roster, {{"alpha", one}, {"beta", two}});
    put("alpha", "[]");
    await(*roster, {{"beta", two}});
    put("alpha", one);
    await(*roster, {{"alpha", one}, {"beta", two}});
}

TEST_F(RosterTest, SoManyHostsAtMost) {
    start();
    for (std::size_t i = 0; i <= max_hosts; ++i) {
        put("host-" + std::to_string(i), one);
    }
    const auto roster = open();
    until([&] { return roster->take().size() == max_hosts; });
    put("host-0", two);
    until([&] { return *roster->take().at("host-0") == two; });
    EXPECT_EQ(roster->take().size(), max_hosts);
}

TEST_F(RosterTest, EtcdComesAndGoes) {
    const auto roster = open();
    start();
    put("alpha", one);
    await(*roster, {{"alpha", one}});
    server.stop();
    std::this_thread::sleep_for(std::chrono::seconds{1});
    await(*roster, {{"alpha", one}});
    server.start();
    put("beta", two);
    await(*roster, {{"alpha", one}, {"beta", two}});
    // Another etcd, which has no data, and fewer revisions.
    server.stop();
    server.forget_all();
    start();
    await(*roster, {});
    put("beta", one);
    await(*roster, {{"beta", one}});
}

TEST_F(RosterTest, EndsAtOnce) {
    start();
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) {
        const auto roster = open();
        std::this_thread::sleep_for(std::chrono::milliseconds{i});
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds{30});
}

} // namespace
} // namespace vrdma::directory
