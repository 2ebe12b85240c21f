// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Attributes of QPs, from and into those of PVRDMA.
#pragma once

#include <cstdint>

#include "vrdma/device.h"
#include "vrdma/pvrdma/device.h"

namespace vrdma::pvrdma {

// Numbers that are too large for their field become numbers that no field may have.
vrdma_qp_attr from_guest(const pvrdma_qp_attr& attr, std::uint32_t attr_mask) noexcept;
pvrdma_qp_attr to_guest(const vrdma_qp_attr& attr) noexcept;

} // namespace vrdma::pvrdma
