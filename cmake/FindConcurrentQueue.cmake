# SPDX-License-Identifier: MIT
# Finds moodycamel's header, so that #include <concurrentqueue.h> works, and adds the target
# concurrentqueue::concurrentqueue. Debian has the header in concurrentqueue/; moodycamel's install (also
# vcpkg's) has it in concurrentqueue/moodycamel/.
find_path(ConcurrentQueue_INCLUDE_DIR concurrentqueue.h
  PATH_SUFFIXES concurrentqueue/moodycamel concurrentqueue moodycamel)
mark_as_advanced(ConcurrentQueue_INCLUDE_DIR)

set(ConcurrentQueue_NOT_FOUND_MESSAGE "On Debian its package is libconcurrentqueue-dev.")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ConcurrentQueue DEFAULT_MSG ConcurrentQueue_INCLUDE_DIR)
if(ConcurrentQueue_FOUND AND NOT TARGET concurrentqueue::concurrentqueue)
  add_library(concurrentqueue::concurrentqueue INTERFACE IMPORTED)
  target_include_directories(concurrentqueue::concurrentqueue INTERFACE "${ConcurrentQueue_INCLUDE_DIR}")
endif()
