// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdma-handshake itself.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>

#include "mediator/base/sanitized.h"
#include "mediator/helper/launch.h"
#include "mediator/helper/tests/looping.h"
#include "mediator/helper/tests/processes.h"
#include "mediator/wire/fabric/handshakes.h"
#include "mediator/wire/fabric/seal.h"
#include "mediator/wire/fabric/tests/authority.h"

namespace vrdma::wire::fabric {
namespace {

using helper::children_of;
using helper::run_until;
using helper::status_of;

// A host's process, and the result of its only handshake. The bytes that it sends go to the other
// host.
class Side final : public HandshakeOwner {
  public:
    Side(std::string host, const CredentialFiles& files, EventLoop& loop)
        : host_{std::move(host)}, files_{files}, loop_{loop} {
        auto launched = helper::launch(VRDMA_HANDSHAKE, "kill");
        EXPECT_TRUE(launched);
        process = launched->process;
        auto opened = Handshakes::open(host_, std::move(launched->socket), {files_, host_}, loop_);
        if (!opened) {
            error = opened.error();
            return;
        }
        all_ = std::move(*opened);
        all_->serve(this);
    }
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;
    ~Side() {
        all_.reset();
        EXPECT_EQ(::waitpid(process, nullptr, 0), process) << "it ends with its socket";
    }

    // Connects with `to`, which has that name. False: one of the two is not ready yet.
    bool connect(const std::string& name, Side& to) {
        to.id_ = to.all_->accept();
        id_ = to.id_ ? all_->connect(name) : std::nullopt;
        for (Side* const side : {this, &to}) {
            side->became.clear();
            side->coming_.clear();
            side->other_ = side == this ? &to : this;
            side->its_turn_ = side == &to;
        }
        return id_.has_value();
    }
    // Accepts, though nobody connects.
    bool accept() { return all_->accept().has_value(); }

    void say(Id /*id*/, std::span<const std::byte> bytes) override {
        other_->coming_.emplace_back(bytes.begin(), bytes.end());
        other_->hear();
    }
    void next(Id /*id*/) override {
        its_turn_ = true;
        hear();
    }
    bool admits(Id /*id*/, const std::string& name) override { return name == "alpha"; }
    void done(Id /*id*/, const std::string& name, const Secrets& is) override {
        became = "done with " + name;
        secrets = is;
    }
    void refused(Id /*id*/, const std::string& name, const std::string& why) override {
        became = name + " " + why;
    }
    void lost(Id /*id*/) override { became = "lost"; }

    // The only worker.
    pid_t worker() {
        std::vector<pid_t> workers;
        run_until(loop_, [&] { return !(workers = children_of(process)).empty(); });
        EXPECT_EQ(workers.size(), 1u);
        return workers.at(0);
    }

    pid_t process = 0;
    std::string error;
    std::string became;
    Secrets secrets;

  private:
    // Passes on the next bytes when the process asks for them.
    void hear() {
        if (its_turn_ && became.empty() && !coming_.empty()) {
            its_turn_ = false;
            const auto bytes = std::move(coming_.front());
            coming_.pop_front();
            EXPECT_TRUE(all_->hear(*id_, bytes));
        }
    }

    const std::string host_;
    const CredentialFiles files_;
    EventLoop& loop_;
    std::unique_ptr<Handshakes> all_;
    Side* other_ = nullptr;
    std::optional<Id> id_;
    bool its_turn_ = false;
    std::deque<std::vector<std::byte>> coming_;
};

class HandshakeProcessTest : public testing::Test {
  protected:
    CredentialFiles files_of(const std::string& host) {
        return authority.issue(host, "DNS:" + host);
    }
    void shake_hands(Side& left, Side& right) {
        ASSERT_EQ(left.error + right.error, "");
        bool connects = false;
        run_until(loop, [&] { return connects = connects || left.connect("beta", right); });
        run_until(loop, [&] { return !left.became.empty() && !right.became.empty(); });
    }

