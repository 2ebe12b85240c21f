// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "fake_kernel.h"

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <new>
#include <rdma/ib_user_verbs.h>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vrdma::test
{
namespace
{

constexpr size_t page_count = 3;
constexpr size_t header_size = sizeof(ib_uverbs_cmd_hdr);
constexpr uint8_t port_active = 4; // enum ib_port_state

// A command is a header, the core's request and then the provider's.
template <typename T> T part(const void *bytes, size_t offset = header_size)
{
	T value;
	memcpy(&value, static_cast<const uint8_t *>(bytes) + offset, sizeof(T));
	return value;
}

template <typename T> void answer(uint64_t address, const T &value)
{
	memcpy(reinterpret_cast<void *>(address), &value, sizeof(T));
}

} // namespace

FakeKernel &FakeKernel::instance()
{
	static FakeKernel kernel;
	return kernel;
}

FakeKernel::FakeKernel() : pages_fd_(memfd_create("vrdma-pages", MFD_CLOEXEC))
{
	const size_t size = page_count * 4096;

	pages_ = ftruncate(pages_fd_, off_t(size)) == 0
			 ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, pages_fd_, 0)
			 : MAP_FAILED;
	if (pages_ == MAP_FAILED)
		throw std::bad_alloc();
}

void FakeKernel::do_get_context(const void *bytes)
{
	struct {
		uint32_t async_fd, num_comp_vectors;
		vrdma_uverbs_alloc_ucontext_resp ours;
	} response{};

	response.async_fd = uint32_t(eventfd(0, EFD_CLOEXEC));
	response.num_comp_vectors = 1;
	response.ours.doorbell_mmap_offset = 0;
	response.ours.kick_mmap_offset = 4096;
	response.ours.status_mmap_offset = 8192;
	response.ours.max_inline = max_inline;
	response.ours.max_send_sge = max_sge;
	response.ours.max_recv_sge = max_sge;
	response.ours.max_qp_wr = max_qp_wr;
	response.ours.max_cqe = max_cqe;
	response.ours.max_srq_wr = max_qp_wr;
	response.ours.max_srq_sge = max_sge;
	answer(part<ib_uverbs_get_context>(bytes).response, response);
}

void FakeKernel::do_create_cq(const void *bytes)
{
	const auto request = part<ib_uverbs_create_cq>(bytes);
	const uint32_t response[] = {cq_handle, request.cqe, 0, 0};

	create_cq = part<vrdma_uverbs_create_cq>(bytes, header_size + sizeof(request));
	answer(request.response, response);
}

void FakeKernel::do_create_srq(const void *bytes)
{
	const auto request = part<ib_uverbs_create_srq>(bytes);

	create_srq = part<vrdma_uverbs_create_srq>(bytes, header_size + sizeof(request));
	answer(request.response, ib_uverbs_create_srq_resp{.srq_handle = srq_handle,
							   .max_wr = request.max_wr,
							   .max_sge = request.max_sge});
}

void FakeKernel::do_create_qp(const void *bytes)
{
	const auto request = part<ib_uverbs_create_qp>(bytes);
	const uint32_t response[] = {qp_handle,
				     qpn,
				     request.max_send_wr,
				     request.max_recv_wr,
				     request.max_send_sge,
				     request.max_recv_sge,
				     request.max_inline_data,
				     0,
				     slot,
				     0};

	create_qp = part<vrdma_uverbs_create_qp>(bytes, header_size + sizeof(request));
	create_qp_max_send_wr = request.max_send_wr;
	create_qp_max_inline = request.max_inline_data;
	create_qp_max_recv_wr = request.max_recv_wr;
	create_qp_srq = request.is_srq ? request.srq_handle : 0;
	answer(request.response, response);
}

void FakeKernel::do_rereg_mr(const void *bytes)
{
	const auto request = part<ib_uverbs_rereg_mr>(bytes);

	rereg_mr_handle = request.mr_handle;
	rereg_mr_flags = request.flags;
	rereg_mr_access = request.access_flags;
	answer(request.response, ib_uverbs_rereg_mr_resp{.lkey = lkey, .rkey = lkey});
}

