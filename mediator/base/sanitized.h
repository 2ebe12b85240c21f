// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Whether a sanitizer's runtime is in this process. Such a runtime handles signals, starts threads,
// and opens files of its own.
#pragma once

namespace vrdma {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
#else
constexpr bool sanitized = false;
#endif

} // namespace vrdma
