// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "bench/samples.h"

#include <algorithm>

namespace vrdma::bench {

double Samples::quantile(double part) {
    const auto last = static_cast<double>(values_.size() - 1);
    const auto nth = values_.begin() + static_cast<std::ptrdiff_t>(part * last);
    std::nth_element(values_.begin(), nth, values_.end());
    return *nth;
}

} // namespace vrdma::bench