void FakeKernel::do_reg_mr(const void *bytes)
{
	const auto request = part<ib_uverbs_reg_mr>(bytes);

	reg_mr_start = request.start;
	reg_mr_length = request.length;
	reg_mr_pd = request.pd_handle;
	answer(request.response, ib_uverbs_reg_mr_resp{.mr_handle = 9, .lkey = lkey, .rkey = lkey});
}

int FakeKernel::query(uint32_t command, const void *bytes)
{
	switch (command) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		do_get_context(bytes);
		return 0;
	case IB_USER_VERBS_CMD_QUERY_DEVICE: {
		ib_uverbs_query_device_resp response{};
		response.fw_ver = uint64_t(1) << 32 | 2 << 16 | 3;
		response.max_qp_wr = max_qp_wr;
		answer(part<ib_uverbs_query_device>(bytes).response, response);
		return 0;
	}
	case IB_USER_VERBS_CMD_QUERY_PORT: {
		ib_uverbs_query_port_resp response{};
		response.state = port_active;
		answer(part<ib_uverbs_query_port>(bytes).response, response);
		return 0;
	}
	case IB_USER_VERBS_CMD_MODIFY_QP:
		modify_qp_state = part<ib_uverbs_modify_qp>(bytes).qp_state;
		return 0;
	case IB_USER_VERBS_CMD_RESIZE_CQ: {
		const auto request = part<ib_uverbs_resize_cq>(bytes);
		const uint32_t response[] = {request.cqe, 0};
		resize_cq = part<vrdma_uverbs_resize_cq>(bytes, header_size + sizeof(request));
		answer(request.response, response);
		return 0;
	}
	case IB_USER_VERBS_CMD_MODIFY_SRQ: {
		const auto request = part<ib_uverbs_modify_srq>(bytes);
		modify_srq_mask = request.attr_mask;
		modify_srq_max_wr = request.max_wr;
		if (request.attr_mask & IBV_SRQ_LIMIT)
			modify_srq_limit = request.srq_limit;
		if (request.attr_mask & IBV_SRQ_MAX_WR)
			resize_srq = part<vrdma_uverbs_resize_srq>(bytes,
								   header_size + sizeof(request));
		return 0;
	}
	case IB_USER_VERBS_CMD_QUERY_SRQ: {
		ib_uverbs_query_srq_resp response{};
		response.srq_limit = modify_srq_limit;
		answer(part<ib_uverbs_query_srq>(bytes).response, response);
		return 0;
	}
	case IB_USER_VERBS_CMD_QUERY_QP: {
		ib_uverbs_query_qp_resp response{};
		response.qp_state = modify_qp_state;
		answer(part<ib_uverbs_query_qp>(bytes).response, response);
		return 0;
	}
	case IB_USER_VERBS_CMD_ATTACH_MCAST: {
		const auto request = part<ib_uverbs_attach_mcast>(bytes);
		groups.emplace(request.qp_handle, std::to_array(request.gid));
		return 0;
	}
	case IB_USER_VERBS_CMD_DETACH_MCAST: {
		const auto request = part<ib_uverbs_detach_mcast>(bytes);
		return groups.erase({request.qp_handle, std::to_array(request.gid)}) ? 0 : EINVAL;
	}
	case IB_USER_VERBS_CMD_REREG_MR:
		do_rereg_mr(bytes);
		return 0;
	default:
		return ENOSYS;
	}
}

int FakeKernel::create(uint32_t command, const void *bytes)
{
	switch (command) {
	case IB_USER_VERBS_CMD_ALLOC_PD: {
		const uint32_t response[] = {pd_handle, 0, 0};
		answer(part<ib_uverbs_alloc_pd>(bytes).response, response);
		break;
	}
	case IB_USER_VERBS_CMD_REG_MR:
		do_reg_mr(bytes);
		break;
	case IB_USER_VERBS_CMD_ALLOC_MW:
		answer(part<ib_uverbs_alloc_mw>(bytes).response,
		       ib_uverbs_alloc_mw_resp{.mw_handle = 10, .rkey = mw_rkey});
		break;
	case IB_USER_VERBS_CMD_CREATE_CQ:
		do_create_cq(bytes);
		break;
	case IB_USER_VERBS_CMD_CREATE_SRQ:
		do_create_srq(bytes);
		break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		do_create_qp(bytes);
		break;
	case IB_USER_VERBS_CMD_CREATE_AH: {
		const uint32_t response[] = {ah_handle, ah, 0};
		answer(part<ib_uverbs_create_ah>(bytes).response, response);
		break;
	}
	default:
		return ENOSYS;
	}
	live_objects++;
	return 0;
}

