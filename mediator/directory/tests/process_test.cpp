// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdma-directory itself, with an etcd.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <filesystem>
#include <set>

#include "etcd_server.h"
#include "mediator/base/sanitized.h"
#include "mediator/directory/client.h"
#include "mediator/directory/entry_json.h"
#include "mediator/helper/launch.h"
#include "mediator/helper/tests/looping.h"
#include "mediator/helper/tests/processes.h"

namespace vrdma::directory {
namespace {

using helper::children_of;
using helper::run_until;
using helper::status_of;

class ProcessTest : public testing::Test {
  protected:
    void open() { open(server.options()); }
    void open(const EtcdOptions& options) {
        auto launched = helper::launch(VRDMA_DIRECTORY, "kill");
        ASSERT_TRUE(launched) << static_cast<int>(launched.error());
        process = launched->process;
        const Task task{options, "/vrdma/", "alpha", {"10.0.0.1", "7471"}};
        client =
            Client::open("test", std::move(launched->socket), task, loop, [this](const Hosts& all) {
                hosts = all;
            }).value();
    }
    void await_host(const std::string& name) {
        run_until(loop, [&] { return hosts.contains(name); });
    }
    void put(const std::string& name) {
        const auto lease = etcd.grant(std::chrono::seconds{600});
        ASSERT_TRUE(
            etcd.put("/vrdma/hosts/" + name, format_entry({{"10.0.0.9", "7471"}, {}}), *lease));
    }
    void await_no_entry(const std::string& key) {
        run_until(loop, [&] {
            const auto range = etcd.range(key);
            return range && range->values.empty();
        });
    }
    void TearDown() override {
        client.reset();
        if (process != 0) {
            EXPECT_EQ(::waitpid(process, nullptr, 0), process) << "it ends with its socket";
        }
    }
    // The only worker.
    pid_t worker() {
        std::vector<pid_t> workers;
        run_until(loop, [&] { return !(workers = children_of(process)).empty(); });
        EXPECT_EQ(workers.size(), 1u);
        return workers.at(0);
    }

    static constexpr Gid one{0xfd, 1};
    EtcdServer server;
    Etcd etcd{server.options()};
    EventLoop loop;
    Hosts hosts;
    std::unique_ptr<Client> client;
    pid_t process = 0;
};

// Let a host come, and have an address; expect to be told of both, this host included, and its
// entry to go at the end.
TEST_F(ProcessTest, FollowsAndRegisters) {
    server.start();
    open();
    await_host("alpha");
    const pid_t first = worker();
    client->set({one});
    run_until(loop, [&] { return hosts.at("alpha")->claims.contains(one); });
    put("beta");
    await_host("beta");
    EXPECT_EQ(hosts.at("beta")->address, (wire::fabric::Address{"10.0.0.9", "7471"}));
    server.stop();
    server.start();
    put("gamma");
    await_host("gamma");
    EXPECT_EQ(worker(), first) << "it can make all calls that it needs";
    client.reset();
    await_no_entry("/vrdma/hosts/alpha"); // by its lease, if etcd could not be reached
}

// Let etcd accept only TLS, and only clients with a certificate. Ask for it first by a name that
// its certificate does not have. Expect the worker to need nothing that it has given up.
TEST_F(ProcessTest, TalksByTls) {
    const SelfSigned identity;
    EtcdServer secure{true, identity.arguments()};
    secure.start(identity.options());
    EtcdOptions options = identity.options();
    options.endpoints = {{true, "localhost", secure.endpoint().port}, secure.endpoint()};
    open(options);
    const pid_t first = worker();
    await_host("alpha");
    EXPECT_EQ(worker(), first);
}

// Kill the worker; expect another to follow the hosts, which stay known meanwhile, and to register
// this host's addresses.
TEST_F(ProcessTest, AWorkerThatDiesIsReplaced) {
    server.start();
    open();
    client->set({one});
    await_host("alpha");
    run_until(loop, [&] { return hosts.at("alpha")->claims.contains(one); });
    const pid_t first = worker();
    ASSERT_EQ(::kill(first, SIGKILL), 0);
    ASSERT_TRUE(etcd.range("/vrdma/hosts/")->values.size() == 1u);
    put("beta");
    EXPECT_TRUE(hosts.contains("alpha"));
    await_host("beta");
    EXPECT_NE(worker(), first);
    const auto alpha = hosts.at("alpha");
    client->set({});
    run_until(loop, [&] { return hosts.at("alpha")->claims.empty(); });
    EXPECT_EQ(alpha->claims.size(), 1u);
}

// Look at both processes; expect that they have nothing that they do not need.
TEST_F(ProcessTest, IsConfined) {
    open();
    const pid_t its_worker = worker();
    const auto files = std::filesystem::path{"/proc"} / std::to_string(process) / "fd";
    std::size_t sockets = 0;
    std::error_code hidden;
    const std::filesystem::directory_iterator all{files, hidden};
    if (hidden) {
        GTEST_SKIP() << "who may not trace others does not see their files";
    }
    for (const auto& file : all) {
        const std::string target = std::filesystem::read_symlink(file.path());
        const bool socket = target.starts_with("socket:");
        sockets += socket ? 1 : 0;
        EXPECT_TRUE(socket || target == "/dev/null") << target;
    }
    EXPECT_EQ(sockets, 1u);
    if (!sanitized) { // sanitizers' runtimes make calls of their own
        run_until(loop, [&] { return status_of(its_worker, "Seccomp") == "2"; });
    }
    for (const pid_t id : {process, its_worker}) {
        EXPECT_EQ(status_of(id, "CapPrm"), "0000000000000000");
        EXPECT_EQ(status_of(id, "CapEff"), "0000000000000000");
        EXPECT_EQ(status_of(id, "NoNewPrivs"), "1");
    }
}

// Kill the process that launched it; expect it to end, and the worker, too.
TEST_F(ProcessTest, EndsWithVrdmad) {
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L), 0);
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const pid_t vrdmad = ::fork();
    if (vrdmad == 0) {
        const auto launched = helper::launch(VRDMA_DIRECTORY, "kill");
        const pid_t started = launched ? launched->process : 0;
        static_cast<void>(::write(ends[1], &started, sizeof(started)));
        ::pause();
    }
    pid_t supervisor = 0;
    ASSERT_EQ(::read(ends[0], &supervisor, sizeof(supervisor)),
              static_cast<ssize_t>(sizeof(supervisor)));
    ASSERT_GT(supervisor, 0);
    until([&] { return children_of(supervisor).size() == 1; });
    const pid_t its_worker = children_of(supervisor).at(0);
    ASSERT_EQ(::kill(vrdmad, SIGKILL), 0);
    std::set<pid_t> ended; // the worker may not have been reparented to us
    for (pid_t child = 0; (child = ::waitpid(-1, nullptr, 0)) > 0;) {
        ended.insert(child);
    }
    EXPECT_TRUE(ended.contains(vrdmad) && ended.contains(supervisor));
    EXPECT_EQ(::kill(its_worker, 0), -1) << "it is there";
    ::close(ends[0]);
    ::close(ends[1]);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0L, 0L, 0L, 0L);
}

} // namespace
} // namespace vrdma::directory
