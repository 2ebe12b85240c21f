// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// QPs and CQs in plain memory, with the device's side of both: it reads WQEs and writes CQEs.
#ifndef VRDMA_QUEUE_FIXTURE_H
#define VRDMA_QUEUE_FIXTURE_H

#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "completion_queue.h"

namespace vrdma::test
{

class PageBuffer
{
      public:
	explicit PageBuffer(uint64_t size) : bytes_(new (page) uint8_t[size]())
	{
	}

	uint8_t *data()
	{
		return bytes_.get();
	}

      private:
	static constexpr std::align_val_t page{4096};
	struct Delete {
		void operator()(uint8_t *bytes) const
		{
			::operator delete[](bytes, page);
		}
	};
	std::unique_ptr<uint8_t[], Delete> bytes_;
};

// The device's pages, which show the guest's doorbells and kicks.
struct DevicePages {
	vrdma_doorbell_page doorbells{};
	vrdma_status_page status{};
	__le32 kick = 0;
};

struct QpOptions {
	ibv_qp_type type = IBV_QPT_RC;
	ibv_qp_cap cap{.max_send_wr = 4,
		       .max_recv_wr = 4,
		       .max_send_sge = 2,
		       .max_recv_sge = 2,
		       .max_inline_data = 64};
	bool signal_all = false;
	uint32_t qpn = 0x123456;
	uint32_t slot = 200;
	ibv_qp_state state = IBV_QPS_RTS;
};

class TestQp
{
      public:
	explicit TestQp(const QpOptions &options = {})
	    : cap_(options.cap), layout_(fit(cap_)), buffer_(size(layout_))
	{
		ibv_qp_init_attr_ex attr{};
		attr.qp_type = options.type;
		attr.cap = cap_;
		attr.sq_sig_all = options.signal_all;
		if (vrdma_queue_pair_init(&queues, buffer_.data(), &layout_, &attr))
			throw std::bad_alloc();
		queues.qpn = options.qpn;
		queues.doorbell = {.page = &pages.doorbells,
				   .status = &pages.status,
				   .kick_page = &pages.kick,
				   .slot = options.slot};
		vrdma_queue_pair_set_state(&queues, options.state);
	}
	TestQp(const TestQp &) = delete;
	TestQp &operator=(const TestQp &) = delete;
	~TestQp()
	{
		vrdma_queue_pair_destroy(&queues);
	}

	int send(ibv_send_wr &wr)
	{
		return vrdma_queue_send(&queues, &wr, &bad_send);
	}
	int receive(ibv_recv_wr &wr)
	{
		return vrdma_queue_receive(&queues, &wr, &bad_receive);
	}

	vrdma_qp_control &control()
	{
		return *reinterpret_cast<vrdma_qp_control *>(buffer_.data());
	}
	const ibv_qp_cap &cap() const
	{
		return cap_;
	}
	uint32_t sq_depth() const
	{
		return layout_.sq_depth;
	}

	// WQE number index, at the place that the format defines. Does not use the provider's code.
	template <typename T = vrdma_sq_wqe> const T *sent(uint32_t index)
	{
		return reinterpret_cast<const T *>(
			buffer_.data() + vrdma_sq_offset(layout_.sq_stride_shift) +
			(uint64_t(index % layout_.sq_depth) << layout_.sq_stride_shift));
	}
	const vrdma_rq_wqe *received(uint32_t index)
	{
		return reinterpret_cast<const vrdma_rq_wqe *>(
			buffer_.data() +
			vrdma_rq_offset(layout_.sq_depth, layout_.sq_stride_shift,
					layout_.rq_stride_shift) +
			(uint64_t(index % layout_.rq_depth) << layout_.rq_stride_shift));
	}

	// Whether the device finds another WQE after it has taken `index` WQEs.
	bool sq_valid(uint32_t index)
	{
		return valid(sent(index)->ctrl, index, layout_.sq_depth);
	}
	bool rq_valid(uint32_t index)
	{
		return valid(received(index)->ctrl, index, layout_.rq_depth);
	}

	DevicePages pages;
	vrdma_queue_pair queues;
	ibv_send_wr *bad_send = nullptr;
	ibv_recv_wr *bad_receive = nullptr;

