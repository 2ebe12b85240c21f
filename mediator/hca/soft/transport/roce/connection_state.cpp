// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/connection_state.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "mediator/hca/soft/transport/roce/connection.h"
#include "mediator/hca/soft/transport/roce/outbound.h"

namespace vrdma::hca::soft::roce {
namespace {

MessageState state_of(const Message& message) {
    return {.length = message.length,
            .remote_address = message.remote_address,
            .compare_add = message.compare_add,
            .swap = message.swap,
            .imm = message.imm,
            .rkey = message.rkey.value,
            .srqn = message.srqn.value,
            .opcode = static_cast<std::uint8_t>(message.opcode),
            .solicited = message.solicited};
}

SentState state_of(const Sent& sent) {
    return {.length = sent.length,
            .index = sent.index,
            .first = sent.first,
            .last = sent.last,
            .opcode = static_cast<std::uint8_t>(sent.opcode),
            .signaled = sent.signaled,
            .misaligned = sent.misaligned};
}

FetchState state_of(const Fetch& fetch) {
    return {.message = state_of(fetch.message),
            .original = fetch.original,
            .first = fetch.first,
            .last = fetch.last,
            .answered = fetch.answered,
            .begin = fetch.begin,
            .repeated = fetch.repeated};
}

Message message_of(const MessageState& state) noexcept {
    Message message;
    message.opcode = static_cast<vrdma_sq_opcode>(state.opcode);
    message.solicited = state.solicited != 0;
    message.imm = state.imm;
    message.length = state.length;
    message.rkey = Key{state.rkey};
    message.remote_address = state.remote_address;
    message.compare_add = state.compare_add;
    message.swap = state.swap;
    message.srqn = Srqn{state.srqn};
    return message;
}

Sent sent_of(const SentState& state) noexcept {
    return {.index = state.index,
            .first = state.first,
            .last = state.last,
            .opcode = static_cast<vrdma_sq_opcode>(state.opcode),
            .signaled = state.signaled != 0,
            .misaligned = state.misaligned != 0,
            .length = state.length};
}

Fetch fetch_of(const FetchState& state) noexcept {
    return {.first = state.first,
            .last = state.last,
            .answered = state.answered,
            .begin = state.begin,
            .repeated = state.repeated != 0,
            .message = message_of(state.message),
            .original = state.original};
}

bool is_psn(Psn psn) noexcept {
    return psn <= psn_mask;
}

// Whether a message with this opcode can go over a network.
bool is_message(std::uint32_t opcode, std::uint64_t length) noexcept {
    return (opcode <= VRDMA_SQ_ATOMIC_FETCH_AND_ADD || opcode == VRDMA_SQ_SEND_WITH_INV ||
            opcode == VRDMA_SQ_ATOMIC_WRITE) &&
           length <= max_message_size;
}

// The number of PSNs of a message.
std::uint32_t psns_of(std::uint8_t opcode, std::uint64_t length, std::uint32_t mtu) noexcept {
    Message message;
    message.opcode = static_cast<vrdma_sq_opcode>(opcode);
    return message.is_aligned() ? 1 : packets_of(length, mtu);
}

bool is_valid(const MessageState& message) noexcept {
    return is_message(message.opcode, message.length) && message.solicited <= 1 &&
           message.reserved == 0;
}

bool is_valid(const FetchState& fetch, std::uint32_t mtu) noexcept {
    const MessageState& message = fetch.message;
    const std::uint32_t packets = psns_of(message.opcode, message.length, mtu);
    return is_valid(message) && is_answered(static_cast<vrdma_sq_opcode>(message.opcode)) &&
           is_psn(fetch.first) && fetch.last == add(fetch.first, packets - 1) &&
           fetch.answered <= packets && fetch.begin <= fetch.answered && fetch.repeated <= 1 &&
           fetch.reserved == 0;
}

bool is_valid(const SentState& sent, std::uint32_t mtu) noexcept {
    const std::uint32_t packets = psns_of(sent.opcode, sent.length, mtu);
    return is_message(sent.opcode, sent.length) && sent.signaled <= 1 && sent.misaligned <= 1 &&
           sent.reserved == 0 && is_psn(sent.first) && sent.last == add(sent.first, packets - 1);
}

bool is_valid(const ConnectionState& state) noexcept {
    const auto flags = {state.open, state.told_gap, state.ack_due};
    return std::ranges::all_of(flags, [](std::uint8_t flag) { return flag <= 1; }) &&
           std::ranges::all_of(
               std::array{state.snd_una, state.snd_nxt, state.snd_max, state.expected, state.msn},
               is_psn) &&
           is_valid(state.message) && state.offset <= state.message.length && state.reserved == 0 &&
           state.reserved_2 == 0;
}

// The saved WQEs must be consecutive in the queue and in PSNs, and begin where the peer's
// acknowledgements end.
bool is_valid(const ConnectionState& state, std::span<const SentState> all, std::uint32_t head,
              std::uint32_t mtu) noexcept {
    if (all.empty()) {
        return state.snd_nxt == state.snd_max;
    }
    Psn first = all.front().first;
    for (const SentState& sent : all) {
        if (!is_valid(sent, mtu) || sent.first != first || sent.index != head++) {
            return false;
        }
        first = add(sent.last, 1);
    }
    const std::int32_t unsent = distance(state.snd_max, first);
    return distance(all.front().first, state.snd_una) >= 0 &&
           distance(state.snd_una, all.front().last) >= 0 && state.snd_nxt == state.snd_una &&
           distance(state.snd_una, state.snd_max) >= 0 && unsent >= 0;
}

bool is_valid(const Connection& c, const SavedConnection& saved) noexcept {
    return saved.sent.size() <= (c.qp.reliable() ? Outbound::max_messages : 0) &&
           saved.fetches.size() <= Inbound::max_fetches && is_valid(saved.state) &&
           is_valid(saved.state, saved.sent, c.qp.sq.head(), c.mtu) &&
           std::ranges::all_of(saved.fetches,
                               [&](const FetchState& fetch) { return is_valid(fetch, c.mtu); });
}

void restore_outbound(Outbound& out, const SavedConnection& saved) noexcept {
    out.snd_una = saved.state.snd_una;
    out.snd_nxt = saved.state.snd_nxt;
    out.snd_max = saved.state.snd_max;
    for (const SentState& sent : saved.sent) {
        out.sent.push_back(sent_of(sent));
        out.fetches += is_answered(out.sent.back().opcode) ? 1 : 0;
        if (takes_receive(out.sent.back().opcode)) {
            out.credits.begin();
        }
    }
}

void restore_inbound(Inbound& in, const SavedConnection& saved) noexcept {
    in.expected = saved.state.expected;
    in.msn = saved.state.msn;
    in.open = saved.state.open != 0;
    in.message = message_of(saved.state.message);
    in.offset = saved.state.offset;
    in.told_gap = saved.state.told_gap != 0;
    in.ack_due = saved.state.ack_due != 0;
    for (const FetchState& fetch : saved.fetches) {
        in.fetches.push_back(fetch_of(fetch));
    }
}

template <typename T>
void put_all(std::vector<std::byte>& bytes, std::span<const T> records) {
    const auto more = std::as_bytes(records);
    bytes.insert(bytes.end(), more.begin(), more.end());
}

// The caller has checked that there are so many.
template <typename T>
std::vector<T> take_all(std::span<const std::byte>& bytes, std::size_t count) {
    std::vector<T> records(count);
    const auto own = bytes.first(count * sizeof(T));
    std::ranges::copy(own, std::as_writable_bytes(std::span{records}).begin());
    bytes = bytes.subspan(own.size());
    return records;
}

} // namespace

static_assert(sizeof(ConnectionState) + Outbound::max_messages * sizeof(SentState) +
                  Inbound::max_fetches * sizeof(FetchState) <=
              max_connection_state);

std::vector<std::byte> encode(const SavedConnection& saved) {
    static_assert(std::has_unique_object_representations_v<ConnectionState> &&
                      std::has_unique_object_representations_v<SentState> &&
                      std::has_unique_object_representations_v<FetchState>,
                  "padding would leak");
    std::vector<std::byte> bytes;
    put_all(bytes, std::span{&saved.state, 1});
    put_all<SentState>(bytes, saved.sent);
    put_all<FetchState>(bytes, saved.fetches);
    return bytes;
}

Result<SavedConnection> decode(std::span<const std::byte> bytes) {
    SavedConnection saved;
    if (bytes.size() < sizeof(saved.state) || bytes.size() > max_connection_state) {
        return fail(std::errc::invalid_argument);
    }
    saved.state = take_all<ConnectionState>(bytes, 1).front();
    if (saved.state.version != NetworkConnection::state_version ||
        bytes.size() != std::uint64_t{saved.state.sent} * sizeof(SentState) +
                            std::uint64_t{saved.state.fetches} * sizeof(FetchState)) {
        return fail(std::errc::invalid_argument);
    }
    saved.sent = take_all<SentState>(bytes, saved.state.sent);
    saved.fetches = take_all<FetchState>(bytes, saved.state.fetches);
    return saved;
}

std::vector<std::byte> Connection::save() const {
    SavedConnection saved;
    saved.state = {.message = state_of(in.message),
                   .offset = in.offset,
                   .snd_una = out.snd_una,
                   .snd_nxt = out.snd_nxt,
                   .snd_max = out.snd_max,
                   .expected = in.expected,
                   .msn = in.msn,
                   .open = in.open,
                   .told_gap = in.told_gap && !in.nak, // a NAK that is due was not sent
                   .ack_due = in.ack_due,
                   .sent = static_cast<std::uint32_t>(out.sent.size()),
                   .fetches = static_cast<std::uint32_t>(in.fetches.size())};
    saved.sent.reserve(out.sent.size());
    for (std::size_t i = 0; i < out.sent.size(); ++i) {
        saved.sent.push_back(state_of(out.sent[i]));
    }
    saved.fetches.reserve(in.fetches.size());
    for (std::size_t i = 0; i < in.fetches.size(); ++i) {
        saved.fetches.push_back(state_of(in.fetches[i]));
    }
    return encode(saved);
}

Result<> Connection::restore(std::span<const std::byte> bytes) {
    const auto saved = decode(bytes);
    if (!saved || !fits(qp.attr.path_mtu) || !is_valid(*this, *saved)) {
        return fail(std::errc::invalid_argument);
    }
    out = {};
    in = {};
    in.credits = CreditsGiven{qp.rq.head()};
    restore_outbound(out, *saved);
    restore_inbound(in, *saved);
    in.frozen = true;
    if (!out.sent.empty()) {
        leaves_host_ = true; // until the outstanding messages end
        go_back(*this);
    }
    return {};
}

} // namespace vrdma::hca::soft::roce
