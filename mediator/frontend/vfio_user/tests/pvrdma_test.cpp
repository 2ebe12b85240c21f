// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Functions with PVRDMA's personality behind sockets, as a VM monitor and the guest's driver see
// them.
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <array>

#include "mediator/frontend/vfio_user/tests/client.h"
#include "mediator/tests/guest/pvrdma_driver.h"
#include "vrdma/pvrdma/pci_config.h"

namespace vrdma::vfio_user::test {
namespace {

using vrdma::test::ipv4_gid;
using vrdma::test::PvDriver;
using vrdma::test::PvQp;

constexpr std::uint32_t pv_registers = VFIO_PCI_BAR0_REGION_INDEX + PVRDMA_BAR_REGISTERS;
constexpr std::uint32_t pv_uar = VFIO_PCI_BAR0_REGION_INDEX + PVRDMA_BAR_UAR;
constexpr std::uint32_t pv_config = VFIO_PCI_CONFIG_REGION_INDEX;

// A VM with such a function: its memory is a file, and its vectors are eventfds.
class Machine {
  public:
    static constexpr std::uint64_t memory_size = 1 << 25;

    explicit Machine(std::unique_ptr<Function> function_)
        : function{with_memory(std::move(function_))} {
        std::vector<UniqueFd> eventfds;
        for (EventFd& vector : vectors_) {
            eventfds.emplace_back(::fcntl(vector.fd(), F_DUPFD_CLOEXEC, 0));
        }
        EXPECT_TRUE(function->interrupts().set(0, std::move(eventfds)));
        set_command(PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY);
    }

    void set_command(std::uint16_t value) { write(pv_config, PCI_COMMAND, value); }

    template <typename T>
    T read(std::uint32_t region, std::uint64_t offset) const {
        T value{};
        function->read(region, offset, std::as_writable_bytes(std::span{&value, 1}));
        return value;
    }
    template <typename T>
    void write(std::uint32_t region, std::uint64_t offset, T value) {
        function->write(region, offset, std::as_bytes(std::span{&value, 1}));
    }

    unsigned interrupts(unsigned vector) {
        eventfd_t count = 0;
        if (::eventfd_read(vectors_.at(vector).fd(), &count) == 0) {
            counts_.at(vector) += static_cast<unsigned>(count);
        }
        return counts_.at(vector);
    }

  private:
    static std::unique_ptr<Function> with_memory(std::unique_ptr<Function> function) {
        EXPECT_TRUE(function->client_memory().map(Iova{0}, memory_size, shared_file(memory_size), 0,
                                                  PROT_READ | PROT_WRITE));
        return function;
    }

    std::array<EventFd, PVRDMA_VECTORS> vectors_{*EventFd::create(), *EventFd::create(),
                                                 *EventFd::create()};
    std::array<unsigned, PVRDMA_VECTORS> counts_{};

  public:
    std::unique_ptr<Function> function;
    vrdma::test::GuestAllocator allocator{function->client_memory()};
    PvDriver driver{
        {.read = [this](std::uint32_t at) { return read<std::uint32_t>(pv_registers, at); },
         .write = [this](std::uint32_t at, std::uint32_t value) { write(pv_registers, at, value); },
         .ring = [this](std::uint32_t at, std::uint32_t value) { write(pv_uar, at, value); },
         .interrupts = [this](unsigned vector) { return interrupts(vector); },
         .let_run = [this] { function->device().service(); }},
        function->client_memory(),
        allocator};
};

class PvrdmaFunction : public ::testing::Test {
  protected:
    std::unique_ptr<Function> make(const std::string& name) {
        return std::move(bench_.make_functions(name, 1, PersonalityKind::pvrdma).front());
    }

