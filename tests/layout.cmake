# SPDX-License-Identifier: MIT
# Checks the repository's files: every header belongs to a component, every public header has a test file of the same
# name, every .ipp file belongs to the header next to it, and includes point one way. Call it with -DHEADERS=...
# -DPYTHON_TESTS=...: the headers of all components, and the files that pytest runs in this build.
cmake_minimum_required(VERSION 3.25)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH root)
set(complaints "")

macro(complain)
  string(APPEND complaints "\n  " ${ARGN})
endmacro()

# A folder may include itself and the folders with a lower rank. Every other folder is a component: it comes
# last, and components don't include each other. The file feedline.hpp includes the core, <component>.hpp the
# folder of a component, testing.hpp the checks for users' parts.
set(rank_detail 0)
set(rank_version.hpp -1)
set(rank_queue 1)
set(rank_core 2)
set(rank_source 3)
set(rank_stage 3)
set(rank_common 4)
set(rank_feedline.hpp 5)
set(rank_component 6)

# What the core may include in addition to the standard library: POSIX's headers for files, processes, signals and waiting;
# and one file Linux's.
set(outside "^(dirent|errno|fcntl|fnmatch|glob|poll|pthread|sched|semaphore|signal|unistd|sys/(file|mman|resource|stat))\\.h$")
set(kernel detail/kernel.hpp)

# The core's layers: each may include itself, the layers before it, and core/*.hpp, the headers for users.
set(layers metrics snapshot transport plan run)

# Sources, stages and components use only public headers. Exceptions: the first four run stages inside them, a
# queue is part of the plan, ranks divide positions, a batch takes rows of identities, and range() hashes its
# elements.
set(inside_core source/detail/mapped_source.hpp cache/detail/one_at_a_time.hpp cache/detail/cached_stage.hpp
  stage/detail/branches.hpp stage/prefetch.hpp source/detail/reordered_source.hpp stage/batch.hpp source/range.hpp)

# Headers without their own test: they only include others, like a component's header, or only declare, like
# headers of options.
set(untested "^[a-z_]+\\.hpp$|_options\\.hpp$|^core/item_bytes\\.hpp$|^queue/overflow\\.hpp$")

function(room_of header room_out rank_out)
  string(REGEX REPLACE "/.*" "" room "${header}")
  set(rank "${rank_component}")
  if(DEFINED rank_${room})
    set(rank "${rank_${room}}")
  endif()
  if(rank EQUAL rank_component)
    string(REGEX REPLACE "\\.hpp$" "" room "${room}")
  endif()
  set(${room_out} "${room}" PARENT_SCOPE)
  set(${rank_out} "${rank}" PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE files RELATIVE "${root}/include/feedline" "${root}/include/feedline/*.hpp" "${root}/include/feedline/*.ipp")