int FakeKernel::destroy(uint32_t command, const void *bytes)
{
	switch (command) {
	case IB_USER_VERBS_CMD_DESTROY_CQ:
		answer(part<ib_uverbs_destroy_cq>(bytes).response, ib_uverbs_destroy_cq_resp{});
		break;
	case IB_USER_VERBS_CMD_DESTROY_SRQ:
		answer(part<ib_uverbs_destroy_srq>(bytes).response, ib_uverbs_destroy_srq_resp{});
		break;
	case IB_USER_VERBS_CMD_DESTROY_QP:
		answer(part<ib_uverbs_destroy_qp>(bytes).response, ib_uverbs_destroy_qp_resp{});
		break;
	case IB_USER_VERBS_CMD_DEALLOC_PD:
	case IB_USER_VERBS_CMD_DEREG_MR:
	case IB_USER_VERBS_CMD_DEALLOC_MW:
	case IB_USER_VERBS_CMD_DESTROY_AH:
		break;
	default:
		return ENOSYS;
	}
	live_objects--;
	return 0;
}

int FakeKernel::command(const void *bytes, size_t size)
{
	const auto header = part<ib_uverbs_cmd_hdr>(bytes, 0);

	if (header.command & IB_USER_VERBS_CMD_FLAG_EXTENDED)
		return ENOSYS;
	if (header.in_words * 4u != size)
		return EINVAL;
	if (const auto refusal = refusals.find(header.command); refusal != refusals.end())
		return refusal->second;

	for (auto handler : {&FakeKernel::query, &FakeKernel::create, &FakeKernel::destroy})
		if (const int error = (this->*handler)(header.command, bytes); error != ENOSYS)
			return error;
	return ENOSYS;
}

} // namespace vrdma::test

namespace
{

using vrdma::test::FakeKernel;

constexpr std::string_view uverbs_path = "/dev/infiniband/uverbs0";
constexpr const char *stand_in = "/dev/null";
constexpr int netlink_rdma = 20;

int uverbs_fd = -1; // while it is open

template <typename Function> Function next(Function, const char *name)
{
	return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int fail(int error)
{
	errno = error;
	return -1;
}

} // namespace

// Replaces the system calls of this process and of the libraries in it.
extern "C" {

int stat(const char *path, struct stat *result) noexcept
{
	return next(stat, "stat")(path == uverbs_path ? stand_in : path, result);
}

int open(const char *path, int flags, ...)
{
	va_list arguments;
	va_start(arguments, flags);
	const auto mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);

	const auto real = next(open, "open");
	if (path != uverbs_path)
		return real(path, flags, mode);
	return uverbs_fd = real(stand_in, flags, mode);
}

int close(int fd)
{
	if (fd == uverbs_fd)
		uverbs_fd = -1;
	return next(close, "close")(fd);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
	if (fd != uverbs_fd)
		return next(write, "write")(fd, bytes, size);
	const int error = FakeKernel::instance().command(bytes, size);
	return error ? fail(error) : ssize_t(size);
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) noexcept
{
	if (fd >= 0 && fd == uverbs_fd)
		fd = FakeKernel::instance().pages_fd();
	return next(mmap, "mmap")(address, size, protection, flags, fd, offset);
}

int socket(int domain, int type, int protocol) noexcept
{
	if (domain == AF_NETLINK && protocol == netlink_rdma)
		return fail(EPROTONOSUPPORT);
	return next(socket, "socket")(domain, type, protocol);
}

} // extern "C"
