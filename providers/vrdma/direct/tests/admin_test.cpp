// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Tests the admin queue with a device that answers late, in any order, wrongly, or not at all.
#include "device.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "fake_bus.h"

namespace vrdma::test
{
namespace
{

class Admin : public testing::Test
{
      protected:
	static constexpr uint32_t vectors = 3;

	Admin() : dev(std::make_unique<vrdma_dev>())
	{
		dev->path = const_cast<char *>("test");
		dev->events.wake_fd = -1;
		dev->fn.bus = &bus;
		dev->fn.id.num_vectors = vectors;
		for (uint32_t i = 0; i < vectors; i++)
			dev->fn.vector_fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		EXPECT_EQ(vrdma_memory_init(&dev->memory, &bus), 0);
		EXPECT_EQ(vrdma_memory_alloc(&dev->memory, &dev->status_page, VRDMA_PAGE_SIZE), 0);
		EXPECT_EQ(vrdma_admin_init(dev.get()), 0);
		asq = static_cast<vrdma_admin_cmd *>(bus.at(dev->admin.asq.address));
		acq = static_cast<vrdma_admin_cpl *>(bus.at(dev->admin.acq.address));
		bus.on_post = [this](uint32_t offset) {
			EXPECT_EQ(offset, uint32_t{VRDMA_REG_ADMIN_DOORBELL});
			const std::lock_guard guard(lock);
			take_commands();
			device();
		};
	}
	~Admin() override
	{
		vrdma_admin_cleanup(dev.get());
		vrdma_memory_free(&dev->memory, &dev->status_page);
		vrdma_memory_destroy(&dev->memory);
		EXPECT_TRUE(bus.maps.empty());
		for (uint32_t i = 0; i < vectors; i++)
			close(dev->fn.vector_fds[i]);
	}
	Admin(const Admin &) = delete;
	Admin &operator=(const Admin &) = delete;

	// The device's side. The caller holds the lock.
	void take_commands()
	{
		for (;;) {
			vrdma_admin_cmd &cmd = asq[vrdma_ring_slot(taken, VRDMA_ADMIN_DEPTH)];
			const uint32_t header = __atomic_load_n(&cmd.header, __ATOMIC_ACQUIRE);
			if (!vrdma_ring_valid(header, taken, VRDMA_ADMIN_DEPTH, VRDMA_ADMIN_PHASE))
				return;
			taken++;
			commands.push_back(cmd);
		}
	}
	void answer(uint32_t id, uint32_t status, uint32_t handle, bool interrupt = true)
	{
		vrdma_admin_cpl &cpl = acq[vrdma_ring_slot(answered, VRDMA_ADMIN_DEPTH)];
		cpl.status = status;
		cpl.handle.handle = handle;
		__atomic_store_n(&cpl.header,
				 vrdma_admin_header(vrdma_ring_phase(answered, VRDMA_ADMIN_DEPTH,
								     VRDMA_ADMIN_PHASE),
						    0, id),
				 __ATOMIC_RELEASE);
		answered++;
		const uint64_t one = 1;
		if (interrupt) {
			EXPECT_EQ(write(dev->admin.event_fd, &one, sizeof(one)), 8);
		}
	}
	static uint32_t id_of(const vrdma_admin_cmd &cmd)
	{
		return VRDMA_GET(VRDMA_ADMIN_ID, cmd.header);
	}
	// Answers all commands. A PD gets the handle of its user context.
	void answer_all()
	{
		for (const vrdma_admin_cmd &cmd : commands)
			answer(id_of(cmd), 0, cmd.alloc_pd.ucontext);
		commands.clear();
	}

	int alloc_pd(uint32_t ucontext, uint32_t *handle)
	{
		return vrdma_cmd_alloc_pd(dev.get(), ucontext, handle);
	}

	// Makes a step every tenth of a second, for this time.
	void work_slowly(std::chrono::milliseconds time)
	{
		auto *page = static_cast<vrdma_status_page *>(dev->status_page.data);
		const auto end = std::chrono::steady_clock::now() + time;
		while (std::chrono::steady_clock::now() < end) {
			__atomic_fetch_add(&page->admin_steps, 1, __ATOMIC_RELEASE);
			std::this_thread::sleep_for(std::chrono::milliseconds(100));
		}
	}

	bool someone_waits()
	{
		pthread_mutex_lock(&dev->admin.lock);
		const bool waits = dev->admin.watched;
		pthread_mutex_unlock(&dev->admin.lock);
		return waits;
	}

	FakeBus bus;
	std::unique_ptr<vrdma_dev> dev;
	vrdma_admin_cmd *asq;
	vrdma_admin_cpl *acq;

