// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/stage.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <numeric>
#include <tuple>

#include "torture/shared_receive.h"

namespace vrdma::torture {
namespace {

constexpr std::chrono::seconds event_timeout{60};
constexpr std::uint64_t is_barrier = 1ull << 62;
constexpr std::uint64_t no_message = 1ull << 61;
constexpr int all_remote = all_access & ~IBV_ACCESS_LOCAL_WRITE;

std::string hexadecimal(std::uint64_t value) {
    std::array<char, 16> digits{};
    const auto end = std::to_chars(digits.begin(), digits.end(), value, 16).ptr;
    return {digits.begin(), end};
}

// The device raises an event once there are fewer receives than the limit, which may be at once.
void arm(ibv_srq* srq, std::uint32_t limit) {
    ibv_srq_attr attr{};
    attr.srq_limit = limit;
    check(::ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), "ibv_modify_srq");
}

std::uint64_t digest(std::span<const std::byte> bytes) {
    std::uint64_t sum = bytes.size();
    for (const std::byte byte : bytes) {
        sum = sum * 31 + std::to_integer<std::uint64_t>(byte);
    }
    return sum;
}

void drain(ibv_qp* qp, bool begins) {
    ibv_qp_attr attr{};
    attr.qp_state = begins ? IBV_QPS_SQD : IBV_QPS_RTS;
    attr.en_sqd_async_notify = 1;
    const int mask = IBV_QP_STATE | (begins ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0);
    check(::ibv_modify_qp(qp, &attr, mask), "modify to SQD or RTS");
}

} // namespace

void EventLog::note(const ibv_async_event& event) {
    const bool of_srq =
        event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED || event.event_type == IBV_EVENT_SRQ_ERR;
    const bool of_qp = !of_srq && event.event_type != IBV_EVENT_CQ_ERR &&
                       event.event_type < IBV_EVENT_DEVICE_FATAL;
    const bool is_last = event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
    const std::scoped_lock lock{mutex_};
    events_.push_back({event.event_type, of_qp || is_last ? event.element.qp->qp_num : 0,
                       of_srq ? event.element.srq : nullptr});
    changed_.notify_all();
}

void EventLog::await(const std::function<bool(const Event&)>& wanted) {
    std::unique_lock lock{mutex_};
    const bool came = changed_.wait_for(lock, event_timeout,
                                        [&] { return std::ranges::any_of(events_, wanted); });
    require(came, "an event does not come");
}

std::vector<EventLog::Event> EventLog::take() {
    const std::scoped_lock lock{mutex_};
    return std::exchange(events_, {});
}

Stage::Stage(ControlConnection control, const Device& device, EventLog& events, unsigned side,
             std::uint64_t seed)
    : control_{std::move(control)},
      device_{device},
      side_{side},
      events_{events},
      own_{Random::of({seed, 1 + side})},
      arena_{device},
      completions_{device, own_},
      xrcd_{made_xrcd(device)},
      empty_{made_srq(arena_.pd())},
      barrier_{barrier_shape_, device, {arena_.pd(), completions_, nullptr, nullptr, nullptr}},
      free_receives_(Arena::receives) {
    std::iota(free_receives_.begin(), free_receives_.end(), 0);
    barrier_.connect(control_, own_);
}

Parts Stage::parts(const Pair& pair) const {
    return {arena_.pd(), completions_, pair.srq.get(), xrcd_.get(), pair.xrc_srq.get()};
}

void Stage::renew() {
    Pair& to = pair();
    to.connection.reset();
    free_receives_.insert(free_receives_.end(), to.posted.begin(), to.posted.end());
    to.posted.clear();
    to.over = false;
    to.srq = made_srq(arena_.pd());
    to.xrc_srq = made_xrc_srq(device_, arena_.pd(), xrcd_.get(), completions_.receive_cq());
    to.connection = std::make_unique<Connection>(scene_->shape, device_, parts(to));
    to.connection->connect(control_, own_);
}

// The initial content does not matter, but must be the same for all placements of the sides.
void Stage::prepare_memory() {
    for (unsigned slot = 0; slot < Arena::messages; ++slot) {
        const std::size_t size = slot < scene_->messages.size() ? scene_->messages[slot].length : 0;
        fill({arena_.source(slot), size + guard_size}, own_.next());
    }
    for (unsigned slot = 0; slot < Scene::shared_targets; ++slot) {
        fill({arena_.target(slot), guard_size}, scene_->words + slot);
    }
    for (const Message& message : scene_->messages) {
        if (!message.is_atomic()) {
            fill({arena_.target(message.target), message.length + guard_size}, own_.next());
        }
    }
}

void Stage::await(const std::function<bool()>& done) {
    completions_.await(control_, own_, done, [this](const ibv_wc& completion) { see(completion); });
}

