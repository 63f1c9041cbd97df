# SPDX-License-Identifier: MIT

# feedline_python_stubs(<target>): writes <module>.pyi, with types and texts for editors and type checkers, next to a Python
# module whenever it is linked. For that Python imports the module, which it can't if the module has a sanitizer.
function(feedline_python_stubs target)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
  if("${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}" MATCHES "-fsanitize=")
    return()
  endif()
  find_package(Python 3.9 REQUIRED COMPONENTS Interpreter)
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/feedline_stubs.py" "$<TARGET_FILE:${target}>"
      "$<TARGET_FILE_DIR:${target}>/$<TARGET_FILE_BASE_NAME:${target}>.pyi")
endfunction()
