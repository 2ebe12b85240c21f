// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <csetjmp>
#include <csignal>

#include <gtest/gtest.h>

#include "hold.h"
#include "share_helper.h"

namespace
{

using vrdma::test::Memory;
using vrdma::test::page;

sigjmp_buf recover;
volatile sig_atomic_t faults;
void *volatile fault_address;
struct sigaction replaced;

void on_fault(int, siginfo_t *info, void *)
{
	faults = faults + 1;
	fault_address = info->si_addr;
	siglongjmp(recover, 1);
}

// Calls the handler that it replaced, as a crash reporter does.
void on_fault_then_replaced(int number, siginfo_t *info, void *context)
{
	faults = faults + 100;
	replaced.sa_sigaction(number, info, context);
}

void set_handler(void (*handler)(int, siginfo_t *, void *), struct sigaction *old)
{
	struct sigaction action = {};
	action.sa_sigaction = handler;
	action.sa_flags = SA_SIGINFO | SA_NODEFER;
	sigaction(SIGSEGV, &action, old);
}

void hold_something()
{
	const Memory memory(page);
	const char *content = nullptr;
	ASSERT_EQ(vrdma_hold(memory.data(), page, PROT_READ | PROT_WRITE, false, &content), 0);
	vrdma_hold_undo();
}

// Writes to an address that faults, and returns.
__attribute__((noinline, no_sanitize("undefined"))) void fault(volatile char *address)
{
	if (sigsetjmp(recover, 1) == 0)
		*address = 1;
}

class Faults : public ::testing::Test
{
      protected:
	Faults()
	{
		faults = 0;
		sigaction(SIGSEGV, nullptr, &saved_);
		set_handler(on_fault, nullptr);
	}
	~Faults() override
	{
		sigaction(SIGSEGV, &saved_, nullptr);
	}
	Faults(const Faults &) = delete;
	Faults &operator=(const Faults &) = delete;

      private:
	struct sigaction saved_ = {};
};

TEST_F(Faults, OtherFaultsGoToTheProgram)
{
	const Memory read_only(page, PROT_READ);
	hold_something();
	for (int i = 1; i <= 3; ++i) {
		fault(read_only.data() + 7);
		EXPECT_EQ(faults, i);
		EXPECT_EQ(fault_address, read_only.data() + 7);
	}
	fault(nullptr);
	EXPECT_EQ(faults, 4);
	EXPECT_EQ(fault_address, nullptr);
}

TEST_F(Faults, OtherFaultsGoToTheProgramMeanwhile)
{
	const Memory memory(page);
	const Memory read_only(page, PROT_READ);
	const char *content = nullptr;
	ASSERT_EQ(vrdma_hold(memory.data(), page, PROT_READ | PROT_WRITE, false, &content), 0);
	fault(read_only.data());
	vrdma_hold_undo();
	EXPECT_EQ(faults, 1);
}

TEST_F(Faults, AHandlerThatIsSetLaterStillGetsThem)
{
	const Memory read_only(page, PROT_READ);
	hold_something();
	set_handler(on_fault_then_replaced, &replaced);
	hold_something();
	fault(read_only.data());
	EXPECT_EQ(faults, 101) << "first the newer handler, then the one that it replaced";
	hold_something();
	fault(read_only.data());
	EXPECT_EQ(faults, 202);
}

TEST_F(Faults, WithoutAHandlerAFaultKills)
{
	const Memory read_only(page, PROT_READ);
	const auto die = [&] {
		signal(SIGSEGV, SIG_DFL);
		hold_something();
		*static_cast<volatile char *>(read_only.data()) = 1;
	};
	EXPECT_EXIT(die(), ::testing::KilledBySignal(SIGSEGV), "");
	const auto be_killed = [&] {
		signal(SIGSEGV, SIG_DFL);
		hold_something();
		kill(getpid(), SIGSEGV);
	};
	EXPECT_EXIT(be_killed(), ::testing::KilledBySignal(SIGSEGV), "");
}

} // namespace