      private:
	static bool valid(const __le32 &ctrl, uint32_t index, uint32_t depth)
	{
		const bool odd_pass = (index / depth) % 2 == 1;
		return bool(__atomic_load_n(&ctrl, __ATOMIC_ACQUIRE) & VRDMA_WQE_PHASE) != odd_pass;
	}
	static vrdma_qp_layout fit(ibv_qp_cap &cap)
	{
		vrdma_qp_layout layout{};
		if (vrdma_qp_layout_init(&layout, &cap, IBV_QPT_RC, 1024))
			throw std::bad_alloc();
		return layout;
	}
	static uint64_t size(const vrdma_qp_layout &layout)
	{
		return vrdma_qp_buffer_size(layout.sq_depth, layout.sq_stride_shift,
					    layout.rq_depth, layout.rq_stride_shift);
	}

	ibv_qp_cap cap_;
	vrdma_qp_layout layout_;
	PageBuffer buffer_;
};

class TestCq
{
      public:
	explicit TestCq(uint32_t depth = 8) : depth_(depth), buffer_(vrdma_cq_buffer_size(depth))
	{
		if (vrdma_completion_queue_init(&queue, buffer_.data(), depth))
			throw std::bad_alloc();
	}
	TestCq(const TestCq &) = delete;
	TestCq &operator=(const TestCq &) = delete;
	~TestCq()
	{
		vrdma_completion_queue_destroy(&queue);
	}

	void attach(TestQp &qp)
	{
		vrdma_cq_attach(&queue, &qp.queues.send_link, &qp.queues);
	}
	void detach(TestQp &qp)
	{
		vrdma_cq_detach(&queue, &qp.queues.send_link);
	}

	// The device writes a CQE. The caller leaves the phase out of ctrl.
	void complete(vrdma_cqe cqe)
	{
		vrdma_cqe *slot = cqe_at(produced_);
		const uint32_t ctrl = cqe.ctrl;
		const size_t rest = offsetof(vrdma_cqe, qpn);

		memcpy(reinterpret_cast<uint8_t *>(slot) + rest,
		       reinterpret_cast<uint8_t *>(&cqe) + rest, sizeof(cqe) - rest);
		__atomic_store_n(&slot->ctrl,
				 ctrl | ((produced_ / depth_) % 2 ? 0 : VRDMA_CQE_PHASE),
				 __ATOMIC_RELEASE);
		produced_++;
	}
	void complete_send(uint32_t qpn, uint32_t index, uint32_t flags = 0)
	{
		complete({.ctrl = flags, .qpn = qpn, .wqe_index = index});
	}

	// Moves to another ring. The device uses the old ring until `between` returns.
	template <typename Between> void resize(uint32_t depth, Between between)
	{
		PageBuffer next(vrdma_cq_buffer_size(depth));

		vrdma_completion_queue_begin_move(&queue);
		vrdma_completion_queue_prepare(&queue, next.data(), depth);
		between();
		std::swap(buffer_, next);
		depth_ = depth;
		vrdma_completion_queue_adopt(&queue, buffer_.data(), depth);
		vrdma_completion_queue_end_move(&queue);
	}

	std::vector<ibv_wc> poll(int most = 16)
	{
		std::vector<ibv_wc> wcs(most);
		wcs.resize(vrdma_queue_poll(&queue, most, wcs.data()));
		return wcs;
	}

	vrdma_cqe *cqe_at(uint32_t index)
	{
		return reinterpret_cast<vrdma_cqe *>(buffer_.data() + VRDMA_QUEUE_CONTROL_SIZE) +
		       index % depth_;
	}
	vrdma_cq_control &control()
	{
		return *reinterpret_cast<vrdma_cq_control *>(buffer_.data());
	}

	vrdma_completion_queue queue;

      private:
	uint32_t depth_;
	uint32_t produced_ = 0;
	PageBuffer buffer_;
};

inline ibv_send_wr send_wr(ibv_wr_opcode opcode, std::vector<ibv_sge> &sges, unsigned int flags = 0,
			   uint64_t wr_id = 0)
{
	ibv_send_wr wr{};
	wr.wr_id = wr_id;
	wr.sg_list = sges.data();
	wr.num_sge = int(sges.size());
	wr.opcode = opcode;
	wr.send_flags = flags;
	return wr;
}

inline ibv_recv_wr recv_wr(std::vector<ibv_sge> &sges, uint64_t wr_id = 0)
{
	ibv_recv_wr wr{};
	wr.wr_id = wr_id;
	wr.sg_list = sges.data();
	wr.num_sge = int(sges.size());
	return wr;
}

template <typename T> const T *payload(const void *wqe, size_t offset = VRDMA_SQ_PAYLOAD_OFFSET)
{
	return reinterpret_cast<const T *>(static_cast<const uint8_t *>(wqe) + offset);
}

} // namespace vrdma::test

#endif // VRDMA_QUEUE_FIXTURE_H
