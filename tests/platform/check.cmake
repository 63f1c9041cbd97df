# SPDX-License-Identifier: MIT
# Compiles with COMPILER, in FOLDER:
#   CASE=without_linux: all of the core, as if the system were macOS
#   CASE=unsupported:   feedline.hpp, as if the platform were one that feedline doesn't support: one sentence must say so
cmake_minimum_required(VERSION 3.25)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH tests)
cmake_path(GET tests PARENT_PATH root)
set(command "${COMPILER}" -std=c++20 -w "-I${root}/include")

if(CASE STREQUAL "unsupported")
  foreach(platform IN ITEMS -D_WIN32 -U__SIZEOF_INT128__ "-U__SIZEOF_POINTER__ -D__SIZEOF_POINTER__=4"
      "-U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__")
    separate_arguments(platform)
    execute_process(COMMAND ${command} ${platform} -fsyntax-only "${root}/include/feedline/feedline.hpp"
      ERROR_VARIABLE output)
    string(REGEX MATCHALL "error: [^\n]*" errors "${output}")
    if(NOT errors MATCHES "^error: [^;]*feedline needs POSIX[^;]*;[^;]*unsupported_platform[^;]*$")
      message(FATAL_ERROR "${platform}: there must be one sentence, not\n${output}")
    endif()
  endforeach()
  return()
endif()

# What only Linux has, of the headers that the core may include and of those that it may not: using a name, or including a
# header that declares it, is an error.
set(linux_only cpu_set_t epoll_create1 eventfd fallocate gettid inotify_init1 linux_dirent64 madvise mincore mremap pipe2 posix_fadvise
  sched_getaffinity sched_setaffinity signalfd statx syscall SYS_futex SYS_membarrier FUTEX_WAIT_PRIVATE
  MEMBARRIER_CMD_PRIVATE_EXPEDITED O_TMPFILE PR_SET_NAME)

# feedline/implementation.hpp has the definitions.
file(GLOB_RECURSE headers RELATIVE "${root}/include" "${root}/include/feedline/detail/*.hpp"
  "${root}/include/feedline/queue/*.hpp" "${root}/include/feedline/core/*.hpp" "${root}/include/feedline/source/*.hpp"
  "${root}/include/feedline/stage/*.hpp" "${root}/include/feedline/common/*.hpp")
list(FILTER headers EXCLUDE REGEX "/(implementation|definitions).hpp$")
list(PREPEND headers feedline/implementation.hpp)
list(TRANSFORM headers REPLACE "(.+)" "#include <\\1>\n")
list(JOIN headers "" headers)
list(JOIN linux_only " " linux_only)

# The standard library and POSIX come first, as they may use Linux. The name of one member is that of macOS.
file(WRITE "${FOLDER}/without_linux.cpp" "#define st_mtim st_mtimespec
#include <bits/stdc++.h>
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#undef st_mtim
#undef __linux__
#define __APPLE__ 1
#pragma GCC poison ${linux_only}
${headers}")
execute_process(COMMAND ${command} -DFEEDLINE_COMPILED -fsyntax-only "${FOLDER}/without_linux.cpp"
  RESULT_VARIABLE failed ERROR_VARIABLE output)
if(failed)
  message(FATAL_ERROR "The core doesn't compile without Linux:\n${output}")
endif()
