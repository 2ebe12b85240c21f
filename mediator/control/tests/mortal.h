// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A child of the test that has an engine process and dies. It reports through a pipe, whose end is
// that of both processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>

#include "mediator/base/unique_fd.h"
#include "mediator/control/engine_process.h"

namespace vrdma::control::test {

class Mortal {
  public:
    using Say = std::function<void(const std::string&)>;
    using Life = std::function<void(EngineProcess&, const Say&)>;

    explicit Mortal(const Life& life, std::chrono::milliseconds limit = std::chrono::minutes{1}) {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe(ends.data()), 0);
        said_ = UniqueFd{ends[0]};
        UniqueFd says{ends[1]};
        process_ = ::fork();
        if (process_ == 0) {
            live(life, limit, says.get());
        }
    }
    Mortal(const Mortal&) = delete;
    Mortal& operator=(const Mortal&) = delete;
    ~Mortal() = default;

    // The next word, or "" if both processes have ended.
    std::string hear() {
        std::array<char, 64> word{};
        const ssize_t size = ::read(said_.get(), word.data(), word.size());
        return {word.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
    }
    void kill() const { EXPECT_EQ(::kill(process_, SIGKILL), 0); }
    // Waits for the child itself. Returns the signal that has ended it, or 0.
    int await_death() const {
        int status = 0;
        EXPECT_EQ(::waitpid(process_, &status, 0), process_);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }

  private:
    [[noreturn]] static void live(const Life& life, std::chrono::milliseconds limit, int says) {
        const Say say = [says](const std::string& word) {
            static_cast<void>(!::write(says, word.data(), word.size()));
        };
        {
            const auto engine = EngineProcess::start(limit);
            if (!engine) {
                say("not started");
                ::_exit(EXIT_FAILURE);
            }
            life(**engine, say);
        }
        ::_exit(EXIT_SUCCESS);
    }

    UniqueFd said_;
    pid_t process_ = -1;
};

[[noreturn]] inline void die(int signal = SIGKILL) {
    (void)std::signal(signal, SIG_DFL);
    for (;;) {
        static_cast<void>(::kill(::getpid(), signal));
    }
}

class EngineTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!EngineProcess::possible) {
            GTEST_SKIP() << "a sanitizer knows the threads of one process";
        }
    }
};

} // namespace vrdma::control::test
