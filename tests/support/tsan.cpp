// SPDX-License-Identifier: MIT
// Reports that ThreadSanitizer must suppress:
// - moodycamel 1.0.3 counts a block's emptied slots without an acquire, so the reuse of a slot isn't formally
// ordered after its last read. Later versions fix it. The data that items point to is still checked.
// - libstdc++ counts the references to an exception in a library that isn't instrumented, so the thread that frees an
// exception seems not to be ordered after another one that read its message.
// - libsndfile copies its log to a global buffer whenever a file can't be opened; nothing reads that buffer.
extern "C" const char* __tsan_default_suppressions() {
  return "race:moodycamel::ConcurrentQueue*::ImplicitProducer::enqueue\n"
         "race:std::__exception_ptr::exception_ptr::_M_release\n"
         "race:libsndfile.so\n";
}
