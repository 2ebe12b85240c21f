// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A directory in the place of /sys, with one RDMA device.
#ifndef VRDMA_FAKE_SYSFS_H
#define VRDMA_FAKE_SYSFS_H

#include <filesystem>
#include <string>

namespace vrdma::test
{

class FakeSysfs
{
      public:
	// vrdma0, on a PCI function of that modalias, with that version of its driver's ABI.
	FakeSysfs(const std::string &modalias, unsigned int abi_version);
	FakeSysfs(const FakeSysfs &) = delete;
	FakeSysfs &operator=(const FakeSysfs &) = delete;
	~FakeSysfs();

	const std::filesystem::path &path() const
	{
		return root_;
	}

	// The modalias that a PCI function of these ids has.
	static std::string pci_modalias(unsigned int vendor, unsigned int device);

      private:
	std::filesystem::path root_;
};

} // namespace vrdma::test

#endif // VRDMA_FAKE_SYSFS_H
