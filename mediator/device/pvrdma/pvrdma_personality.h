// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// VMware's paravirtual RDMA device (vrdma/pvrdma/device.h), for guests that install nothing: their
// kernels have its driver, and rdma-core has its provider.
//
// The driver reads the result of some writes at once, and a command without a response gives its
// slot away at once. So a write is executed before the front end serves the driver's next access.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <vector>

#include "mediator/device/personality.h"
#include "mediator/device/pvrdma/commands.h"
#include "vrdma/pvrdma/queue.h"

namespace vrdma {

class PvrdmaPersonality final : public Personality {
  public:
    explicit PvrdmaPersonality(Owner& owner) : Personality{owner} {}

    hca::QueueFormat queue_format() const noexcept override { return hca::QueueFormat::pvrdma; }
    void show_reset() override {}
    void reset() override;
    void show_identity() override;
    void show_enabled() override {}
    void show_failed() override;
    unsigned failure_vector() const noexcept override { return PVRDMA_VECTOR_ASYNC; }
    void write_register(std::uint32_t offset, std::uint32_t value) override;
    void write_doorbell(std::uint64_t offset, std::uint32_t value) override;
    Result<> prepare() override;
    Result<> attach(hca::Slice&) override { return {}; }
    Result<> start(verbs::Objects& objects) override;
    void stop() override;
    bool pending() const noexcept override { return !requests_.empty(); }
    Result<Served> serve(verbs::Objects& objects) override;
    void end_turn() override {}
    void count_step() noexcept override {}
    void abandon() override {} // requests_ still has it
    void raise(unsigned vector) noexcept override;
    void raise_all() noexcept override;
    void save(DeviceState& state) const override;
    std::optional<verbs::SectionFormat> section() const noexcept override;
    void save_section(StateWriter& writer) const override;
    Result<> restore(const DeviceState& state, StateReader& reader) override;
    Result<> restore_enabled(const DeviceState& state, verbs::Objects& objects) override;

    // The most commands that wait for the device. A driver has one, but those without a response do
    // not keep it from writing the next.
    static constexpr std::size_t max_requests = 64;

  private:
    struct Request {
        pvrdma_request content;
        std::chrono::steady_clock::time_point taken;
    };

    // What a device that was enabled has beside its objects.
    struct Saved {
        EqId events;
        std::vector<pvrdma::Commands::Page> pages;
        std::vector<pvrdma_request> requests;
    };

    void show_error(const Result<>& result) noexcept;
    Result<> check_version(const pvrdma_shared_region& region);
    Result<> check_told(const pvrdma_caps& told);
    void write_control(std::uint32_t value);
    Result<> take_region(Iova at);
    Result<> take_request();
    Result<EqId> create_ring(verbs::Objects& objects, const pvrdma_event_ring& ring,
                             unsigned vector, hca::EventKind kind);
    Result<> answer(const pvrdma_response& response);
    void log_failure(const pvrdma_request& request, const pvrdma_response& response);
    void ring_qp(std::uint64_t uar, std::uint32_t value);
    void ring_cq(std::uint64_t uar, std::uint32_t value);
    void set_mask(std::uint32_t mask) noexcept;
    void deliver(unsigned vector) noexcept;

    std::uint32_t region_low_ = 0;
    std::optional<pvrdma_shared_region> region_; // a copy
    std::deque<Request> requests_;
    std::optional<pvrdma::Commands> commands_;
    EqId events_;                // completions
    std::optional<Saved> saved_; // the device is being restored
    // Interrupts that wait until their vectors are not masked any more. Pollers raise them.
    std::atomic<std::uint32_t> masked_ = ~std::uint32_t{0};
    std::atomic<std::uint32_t> raised_ = 0;
};

} // namespace vrdma
