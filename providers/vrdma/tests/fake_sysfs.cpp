// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "fake_sysfs.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace vrdma::test
{

namespace fs = std::filesystem;

namespace
{

void write_file(const fs::path &path, const std::string &text)
{
	fs::create_directories(path.parent_path());
	std::ofstream(path) << text << '\n';
}

} // namespace

FakeSysfs::FakeSysfs(const std::string &modalias, unsigned int abi_version)
{
	std::string name = fs::temp_directory_path() / "vrdma-sysfs-XXXXXX";
	if (!mkdtemp(name.data()))
		throw std::system_error(errno, std::generic_category(), name);
	root_ = name;

	const fs::path verbs = root_ / "class/infiniband_verbs";
	write_file(verbs / "abi_version", "6");
	write_file(verbs / "uverbs0/ibdev", "vrdma0");
	write_file(verbs / "uverbs0/dev", "1:3"); // /dev/null, which the fake kernel opens
	write_file(verbs / "uverbs0/abi_version", std::to_string(abi_version));
	const fs::path device = root_ / "class/infiniband/vrdma0";
	write_file(device / "node_type", "1: CA");
	write_file(device / "node_guid", "0200:00ff:fe00:0001");
	write_file(device / "device/modalias", modalias);
}

FakeSysfs::~FakeSysfs()
{
	std::error_code ignored;
	fs::remove_all(root_, ignored);
}

std::string FakeSysfs::pci_modalias(unsigned int vendor, unsigned int device)
{
	char text[64];
	snprintf(text, sizeof(text), "pci:v%08Xd%08Xsv00000000sd00000000bc02sc80i00", vendor,
		 device);
	return text;
}

} // namespace vrdma::test
