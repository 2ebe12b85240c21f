// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Tests whether the provider takes its device, with the installed libibverbs and with ones that
// have the names of other versions. Each test runs it in a process of its own.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include <vrdma/device.h>
#include <vrdma/uverbs.h>

#include "fake_sysfs.h"

namespace vrdma::test
{
namespace
{

namespace fs = std::filesystem;

const std::string our_modalias = FakeSysfs::pci_modalias(VRDMA_PCI_VENDOR_ID, VRDMA_PCI_DEVICE_ID);

// Returns the output of list_devices, including standard error, with the provider built here.
std::string list_devices(const FakeSysfs &sysfs, const std::string &library_path = {})
{
	std::string command = "env SYSFS_PATH=" + sysfs.path().string() +
			      " RDMAV_DRIVERS=" PROVIDER;
	if (!library_path.empty())
		command += " LD_LIBRARY_PATH=" + library_path;
	command += " " LIST_DEVICES " 2>&1";

	const std::unique_ptr<FILE, int (*)(FILE *)> pipe(popen(command.c_str(), "r"), pclose);
	std::string output;
	std::array<char, 512> part;
	while (pipe && fgets(part.data(), int(part.size()), pipe.get()))
		output += part.data();
	return output;
}

bool has(const std::string &output, const std::string &text)
{
	return output.find(text) != std::string::npos;
}

// A device with vrdma's PCI id and ABI version: expects it listed.
TEST(LoadGuard, TakesItsDevice)
{
	const FakeSysfs sysfs(our_modalias, VRDMA_UVERBS_ABI_VERSION);

	EXPECT_EQ(list_devices(sysfs), "device vrdma0\n");
}

// Devices of other PCI ids: expects the provider not to take them.
TEST(LoadGuard, LeavesOtherDevices)
{
	for (const std::string &modalias :
	     {FakeSysfs::pci_modalias(VRDMA_PCI_VENDOR_ID, VRDMA_PCI_DEVICE_ID + 1),
	      FakeSysfs::pci_modalias(VRDMA_PCI_VENDOR_ID + 1, VRDMA_PCI_DEVICE_ID)}) {
		const FakeSysfs sysfs(modalias, VRDMA_UVERBS_ABI_VERSION);

		EXPECT_FALSE(has(list_devices(sysfs), "device vrdma0"));
	}
}

// A guest driver with another ABI version: expects a warning that names both, and no device.
TEST(LoadGuard, RefusesAnotherKernelAbi)
{
	const FakeSysfs sysfs(our_modalias, VRDMA_UVERBS_ABI_VERSION + 1);
	const std::string output = list_devices(sysfs);

	EXPECT_FALSE(has(output, "device vrdma0")) << output;
	EXPECT_TRUE(has(output, "Driver vrdma does not support the kernel ABI of 2")) << output;
}

// The installed libibverbs under the name of another version.
std::string list_devices_with_version(const FakeSysfs &sysfs, int version)
{
	const fs::path libraries = sysfs.path() / ("lib" + std::to_string(version));
	const std::string name = "libibverbs.so.1.14." + std::to_string(version) + ".0";
	fs::create_directory(libraries);
	fs::copy_file(fs::canonical(LIBIBVERBS), libraries / name);
	fs::create_symlink(name, libraries / "libibverbs.so.1");
	return list_devices(sysfs, libraries);
}

// The versions whose private structures are as in the installed one: expects the device.
TEST(LoadGuard, TakesSimilarLibraries)
{
	const FakeSysfs sysfs(our_modalias, VRDMA_UVERBS_ABI_VERSION);

	for (const int version : std::set{VRDMA_FIRST_MAJOR, VRDMA_LAST_MAJOR})
		EXPECT_EQ(list_devices_with_version(sysfs, version), "device vrdma0\n");
}

// The versions before and after these: expects the provider to say that it does not load, and no
// device.
TEST(LoadGuard, RefusesOtherLibraries)
{
	const FakeSysfs sysfs(our_modalias, VRDMA_UVERBS_ABI_VERSION);

	for (const int version : {VRDMA_FIRST_MAJOR - 1, VRDMA_LAST_MAJOR + 1}) {
		const std::string output = list_devices_with_version(sysfs, version);
		EXPECT_FALSE(has(output, "device vrdma0")) << output;
		EXPECT_TRUE(has(output, "libvrdma: refusing to load into")) << output;
		EXPECT_TRUE(has(output, "libibverbs.so.1.14." + std::to_string(version) +
						".0: built for rdma-core "))
			<< output;
	}
}

} // namespace
} // namespace vrdma::test
