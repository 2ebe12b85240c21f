// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/engine_process.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "mediator/control/tests/mortal.h"

namespace vrdma::control::test {
namespace {

using EngineProcessTest = EngineTest;

pid_t this_process() {
    return static_cast<pid_t>(::syscall(SYS_getpid));
}

// Execute a call in the engine process that starts a thread; expect both there, and the memory to
// be shared.
TEST_F(EngineProcessTest, HasThreadsOfItsOwn) {
    const auto engine = EngineProcess::start(std::chrono::minutes{1});
    ASSERT_TRUE(engine);
    pid_t caller = 0;
    pid_t of_thread = 0;
    std::thread thread;
    (*engine)->run([&] {
        caller = this_process();
        thread = std::thread{[&] { of_thread = this_process(); }};
    });
    thread.join();
    EXPECT_NE(caller, this_process());
    EXPECT_EQ(caller, (*engine)->id());
    EXPECT_EQ(of_thread, caller);
}

// End it in order, with an heir; expect its end, and that the heir is not called.
TEST_F(EngineProcessTest, EndsWithItsOwner) {
    Mortal child{[](EngineProcess& engine, const auto& say) {
        engine.bequeath([&] { say("heir"); });
        engine.disinherit();
        say("ends");
    }};
    EXPECT_EQ(child.hear(), "ends");
    EXPECT_EQ(child.hear(), "");
    EXPECT_EQ(child.await_death(), 0);
}

// Die by each signal while a thread of the engine process works; expect that the heir finds what
// was there, that the thread still answers, and that nothing is left.
TEST_F(EngineProcessTest, TheHeirHasEverything) {
    for (const int signal : {SIGKILL, SIGSEGV, SIGABRT}) {
        Mortal child{[&](EngineProcess& engine, const auto& say) {
            std::atomic<int> question{0};
            std::thread thread;
            engine.run([&] {
                thread = std::thread{[&] {
                    question.wait(0);
                    question = 2;
                    question.notify_one();
                }};
            });
            std::string left = "le";
            engine.bequeath([&] {
                question = 1;
                question.notify_one();
                question.wait(1);
                say(left);
            });
            left += "ft";
            die(signal);
        }};
        EXPECT_EQ(child.await_death(), signal);
        EXPECT_EQ(child.hear(), "left");
        EXPECT_EQ(child.hear(), "");
    }
}

// Die before there is an heir; expect that the engine process ends.
TEST_F(EngineProcessTest, EndsWithoutAnHeir) {
    Mortal child{[](auto&, const auto&) { die(); }};
    EXPECT_EQ(child.hear(), "");
}

// Die while the heir needs a lock that the dead had; expect that the engine process ends at its
// limit.
TEST_F(EngineProcessTest, TheHeirDoesNotHang) {
    Mortal child{[](EngineProcess& engine, const auto& say) {
                     std::promise<void> never;
                     engine.bequeath([&] {
                         say("begins");
                         never.get_future().wait();
                     });
                     die();
                 },
                 std::chrono::milliseconds{50}};
    EXPECT_EQ(child.hear(), "begins");
    EXPECT_EQ(child.hear(), "");
}

// Die and have the heir crash; expect that the engine process ends.
TEST_F(EngineProcessTest, TheHeirMayCrash) {
    Mortal child{[](EngineProcess& engine, const auto& say) {
        engine.bequeath([&] {
            say("begins");
            (void)std::signal(SIGSEGV, SIG_DFL);
            *static_cast<volatile int*>(nullptr) = 1;
        });
        die();
    }};
    EXPECT_EQ(child.hear(), "begins");
    EXPECT_EQ(child.hear(), "");
}

// Kill the engine process; expect that its owner is told, and that it can end.
TEST_F(EngineProcessTest, ItsDeathIsNoticed) {
    Mortal child{[](EngineProcess& engine, const auto& say) {
        std::promise<void> told;
        engine.watch([&] {
            say("dead");
            told.set_value();
        });
        static_cast<void>(::kill(engine.id(), SIGKILL));
        told.get_future().wait();
    }};
    EXPECT_EQ(child.hear(), "dead");
    EXPECT_EQ(child.hear(), "");
    EXPECT_EQ(child.await_death(), 0);
}

} // namespace
} // namespace vrdma::control::test
