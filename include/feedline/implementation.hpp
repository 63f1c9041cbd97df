// SPDX-License-Identifier: MIT
#pragma once
/// @file
/// The definitions of what depends on no template parameter, for programs that are built without CMake. One file of the
/// program includes this header first, and then `feedline/<component>/implementation.hpp` of each component that it uses. If
/// that file and all others are compiled with `-DFEEDLINE_COMPILED`, it alone takes the time for the definitions, and the
/// others take a fifth of theirs:
///
///     g++ -std=c++20 -O2 -DFEEDLINE_COMPILED -I feedline/include -c implementation.cpp
///     g++ -std=c++20 -O2 -DFEEDLINE_COMPILED -I feedline/include main.cpp implementation.o -pthread
///
/// The headers below can also be compiled one file each, on several processors, as feedline's CMake targets do.
#ifdef FEEDLINE_ABI
#error "Include <feedline/implementation.hpp> before all other headers of feedline"
#endif

#define FEEDLINE_DEFINES_COMMON
#define FEEDLINE_DEFINES_CORE
#define FEEDLINE_DEFINES_CORE_RUN
#define FEEDLINE_DEFINES_DETAIL
#define FEEDLINE_DEFINES_SOURCE
#define FEEDLINE_DEFINES_STAGE

#include <feedline/common/implementation.hpp>
#include <feedline/core/implementation.hpp>
#include <feedline/core/run/implementation.hpp>
#include <feedline/detail/implementation.hpp>
#include <feedline/source/implementation.hpp>
#include <feedline/stage/implementation.hpp>
