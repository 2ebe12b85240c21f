// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Tests the client of the protocol with a server that answers correctly, wrongly, late or never.
#include "bus.h"

#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "fake_server.h"

namespace vrdma::test
{
namespace
{

struct CloseBus {
	void operator()(vrdma_bus *bus) const
	{
		bus->ops->close(bus);
	}
};
using Bus = std::unique_ptr<vrdma_bus, CloseBus>;

class VfioUser : public testing::Test
{
      protected:
	Bus attach()
	{
		return Bus(vrdma_vfio_user_attach(server.connect()));
	}
	void expect_no_bus(int error)
	{
		errno = 0;
		EXPECT_FALSE(attach());
		EXPECT_EQ(errno, error);
	}
	static bool is_gone(const Bus &bus)
	{
		pollfd fd{bus->hangup_fd, 0, 0};
		return poll(&fd, 1, 0) == 1 && fd.revents & POLLHUP;
	}
	int map(const Bus &bus) const
	{
		const vrdma_dma dma{0x10000, 0x2000, nullptr, server.doorbell_fd, 0x1000};
		return bus->ops->map(bus.get(), &dma);
	}

	FakeServer server;
};

TEST_F(VfioUser, BringsDoorbellsAndTheKick)
{
	const Bus bus = attach();
	ASSERT_TRUE(bus);
	EXPECT_EQ(bus->doorbells_size, FakeServer::doorbell_size);
	bus->doorbells[1].slot[100] = 7;
	uint8_t seen = 0;
	EXPECT_EQ(pread(server.doorbell_fd, &seen, 1, 4096 + 100), 1);
	EXPECT_EQ(seen, 7);

	const uint64_t one = 1;
	EXPECT_EQ(::write(bus->kick_fd, &one, sizeof(one)), ssize_t{sizeof(one)});
	uint64_t count = 0;
	EXPECT_EQ(::read(server.kick_fd, &count, sizeof(count)), ssize_t{sizeof(count)});
}

// A process that has no file to spare abandons the device, as a child of fork() does: expects its
// kicks and doorbells to reach nobody.
TEST_F(VfioUser, IsAbandonedWithoutAFileToSpare)
{
	const Bus bus = attach();
	ASSERT_TRUE(bus);
	rlimit limit{};
	getrlimit(RLIMIT_NOFILE, &limit);
	const rlimit few{static_cast<rlim_t>(bus->kick_fd) + 16, limit.rlim_max};
	setrlimit(RLIMIT_NOFILE, &few);
	std::vector<int> files;
	for (int fd; (fd = dup(STDIN_FILENO)) >= 0;)
		files.push_back(fd);

	bus->ops->abandon(bus.get());

	setrlimit(RLIMIT_NOFILE, &limit);
	for (const int fd : files)
		close(fd);
	bus->doorbells[1].slot[100] = 7;
	uint8_t seen = 0;
	EXPECT_EQ(pread(server.doorbell_fd, &seen, 1, 4096 + 100), 1);
	EXPECT_EQ(seen, 0);
	const uint64_t one = 1;
	EXPECT_EQ(::write(bus->kick_fd, &one, sizeof(one)), ssize_t{sizeof(one)});
	pollfd kicked{server.kick_fd, POLLIN, 0};
	EXPECT_EQ(poll(&kicked, 1, 0), 0);
}

TEST_F(VfioUser, SaysWhatItIs)
{
	attach();
	const auto versions = server.requests_of(VFIO_USER_VERSION);
	ASSERT_EQ(versions.size(), 1u);
	const auto version = versions[0].read<vfio_user_version>();
	EXPECT_EQ(version.major, 0);
	EXPECT_EQ(version.minor, 1);
	EXPECT_EQ(versions[0].payload.back(), 0);
}

TEST_F(VfioUser, ReadsAndWritesRegisters)
{
	server.registers[0x10] = 0x12345678;
	{
		const Bus bus = attach();
		ASSERT_TRUE(bus);
		EXPECT_EQ(bus->ops->read(bus.get(), 0x10), 0x12345678u);
		bus->ops->write(bus.get(), 0x14, 5);
		EXPECT_EQ(bus->ops->read(bus.get(), 0x14), 5u);
		bus->ops->post(bus.get(), 0x40, 1);
		EXPECT_EQ(bus->ops->read(bus.get(), 0x10), 0x12345678u);
	}
	const auto writes = server.requests_of(VFIO_USER_REGION_WRITE);
	ASSERT_EQ(writes.size(), 3u); // the first is of the Command register
	EXPECT_EQ(writes[1].header.flags, 0u);
	EXPECT_EQ(writes[2].header.flags, VFIO_USER_F_NO_REPLY);
}

// The client allows the device to access the process's memory, as a driver does with Bus Master.
TEST_F(VfioUser, AllowsAccessToMemory)
{
	attach();
	const auto writes = server.requests_of(VFIO_USER_REGION_WRITE);
	ASSERT_EQ(writes.size(), 1u);
	const auto access = writes[0].read<vfio_user_region_access>();
	EXPECT_EQ(access.region, uint32_t{VFIO_PCI_CONFIG_REGION_INDEX});
	EXPECT_EQ(access.offset, uint64_t{PCI_COMMAND});
	EXPECT_EQ(access.count, 2u);
	EXPECT_EQ(writes[0].read<uint16_t>(sizeof(access)), PCI_COMMAND_MASTER);
}

TEST_F(VfioUser, MapsAndUnmapsMemory)
{
	{
		const Bus bus = attach();
		ASSERT_TRUE(bus);
		EXPECT_EQ(map(bus), 0);
		EXPECT_EQ(bus->ops->unmap(bus.get(), 0x10000, 0x2000), 0);
	}
	const auto maps = server.requests_of(VFIO_USER_DMA_MAP);
	ASSERT_EQ(maps.size(), 1u);
	EXPECT_EQ(maps[0].num_fds, 1u);
	const auto mapped = maps[0].read<vfio_user_dma_map>();
	EXPECT_EQ(mapped.address, 0x10000u);
	EXPECT_EQ(mapped.size, 0x2000u);
	EXPECT_EQ(mapped.offset, 0x1000u);
	const auto unmaps = server.requests_of(VFIO_USER_DMA_UNMAP);
	ASSERT_EQ(unmaps.size(), 1u);
	EXPECT_EQ(unmaps[0].read<vfio_user_dma_unmap>().size, 0x2000u);
}

// A message has no more descriptors than the server accepts. A server that states no limit gets one
// per message.
TEST_F(VfioUser, SplitsVectorsToWhatTheServerTakes)
{
	server.capabilities = "";
	{
		const Bus bus = attach();
		ASSERT_TRUE(bus);
		const std::vector<int> fds(3, server.kick_fd);
		EXPECT_EQ(bus->ops->set_vectors(bus.get(), fds.data(), 3), 0);
	}
	const auto sets = server.requests_of(VFIO_USER_DEVICE_SET_IRQS);
	ASSERT_EQ(sets.size(), 3u);
	for (uint32_t i = 0; i < 3; i++) {
		const auto set = sets[i].read<vfio_user_irq_set>();
		EXPECT_EQ(sets[i].num_fds, 1u);
		EXPECT_EQ(set.index, uint32_t{VFIO_PCI_MSIX_IRQ_INDEX});
		EXPECT_EQ(set.start, i);
		EXPECT_EQ(set.count, 1u);
	}
}

TEST_F(VfioUser, ARefusalIsItsErrorAndNotTheEnd)
{
	server.answers[VFIO_USER_DMA_MAP] = [](FakeServer &self, const Request &request) {
		self.refuse(request, ENOSPC);
	};
	const Bus bus = attach();
	ASSERT_TRUE(bus);
	EXPECT_EQ(map(bus), -ENOSPC);
	EXPECT_EQ(bus->ops->unmap(bus.get(), 0x10000, 0x2000), 0);
	EXPECT_FALSE(is_gone(bus));
}

TEST_F(VfioUser, ARefusalWithoutAnErrorIsEio)
{
	server.answers[VFIO_USER_DMA_MAP] = [](FakeServer &self, const Request &request) {
		self.refuse(request, 0);
	};
	const Bus bus = attach();
	ASSERT_TRUE(bus);
	EXPECT_EQ(map(bus), -EIO);
	EXPECT_FALSE(is_gone(bus));
}

struct Wrong {
	const char *name;
	FakeServer::Answer answer;
};

// Each of these replies ends the connection: the request fails, and so do all later ones.
class WrongReply : public VfioUser, public testing::WithParamInterface<Wrong>
{
};

TEST_P(WrongReply, EndsTheConnection)
{
	server.answers[VFIO_USER_REGION_READ] = GetParam().answer;
	const Bus bus = attach();
	ASSERT_TRUE(bus);
	const timeval soon{.tv_sec = 0, .tv_usec = 50000};
	setsockopt(bus->hangup_fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	EXPECT_EQ(bus->ops->read(bus.get(), 0), UINT32_MAX);
	EXPECT_TRUE(is_gone(bus));
	EXPECT_EQ(map(bus), -EIO);
	EXPECT_EQ(bus->ops->unmap(bus.get(), 0, 0x1000), -EIO);
}

vfio_user_header header_of(const Request &request, uint32_t payload)
{
	vfio_user_header header = request.header;
	header.size = static_cast<uint32_t>(sizeof(header) + payload);
	header.flags = VFIO_USER_TYPE_REPLY;
	return header;
}

constexpr uint8_t zeros[64]{};
constexpr uint32_t read_size = sizeof(vfio_user_region_access) + sizeof(uint32_t);

const Wrong wrongs[] = {
	{"WrongId",
	 [](FakeServer &self, const Request &request) {
		 vfio_user_header header = header_of(request, read_size);
		 header.id++;
		 self.send(header, zeros, read_size);
	 }},
	{"WrongCommand",
	 [](FakeServer &self, const Request &request) {
		 vfio_user_header header = header_of(request, read_size);
		 header.command = VFIO_USER_DMA_MAP;
		 self.send(header, zeros, read_size);
	 }},
	{"NoReply",
	 [](FakeServer &self, const Request &request) {
		 vfio_user_header header = header_of(request, read_size);
		 header.flags = VFIO_USER_TYPE_COMMAND;
		 self.send(header, zeros, read_size);
	 }},
	{"TooShort", [](FakeServer &self,
			const Request &request) { self.reply(request, zeros, read_size - 1); }},
	{"TooLong", [](FakeServer &self,
		       const Request &request) { self.reply(request, zeros, read_size + 1); }},
	{"ShorterThanAHeader",
	 [](FakeServer &self, const Request &request) {
		 vfio_user_header header = header_of(request, 0);
		 header.size = 3;
		 self.send(header, nullptr, 0);
	 }},
	{"HugeSize",
	 [](FakeServer &self, const Request &request) {
		 vfio_user_header header = header_of(request, 0);
		 header.size = UINT32_MAX;
		 self.send(header, nullptr, 0);
	 }},
	{"RefusalWithAPayload",
	 [](FakeServer &self, const Request &request) {
		 vfio_user_header header = header_of(request, read_size);
		 header.flags |= VFIO_USER_F_ERROR;
		 header.error = EINVAL;
		 self.send(header, zeros, read_size);
	 }},
	{"HangUp", [](FakeServer &self, const Request &) { self.hang_up(); }},
	{"HangUpInTheMiddle",
	 [](FakeServer &self, const Request &request) {
		 self.send(header_of(request, read_size), zeros, read_size / 2);
		 self.hang_up();
	 }},
	{"Silence", [](FakeServer &, const Request &) {}},
	{"SilenceInTheMiddle",
	 [](FakeServer &self, const Request &request) {
		 self.send(header_of(request, read_size), zeros, read_size / 2);
	 }},
};
INSTANTIATE_TEST_SUITE_P(Each, WrongReply, testing::ValuesIn(wrongs),
			 [](const auto &param) { return param.param.name; });

// The client closes descriptors that it did not request: as many are open as before.
TEST_F(VfioUser, KeepsNoDescriptorsThatItDidNotWant)
{
	server.answers[VFIO_USER_REGION_READ] = [](FakeServer &self, const Request &request) {
		self.reply(request, zeros, read_size, std::vector<int>(40, self.kick_fd));
	};
	const Bus bus = attach();
	ASSERT_TRUE(bus);
	const int before = dup(0);
	close(before);
	EXPECT_EQ(bus->ops->read(bus.get(), 0), 0u);
	const int after = dup(0);
	close(after);
	EXPECT_EQ(before, after);
}

TEST_F(VfioUser, RefusesAnotherMajorVersion)
{
	server.answers[VFIO_USER_VERSION] = [](FakeServer &self, const Request &request) {
		const vfio_user_version version{1, 0};
		self.reply(request, &version, sizeof(version));
	};
	expect_no_bus(EPROTONOSUPPORT);
}

TEST_F(VfioUser, NeedsDoorbellPages)
{
	server.answers[VFIO_USER_DEVICE_GET_REGION_INFO] = [](FakeServer &self,
							      const Request &request) {
		const auto info = request.read<vfio_user_region_info>();
		self.reply(request, &info, sizeof(info));
	};
	expect_no_bus(EPROTO);
}

TEST_F(VfioUser, NeedsAKick)
{
	server.answers[VFIO_USER_DEVICE_GET_REGION_IO_FDS] = [](FakeServer &self,
								const Request &request) {
		const auto none = request.read<vfio_user_region_io_fds>();
		self.reply(request, &none, sizeof(none));
	};
	expect_no_bus(EPROTO);
}

TEST_F(VfioUser, NeedsADescriptorForTheKick)
{
	server.answers[VFIO_USER_DEVICE_GET_REGION_IO_FDS] = [](FakeServer &self,
								const Request &request) {
		struct {
			vfio_user_region_io_fds head;
			vfio_user_ioeventfd region;
		} answer{request.read<vfio_user_region_io_fds>(), {}};
		answer.region.offset = VRDMA_BAR0_KICK_OFFSET;
		answer.region.fd_index = 1;
		self.reply(request, &answer, sizeof(answer), {self.kick_fd});
	};
	expect_no_bus(EPROTO);
}

TEST_F(VfioUser, AServerThatHangsUpAtOnceIsEio)
{
	server.answers[VFIO_USER_VERSION] = [](FakeServer &self, const Request &) {
		self.hang_up();
	};
	expect_no_bus(EIO);
}

TEST_F(VfioUser, AbandonedItSaysNothing)
{
	Bus bus = attach();
	ASSERT_TRUE(bus);
	bus->ops->abandon(bus.get());
	bus->doorbells[1].slot[100] = 7;
	uint8_t seen = 0;
	EXPECT_EQ(pread(server.doorbell_fd, &seen, 1, 4096 + 100), 1);
	EXPECT_EQ(seen, 0);

	const uint64_t one = 1;
	EXPECT_EQ(::write(bus->kick_fd, &one, sizeof(one)), ssize_t{sizeof(one)});
	uint64_t count = 0;
	EXPECT_EQ(::read(server.kick_fd, &count, sizeof(count)), -1);
	EXPECT_EQ(bus->ops->read(bus.get(), 0), UINT32_MAX);
	bus.reset();
	EXPECT_TRUE(server.requests_of(VFIO_USER_REGION_READ).empty());
}

TEST(VfioUserOpen, FailsAsConnectDoes)
{
	errno = 0;
	EXPECT_EQ(vrdma_vfio_user_open("/nonexistent/socket"), nullptr);
	EXPECT_EQ(errno, ENOENT);
	EXPECT_EQ(vrdma_vfio_user_open(std::string(200, 'x').c_str()), nullptr);
	EXPECT_EQ(errno, ENAMETOOLONG);
}

} // namespace
} // namespace vrdma::test
