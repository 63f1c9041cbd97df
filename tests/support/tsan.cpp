// SPDX-License-Identifier: MIT
// What ThreadSanitizer should not report. moodycamel 1.0.3 counts a block's emptied slots without an acquire,
// so that the reuse of a slot isn't formally ordered behind its last read; later versions have it. What items
// point to is still checked.
extern "C" const char* __tsan_default_suppressions() {
  return "race:moodycamel::ConcurrentQueue*::ImplicitProducer::enqueue\n";
}
