// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A directory that replaces /sys, with one RDMA device.
#ifndef VRDMA_FAKE_SYSFS_H
#define VRDMA_FAKE_SYSFS_H

#include <filesystem>
#include <string>

namespace vrdma::test
{

class FakeSysfs
{
      public:
	// The device is vrdma0, on a PCI function with this modalias and this version of the ABI.
	FakeSysfs(const std::string &modalias, unsigned int abi_version);
	FakeSysfs(const FakeSysfs &) = delete;
	FakeSysfs &operator=(const FakeSysfs &) = delete;
	~FakeSysfs();

	const std::filesystem::path &path() const
	{
		return root_;
	}

	// The modalias of a PCI function with these ids.
	static std::string pci_modalias(unsigned int vendor, unsigned int device);

      private:
	std::filesystem::path root_;
};

} // namespace vrdma::test

#endif // VRDMA_FAKE_SYSFS_H
