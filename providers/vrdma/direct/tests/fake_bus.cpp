// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "fake_bus.h"

#include <vrdma/device.h>

#include <cerrno>

namespace vrdma::test
{
namespace
{

FakeBus &fake(vrdma_bus *bus)
{
	return *static_cast<FakeBus *>(bus);
}

uint32_t read(vrdma_bus *bus, uint32_t offset)
{
	const std::lock_guard guard(fake(bus).lock);
	return fake(bus).registers[offset];
}

void write(vrdma_bus *bus, uint32_t offset, uint32_t value)
{
	const std::lock_guard guard(fake(bus).lock);
	fake(bus).registers[offset] = value;
	fake(bus).on_write(offset, value);
}

void post(vrdma_bus *bus, uint32_t offset, uint32_t)
{
	fake(bus).on_post(offset);
}

int map(vrdma_bus *bus, const vrdma_dma *dma)
{
	const std::lock_guard guard(fake(bus).lock);
	if (fake(bus).map_error)
		return fake(bus).map_error;
	if (dma->length > fake(bus).max_length)
		return -EINVAL;
	if (fake(bus).maps.size() >= fake(bus).max_maps)
		return -ENOSPC;
	fake(bus).maps.emplace(dma->iova, *dma);
	return 0;
}

int unmap(vrdma_bus *bus, uint64_t iova, uint64_t length)
{
	const std::lock_guard guard(fake(bus).lock);
	const auto found = fake(bus).maps.find(iova);
	if (found == fake(bus).maps.end() || found->second.length != length)
		return -EINVAL;
	fake(bus).maps.erase(found);
	return 0;
}

constexpr vrdma_bus_ops fake_ops{
	.read = read,
	.write = write,
	.post = post,
	.map = map,
	.unmap = unmap,
	.set_vectors = [](vrdma_bus *, const int *, unsigned int) { return 0; },
	.follow = [](vrdma_bus *) { return -EIO; },
	.abandon = [](vrdma_bus *) {},
	.close = [](vrdma_bus *) {},
};

} // namespace

FakeBus::FakeBus() : vrdma_bus{}
{
	ops = &fake_ops;
	kick_fd = hangup_fd = request_fd = -1;
	registers[VRDMA_REG_STATUS] = VRDMA_STATUS_READY;
}

void *FakeBus::at(uint64_t iova)
{
	const std::lock_guard guard(lock);
	auto next = maps.upper_bound(iova);
	if (next == maps.begin())
		return nullptr;
	const vrdma_dma &dma = (--next)->second;
	const uint64_t offset = iova - dma.iova;
	return offset < dma.length ? static_cast<char *>(dma.start) + offset : nullptr;
}

} // namespace vrdma::test
