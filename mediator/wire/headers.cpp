// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/headers.h"

#include <cassert>

#include "mediator/wire/bytes.h"
#include "vrdma/roce.h"

namespace vrdma::wire {
namespace {

using Shapes = std::array<Shape, 256>;

constexpr std::size_t size_of(std::uint16_t extended) {
    const auto size = [&](Extended header, std::size_t bytes) {
        return (extended & header) != 0 ? bytes : 0;
    };
    return sizeof(vrdma_bth) + size(ext_xrceth, sizeof(vrdma_xrceth)) +
           size(ext_deth, sizeof(vrdma_deth)) + size(ext_reth, sizeof(vrdma_reth)) +
           size(ext_atomic_eth, sizeof(vrdma_atomic_eth)) + size(ext_aeth, sizeof(vrdma_aeth)) +
           size(ext_atomic_ack_eth, sizeof(vrdma_atomic_ack_eth)) +
           size(ext_immdt, sizeof(vrdma_immdt)) + size(ext_ieth, sizeof(vrdma_ieth)) +
           size(ext_cnp, sizeof(vrdma_cnp));
}

struct Operation {
    std::uint8_t code;
    bool may_have_payload;
    std::uint16_t extended;
};

// IBA table 38
constexpr Operation unreliable_requests[] = {
    {VRDMA_ROCE_SEND_FIRST, true, 0},
    {VRDMA_ROCE_SEND_MIDDLE, true, 0},
    {VRDMA_ROCE_SEND_LAST, true, 0},
    {VRDMA_ROCE_SEND_LAST_WITH_IMM, true, ext_immdt},
    {VRDMA_ROCE_SEND_ONLY, true, 0},
    {VRDMA_ROCE_SEND_ONLY_WITH_IMM, true, ext_immdt},
    {VRDMA_ROCE_WRITE_FIRST, true, ext_reth},
    {VRDMA_ROCE_WRITE_MIDDLE, true, 0},
    {VRDMA_ROCE_WRITE_LAST, true, 0},
    {VRDMA_ROCE_WRITE_LAST_WITH_IMM, true, ext_immdt},
    {VRDMA_ROCE_WRITE_ONLY, true, ext_reth},
    {VRDMA_ROCE_WRITE_ONLY_WITH_IMM, true, ext_reth | ext_immdt},
};
constexpr Operation reliable_requests[] = {
    {VRDMA_ROCE_READ_REQUEST, false, ext_reth},
    {VRDMA_ROCE_COMPARE_SWAP, false, ext_atomic_eth},
    {VRDMA_ROCE_FETCH_ADD, false, ext_atomic_eth},
    {VRDMA_ROCE_SEND_LAST_WITH_INV, true, ext_ieth},
    {VRDMA_ROCE_SEND_ONLY_WITH_INV, true, ext_ieth},
    {VRDMA_ROCE_ATOMIC_WRITE, true, ext_reth},
};
constexpr Operation responses[] = {
    {VRDMA_ROCE_READ_RESPONSE_FIRST, true, ext_aeth},
    {VRDMA_ROCE_READ_RESPONSE_MIDDLE, true, 0},
    {VRDMA_ROCE_READ_RESPONSE_LAST, true, ext_aeth},
    {VRDMA_ROCE_READ_RESPONSE_ONLY, true, ext_aeth},
    {VRDMA_ROCE_ACKNOWLEDGE, false, ext_aeth},
    {VRDMA_ROCE_ATOMIC_ACKNOWLEDGE, false, ext_aeth | ext_atomic_ack_eth},
};
constexpr Operation datagrams[] = {
    {VRDMA_ROCE_SEND_ONLY, true, 0},
    {VRDMA_ROCE_SEND_ONLY_WITH_IMM, true, ext_immdt},
};

constexpr void add(Shapes& shapes, std::uint8_t transport, std::span<const Operation> operations,
                   std::uint16_t always) {
    for (const Operation& operation : operations) {
        const auto extended = static_cast<std::uint16_t>(operation.extended | always);
        shapes[transport | operation.code] = {static_cast<std::uint8_t>(size_of(extended)),
                                              operation.may_have_payload, extended, true};
    }
}

// A reliable service answers unknown opcodes, too (IBA 9.7.4.1.2), so they have a shape.
constexpr void add_reserved(Shapes& shapes, std::uint8_t transport) {
    for (unsigned code = 0; code <= VRDMA_ROCE_OPERATION; ++code) {
        Shape& shape = shapes[transport | code];
        if (shape.size == 0) {
            shape = {static_cast<std::uint8_t>(size_of(0)), true, 0, false};
        }
    }
}

constexpr Shapes make_shapes() {
    Shapes shapes{};
    add(shapes, VRDMA_ROCE_UC, unreliable_requests, 0);
    for (const std::uint8_t transport : {VRDMA_ROCE_RC, VRDMA_ROCE_XRC}) {
        const std::uint16_t always = transport == VRDMA_ROCE_XRC ? ext_xrceth : 0;
        add(shapes, transport, unreliable_requests, always);
        add(shapes, transport, reliable_requests, always);
        add(shapes, transport, responses, 0);
        add_reserved(shapes, transport);
    }
    add(shapes, VRDMA_ROCE_UD, datagrams, ext_deth);
    shapes[VRDMA_ROCE_CNP] = {static_cast<std::uint8_t>(size_of(ext_cnp)), false, ext_cnp, true};
    return shapes;
}

constexpr Shapes shapes = make_shapes();

// Takes one structure after the other.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) noexcept : bytes_{bytes} {}

