// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The migration of one mediated device from or to another host. Executes the steps that the module
// asks for (vrdma/mdev.h), and moves the device's state as the virtual machine monitor reads or
// writes it. While the virtual machine still runs, the device announces what it needs, sends what
// is lasting of its state, and is paced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mediator/base/event_loop.h"
#include "mediator/device/device.h"
#include "mediator/device/incoming_state.h"
#include "mediator/device/sent_ahead.h"
#include "mediator/frontend/mdev/pacer.h"

namespace vrdma::mdev {

class Migration {
  public:
    // All arguments must outlive it. `fd` is the device fd.
    Migration(EventLoop& loop, Device& device, int fd, std::uint64_t max_length);

    // Executes the step, and tells the module that it is done or why it failed.
    void take(std::uint32_t step, std::uint32_t number);

    // Is called when the device was reset.
    void forget();

    // Whether a restored device has continued with the last step. Its guest may have missed
    // interrupts.
    bool take_arrival() noexcept { return std::exchange(arrived_, false); }

  private:
    // The state under way, and the mediator's end of the pipe that carries it.
    struct Transfer {
        bool all_written() const noexcept { return written == stream.size(); }

        UniqueFd fd;
        IncomingState state; // that is read
        std::optional<SentAhead> ahead = {};
        std::vector<std::byte> stream = {}; // to be written
        std::size_t written = 0;
        Result<> outcome = {};
        EventLoop::Watch watch = {};
    };

    Result<> run(std::uint32_t step);
    Result<> begin();
    Result<> watch(std::uint32_t events, void (Migration::*ready)());
    Result<> announce();
    Result<> begin_ahead();
    void go_ahead();
    std::vector<std::byte> last_part() const;
    Result<> save();
    void begin_pacing();
    void pace_after_a_while();
    void set_pace(std::uint64_t bytes_per_second);
    void end_pacing();
    std::optional<Pacer::Sample> sample() const;
    Result<> load();
    Result<> restore();
    void thaw();
    void forget_announced();
    void move();
    bool write_piece(Transfer& transfer);
    bool read_piece(Transfer& transfer);
    void end(Transfer& transfer, std::errc error);

    EventLoop& loop_;
    Device& device_;
    int fd_;
    std::uint64_t max_length_;
    std::unique_ptr<Transfer> transfer_;
    std::optional<Pacer> pacer_; // while the virtual machine runs and moves
    EventLoop::Timer pacing_;
    std::uint64_t pace_ = 0; // bytes per second, of the device; 0: no limit
    bool saving_ = false;
    bool announced_ = false; // the transfer waits for save()
    bool restored_ = false;
    bool arrived_ = false;
};

} // namespace vrdma::mdev
