// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A hostile client of a socket. It sends bytes in any pieces, descriptors of all kinds, and
// commands that are nearly right. Its files shrink under the device. Its page lists have thousands
// of holes. Its admin commands and page lists change while they are read. It hangs up at any time.
//
// The input is a program: the first byte of each step selects what it does. Whatever it does, a
// bystander must go on working, and the next client must find a function that is ready.
#include <linux/vfio.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <vector>

#include "mediator/frontend/vfio_user/server.h"
#include "mediator/fuzz/bystander.h"
#include "mediator/fuzz/changing_memory.h"
#include "mediator/fuzz/input.h"
#include "mediator/fuzz/make_hca.h"

namespace vrdma::vfio_user {
namespace {

using fuzz::Input;

enum Step : std::uint8_t {
    step_connect, // and negotiate
    step_bytes,   // count, bytes: sent as they are
    step_command, // number, length of the payload, its bytes, descriptors
    step_map,     // spoilers
    step_truncate,
    step_enable, // with queues in the file that is mapped, and a command
    step_poll,
    step_hang_up,
    step_holes,     // size, distance: a CQ whose blocks are that far apart
    step_introduce, // count, bytes: negotiates with such a text of capabilities
    step_order,     // opcode, spoilers: the next admin command
    step_change,    // the client's memory, when it is next read
    step_end,
};

constexpr int max_steps = 100;
constexpr std::uint64_t window = VRDMA_IOVA_SPACE;
constexpr std::uint64_t file_size = 1 << 20;

DeviceType device_type() {
    DeviceType type{"fuzz", 1, 1 << 20, {}};
    type.limits.doorbell_pages = 2;
    type.limits.vectors = 2;
    return type;
}

class Machine {
  public:
    Machine()
        : function_{[&] {
              verbs::Identity identity;
              identity.mac = {2, 0, 0, 0, 0, 1};
              auto made =
                  Function::create({"fuzz", type_, identity, window}, {loop_, *hca_, gids_, {}});
              Function* const function = made->get();
              std::vector<std::unique_ptr<Function>> functions;
              functions.push_back(std::move(*made));
              server_ = Server::create("fuzz", std::move(functions), loop_);
              return function;
          }()} {}

    void run(Input& input) {
        changing_.emplace(std::span{function_->client_memory().at(Iova{0}, window), window});
        (void)::ftruncate(file_.get(), file_size);
        for (int i = 0; i < max_steps && !input.empty(); ++i) {
            step(input);
            turn();
        }
        other_ = UniqueFd{};
        turn();
        std::uint32_t status = 0;
        function_->read(VFIO_PCI_BAR0_REGION_INDEX, VRDMA_REG_STATUS,
                        std::as_writable_bytes(std::span{&status, 1}));
        fuzz::require(status == VRDMA_STATUS_READY);
        bystander_.check();
    }

  private:
    // Handles all events that are ready, and those that follow from them.
    void turn() {
        const auto watch = loop_.watch(wake_.fd(), [&](std::uint32_t) {
            wake_.drain();
            loop_.stop();
        });
        for (int i = 0; i < 8; ++i) {
            wake_.signal();
            changing_->turn([&] { (void)loop_.run(); });
        }
    }

    void step(Input& input) {
        switch (input.take<std::uint8_t>() % step_end) {
            case step_connect:
                connect();
                break;
            case step_bytes:
                send_bytes(input);
                break;
            case step_command:
                send_command(input);
                break;
            case step_map:
                map(input);
                break;
            case step_truncate:
                (void)::ftruncate(file_.get(), input.take<std::uint16_t>());
                break;
            case step_enable:
                enable(input);
                break;
            case step_poll:
                changing_->turn([&] { (void)hca_->poll(); });
                break;
            case step_holes:
                touch_holes(input);
                break;
            case step_introduce:
                introduce(input);
                break;
            case step_order:
                order(input);
                break;
            case step_change:
                changing_->plan(input);
                break;
            default:
                other_ = UniqueFd{};
                break;
        }
    }

    void connect() {
        open();
        send(VFIO_USER_VERSION, std::as_bytes(std::span{&version_, 1}), 0);
    }