set(implementations ${files})
list(FILTER implementations INCLUDE REGEX "(^|/)implementation.hpp$")
list(REMOVE_ITEM files ${implementations})
foreach(file IN LISTS files)
  string(REGEX REPLACE "ipp$" "hpp" header "${file}") # itself, or the header that a file of definitions belongs to
  string(REGEX REPLACE "hpp$" "ipp" definitions "${header}")
  file(READ "${root}/include/feedline/${file}" text)
  string(REGEX REPLACE "\nnamespace feedline::inline FEEDLINE_ABI" "" other "${text}")
  if(other MATCHES "\nnamespace feedline")
    complain("include/feedline/${file} has a namespace without the form: write namespace feedline::inline FEEDLINE_ABI")
  endif()
  if(file MATCHES "ipp$")
    if(NOT EXISTS "${root}/include/feedline/${header}")
      complain("include/feedline/${file} has no header: ${header} doesn't exist")
    endif()
    if(NOT text MATCHES "^// SPDX-License-Identifier: MIT\n#pragma once\n#include <feedline/${header}>\n")
      complain("include/feedline/${file} must begin with its licence, #pragma once and #include <feedline/${header}>")
    endif()
    string(REGEX REPLACE "//[^\n]*" "" code "${text}")
    if(code MATCHES "namespace {")
      complain("include/feedline/${file} has an unnamed namespace: header-only, each program has its own copy of it")
    endif()
    string(REGEX REPLACE "[;{}] *\n+([A-Za-z_])" "\n\n\\1" code "${code}") # one at the beginning of each definition
    string(REGEX MATCHALL "\n\n[A-Za-z_]+" beginnings "${code}")
    list(TRANSFORM beginnings STRIP)
    list(REMOVE_ITEM beginnings FEEDLINE_INLINE namespace template class struct) # the functions inside a class are inline
    if(beginnings)
      complain("include/feedline/${file} has a definition that begins with `${beginnings}` instead of FEEDLINE_INLINE")
    endif()
  else()
    if(NOT "${root}/include/feedline/${header}" IN_LIST HEADERS)
      complain("include/feedline/${header} belongs to no component of CMakeLists.txt")
    endif()
    set(ending "(\n#ifndef FEEDLINE_COMPILED|#else)\n#include <feedline/${definitions}>\n#endif\n$")
    if(definitions IN_LIST files AND NOT text MATCHES "${ending}")
      complain("include/feedline/${header} must end with #include <feedline/${definitions}>, unless FEEDLINE_COMPILED is defined")
    endif()
    string(REGEX REPLACE "\\.hpp$" ".test.cpp" test "${header}")
    string(REGEX REPLACE "^python/(.+)\\.test\\.cpp$" "python/test_\\1.py" test "${test}") # pytest's name for a file of tests
    if(NOT header MATCHES "^detail/|/detail/|^core/[a-z]+/" AND NOT header MATCHES "${untested}" AND NOT EXISTS "${root}/tests/${test}")
      complain("include/feedline/${header} has no tests/${test}")
    endif()
  endif()

  room_of(${header} room rank)
  file(STRINGS "${root}/include/feedline/${file}" lines REGEX "^[ \t]*#[ \t]*include")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[^<\"]*[<\"]([^>\"]*)[>\"].*" "\\1" included "${line}")
    if(included MATCHES "[.]ipp$" AND NOT "${file} includes ${included}" STREQUAL "${header} includes feedline/${definitions}")
      complain("include/feedline/${file} includes ${included}: include its header")
    endif()
    if(included MATCHES "^feedline/core/([a-z]+)/")
      list(FIND layers "${CMAKE_MATCH_1}" included_layer)
      if(header MATCHES "^core/([a-z]+)/")
        list(FIND layers "${CMAKE_MATCH_1}" layer)
        if(included_layer GREATER layer)
          complain("include/feedline/${file} includes ${included}, which is of a layer above it")
        endif()
      elseif(NOT header MATCHES "^core/" AND NOT header IN_LIST inside_core)
        complain("include/feedline/${file} includes ${included}, which isn't public")
      endif()
    endif()
    if(included MATCHES "^feedline/(.+)")
      room_of(${CMAKE_MATCH_1} included_room included_rank)
      if(NOT included_room STREQUAL room AND NOT included_rank LESS rank)
        complain("include/feedline/${file} includes ${included}, which isn't below it")
      endif()
    elseif(line MATCHES "\"")
      complain("include/feedline/${file} includes \"${included}\": write <feedline/...>")
    elseif(NOT rank EQUAL rank_component AND included MATCHES "[.]" AND NOT included MATCHES "${outside}" AND NOT file STREQUAL kernel)
      complain("include/feedline/${file} includes <${included}>: the core needs the standard library and POSIX only")
    endif()
  endforeach()
endforeach()

# The implementation.hpp of a folder includes the definitions in it, except those of a folder inside it that has another one.
# That beside feedline.hpp includes those of the core.
set(included_definitions "")
foreach(implementation IN LISTS implementations)
  string(REGEX REPLACE "implementation.hpp$" "" folder "${implementation}")
  if(folder STREQUAL "")
    set(expected ${implementations})
    list(FILTER expected INCLUDE REGEX "^(detail|queue|core|source|stage|common)/")
  else()
    set(expected ${files})
    list(FILTER expected INCLUDE REGEX "^${folder}.*[.]ipp$")
    foreach(inner IN LISTS implementations)
      if(inner MATCHES "^${folder}(.+/)implementation.hpp$")
        list(FILTER expected EXCLUDE REGEX "^${folder}${CMAKE_MATCH_1}")
      endif()
    endforeach()
  endif()
  list(APPEND included_definitions ${expected})
  list(SORT expected)
  list(TRANSFORM expected REPLACE "(.+)" "#include <feedline/\\1>")
  file(STRINGS "${root}/include/feedline/${implementation}" included REGEX "^#include")
  if(NOT included STREQUAL expected)
    list(JOIN expected "\n    " expected)
    complain("include/feedline/${implementation} must include exactly these files:\n    ${expected}")
  endif()
endforeach()
foreach(file IN LISTS files)
  if(file MATCHES "ipp$" AND NOT file IN_LIST included_definitions)
    complain("include/feedline/${file} isn't included by an implementation.hpp in its folder or above it")
  endif()
endforeach()

file(GLOB tests RELATIVE "${root}/tests/python" "${root}/tests/python/test_*.py")
foreach(test IN LISTS tests)
  if(PYTHON_TESTS AND NOT test IN_LIST PYTHON_TESTS)
    complain("tests/python/${test} isn't listed in tests/python/CMakeLists.txt")
  endif()
endforeach()

if(complaints)
  message(FATAL_ERROR "${complaints}\n")
endif()
