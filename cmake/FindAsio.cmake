# SPDX-License-Identifier: MIT
# Finds the standalone Asio, a library of headers, and adds the target Asio::asio. Version 1.22 or newer: older
# ones don't pass cancellation on to coroutines.
find_path(Asio_INCLUDE_DIR asio/co_spawn.hpp)
mark_as_advanced(Asio_INCLUDE_DIR)

set(Asio_NOT_FOUND_MESSAGE "On Debian its package is libasio-dev.")
if(Asio_INCLUDE_DIR AND EXISTS "${Asio_INCLUDE_DIR}/asio/version.hpp")
  file(STRINGS "${Asio_INCLUDE_DIR}/asio/version.hpp" Asio_VERSION_LINE REGEX "#define ASIO_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+" Asio_VERSION_NUMBER "${Asio_VERSION_LINE}")
  math(EXPR Asio_MAJOR "${Asio_VERSION_NUMBER} / 100000")
  math(EXPR Asio_MINOR "${Asio_VERSION_NUMBER} / 100 % 1000")
  set(Asio_VERSION "${Asio_MAJOR}.${Asio_MINOR}")
  if(Asio_VERSION VERSION_LESS 1.22)
    set(Asio_NOT_FOUND_MESSAGE "Version ${Asio_VERSION} was found, but feedline needs 1.22.")
    unset(Asio_INCLUDE_DIR CACHE)
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Asio DEFAULT_MSG Asio_INCLUDE_DIR)
if(Asio_FOUND AND NOT TARGET Asio::asio)
  find_package(Threads QUIET)
  add_library(Asio::asio INTERFACE IMPORTED)
  target_include_directories(Asio::asio SYSTEM INTERFACE "${Asio_INCLUDE_DIR}")
  # Before 1.24 Asio doesn't know that clang has the coroutines of C++20.
  target_compile_definitions(Asio::asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED
    $<$<CXX_COMPILER_ID:Clang,AppleClang>:ASIO_HAS_CO_AWAIT=1>)
  target_link_libraries(Asio::asio INTERFACE Threads::Threads)
endif()