    template <typename T>
    T take() noexcept {
        const T value = load<T>(bytes_, at_);
        at_ += sizeof(T);
        return value;
    }

  private:
    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
};

class Writer {
  public:
    explicit Writer(std::span<std::byte> bytes) noexcept : bytes_{bytes} {}

    template <typename T>
    void put(const T& value) noexcept {
        store(bytes_, at_, value);
        at_ += sizeof(T);
    }
    std::size_t size() const noexcept { return at_; }

  private:
    std::span<std::byte> bytes_;
    std::size_t at_ = 0;
};

void read_bth(const vrdma_bth& bth, Headers& headers) noexcept {
    const std::uint32_t target = be32toh(bth.target);
    const std::uint32_t psn = be32toh(bth.psn);
    headers.opcode = bth.opcode;
    headers.solicited = (bth.flags & VRDMA_BTH_SOLICITED) != 0;
    headers.migrated = (bth.flags & VRDMA_BTH_MIGRATED) != 0;
    headers.fecn = (target & VRDMA_BTH_FECN) != 0;
    headers.becn = (target & VRDMA_BTH_BECN) != 0;
    headers.ack_request = (psn & VRDMA_BTH_ACK_REQUEST) != 0;
    headers.pkey = be16toh(bth.pkey);
    headers.target_qpn = VRDMA_GET(VRDMA_BTH_TARGET_QPN, target);
    headers.psn = VRDMA_GET(VRDMA_BTH_PSN, psn);
}

vrdma_bth make_bth(const Headers& headers, std::size_t padding) noexcept {
    vrdma_bth bth;
    bth.opcode = headers.opcode;
    bth.flags =
        static_cast<std::uint8_t>((headers.solicited ? VRDMA_BTH_SOLICITED : 0) |
                                  (headers.migrated ? VRDMA_BTH_MIGRATED : 0) |
                                  VRDMA_SET(VRDMA_BTH_PAD, static_cast<std::uint32_t>(padding)));
    bth.pkey = htobe16(headers.pkey);
    bth.target = htobe32((headers.fecn ? VRDMA_BTH_FECN : 0) | (headers.becn ? VRDMA_BTH_BECN : 0) |
                         VRDMA_SET(VRDMA_BTH_TARGET_QPN, headers.target_qpn));
    bth.psn = htobe32((headers.ack_request ? VRDMA_BTH_ACK_REQUEST : 0) |
                      VRDMA_SET(VRDMA_BTH_PSN, headers.psn));
    return bth;
}

void read_request(Reader& reader, std::uint16_t extended, Headers& headers) noexcept {
    if ((extended & ext_xrceth) != 0) {
        headers.srqn = VRDMA_GET(VRDMA_XRCETH_SRQN, be32toh(reader.take<vrdma_xrceth>().srqn));
    }
    if ((extended & ext_deth) != 0) {
        const auto deth = reader.take<vrdma_deth>();
        headers.qkey = be32toh(deth.qkey);
        headers.source_qpn = VRDMA_GET(VRDMA_DETH_SOURCE_QPN, be32toh(deth.source));
    }
    if ((extended & ext_reth) != 0) {
        const auto reth = reader.take<vrdma_reth>();
        headers.address = vrdma_be64_get(reth.address);
        headers.rkey = be32toh(reth.rkey);
        headers.length = be32toh(reth.length);
    }
    if ((extended & ext_atomic_eth) != 0) {
        const auto atomic = reader.take<vrdma_atomic_eth>();
        headers.address = vrdma_be64_get(atomic.address);
        headers.rkey = be32toh(atomic.rkey);
        headers.swap_add = vrdma_be64_get(atomic.swap_add);
        headers.compare = vrdma_be64_get(atomic.compare);
    }
    if ((extended & ext_immdt) != 0) {
        headers.imm = reader.take<vrdma_immdt>().imm;
    }
    if ((extended & ext_ieth) != 0) {
        headers.rkey = be32toh(reader.take<vrdma_ieth>().rkey);
    }
}

void read_response(Reader& reader, std::uint16_t extended, Headers& headers) noexcept {
    if ((extended & ext_aeth) != 0) {
        const std::uint32_t word = be32toh(reader.take<vrdma_aeth>().word);
        headers.syndrome = static_cast<std::uint8_t>(VRDMA_GET(VRDMA_AETH_SYNDROME, word));
        headers.msn = VRDMA_GET(VRDMA_AETH_MSN, word);
    }
    if ((extended & ext_atomic_ack_eth) != 0) {
        headers.original = vrdma_be64_get(reader.take<vrdma_atomic_ack_eth>().original);
    }
}

void write_request(Writer& writer, std::uint16_t extended, const Headers& headers) noexcept {
    if ((extended & ext_xrceth) != 0) {
        writer.put(vrdma_xrceth{htobe32(VRDMA_SET(VRDMA_XRCETH_SRQN, headers.srqn))});
    }
    if ((extended & ext_deth) != 0) {
        writer.put(vrdma_deth{htobe32(headers.qkey),
                              htobe32(VRDMA_SET(VRDMA_DETH_SOURCE_QPN, headers.source_qpn))});
    }
    if ((extended & ext_reth) != 0) {
        writer.put(vrdma_reth{vrdma_be64_set(headers.address), htobe32(headers.rkey),
                              htobe32(headers.length)});
    }
    if ((extended & ext_atomic_eth) != 0) {
        writer.put(vrdma_atomic_eth{vrdma_be64_set(headers.address), htobe32(headers.rkey),
                                    vrdma_be64_set(headers.swap_add),
                                    vrdma_be64_set(headers.compare)});
    }
    if ((extended & ext_immdt) != 0) {
        writer.put(vrdma_immdt{headers.imm});
    }
    if ((extended & ext_ieth) != 0) {
        writer.put(vrdma_ieth{htobe32(headers.rkey)});
    }
}

void write_response(Writer& writer, std::uint16_t extended, const Headers& headers) noexcept {
    if ((extended & ext_aeth) != 0) {
        writer.put(
            vrdma_aeth{htobe32(VRDMA_SET(VRDMA_AETH_SYNDROME, std::uint32_t{headers.syndrome}) |
                               VRDMA_SET(VRDMA_AETH_MSN, headers.msn))});
    }
    if ((extended & ext_atomic_ack_eth) != 0) {
        writer.put(vrdma_atomic_ack_eth{vrdma_be64_set(headers.original)});
    }
    if ((extended & ext_cnp) != 0) {
        writer.put(vrdma_cnp{});
    }
}

} // namespace

