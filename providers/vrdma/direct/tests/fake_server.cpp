// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "fake_server.h"

#include <linux/vfio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace vrdma::test
{

FakeServer::FakeServer()
    : doorbell_fd(memfd_create("doorbells", MFD_CLOEXEC)),
      kick_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
	std::array<int, 2> fds{};
	if (ftruncate(doorbell_fd, doorbell_size) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()))
		abort();
	fd_ = fds[0];
	client_fd_ = fds[1];
}

FakeServer::~FakeServer()
{
	hang_up();
	if (thread_.joinable())
		thread_.join();
	else
		close(client_fd_);
	close(fd_);
	close(kick_fd);
	close(doorbell_fd);
}

int FakeServer::connect()
{
	thread_ = std::thread([this] { run(); });
	return client_fd_;
}

void FakeServer::run()
{
	Request request;

	while (receive(request)) {
		const auto answer = answers.find(request.header.command);
		{
			const std::lock_guard guard(lock_);
			requests_.push_back(request);
		}
		if (answer != answers.end())
			answer->second(*this, request);
		else
			answer_well(request);
	}
}

bool FakeServer::receive(Request &request)
{
	alignas(cmsghdr) std::array<char, CMSG_SPACE(64 * sizeof(int))> control{};
	iovec part{&request.header, sizeof(request.header)};
	msghdr message{};
	message.msg_iov = &part;
	message.msg_iovlen = 1;
	message.msg_control = control.data();
	message.msg_controllen = control.size();
	if (recvmsg(fd_, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != sizeof(request.header))
		return false;

	request.num_fds = 0;
	if (const cmsghdr *cmsg = CMSG_FIRSTHDR(&message)) {
		request.num_fds = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < request.num_fds; i++) {
			int fd;
			std::memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(fd), sizeof(fd));
			close(fd);
		}
	}
	request.payload.resize(request.header.size - sizeof(request.header));
	return request.payload.empty() ||
	       recv(fd_, request.payload.data(), request.payload.size(), MSG_WAITALL) ==
		       static_cast<ssize_t>(request.payload.size());
}

void FakeServer::send(const vfio_user_header &header, const void *payload, size_t size,
		      const std::vector<int> &fds)
{
	alignas(cmsghdr) std::array<char, CMSG_SPACE(64 * sizeof(int))> control{};
	std::array<iovec, 2> parts{{{const_cast<vfio_user_header *>(&header), sizeof(header)},
				    {const_cast<void *>(payload), size}}};
	msghdr message{};
	message.msg_iov = parts.data();
	message.msg_iovlen = parts.size();
	if (!fds.empty()) {
		message.msg_control = control.data();
		message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
		cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
		std::memcpy(CMSG_DATA(cmsg), fds.data(), fds.size() * sizeof(int));
	}
	[[maybe_unused]] const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
}

void FakeServer::reply(const Request &request, const void *payload, size_t size,
		       const std::vector<int> &fds)
{
	vfio_user_header header = request.header;
	header.size = static_cast<uint32_t>(sizeof(header) + size);
	header.flags = VFIO_USER_TYPE_REPLY;
	send(header, payload, size, fds);
}

void FakeServer::refuse(const Request &request, uint32_t error)
{
	vfio_user_header header = request.header;
	header.size = sizeof(header);
	header.flags = VFIO_USER_TYPE_REPLY | VFIO_USER_F_ERROR;
	header.error = error;
	send(header, nullptr, 0);
}

void FakeServer::hang_up()
{
	shutdown(fd_, SHUT_RDWR);
}

void FakeServer::answer_well(const Request &request)
{
	if (request.header.flags & VFIO_USER_F_NO_REPLY)
		return;
	switch (request.header.command) {
	case VFIO_USER_VERSION: {
		std::vector<char> payload(sizeof(vfio_user_version) + capabilities.size() + 1);
		const vfio_user_version version{VFIO_USER_MAJOR, VFIO_USER_MINOR};
		std::memcpy(payload.data(), &version, sizeof(version));
		std::memcpy(payload.data() + sizeof(version), capabilities.c_str(),
			    capabilities.size() + 1);
		return reply(request, payload.data(), payload.size());
	}
	case VFIO_USER_DEVICE_GET_REGION_INFO: {
		auto info = request.read<vfio_user_region_info>();
		info.flags = VFIO_REGION_INFO_FLAG_MMAP;
		info.size = doorbell_size;
		return reply(request, &info, sizeof(info), {doorbell_fd});
	}
	case VFIO_USER_DEVICE_GET_REGION_IO_FDS: {
		struct {
			vfio_user_region_io_fds head;
			vfio_user_ioeventfd region;
		} answer{request.read<vfio_user_region_io_fds>(), {}};
		answer.head.count = 1;
		answer.region.offset = VRDMA_BAR0_KICK_OFFSET;
		answer.region.size = 4;
		return reply(request, &answer, sizeof(answer), {kick_fd});
	}
	case VFIO_USER_REGION_READ: {
		struct {
			vfio_user_region_access access;
			uint32_t value;
		} answer{request.read<vfio_user_region_access>(), 0};
		answer.value = registers[answer.access.offset];
		return reply(request, &answer, sizeof(answer.access) + sizeof(answer.value));
	}
	case VFIO_USER_REGION_WRITE: {
		const auto access = request.read<vfio_user_region_access>();
		if (access.region == VFIO_PCI_BAR0_REGION_INDEX)
			registers[access.offset] = request.read<uint32_t>(sizeof(access));
		return reply(request, &access, sizeof(access));
	}
	default:
		return reply(request, nullptr, 0);
	}
}

std::vector<Request> FakeServer::requests_of(uint16_t command)
{
	std::vector<Request> found;
	if (thread_.joinable())
		thread_.join();
	for (const Request &request : requests_)
		if (request.header.command == command)
			found.push_back(request);
	return found;
}

} // namespace vrdma::test
