// SPDX-License-Identifier: MIT
// What ThreadSanitizer should not report.
// - moodycamel 1.0.3 counts a block's emptied slots without an acquire, so that the reuse of a slot isn't formally
//   ordered behind its last read; later versions have it. What items point to is still checked.
// - libsndfile copies its log to one buffer of the process whenever a file can't be opened, and nobody reads it.
extern "C" const char* __tsan_default_suppressions() {
  return "race:moodycamel::ConcurrentQueue*::ImplicitProducer::enqueue\n"
         "race:libsndfile.so\n";
}
