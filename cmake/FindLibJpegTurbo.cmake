# SPDX-License-Identifier: MIT
# Finds libjpeg and makes sure that it is libjpeg-turbo; the target is CMake's own JPEG::JPEG. With
# FEEDLINE_ALLOW_PLAIN_LIBJPEG any libjpeg will do.
find_package(JPEG QUIET)
if(JPEG_FOUND)
  include(CheckCXXSymbolExists)
  set(CMAKE_REQUIRED_LIBRARIES JPEG::JPEG)
  set(CMAKE_REQUIRED_QUIET TRUE)
  check_cxx_symbol_exists(LIBJPEG_TURBO_VERSION jconfig.h LibJpegTurbo_IS_TURBO)
  unset(CMAKE_REQUIRED_LIBRARIES)
  unset(CMAKE_REQUIRED_QUIET)
endif()

set(LibJpegTurbo_FOUND FALSE)
if(NOT JPEG_FOUND)
  set(LibJpegTurbo_NOT_FOUND_MESSAGE "On Debian its package is libjpeg-dev.")
elseif(LibJpegTurbo_IS_TURBO)
  set(LibJpegTurbo_FOUND TRUE)
elseif(FEEDLINE_ALLOW_PLAIN_LIBJPEG)
  set(LibJpegTurbo_FOUND TRUE)
  message(STATUS "feedline::image uses a plain libjpeg: decoding will be slower than with libjpeg-turbo.")
else()
  set(LibJpegTurbo_NOT_FOUND_MESSAGE
    "The libjpeg here is a plain one: FEEDLINE_ALLOW_PLAIN_LIBJPEG=ON accepts it, but it is slower.")
endif()
