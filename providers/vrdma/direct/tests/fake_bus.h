// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A fake bus: registers that keep the values written to them, and memory that tests find by the
// device's address.
#ifndef VRDMA_FAKE_BUS_H
#define VRDMA_FAKE_BUS_H

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "bus.h"

namespace vrdma::test
{

struct FakeBus : vrdma_bus {
	FakeBus();

	// The memory that the device sees at an address, or NULL.
	void *at(uint64_t iova);

	std::function<void(uint32_t offset)> on_post = [](uint32_t) {};
	// Called with the lock held, after a register was written.
	std::function<void(uint32_t offset, uint32_t value)> on_write = [](uint32_t, uint32_t) {};
	int map_error = 0;                // error of the next mappings, or 0
	uint64_t max_length = UINT64_MAX; // of a mapping
	size_t max_maps = SIZE_MAX;

	std::mutex lock;
	std::map<uint32_t, uint32_t> registers;
	std::map<uint64_t, vrdma_dma> maps;
};

} // namespace vrdma::test

#endif // VRDMA_FAKE_BUS_H
