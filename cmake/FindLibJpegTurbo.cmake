# SPDX-License-Identifier: MIT
# Finds libjpeg and checks that it is libjpeg-turbo, as no other can decode a part of an image.
# FEEDLINE_ALLOW_PLAIN_LIBJPEG accepts any libjpeg. The target is CMake's JPEG::JPEG.
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
    "The libjpeg here isn't libjpeg-turbo; build feedline with FEEDLINE_ALLOW_PLAIN_LIBJPEG=ON to accept it.")
endif()