    Bench bench_;
    Machine machine_{make("a")};
};

// The identity and BARs by which Linux's driver finds the device.
TEST_F(PvrdmaFunction, IsThePciFunctionThatTheDriverKnows) {
    EXPECT_EQ(machine_.read<std::uint16_t>(pv_config, PCI_VENDOR_ID), PVRDMA_PCI_VENDOR_ID);
    EXPECT_EQ(machine_.read<std::uint16_t>(pv_config, PCI_DEVICE_ID), PVRDMA_PCI_DEVICE_ID);
    for (int bar = 0; bar < 6; ++bar) {
        machine_.write(pv_config, PCI_BASE_ADDRESS_0 + bar * 4, ~0u);
    }
    const auto bar = [&](int number) {
        return machine_.read<std::uint32_t>(pv_config, PCI_BASE_ADDRESS_0 + number * 4);
    };
    EXPECT_EQ(bar(0), ~(PVRDMA_BAR_MSIX_SIZE - 1u));
    EXPECT_EQ(bar(1), ~(PVRDMA_BAR_REGISTERS_SIZE - 1u));
    EXPECT_EQ(bar(2), ~(4 * PVRDMA_PAGE_SIZE - 1u) | PCI_BASE_ADDRESS_MEM_TYPE_64);
    EXPECT_EQ(bar(3), ~0u);
    EXPECT_EQ(bar(4), 0u);
    EXPECT_EQ(bar(5), 0u);
    EXPECT_EQ(machine_.function->region_size(pv_registers), PVRDMA_BAR_REGISTERS_SIZE);
    EXPECT_EQ(machine_.function->region_size(pv_uar), 4u * PVRDMA_PAGE_SIZE);
    const auto msix = machine_.read<std::uint16_t>(pv_config, VRDMA_PCI_MSIX_CAPABILITY + 2);
    EXPECT_EQ(msix & PCI_MSIX_FLAGS_QSIZE, PVRDMA_VECTORS - 1);
    EXPECT_EQ(machine_.read<std::uint32_t>(pv_config, VRDMA_PCI_MSIX_CAPABILITY + PCI_MSIX_TABLE),
              0u);
}

// The client maps no doorbells and gets no eventfd for kicks, as the poller shares none with it.
TEST_F(PvrdmaFunction, SharesNothing) {
    DeviceLog log{"test"};
    Session session{*machine_.function, log};
    Message hello = version_command();
    ASSERT_TRUE(session.execute(hello));
    for (std::uint32_t region = 0; region < VFIO_PCI_NUM_REGIONS; ++region) {
        Message info =
            command(VFIO_USER_DEVICE_GET_REGION_INFO,
                    vfio_user_region_info{sizeof(vfio_user_region_info), 0, region, 0, 0, 0});
        const auto answer = session.execute(info);
        ASSERT_TRUE(answer);
        EXPECT_TRUE(answer->fds.empty());
        EXPECT_EQ(part_of<vfio_user_region_info>(*answer).flags & VFIO_REGION_INFO_FLAG_MMAP, 0u);
        Message fds =
            command(VFIO_USER_DEVICE_GET_REGION_IO_FDS, vfio_user_region_io_fds{100, 0, region, 0});
        const auto kicks = session.execute(fds);
        ASSERT_TRUE(kicks);
        EXPECT_TRUE(kicks->fds.empty());
    }
}

// While its client has stopped the device to move it, registers do nothing. They work afterwards,
// here and where it came to.
TEST_F(PvrdmaFunction, RestsWhileItMoves) {
    ASSERT_TRUE(machine_.driver.probe());
    const std::uint32_t pd = machine_.driver.create_pd();
    Migration& migration = machine_.function->migration();
    ASSERT_TRUE(migration.go_to(VFIO_DEVICE_STATE_STOP_COPY));
    const auto piece = migration.read(1 << 20);
    ASSERT_TRUE(piece);
    const std::vector<std::byte> stream(piece->begin(), piece->end());
    for (const std::uint32_t offset : {PVRDMA_REG_REQUEST, PVRDMA_REG_CONTROL, PVRDMA_REG_MASK}) {
        machine_.write(pv_registers, offset, std::uint32_t{PVRDMA_CONTROL_RESET});
    }
    EXPECT_EQ(machine_.read<std::uint32_t>(pv_registers, PVRDMA_REG_MASK), 0u);
    ASSERT_TRUE(migration.go_to(VFIO_DEVICE_STATE_RUNNING));
    EXPECT_EQ(machine_.driver.destroy(PVRDMA_DESTROY_PD, pd), 0u);

    ASSERT_TRUE(migration.go_to(VFIO_DEVICE_STATE_RESUMING));
    ASSERT_TRUE(migration.write(stream));
    ASSERT_TRUE(migration.go_to(VFIO_DEVICE_STATE_RUNNING));
    EXPECT_EQ(machine_.driver.destroy(PVRDMA_DESTROY_PD, pd), 0u) << "it had that PD";
    EXPECT_EQ(machine_.read<std::uint32_t>(pv_registers, PVRDMA_REG_MASK), 0u);
}

// Two guests of such devices exchange messages: each post rings a doorbell, and each waits for an
// event, as a program with a completion channel does.
TEST_F(PvrdmaFunction, TwoGuestsPlayPingPong) {
    Machine other{make("bb")};
    struct Side {
        explicit Side(Machine& machine_) : machine{machine_} {}
        Machine& machine;
        std::uint32_t pd = 0;
        std::optional<PvDriver::Mr> mr{};
        std::optional<PvDriver::Cq> cq{};
        std::optional<PvQp> qp{};
    };
    std::array<Side, 2> sides{Side{machine_}, Side{other}};
    for (std::size_t i = 0; i < sides.size(); ++i) {
        PvDriver& driver = sides[i].machine.driver;
        ASSERT_TRUE(driver.probe());
        ASSERT_EQ(driver.bind(0, ipv4_gid(static_cast<std::uint8_t>(i + 1))), 0u);
        sides[i].pd = driver.create_pd();
        sides[i].mr.emplace(driver.create_mr(sides[i].pd, 1 << 16));
        sides[i].cq.emplace(driver.create_cq());
        sides[i].qp.emplace(driver.create_qp(sides[i].pd, sides[i].cq->handle));
    }
    for (std::size_t i = 0; i < sides.size(); ++i) {
        ASSERT_EQ(sides[i].machine.driver.connect(sides[i].qp->handle,
                                                  ipv4_gid(static_cast<std::uint8_t>(2 - i)),
                                                  sides[1 - i].qp->qpn),
                  0u);
    }
    const auto await_event = [&](Side& side) {
        for (int round = 0; round < 100'000; ++round) {
            if (const auto event = side.machine.driver.completions().poll()) {
                EXPECT_EQ(event->cq, side.cq->handle);
                return;
            }
            bench_.hca->poll();
        }
        ADD_FAILURE() << "no event";
    };
    const auto await_completion = [&](Side& side) {
        side.machine.driver.arm(*side.cq);
        await_event(side);
        const auto entry = side.cq->ring.poll();
        EXPECT_TRUE(entry);
        return entry.value_or(pvrdma_cqe{});
    };
    for (std::uint64_t i = 0; i < 200; ++i) {
        Side& from = sides[i % 2];
        Side& to = sides[1 - i % 2];
        from.mr->buffer.fill(static_cast<std::uint8_t>(i));
        to.qp->post_recv(i, std::array{to.mr->sge(0, 4096)});
        from.qp->post_send(vrdma::test::send_wqe(i), std::array{from.mr->sge(0, 4096)});
        EXPECT_EQ(await_completion(to).byte_len, 4096u);
        EXPECT_EQ(await_completion(from).status, std::uint32_t{IBV_WC_SUCCESS});
        EXPECT_EQ(to.mr->buffer.read(0, 4096), from.mr->buffer.read(0, 4096));
    }
    EXPECT_GE(machine_.interrupts(PVRDMA_VECTOR_COMPLETION), 200u);
}

// Clearing Bus Master resets the device: it touches no memory any more. Accesses of other widths do
// nothing, and doorbells read as zero (CVE-2018-20191).
TEST_F(PvrdmaFunction, ResetsAndOddAccesses) {
    ASSERT_TRUE(machine_.driver.probe());
    machine_.write(pv_uar, 1, std::uint8_t{1});
    machine_.write(pv_uar, 0, ~std::uint64_t{0});
    machine_.write(pv_registers, 2, std::uint16_t{1});
    EXPECT_EQ(machine_.read<std::uint64_t>(pv_uar, 8), 0u);
    EXPECT_NE(machine_.driver.create_pd(), 0u);
    machine_.set_command(0);
    EXPECT_FALSE(machine_.function->device().enabled());
    machine_.driver.region().caps = {};
    EXPECT_FALSE(machine_.driver.offer_region()) << "Bus Master is clear";
    machine_.set_command(PCI_COMMAND_MASTER);
    EXPECT_TRUE(machine_.driver.probe());
}

} // namespace
} // namespace vrdma::vfio_user::test
