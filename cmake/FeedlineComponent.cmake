# SPDX-License-Identifier: MIT
# A component is an INTERFACE target with separate packages, headers and export set, so that a user of one
# component doesn't need the packages of the others. The core is the component called feedline.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(FEEDLINE_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/feedline")

# feedline_component(<name> PACKAGES <package>... LINKS <target>... HEADERS <file below include/feedline>...
#   [OPTIONAL_PACKAGES <package>...] [OPTIONS <variable>...])
#
# Adds feedline::<name>. If a package is missing, the target isn't added and a line of output says so; if a
# package of the core is missing, configuring fails. An optional package is linked as <package>::<package> and
# FEEDLINE_<NAME>_<PACKAGE> is defined; if it is missing, a line of output says so. OPTIONS are variables that
# the packages' find modules read: an installed feedline looks for the packages with the same values.
#
# These global properties describe all components, even those whose packages are missing:
#   FEEDLINE_COMPONENTS: the names of all components except the core
#   FEEDLINE_HEADERS: all headers, relative to include/feedline
#   FEEDLINE_<name>_PACKAGES: the packages of a component
function(feedline_component name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PACKAGES;OPTIONAL_PACKAGES;LINKS;HEADERS;OPTIONS")
  set_property(GLOBAL APPEND PROPERTY FEEDLINE_HEADERS ${arg_HEADERS})
  set_property(GLOBAL PROPERTY FEEDLINE_${name}_PACKAGES ${arg_PACKAGES})
  if(NOT name STREQUAL "feedline")
    set_property(GLOBAL APPEND PROPERTY FEEDLINE_COMPONENTS ${name})
  endif()

  foreach(package IN LISTS arg_PACKAGES)
    find_package(${package} QUIET)
    if(NOT ${package}_FOUND)
      if(name STREQUAL "feedline")
        message(FATAL_ERROR "feedline needs ${package}, which was not found. ${${package}_NOT_FOUND_MESSAGE}")
      endif()
      message(STATUS "No feedline::${name}: ${package} was not found. ${${package}_NOT_FOUND_MESSAGE}")
      return()
    endif()
  endforeach()

  set(definitions "")
  foreach(package IN LISTS arg_OPTIONAL_PACKAGES)
    find_package(${package} QUIET)
    if(${package}_FOUND)
      string(TOUPPER "FEEDLINE_${name}_${package}" definition)
      list(APPEND definitions ${definition})
      list(APPEND arg_LINKS ${package}::${package})
      list(APPEND arg_PACKAGES ${package})
    else()
      message(STATUS "feedline::${name} is built without ${package}, which was not found. ${${package}_NOT_FOUND_MESSAGE}")
    endif()
  endforeach()

  set(target feedline)
  if(NOT name STREQUAL "feedline")
    set(target feedline_${name})
    list(APPEND arg_LINKS feedline)
  endif()
  list(TRANSFORM arg_HEADERS PREPEND "${PROJECT_SOURCE_DIR}/include/feedline/")

  add_library(${target} INTERFACE)
  add_library(feedline::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_libraries(${target} INTERFACE ${arg_LINKS})
  target_compile_definitions(${target} INTERFACE ${definitions})
  target_sources(${target} INTERFACE
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${arg_HEADERS})

  if(FEEDLINE_INSTALL)
    set(packages "${arg_PACKAGES}")
    set(options "")
    foreach(option IN LISTS arg_OPTIONS)
      string(APPEND options "set(${option} \"${${option}}\") # the value with which this feedline was built\n")
    endforeach()
    configure_file("${PROJECT_SOURCE_DIR}/cmake/feedline-component.cmake.in" feedline-${name}.cmake @ONLY)
    install(TARGETS ${target} EXPORT feedline-${name} FILE_SET HEADERS)
    install(EXPORT feedline-${name} NAMESPACE feedline:: FILE feedline-${name}-targets.cmake
      DESTINATION "${FEEDLINE_PACKAGE_DIR}")
    install(FILES "${CMAKE_CURRENT_BINARY_DIR}/feedline-${name}.cmake" DESTINATION "${FEEDLINE_PACKAGE_DIR}")
    foreach(package IN LISTS arg_PACKAGES)
      install(FILES "${PROJECT_SOURCE_DIR}/cmake/Find${package}.cmake" DESTINATION "${FEEDLINE_PACKAGE_DIR}" OPTIONAL)
    endforeach()
  endif()
endfunction()

# Installs the files that find_package(feedline COMPONENTS ...) reads first.
function(feedline_install_package)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/feedline-config.cmake.in" feedline-config.cmake
    INSTALL_DESTINATION "${FEEDLINE_PACKAGE_DIR}")
  write_basic_package_version_file(feedline-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
  install(FILES
    "${PROJECT_SOURCE_DIR}/cmake/FeedlineFindLibrary.cmake"
    "${CMAKE_CURRENT_BINARY_DIR}/feedline-config.cmake"
    "${CMAKE_CURRENT_BINARY_DIR}/feedline-config-version.cmake"
    DESTINATION "${FEEDLINE_PACKAGE_DIR}")
endfunction()
