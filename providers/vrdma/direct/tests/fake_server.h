// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The server of a device at the other end of a socket. It answers as the protocol requires, unless
// a test replaces an answer.
#ifndef VRDMA_FAKE_SERVER_H
#define VRDMA_FAKE_SERVER_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <vrdma/device.h>
#include <vrdma/vfio_user.h>

namespace vrdma::test
{

struct Request {
	vfio_user_header header{};
	std::vector<uint8_t> payload;
	size_t num_fds = 0;

	template <typename T> T read(size_t offset = 0) const
	{
		T value{};
		if (payload.size() >= offset + sizeof(value))
			std::memcpy(&value, payload.data() + offset, sizeof(value));
		return value;
	}
};

class FakeServer
{
      public:
	using Answer = std::function<void(FakeServer &, const Request &)>;

	FakeServer();
	~FakeServer();
	FakeServer(const FakeServer &) = delete;
	FakeServer &operator=(const FakeServer &) = delete;

	// Answers, by command, that replace the protocol's. Set them before a client attaches.
	std::map<uint16_t, Answer> answers;
	std::string capabilities = R"({"capabilities":{"max_msg_fds":8}})";

	// Starts the server. Returns the client's end, which the client closes.
	int connect();

	// Functions for answers.
	void reply(const Request &request, const void *payload, size_t size,
		   const std::vector<int> &fds = {});
	void refuse(const Request &request, uint32_t error);
	void send(const vfio_user_header &header, const void *payload, size_t size,
		  const std::vector<int> &fds = {});
	void hang_up();
	void answer_well(const Request &request);

	// The requests of a command. To be called after the client has closed its end.
	std::vector<Request> requests_of(uint16_t command);

	std::map<uint64_t, uint32_t> registers;
	int doorbell_fd, kick_fd;
	static constexpr uint64_t doorbell_size = 4 * VRDMA_PAGE_SIZE;

      private:
	void run();
	bool receive(Request &request);

	int fd_ = -1, client_fd_ = -1;
	std::thread thread_;
	std::mutex lock_;
	std::vector<Request> requests_;
};

} // namespace vrdma::test

#endif // VRDMA_FAKE_SERVER_H
