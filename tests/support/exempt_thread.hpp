// SPDX-License-Identifier: MIT
#pragma once

// Which threads belong to a test, and not to what it tests.

namespace feedline::test {

/// Whether the allocations of the calling thread succeed although others fail: see failing_allocations.hpp.
inline constinit thread_local bool is_exempt = false;

} // namespace feedline::test