    // Negotiates with a text of capabilities.
    void introduce(Input& input) {
        struct {
            vfio_user_version version = version_;
            std::array<std::byte, 200> text{};
        } hello;
        const std::size_t count = input.take<std::uint8_t>() % hello.text.size();
        for (std::size_t i = 0; i < count; ++i) {
            hello.text[i] = input.take<std::byte>();
        }
        open();
        send(VFIO_USER_VERSION,
             std::as_bytes(std::span{&hello, 1}).first(sizeof(version_) + count + 1), 0);
    }

    void open() {
        std::array<int, 2> ends{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) !=
            0) {
            std::abort();
        }
        other_ = UniqueFd{ends[1]};
        turn();
        server_->accept(UniqueFd{ends[0]});
    }

    void send_bytes(Input& input) {
        std::array<std::byte, 64> bytes;
        const std::size_t count = input.take<std::uint8_t>() % bytes.size();
        for (std::size_t i = 0; i < count; ++i) {
            bytes[i] = input.take<std::byte>();
        }
        transmit(std::span{bytes}.first(count), input.take<std::uint8_t>());
    }

    void send_command(Input& input) {
        const auto number = input.take<std::uint8_t>();
        std::array<std::byte, 64> payload;
        const std::size_t count = input.take<std::uint8_t>() % payload.size();
        for (std::size_t i = 0; i < count; ++i) {
            payload[i] = input.take<std::byte>();
        }
        send(number, std::span{payload}.first(count), input.take<std::uint8_t>());
    }

    void map(Input& input) {
        vfio_user_dma_map request{sizeof(request), VFIO_USER_DMA_READ | VFIO_USER_DMA_WRITE, 0, 0,
                                  file_size};
        input.spoil<std::uint8_t>(std::as_writable_bytes(std::span{&request, 1}));
        send(VFIO_USER_DMA_MAP, std::as_bytes(std::span{&request, 1}), 1);
    }

    // The admin queue and the status page lie in the file, one page each. One or two commands
    // follow.
    void enable(Input& input) {
        set_registers();
        write_file(std::array{header_of(input.take<std::uint8_t>())}, submissions);
        posted_ = 1;
    }

    // The next command, which has a page list in the file, like a registration.
    void order(Input& input) {
        constexpr std::uint32_t depth = 16;
        constexpr std::uint64_t list = 0x5000;
        const std::uint32_t opcode = input.take<std::uint8_t>();
        vrdma_admin_cmd command{};
        command.reg_mr = {{list, 3, VRDMA_PAGE_SHIFT, 1, 0}, 0x10000, 9000, 1, 15, 0, 0};
        input.spoil<std::uint8_t>(std::as_writable_bytes(std::span{&command, 1}));
        command.header = header_of(opcode) ^ ((posted_ & depth) != 0 ? VRDMA_ADMIN_PHASE : 0);
        write_file(std::array<std::uint64_t, 3>{0x7000, 0x9000, 0x8000}, list);
        write_file(std::array{command}, submissions + posted_++ % depth * sizeof(command));
        write_register(VRDMA_REG_ADMIN_DOORBELL, 1);
    }

    void set_registers() {
        constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 7> values{{
            {VRDMA_REG_ASQ_LOW, submissions},
            {VRDMA_REG_ACQ_LOW, 0x2000},
            {VRDMA_REG_AQ_DEPTH, 16},
            {VRDMA_REG_AQ_VECTOR, 1},
            {VRDMA_REG_STATUS_PAGE_LOW, 0x3000},
            {VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE},
            {VRDMA_REG_ADMIN_DOORBELL, 1},
        }};
        write_word(VFIO_PCI_CONFIG_REGION_INDEX, PCI_COMMAND, PCI_COMMAND_MASTER);
        for (const auto& [offset, value] : values) {
            write_register(offset, value);
        }
    }

    void write_register(std::uint32_t offset, std::uint32_t value) {
        write_word(VFIO_PCI_BAR0_REGION_INDEX, offset, value);
    }

    void write_word(std::uint32_t region, std::uint32_t offset, std::uint32_t value) {
        const struct {
            vfio_user_region_access access;
            std::uint32_t value;
        } __attribute__((packed)) write{{offset, region, sizeof(value)}, value};
        send(VFIO_USER_REGION_WRITE, std::as_bytes(std::span{&write, 1}), 0);
    }