// Binds a window of type 2 by the connection on which it is used.
void Stage::bind_window() {
    window_.reset(made(ibv_alloc_mw(arena_.pd(), IBV_MW_TYPE_2), "ibv_alloc_mw"));
    ibv_send_wr wr{};
    wr.wr_id = no_message;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.opcode = IBV_WR_BIND_MW;
    name_window({}, wr);
    ibv_send_wr* bad = nullptr;
    check(::ibv_post_send(connection().qp(), &wr, &bad), "ibv_post_send of a bind");
    last_seen_ = false;
    await([this] { return last_seen_; });
    window_->rkey = wr.bind_mw.rkey;
}

void Stage::post_receive(const Reception& reception) {
    require(!free_receives_.empty(), "no receive slot is free");
    const unsigned slot = free_receives_.back();
    free_receives_.pop_back();
    pair().posted.push_back(slot);
    const Shape& shape = connection().shape();
    const auto size = static_cast<std::uint32_t>(reception.length + shape.header());
    fill({arena_.receive(slot), size + guard_size}, own_.next());
    receive_sizes_[slot] = reception.length;
    auto pieces =
        arena_.cut(own_, arena_.receive(slot), size, shape.shared ? srq_sges : shape.receive_sges);
    if (reception.bad_lkey) {
        pieces.back().lkey = ~pieces.back().lkey;
    }
    if (!shape.shared) {
        connection().post_receive(is_receive | slot, pieces);
        return;
    }
    ibv_recv_wr wr{.wr_id = is_receive | slot,
                   .next = nullptr,
                   .sg_list = pieces.data(),
                   .num_sge = static_cast<int>(pieces.size())};
    ibv_recv_wr* bad = nullptr;
    const bool xrc = shape.type == IBV_QPT_XRC_SEND;
    check(::ibv_post_srq_recv(xrc ? pair().xrc_srq.get() : pair().srq.get(), &wr, &bad),
          "ibv_post_srq_recv");
}

void Stage::post_receives(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
        post_receive(scene_->receptions[i]);
    }
}

std::uint32_t Stage::key(Key key) const {
    switch (key) {
        case Key::window:
            return targets_.window;
        case Key::none:
            return targets_.address.rkey_of_none;
        case Key::without_rights:
            return targets_.address.rkey_without_rights;
        case Key::stale:
            return targets_.stale;
        default:
            return targets_.address.rkey;
    }
}

void Stage::name_target(const Message& message, ibv_send_wr& wr) const {
    std::uint64_t address = targets_.address.target(message.target);
    if (message.flaw == Flaw::end) {
        address = targets_.address.end() - message.length / 2;
    } else if (message.flaw == Flaw::alignment) {
        address += 4;
    }
    if (message.opcode == IBV_WR_SEND_WITH_INV) {
        wr.invalidate_rkey = key(message.key);
    } else if (message.is_atomic()) {
        const std::uint64_t first = Random{scene_->words + message.target}.next();
        const std::uint64_t guess = message.matches ? first : message.imm;
        wr.wr.atomic = {.remote_addr = address,
                        .compare_add = guess,
                        .swap = message.imm,
                        .rkey = key(message.key)};
    } else {
        wr.wr.rdma = {.remote_addr = address, .rkey = key(message.key)};
    }
}

// Names a window of this side on the targets. Each bind makes another key.
void Stage::name_window(const Message& message, ibv_send_wr& wr) {
    if (!window_) {
        window_.reset(made(ibv_alloc_mw(arena_.pd(), IBV_MW_TYPE_2), "ibv_alloc_mw"));
    }
    if (message.opcode == IBV_WR_LOCAL_INV) {
        wr.invalidate_rkey = window_->rkey;
        return;
    }
    wr.bind_mw.mw = window_.get();
    wr.bind_mw.rkey = ibv_inc_rkey(window_->rkey);
    wr.bind_mw.bind_info = arena_.whole(all_remote);
}

ibv_send_wr Stage::request(std::size_t index, std::vector<ibv_sge>& pieces) {
    const Message& message = scene_->messages[index];
    const Shape& shape = connection().shape();
    ibv_send_wr wr{};
    wr.wr_id = index;
    wr.opcode = message.opcode;
    wr.send_flags = message.send_flags();
    if (message.is_local()) {
        name_window(message, wr);
        if (message.opcode == IBV_WR_BIND_MW) {
            window_->rkey = wr.bind_mw.rkey;
        }
        return wr;
    }
    const auto slot = static_cast<unsigned>(message.forwarded ? index - 1 : index);
    if (message.length != 0 || own_.chance(50)) {
        pieces = arena_.cut(own_, arena_.source(slot), message.length,
                            message.is_atomic() ? 1 : shape.send_sges);
    }
    if (message.flaw == Flaw::lkey && !pieces.empty() && !message.inlined) {
        pieces.back().lkey = ~pieces.back().lkey;
    }
    wr.sg_list = pieces.data();
    wr.num_sge = static_cast<int>(pieces.size());
    wr.imm_data = message.imm;
    name_target(message, wr);
    connection().address(wr);
    if (message.flaw == Flaw::qkey) {
        wr.wr.ud.remote_qkey = ~wr.wr.ud.remote_qkey;
    }
    return wr;
}