	std::mutex lock;
	std::function<void()> device = [this] { answer_all(); };
	std::vector<vrdma_admin_cmd> commands; // not answered yet
	uint32_t taken = 0, answered = 0;
};

TEST_F(Admin, ACommandIsAnswered)
{
	uint32_t handle = 0;
	EXPECT_EQ(alloc_pd(77, &handle), 0);
	EXPECT_EQ(handle, 77u);
}

TEST_F(Admin, AStatusIsAnErrno)
{
	device = [this] {
		answer(id_of(commands.back()), EPERM, 0);
		commands.clear();
	};
	uint32_t handle = 0;
	EXPECT_EQ(alloc_pd(1, &handle), -EPERM);
	EXPECT_FALSE(vrdma_dev_failed(dev.get()));
}

TEST_F(Admin, AStatusThatIsNoErrnoIsEio)
{
	device = [this] {
		answer(id_of(commands.back()), 0x80000000, 0);
		commands.clear();
	};
	uint32_t handle = 0;
	EXPECT_EQ(alloc_pd(1, &handle), -EIO);
}

// The answer comes without an interrupt while the caller waits; expect the caller to find it, as it
// polls the queue from time to time.
TEST_F(Admin, ALostInterruptIsMadeUpFor)
{
	std::thread late;
	device = [this, &late] {
		const uint32_t id = id_of(commands.back());
		commands.clear();
		late = std::thread([this, id] {
			while (!someone_waits())
				std::this_thread::yield();
			answer(id, 0, 5, false);
		});
	};
	uint32_t handle = 0;
	EXPECT_EQ(alloc_pd(1, &handle), 0);
	EXPECT_EQ(handle, 5u);
	late.join();
}

// The device works on a command for longer than it may be silent; expect the answer.
TEST_F(Admin, ASlowDeviceIsWaitedFor)
{
	std::thread slow;
	device = [this, &slow] {
		const uint32_t id = id_of(commands.back());
		commands.clear();
		slow = std::thread([this, id] {
			work_slowly(std::chrono::milliseconds(VRDMA_ADMIN_TIMEOUT_MS + 500));
			answer(id, 0, 5);
		});
	};
	uint32_t handle = 0;
	EXPECT_EQ(alloc_pd(1, &handle), 0);
	EXPECT_EQ(handle, 5u);
	slow.join();
}

// Eight threads have commands outstanding, and the device answers the last one first.
TEST_F(Admin, AnswersInAnyOrderReachTheirCallers)
{
	constexpr uint32_t count = 8;
	device = [this] {
		if (commands.size() < count)
			return;
		for (auto cmd = commands.rbegin(); cmd != commands.rend(); ++cmd)
			answer(id_of(*cmd), 0, cmd->alloc_pd.ucontext);
		commands.clear();
	};
	std::vector<std::thread> threads;
	for (uint32_t i = 0; i < count; i++)
		threads.emplace_back([this, i] {
			uint32_t handle = 0;
			EXPECT_EQ(alloc_pd(1000 + i, &handle), 0);
			EXPECT_EQ(handle, 1000 + i);
		});
	for (std::thread &thread : threads)
		thread.join();
}

// More threads than the queue has entries, and more commands than one pass over the queue.
TEST_F(Admin, ThreadsWaitForAnEntry)
{
	std::vector<std::thread> threads;
	for (uint32_t i = 0; i < VRDMA_ADMIN_DEPTH + 16; i++)
		threads.emplace_back([this, i] {
			for (uint32_t j = 0; j < 20; j++) {
				uint32_t handle = 0;
				EXPECT_EQ(alloc_pd(i * 100 + j, &handle), 0);
				EXPECT_EQ(handle, i * 100 + j);
			}
		});
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(taken, (VRDMA_ADMIN_DEPTH + 16) * 20u);
}

TEST_F(Admin, AnAnswerToNothingIsTheDevicesEnd)
{
	device = [this] { answer(id_of(commands.back()) + 1, 0, 0); };
	uint32_t handle = 0;
	EXPECT_EQ(alloc_pd(1, &handle), -EIO);
	EXPECT_TRUE(vrdma_dev_failed(dev.get()));
	EXPECT_TRUE(dev->quiesced);
}

TEST_F(Admin, AnAnswerBeyondTheIdsIsTheDevicesEnd)
{
	device = [this] { answer(VRDMA_ADMIN_DEPTH, 0, 0); };
	uint32_t handle = 0;
	EXPECT_EQ(alloc_pd(1, &handle), -EIO);
	EXPECT_TRUE(vrdma_dev_failed(dev.get()));
}

TEST_F(Admin, AFailureEndsAllCommands)
{
	constexpr uint32_t count = 8;
	std::condition_variable all_out;
	device = [this, &all_out] {
		if (commands.size() == count)
			all_out.notify_one();
	};
	std::vector<std::thread> threads;
	for (uint32_t i = 0; i < count; i++)
		threads.emplace_back([this] {
			uint32_t handle = 0;
			EXPECT_EQ(alloc_pd(1, &handle), -EIO);
		});
	{
		std::unique_lock guard(lock);
		all_out.wait(guard, [this] { return commands.size() == count; });
	}
	vrdma_dev_fail(dev.get(), "the test says so");
	for (std::thread &thread : threads)
		thread.join();
}

TEST_F(Admin, AfterAFailureNothingIsAskedAndDestroyingWorks)
{
	vrdma_dev_fail(dev.get(), "the test says so");
	uint32_t handle = 0;
	EXPECT_EQ(alloc_pd(1, &handle), -EIO);
	EXPECT_EQ(vrdma_cmd_destroy(dev.get(), VRDMA_ADMIN_DEALLOC_PD, 1), 0);
	EXPECT_EQ(taken, 0u);
}

TEST_F(Admin, InAChildNothingIsAskedAndDestroyingWorks)
{
	dev->forked = true;
	uint32_t handle = 0;
	EXPECT_EQ(alloc_pd(1, &handle), -EIO);
	EXPECT_EQ(vrdma_cmd_destroy(dev.get(), VRDMA_ADMIN_DEALLOC_PD, 1), 0);
	EXPECT_EQ(taken, 0u);
	EXPECT_FALSE(dev->quiesced);
}

} // namespace
} // namespace vrdma::test
