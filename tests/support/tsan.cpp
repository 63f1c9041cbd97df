// SPDX-License-Identifier: MIT
// Reports that ThreadSanitizer must suppress:
// - moodycamel 1.0.3 counts a block's emptied slots without an acquire, so the reuse of a slot isn't formally
// ordered after its last read. Later versions fix it. The data that items point to is still checked.
// - libsndfile copies its log to a global buffer whenever a file can't be opened; nothing reads that buffer.
extern "C" const char* __tsan_default_suppressions() {
  return "race:moodycamel::ConcurrentQueue*::ImplicitProducer::enqueue\n"
         "race:libsndfile.so\n";
}