void Stage::post_messages() {
    std::array<std::vector<ibv_sge>, Scene::most_messages> pieces;
    std::array<ibv_send_wr, Scene::most_messages> list{};
    for (std::size_t i = 0; i < scene_->messages.size(); ++i) {
        list[i] = request(i, pieces[i]);
        if (i > 0) {
            list[i - 1].next = &list[i];
        }
    }
    connection().post(list.data());
}

void Stage::post_barrier(bool sends) {
    barrier_seen_[sends ? 1 : 0] = false;
    if (!sends) {
        barrier_.post_receive(is_receive | is_barrier, {});
        return;
    }
    ibv_send_wr wr{};
    wr.wr_id = is_barrier;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    barrier_.post(&wr);
}

void Stage::await_barrier(bool sends) {
    await([&] { return barrier_seen_[sends ? 1 : 0]; });
}

void Stage::act_as_sender() {
    ibv_qp* const qp = connection().qp();
    if (scene_->fails_first) {
        connection().to_state(IBV_QPS_ERR);
    }
    if (scene_->drains) {
        drain(qp, true);
    }
    last_seen_ = false;
    post_messages();
    if (scene_->drains) {
        events_.await([&](const EventLog::Event& event) {
            return event.type == IBV_EVENT_SQ_DRAINED && event.qpn == qp->qp_num;
        });
        drain(qp, false);
    }
    await([this] { return last_seen_; });
    post_barrier(true);
    await_barrier(true);
}

void Stage::act_as_receiver() {
    const std::size_t count = scene_->receptions.size();
    post_receives(count - scene_->late, count);
    await_barrier(false);
}

bool Stage::failed(ibv_qp* qp) const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    check(::ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
    return attr.qp_state == IBV_QPS_ERR;
}

// Waits for everything that a QP reports in the error state.
void Stage::settle() {
    ibv_qp* const receiver = connection().receiver();
    if (!failed(receiver) || pair().over) {
        return;
    }
    pair().over = connection().shape().shared;
    if (!connection().shape().shared) {
        await([this] { return pair().posted.empty(); });
        return;
    }
    events_.await([&](const EventLog::Event& event) {
        return event.type == IBV_EVENT_QP_LAST_WQE_REACHED && event.qpn == receiver->qp_num;
    });
}

// Events come in order, so the event of a limit that is armed here is the last one.
void Stage::await_events() {
    arm(empty_.get(), 1);
    events_.await([this](const EventLog::Event& event) { return event.srq == empty_.get(); });
    bool looked = false; // polled once for what completed meanwhile
    await([&] { return std::exchange(looked, true); });
}

void Stage::see(const ibv_wc& completion) {
    const bool receive = (completion.wr_id & is_receive) != 0;
    if ((completion.wr_id & is_barrier) != 0) {
        require(completion.status == IBV_WC_SUCCESS, "the barrier has failed");
        barrier_seen_[receive ? 0 : 1] = true;
        return;
    }
    const bool good = completion.status == IBV_WC_SUCCESS;
    clean_ = clean_ && good;
    const std::uint64_t name = completion.wr_id & ~is_receive;
    last_seen_ =
        last_seen_ || (!receive && (name == no_message || name + 1 == scene_->messages.size()));
    std::string line = (receive ? "receive " : "send ") + std::to_string(name) + ": " +
                       ::ibv_wc_status_str(completion.status);
    if (receive) {
        const auto slot = static_cast<unsigned>(name);
        std::erase(pair().posted, slot);
        const bool takes = good && completion.opcode == IBV_WC_RECV;
        const auto header = static_cast<std::uint32_t>(connection().shape().header());
        received_.push_back({slot, takes ? completion.byte_len - header : 0});
        line += connection().has(completion.qp_num) ? "" : ", of another QP";
    }
    if (good) {
        line += ", opcode " + std::to_string(completion.opcode);
    }
    if (good && receive) {
        const bool invalidates = (completion.wc_flags & IBV_WC_WITH_INV) != 0;
        const bool with_imm = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
        line += ", " + std::to_string(completion.byte_len) + " bytes, flags " +
                hexadecimal(completion.wc_flags);
        line += with_imm ? ", immediate " + hexadecimal(completion.imm_data) : "";
        line += invalidates && window_ && completion.invalidated_rkey == window_->rkey
                    ? ", its window is gone"
                    : "";
    }
    if (good && receive && connection().shape().type == IBV_QPT_UD) {
        line += completion.src_qp == connection().peer_qpn() ? "" : ", from another QP";
    }
    (receive ? receives_ : sends_).push_back(std::move(line));
}