const Shape& shape_of(std::uint8_t opcode) noexcept {
    return shapes[opcode];
}

Drop parse_headers(std::span<const std::byte> transport, Headers& headers, std::size_t& size,
                   std::size_t& padding) noexcept {
    Reader reader{transport};
    const auto bth = reader.take<vrdma_bth>();
    const Shape& shape = shape_of(bth.opcode);
    if (shape.size == 0 || (bth.flags & VRDMA_BTH_VERSION) != 0) {
        return Drop::malformed;
    }
    if (transport.size() < shape.size) {
        return Drop::truncated;
    }
    size = shape.size;
    padding = VRDMA_GET(VRDMA_BTH_PAD, std::uint32_t{bth.flags});
    const std::size_t padded = transport.size() - size;
    if (padding > padded || padded % 4 != 0 || (padded != 0 && !shape.may_have_payload)) {
        return Drop::malformed;
    }
    read_bth(bth, headers);
    read_request(reader, shape.extended, headers);
    read_response(reader, shape.extended, headers);
    return Drop::none;
}

std::size_t write_headers(std::span<std::byte> transport, const Headers& headers,
                          std::size_t padding) noexcept {
    const Shape& shape = shape_of(headers.opcode);
    assert(shape.size != 0);
    Writer writer{transport};
    writer.put(make_bth(headers, padding));
    write_request(writer, shape.extended, headers);
    write_response(writer, shape.extended, headers);
    assert(writer.size() == shape.size);
    return writer.size();
}

} // namespace vrdma::wire
