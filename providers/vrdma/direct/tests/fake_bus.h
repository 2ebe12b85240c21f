// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A bus that ends in the test: registers that keep what is written, and memory that is found by the
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

	// What the device sees at an address, or NULL.
	void *at(uint64_t iova);

	std::function<void(uint32_t offset)> on_post = [](uint32_t) {};
	// After a register was written, with the lock.
	std::function<void(uint32_t offset, uint32_t value)> on_write = [](uint32_t, uint32_t) {};
	int map_error = 0;                // what the next mappings fail with
	uint64_t max_length = UINT64_MAX; // of a mapping
	size_t max_maps = SIZE_MAX;

	std::mutex lock;
	std::map<uint32_t, uint32_t> registers;
	std::map<uint64_t, vrdma_dma> maps;
};

} // namespace vrdma::test

#endif // VRDMA_FAKE_BUS_H