    Authority authority;
    EventLoop loop;
};

// Make a handshake between two processes, twice; expect each to report the same secrets, other ones
// the second time, and the workers to need nothing that they have given up.
TEST_F(HandshakeProcessTest, TwoOfThemMakeAHandshake) {
    Side alpha{"alpha", files_of("alpha"), loop};
    Side beta{"beta", files_of("beta"), loop};
    const pid_t first = alpha.worker();
    const pid_t second = beta.worker();
    Secrets before;
    for (int i = 0; i < 2; ++i) {
        shake_hands(alpha, beta);
        EXPECT_EQ(alpha.became, "done with beta");
        EXPECT_EQ(beta.became, "done with alpha");
        const auto& secrets = alpha.secrets.get();
        EXPECT_EQ(std::memcmp(&secrets, &beta.secrets.get(), sizeof(secrets)), 0);
        EXPECT_NE(std::memcmp(&secrets, &before.get(), sizeof(secrets)), 0);
        before = alpha.secrets;
    }
    EXPECT_EQ(alpha.worker(), first);
    EXPECT_EQ(beta.worker(), second);
}

TEST_F(HandshakeProcessTest, WhoIsNotAdmittedIsRefused) {
    Side gamma{"gamma", files_of("gamma"), loop};
    Side beta{"beta", files_of("beta"), loop};
    shake_hands(gamma, beta);
    EXPECT_EQ(beta.became, "gamma is not known as one that connects to us");
    EXPECT_EQ(gamma.became, "beta refuses us");
}

// Give it invalid files; expect to be told which file is wrong, and why.
TEST_F(HandshakeProcessTest, SaysWhatIsWrongWithFiles) {
    CredentialFiles files = files_of("alpha");
    const std::string none = authority.path("none");
    EXPECT_EQ((Side{"alpha", {files.certificate, none, files.ca}, loop}.error),
              none + ": No such file or directory");
    EXPECT_EQ((Side{"beta", files, loop}.error),
              files.certificate + ": is not for 'beta' (DNS of subjectAltName)");
    std::filesystem::permissions(files.private_key, std::filesystem::perms{0640});
    EXPECT_EQ((Side{"alpha", files, loop}.error),
              files.private_key + ": group or others may use it (its mode must be 0600)");
}

// Kill the worker; expect another one, which makes handshakes.
TEST_F(HandshakeProcessTest, AWorkerThatDiesIsReplaced) {
    Side alpha{"alpha", files_of("alpha"), loop};
    Side beta{"beta", files_of("beta"), loop};
    ASSERT_EQ(beta.error, "");
    const pid_t first = beta.worker();
    ASSERT_TRUE(beta.accept());
    ASSERT_EQ(::kill(first, SIGKILL), 0);
    run_until(loop, [&] { return beta.became == "lost"; });
    shake_hands(alpha, beta);
    EXPECT_EQ(beta.became, "done with alpha");
    EXPECT_NE(beta.worker(), first);
}

// Look at both processes; expect that they have nothing that they do not need.
TEST_F(HandshakeProcessTest, IsConfined) {
    Side alpha{"alpha", files_of("alpha"), loop};
    const pid_t its_worker = alpha.worker();
    for (const pid_t id : {alpha.process, its_worker}) {
        std::size_t sockets = 0;
        const auto files = std::filesystem::path{"/proc"} / std::to_string(id) / "fd";
        for (const auto& file : std::filesystem::directory_iterator{files}) {
            const std::string target = std::filesystem::read_symlink(file.path());
            const bool socket = target.starts_with("socket:");
            sockets += socket ? 1 : 0;
            EXPECT_TRUE(socket || target == "/dev/null") << target;
        }
        EXPECT_EQ(sockets, 1u);
        EXPECT_EQ(status_of(id, "CapPrm"), "0000000000000000");
        EXPECT_EQ(status_of(id, "CapEff"), "0000000000000000");
        EXPECT_EQ(status_of(id, "NoNewPrivs"), "1");
    }
    if (!sanitized) { // sanitizers' runtimes make calls of their own
        EXPECT_EQ(status_of(its_worker, "Seccomp"), "2") << "before it has read anything";
    }
}

} // namespace
} // namespace vrdma::wire::fabric
