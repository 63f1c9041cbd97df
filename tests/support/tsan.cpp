// SPDX-License-Identifier: MIT
// Reports that ThreadSanitizer must suppress:
// - libstdc++ counts the references to an exception in a library that isn't instrumented, so the thread that frees an
// exception seems not to be ordered after another one that read its message.
// - libsndfile copies its log to a global buffer whenever a file can't be opened; nothing reads that buffer.
extern "C" const char* __tsan_default_suppressions() {
  return "race:std::__exception_ptr::exception_ptr::_M_release\n"
         "race:libsndfile.so\n";
}
