# SPDX-License-Identifier: MIT
# Finds libjpeg and makes sure that it is libjpeg-turbo, as no other decodes parts of an image, unless
# FEEDLINE_ALLOW_PLAIN_LIBJPEG allows any; the target is CMake's own JPEG::JPEG.
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
elseif(LibJpegTurbo_IS_TURBO OR FEEDLINE_ALLOW_PLAIN_LIBJPEG)
  set(LibJpegTurbo_FOUND TRUE)
else()
  set(LibJpegTurbo_NOT_FOUND_MESSAGE 
    "The libjpeg here is a plain one; FEEDLINE_ALLOW_PLAIN_LIBJPEG, where feedline is built, takes it.")
endif()
