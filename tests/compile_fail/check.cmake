# SPDX-License-Identifier: MIT
# Compiles FILE with COMPILER (of the kind COMPILER_ID): it must fail with one error and print, in its first lines, everything
# that the file expects:
#
#     train | fl::batch(8);  // expect: batch can't stack a std::mutex
#
# A file that defines FEEDLINE_COMPILE_PASS must compile. Without FILE, precompiles the header PRECOMPILED, which is included
# before each FILE.
cmake_minimum_required(VERSION 3.25)

# "In file included from" and similar lines aren't counted: they don't describe the mistake.
set(first_lines 12)

# A user must not have to search for the mistake.
set(most_lines 40)

if(FILE)
  file(READ "${FILE}" source)
endif()

# The source that compilers show isn't counted either: it would repeat the expectation. A deleted function can have its
# sentence only there: a file with this comment has its expectations on lines that compilers don't show.
set(flags -fno-diagnostics-show-caret)
if(COMPILER_ID MATCHES "Clang")
  set(flags -fno-caret-diagnostics)
endif()
if(source MATCHES "// [^\n]*shown with the line of the header\n")
  set(flags "")
endif()
if(source MATCHES "// [^\n]*of (-Werror=[a-z-]+)\n")
  list(APPEND flags ${CMAKE_MATCH_1})
else()
  list(APPEND flags -w)
endif()

list(TRANSFORM INCLUDES PREPEND "-I")
list(TRANSFORM DEFINITIONS PREPEND "-D")
set(command "${COMPILER}" -std=c++20 ${flags} ${INCLUDES} ${DEFINITIONS})
set(suffix .gch)
set(include -include "${PRECOMPILED}")
if(COMPILER_ID MATCHES "Clang")
  set(suffix .pch)
  set(include -include-pch "${PRECOMPILED}.pch")
endif()
if(NOT FILE)
  execute_process(COMMAND ${command} -x c++-header "${PRECOMPILED}" -o "${PRECOMPILED}${suffix}" COMMAND_ERROR_IS_FATAL ANY)
  return()
endif()
list(APPEND command -fsyntax-only ${include} "${FILE}")

execute_process(COMMAND ${command} RESULT_VARIABLE failed ERROR_VARIABLE output)
if(source MATCHES "#define FEEDLINE_COMPILE_PASS")
  if(failed)
    message(FATAL_ERROR "This must compile:\n${output}")
  endif()
  return()
endif()
if(NOT failed)
  message(FATAL_ERROR "This must not compile, but it does.")
endif()

# Brackets and semicolons have a meaning in CMake's lists, so they are replaced before the search.
function(flatten text out)
  string(REGEX REPLACE "feedline::v[0-9_]+(_compiled)?::" "feedline::" text "${text}") # some compilers show the inline namespace
  string(REPLACE ";" "," text "${text}")
  string(REPLACE "[" "(" text "${text}")
  string(REPLACE "]" ")" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

flatten("${output}" lines)
string(REPLACE "\n" ";" lines "${lines}")
list(FILTER lines EXCLUDE REGEX "^(In file included from|  +from) ")
list(LENGTH lines count)
if(count GREATER most_lines)
  message(FATAL_ERROR "These are ${count} lines:\n${output}")
endif()
list(SUBLIST lines 0 ${first_lines} lines)
string(REPLACE ";" "\n" beginning "${lines}")

flatten("${source}" source)
string(REGEX MATCHALL "// expect: [^\n]+" expectations "${source}")
if(NOT expectations)
  message(FATAL_ERROR "The file has no '// expect: words'.")
endif()
string(REGEX MATCHALL "(^|\n)[^\n]*error: " errors "${output}")
list(LENGTH errors count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "There are ${count} errors:\n${output}")
endif()
foreach(expectation IN LISTS expectations)
  string(REGEX REPLACE "^// expect: " "" words "${expectation}")
  string(STRIP "${words}" words)
  string(FIND "${beginning}" "${words}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "The first ${first_lines} lines don't contain '${words}':\n${output}")
  endif()
endforeach()