    // Enables the device again. An event queue lies in the file, and so does the page list of a CQ,
    // which names pages that are not there. Between any two of these pages is another hole.
    void touch_holes(Input& input) {
        constexpr std::uint64_t event_queue = 0x4000;
        constexpr std::uint64_t root = 0x5000;
        constexpr std::uint64_t first_list = 0x6000;
        const std::uint32_t depth = VRDMA_MAX_CQ_DEPTH >> input.take<std::uint8_t>() % 16;
        const std::uint64_t distance = (2 + input.take<std::uint8_t>()) * VRDMA_PAGE_SIZE;
        const auto blocks =
            static_cast<std::uint32_t>(1 + depth * sizeof(vrdma_cqe) / VRDMA_PAGE_SIZE);
        const std::uint32_t lists = 1 + (blocks - 1) / VRDMA_PAGE_LIST_ENTRIES;
        std::vector<std::uint64_t> level;
        for (std::uint32_t i = 0; i < lists; ++i) {
            level.push_back(first_list + i * VRDMA_PAGE_SIZE);
        }
        std::vector<std::uint64_t> holes;
        for (std::uint32_t i = 0; i < blocks; ++i) {
            holes.push_back(file_size + i * distance);
        }
        std::array<vrdma_admin_cmd, 2> commands{};
        commands[0].header = header_of(VRDMA_ADMIN_CREATE_EQ);
        commands[0].create_eq = {{event_queue, 1, VRDMA_PAGE_SHIFT, 0, 0}, 16, 0};
        commands[1].header = header_of(VRDMA_ADMIN_CREATE_CQ);
        commands[1].create_cq.pages = {root, blocks, VRDMA_PAGE_SHIFT, 2, 0};
        commands[1].create_cq.depth = depth;
        commands[1].create_cq.eq = 1;
        (void)::ftruncate(file_.get(), 0);
        (void)::ftruncate(file_.get(), file_size);
        write_file(level, root);
        write_file(holes, first_list);
        write_file(commands, submissions);
        write_register(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
        set_registers();
        posted_ = static_cast<std::uint32_t>(commands.size());
    }

    static std::uint32_t header_of(std::uint32_t opcode) {
        return VRDMA_ADMIN_PHASE | VRDMA_SET(VRDMA_ADMIN_OPCODE, opcode);
    }

    template <typename Content>
    void write_file(const Content& content, std::uint64_t at) {
        const auto bytes = std::as_bytes(std::span{content});
        (void)::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    }

    void send(std::uint16_t number, std::span<const std::byte> payload, std::uint8_t fds) {
        std::array<std::byte, 256> bytes;
        const vfio_user_header header{
            0, number, static_cast<std::uint32_t>(sizeof(header) + payload.size()), 0, 0};
        std::memcpy(bytes.data(), &header, sizeof(header));
        std::ranges::copy(payload, bytes.begin() + sizeof(header));
        transmit(std::span{bytes}.first(header.size), fds);
    }

    // Each bit of fds stands for a kind of descriptor.
    void transmit(std::span<const std::byte> bytes, std::uint8_t fds) {
        std::vector<int> passed;
        const std::array kinds{file_.get(), eventfd_.get(), empty_.get()};
        for (std::size_t i = 0; i < kinds.size(); ++i) {
            if ((fds >> i & 1) != 0) {
                passed.push_back(kinds[i]);
            }
        }
        if (other_ && !bytes.empty()) {
            (void)send_with_fds(other_.get(), bytes, passed);
        }
    }

    static constexpr std::uint32_t submissions = 0x1000; // in the file

    static constexpr vfio_user_version version_{VFIO_USER_MAJOR, VFIO_USER_MINOR};

    UniqueFd file_{::memfd_create("fuzz", MFD_CLOEXEC)};
    UniqueFd eventfd_{::eventfd(0, EFD_CLOEXEC)};
    UniqueFd empty_{::memfd_create("empty", MFD_CLOEXEC)};
    EventFd wake_ = *EventFd::create();
    EventLoop loop_;
    DeviceType type_ = device_type();
    std::unique_ptr<hca::soft::SoftHca> hca_ = fuzz::make_hca();
    verbs::GidRegistry gids_;
    std::unique_ptr<Server> server_;
    Function* function_;
    UniqueFd other_;
    std::uint32_t posted_ = 0;
    std::optional<fuzz::ChangingMemory> changing_; // of this input
    fuzz::Bystander bystander_{*hca_, gids_};
};

} // namespace
} // namespace vrdma::vfio_user

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    spdlog::set_level(spdlog::level::off);
    static vrdma::vfio_user::Machine machine;
    vrdma::fuzz::Input input{{data, size}};
    machine.run(input);
    return 0;
}
