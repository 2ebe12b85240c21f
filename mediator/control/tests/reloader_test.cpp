// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad's end of the socket, and the process that reads a file, or a test in its place.
#include "mediator/control/reloader.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "mediator/base/tests/captured_log.h"
#include "mediator/control/reload_process.h"
#include "mediator/helper/socket.h"
#include "mediator/helper/tests/looping.h"

namespace vrdma::control {
namespace {

constexpr char at_start[] = R"(
    name = "rack-7"
    [types.small]
    max_qp = 16
    [[vfio_user]]
    name = "a"
    [[vfio_user]]
    name = "b"
    weight = 50
)";

// Has a configuration file, and a log that replaces the one of the test's process.
class ReloaderTest : public testing::Test {
  protected:
    ReloaderTest()
        : path_{std::filesystem::temp_directory_path() /
                ("vrdma-reload-" + std::to_string(::getpid()) + ".conf")} {
        write(at_start);
        running_.path = path_;
        EXPECT_TRUE(start_with_file(running_));
    }
    ReloaderTest(const ReloaderTest&) = delete;
    ReloaderTest& operator=(const ReloaderTest&) = delete;
    ~ReloaderTest() override { std::filesystem::remove(path_); }

    void start(UniqueFd process) {
        reloader_ = *Reloader::create(std::move(process), running_, loop_, [this] { ++changes_; });
    }
    void start(std::chrono::seconds limit) {
        start(*start_reload_process(running_, {jail::Forbidden::killed, limit}));
    }
    // Runs the loop until the log has so many more lines.
    void hear(int lines) {
        lines_ += lines;
        helper::run_until(loop_, [&] { return log_.lines() >= lines_; });
        ASSERT_GE(log_.lines(), lines_) << log_.str();
    }
    void reload(int lines) {
        reloader_->reload(
            [this](const management::Reloaded& outcome) { told_.push_back(outcome); });
        hear(lines);
    }

    void write(std::string_view text) const { std::ofstream{path_} << text; }
    std::string line(std::string_view text) const {
        return fmt::format("{}\n", fmt::format(fmt::runtime(text), path_.string()));
    }
    std::string no_sense() const {
        return line(
            "error {}: the process that reads it again has ended or sent an invalid message; "
            "restart vrdmad to apply changes");
    }

    std::filesystem::path path_;
    CapturedLog log_;
    std::ptrdiff_t lines_ = 0;
    Running running_;
    EventLoop loop_;
    int changes_ = 0;
    std::vector<management::Reloaded> told_; // to those who have asked for a reload
    std::unique_ptr<Reloader> reloader_;
};

TEST_F(ReloaderTest, GivesSharesAndSaysWhatTakesARestart) {
    start(std::chrono::seconds{10});
    write(
        "log_level = \"warning\"\nname = \"x\"\n[types.small]\nmax_qp = 16\nweight = 3\n"
        "[[vfio_user]]\nname = \"a\"\nmax_bytes_per_second = 9\n");
    reload(2);
    EXPECT_EQ(log_.str(), line("warning {}: name has changed, which takes a restart") +
                              line("warning {}: vfio_user.b has changed, which takes a restart"));
    EXPECT_EQ(spdlog::get_level(), spdlog::level::warn);
    EXPECT_EQ(running_.config.types[0].share, hca::Share{.weight = 3});
    ASSERT_EQ(told_.size(), 1u);
    EXPECT_EQ(told_[0].error, "");
    EXPECT_EQ(told_[0].changed,
              (std::vector<std::string>{
                  "types.small: weight 3, 0 bytes and 0 operations per second (0: unlimited)",
                  "vfio_user.a: weight 3, 9 bytes and 0 operations per second (0: unlimited)",
                  "log_level: warning"}));
    EXPECT_EQ(told_[0].restart, (std::vector<std::string>{"name", "vfio_user.b"}));
    const hca::Share a{.weight = 3, .bytes_per_second = 9};
    EXPECT_EQ(running_.config.vfio_user[0].share, a);
    EXPECT_EQ(running_.config.vfio_user[1].share, hca::Share{.weight = 50});
    EXPECT_EQ(changes_, 1);
}

TEST_F(ReloaderTest, SaysWhatIsWrong) {
    start(std::chrono::seconds{10});
    write("colour = 1");
    reload(1);
    std::filesystem::remove(path_);
    reload(1);
    const std::string keys =
        "must be one of control, fabric, log_level, mdev, metrics, name, soft, "
        "types, uplink, vfio_user";
    const std::string gone = "cannot be read: No such file or directory";
    EXPECT_EQ(log_.str(), line("error {}: colour: unknown key: " + keys + "; nothing changes") +
                              line("error {}: " + gone + "; nothing changes"));
    EXPECT_EQ(changes_, 0);
    ASSERT_EQ(told_.size(), 2u);
    EXPECT_EQ(told_[0].error,
              path_.string() + ": colour: unknown key: " + keys + "; nothing changes");
    EXPECT_EQ(told_[1].error, path_.string() + ": " + gone + "; nothing changes");
}

// Read a FIFO that nobody writes to. Expect an error in the log, and the next file to be read.
TEST_F(ReloaderTest, AFileThatNeverBeginsIsGivenUp) {
    start(std::chrono::seconds{1});
    std::filesystem::remove(path_);
    ASSERT_EQ(::mkfifo(path_.c_str(), S_IRUSR | S_IWUSR), 0);
    reload(1);
    EXPECT_EQ(log_.str(), line("error {}: its reader failed, or took too long; nothing changes"));
    std::filesystem::remove(path_);
    write("name = \"x\"");
    reload(4);
    EXPECT_EQ(changes_, 1);
}

// Ask more often than there is room for. Expect each to hear of an outcome.
TEST_F(ReloaderTest, ThoseWhoAskTooOftenAreRefused) {
    start(std::chrono::seconds{10});
    constexpr std::size_t asked = Reloader::max_asked + 3;
    for (std::size_t i = 0; i < asked; ++i) {
        reloader_->reload(
            [this](const management::Reloaded& outcome) { told_.push_back(outcome); });
    }
    ASSERT_EQ(told_.size(), 3u);
    EXPECT_NE(told_[0].error, "");
    helper::run_until(loop_, [&] { return told_.size() == asked; });
    EXPECT_EQ(told_.back().error, "");
}

// Tests in the place of the process. They send incomplete answers and invalid messages.
class ReloaderByHandTest : public ReloaderTest {
  protected:
    ReloaderByHandTest() {
        auto ends = helper::open_socket_pair();
        EXPECT_TRUE(ends);
        process_ = std::move(ends->its);
        start(std::move(ends->ours));
    }
    void say(const ReloadMessage& message) const {
        EXPECT_EQ(::send(process_.get(), &message, sizeof(message), MSG_NOSIGNAL),
                  static_cast<ssize_t>(sizeof(message)));
    }