void Stage::see_events() {
    std::vector<std::string> told;
    for (const EventLog::Event& event : events_.take()) {
        if (event.srq == empty_.get()) {
            continue;
        }
        const char* of = event.srq == nullptr                ? "another"
                         : event.srq == pair().srq.get()     ? "the SRQ"
                         : event.srq == pair().xrc_srq.get() ? "the XRC SRQ"
                                                             : "another SRQ";
        if (event.qpn != 0 && connection().has(event.qpn)) {
            of = "the QP";
        }
        told.push_back(std::string{"event of "} + of + ": " + ::ibv_event_type_str(event.type));
    }
    std::ranges::sort(told); // events of different objects have no order
    for (std::string& line : told) {
        lines_.push_back(std::move(line));
    }
}

// Memory after a failed message is unspecified. With UC, nothing reports that a message was dropped
// because it was too long or met no receive. Across hosts, a part of it may already have been
// written to the target, or to the buffer that the next message then takes.
void Stage::see_memory() {
    const bool tells = connection().shape().type != IBV_QPT_UC;
    const bool all_came = received_.size() == scene_->receptions_wanted();
    std::uint64_t sum = 0;
    const auto add = [&](const std::byte* start, std::size_t size) {
        sum = sum * 31 + digest({start, size});
    };
    for (unsigned i = 0; i < scene_->messages.size(); ++i) {
        const Message& message = scene_->messages[i];
        add(arena_.source(i), message.length + guard_size);
        if (tells || all_came || !message.takes_receive()) {
            add(arena_.target(message.target), message.length + guard_size);
        }
    }
    for (const auto& [slot, bytes] : received_) {
        const std::byte* const start = arena_.receive(slot) + connection().shape().header();
        add(start, tells ? receive_sizes_[slot] : bytes);
        add(start + receive_sizes_[slot], guard_size);
    }
    lines_.push_back("bytes " + hexadecimal(sum));
}

Stage::Report Stage::report() {
    const Connection& of = connection();
    const bool broken = of.state() != IBV_QPS_RTS || failed(of.receiver());
    return {broken, clean_, static_cast<std::uint32_t>(pair().posted.size())};
}

void Stage::begin() {
    lines_.clear();
    sends_.clear();
    receives_.clear();
    for (const Received& received : received_) {
        free_receives_.push_back(received.slot);
    }
    received_.clear();
    clean_ = true;
    window_.reset();
    if (scene_->renews) {
        renew();
    }
    prepare_memory();
    if (sends()) {
        targets_ = control_.receive<Targets>();
        return;
    }
    if (scene_->registers) {
        stale_ = arena_.address().rkey;
        arena_.register_again();
    }
    if (scene_->window) {
        bind_window();
    }
    post_receives(0, scene_->receptions.size() - scene_->late);
    if (scene_->limit != 0) {
        const bool xrc = connection().shape().type == IBV_QPT_XRC_SEND;
        arm(xrc ? pair().xrc_srq.get() : pair().srq.get(), scene_->limit);
    }
    post_barrier(false);
    const std::uint32_t none = ~arena_.address().rkey;
    control_.send(
        Targets{arena_.address(), stale_ != 0 ? stale_ : none, window_ ? window_->rkey : none});
}

std::vector<std::string> Stage::play(const Scene& scene) {
    scene_ = &scene;
    begin();
    if (sends()) {
        act_as_sender();
    } else {
        act_as_receiver();
    }
    if (scene.fails[side_]) {
        connection().to_state(IBV_QPS_ERR);
    }
    settle();
    await_events();
    require(completions_.empty(), "a completion that was not asked for");
    const Report mine = report();
    const Report theirs = control_.exchange(mine);
    lines_.insert(lines_.end(), sends_.begin(), sends_.end());
    lines_.insert(lines_.end(), receives_.begin(), receives_.end());
    see_events();
    lines_.push_back("state " + std::to_string(connection().state()));
    if (mine.clean != 0 && theirs.clean != 0) {
        see_memory();
    }
    Standing& standing = standings_[scene.pair];
    standing.there = true;
    standing.broken = mine.broken != 0 || theirs.broken != 0;
    standing.shape = connection().shape();
    standing.receives[side_] = mine.receives;
    standing.receives[1 - side_] = theirs.receives;
    return std::move(lines_);
}

} // namespace vrdma::torture
