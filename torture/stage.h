// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One side of a scene: its device, memory and connections, and everything that it observes.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "torture/scene.h"

namespace vrdma::torture {

// Async events in their order, with the number of the QP, or 0 for an SRQ.
class EventLog {
  public:
    struct Event {
        ibv_event_type type;
        std::uint32_t qpn;
        const ibv_srq* srq;
    };

    void note(const ibv_async_event& event);
    // Waits for an event that `wanted` accepts.
    void await(const std::function<bool(const Event&)>& wanted);
    std::vector<Event> take();

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Event> events_;
};

class Stage {
  public:
    Stage(ControlConnection control, const Device& device, EventLog& events, unsigned side,
          std::uint64_t seed);

    // Both sides call it for each scene. Returns a line for each observation of this side.
    std::vector<std::string> play(const Scene& scene);
    const std::array<Standing, Scene::pairs>& standings() const { return standings_; }
    const ControlConnection& control() const { return control_; }

  private:
    // A connection, with the shared receive queues that only it has.
    struct Pair {
        Srq srq;
        Srq xrc_srq;
        std::unique_ptr<Connection> connection;
        std::vector<unsigned> posted; // slots of receives
        bool over = false;            // the QP has reported that it takes no more receives
    };
    // The data that a sender needs.
    struct Targets {
        Arena::Address address;
        std::uint32_t stale;
        std::uint32_t window;
    };
    struct Report {
        std::uint32_t broken;
        std::uint32_t clean;
        std::uint32_t receives;
    };

    Pair& pair() { return pairs_[scene_->pair]; }
    const Connection& connection() { return *pair().connection; }
    bool sends() const { return scene_->sender == side_; }
    Parts parts(const Pair& pair) const;

    void renew();
    void prepare_memory();
    void bind_window();
    void begin();
    void post_receives(std::size_t begin, std::size_t end);
    void post_receive(const Reception& reception);
    void post_messages();
    ibv_send_wr request(std::size_t index, std::vector<ibv_sge>& pieces);
    void name_target(const Message& message, ibv_send_wr& wr) const;
    void name_window(const Message& message, ibv_send_wr& wr);
    std::uint32_t key(Key key) const;
    void act_as_sender();
    void act_as_receiver();
    void post_barrier(bool sends);
    void await_barrier(bool sends);
    void settle();
    void await_events();
    void see(const ibv_wc& completion);
    void see_events();
    void see_memory();
    bool failed(ibv_qp* qp) const;
    void await(const std::function<bool()>& done);
    Report report();

    ControlConnection control_;
    const Device& device_;
    const unsigned side_;
    EventLog& events_;
    Random own_;
    Arena arena_;
    Completions completions_;
    Xrcd xrcd_;
    Srq empty_; // raises an event on demand: it is empty
    Shape barrier_shape_;
    Connection barrier_; // its messages arrive after all earlier ones
    std::array<Pair, Scene::pairs> pairs_;
    std::array<Standing, Scene::pairs> standings_;
    std::vector<unsigned> free_receives_;
    std::array<std::uint32_t, Arena::receives> receive_sizes_{};

    // State of the current scene.
    const Scene* scene_ = nullptr;
    Targets targets_{};
    std::uint32_t stale_ = 0;
    Mw window_;
    std::vector<std::string> lines_;
    std::vector<std::string> sends_; // as they complete
    std::vector<std::string> receives_;
    struct Received {
        unsigned slot;
        std::uint32_t bytes; // received
    };
    std::vector<Received> received_;
    bool clean_ = true; // nothing has failed
    bool last_seen_ = false;
    std::array<bool, 2> barrier_seen_{}; // a receive, a send
};

} // namespace vrdma::torture
