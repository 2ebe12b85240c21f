// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A fake kernel for libibverbs in this process: /dev/infiniband/uverbs0 with the uverbs commands
// that the provider uses, in their write() form, and the pages that it maps. There is no RDMA
// netlink, so libibverbs looks for devices in sysfs (fake_sysfs.h).
#ifndef VRDMA_FAKE_KERNEL_H
#define VRDMA_FAKE_KERNEL_H

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include <vrdma/queue.h>
#include <vrdma/uverbs.h>

namespace vrdma::test
{

class FakeKernel
{
      public:
	static FakeKernel &instance();

	// The parameters that the provider sent last.
	vrdma_uverbs_create_cq create_cq{};
	vrdma_uverbs_resize_cq resize_cq{};
	vrdma_uverbs_create_srq create_srq{};
	vrdma_uverbs_resize_srq resize_srq{};
	vrdma_uverbs_create_qp create_qp{};
	uint32_t create_qp_max_send_wr = 0, create_qp_max_inline = 0;
	uint32_t create_qp_max_recv_wr = 0, create_qp_srq = 0;
	uint8_t modify_qp_state = 0;
	uint32_t modify_srq_mask = 0, modify_srq_max_wr = 0, modify_srq_limit = 0;
	uint64_t reg_mr_start = 0, reg_mr_length = 0;
	uint32_t reg_mr_pd = 0;
	uint32_t rereg_mr_handle = 0, rereg_mr_flags = 0, rereg_mr_access = 0;

	// Commands to refuse, and the errno of each.
	std::map<uint32_t, int> refusals;
	// Handles of QPs and the multicast groups that they are attached to.
	std::set<std::pair<uint32_t, std::array<uint8_t, 16>>> groups;
	// Objects that were created and not destroyed.
	int live_objects = 0;

	vrdma_doorbell_page &doorbells()
	{
		return *static_cast<vrdma_doorbell_page *>(page(0));
	}
	uint32_t &kick()
	{
		return *static_cast<uint32_t *>(page(1));
	}
	vrdma_status_page &status()
	{
		return *static_cast<vrdma_status_page *>(page(2));
	}

	static constexpr uint32_t pd_handle = 3, cq_handle = 4, qp_handle = 5, ah_handle = 6,
				  srq_handle = 7;
	static constexpr uint32_t qpn = 0x00abcd, ah = 0x4444, slot = 130, lkey = 0x7777,
				  mw_rkey = 0x8801;
	static constexpr uint32_t max_inline = 256, max_sge = 8, max_qp_wr = 1024, max_cqe = 4096;

	// Executes a command that was written to the device. Returns 0 or an errno.
	int command(const void *bytes, size_t size);

	// The memory behind the device's pages.
	int pages_fd() const
	{
		return pages_fd_;
	}

      private:
	FakeKernel();
	void *page(unsigned int index)
	{
		return static_cast<uint8_t *>(pages_) + index * 4096;
	}
	int query(uint32_t command, const void *bytes);
	int create(uint32_t command, const void *bytes);
	int destroy(uint32_t command, const void *bytes);
	void do_get_context(const void *bytes);
	void do_create_cq(const void *bytes);
	void do_create_srq(const void *bytes);
	void do_create_qp(const void *bytes);
	void do_reg_mr(const void *bytes);
	void do_rereg_mr(const void *bytes);

	int pages_fd_;
	void *pages_;
};

} // namespace vrdma::test

#endif // VRDMA_FAKE_KERNEL_H