    UniqueFd process_;
};

TEST_F(ReloaderByHandTest, NothingChangesBeforeAllIsSaid) {
    say(share_message(ReloadMessage::Kind::type, 0, {.weight = 3}));
    say(text_message(ReloadMessage::Kind::wrong, "it is too late"));
    hear(1);
    EXPECT_EQ(running_.config.types[0].share, hca::Share{});
    ReloadMessage complete{};
    complete.kind = ReloadMessage::Kind::complete;
    say(text_message(ReloadMessage::Kind::wait, "name"));
    say(complete);
    hear(1);
    EXPECT_EQ(running_.config.types[0].share, hca::Share{}) << "what was said before is forgotten";
    EXPECT_EQ(changes_, 1);
}

TEST_F(ReloaderByHandTest, WhoNamesATypeThatIsNotThereIsNotHeardAnyMore) {
    say(share_message(ReloadMessage::Kind::type, running_.config.types.size(), {}));
    hear(1);
    EXPECT_EQ(log_.str(), no_sense());
    EXPECT_EQ(::send(process_.get(), "", 1, MSG_NOSIGNAL), -1);
}

TEST_F(ReloaderByHandTest, ThoseWhoHaveAskedHearOfTheEnd) {
    reloader_->reload([this](const management::Reloaded& outcome) { told_.push_back(outcome); });
    process_ = {};
    hear(1);
    ASSERT_EQ(told_.size(), 1u);
    EXPECT_TRUE(told_[0].error.ends_with("restart vrdmad to apply changes"));
}

TEST_F(ReloaderByHandTest, WhoSaysLessThanAMessageIsNotHeardAnyMore) {
    EXPECT_EQ(::send(process_.get(), "ab", 2, MSG_NOSIGNAL), 2);
    hear(1);
    EXPECT_EQ(log_.str(), no_sense());
}

TEST_F(ReloaderByHandTest, ALevelThatIsNoneIsNotTaken) {
    ReloadMessage level{};
    level.kind = ReloadMessage::Kind::log_level;
    level.number = static_cast<std::uint32_t>(spdlog::level::off) + 1;
    say(level);
    hear(1);
    EXPECT_EQ(log_.str(), no_sense());
}

TEST_F(ReloaderByHandTest, WithoutTheProcessNothingIsRead) {
    process_ = {};
    hear(1);
    reload(1);
    EXPECT_EQ(log_.str(), no_sense() + line("error {}: the process that reads it again has ended; "
                                            "restart vrdmad to apply changes"));
}

} // namespace
} // namespace vrdma::control
