# SPDX-License-Identifier: MIT
# A component is an INTERFACE target with separate packages, headers and export set, so that a user of one
# component doesn't need the packages of the others. The core is the component called feedline.
#
# feedline::<name> links a library of what the component's headers define, feedline::<name>_compiled (feedline::compiled
# for the core). The project that uses feedline compiles it, once. feedline::<name>_header_only (feedline::header_only)
# needs no library; with FEEDLINE_HEADER_ONLY feedline::<name> is the same as that.
include(CMakePackageConfigHelpers)
include(FeedlineLibrary)
include(GNUInstallDirs)

set(FEEDLINE_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/feedline")

# feedline_component(<name> [PACKAGES <package>...] [OPTIONAL_PACKAGES <package>...] [LINKS <target>...]
#   [OPTIONS <variable>...] [FOLDERS <folder>...])
#
# Adds feedline::<name>. Its files in include/feedline are <folder>.hpp and those in <folder>/, for <name> or all
# FOLDERS. If a package is missing, the target isn't added and a line of output says so; if a package of the core is
# missing, configuring fails. An optional package is linked as <package>::<package> and FEEDLINE_<NAME>_<PACKAGE> is
# defined; if it is missing, a line of output says so. OPTIONS are variables that the packages' find modules read: an
# installed feedline looks for the packages with the same values.
#
# These global properties describe all components, even those whose packages are missing:
#   FEEDLINE_COMPONENTS: the names of all components except the core
#   FEEDLINE_HEADERS: all headers
#   FEEDLINE_<name>_PACKAGES: the packages of a component
#   FEEDLINE_LIBRARIES: the targets that are compiled
function(feedline_component name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PACKAGES;OPTIONAL_PACKAGES;LINKS;OPTIONS;FOLDERS")
  if(NOT arg_FOLDERS)
    set(arg_FOLDERS ${name})
  endif()
  set(include "${PROJECT_SOURCE_DIR}/include")
  set(headers "")
  foreach(folder IN LISTS arg_FOLDERS)
    set(path "${include}/feedline/${folder}")
    file(GLOB beside CONFIGURE_DEPENDS "${path}.hpp")
    file(GLOB_RECURSE inside CONFIGURE_DEPENDS "${path}/*.hpp")
    list(APPEND headers ${beside} ${inside})
  endforeach()
  list(FILTER headers INCLUDE REGEX "/[a-z0-9_]+[.]hpp$") # not what editors leave
  set(implementations ${headers})
  list(FILTER implementations INCLUDE REGEX "/(implementation|detail/definitions).hpp$")
  list(REMOVE_ITEM headers ${implementations})
  set_property(GLOBAL APPEND PROPERTY FEEDLINE_HEADERS ${headers})
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

  set(macros "")
  foreach(package IN LISTS arg_OPTIONAL_PACKAGES)
    find_package(${package} QUIET)
    if(${package}_FOUND)
      string(TOUPPER "FEEDLINE_${name}_${package}" macro)
      list(APPEND macros ${macro})
      list(APPEND arg_LINKS ${package}::${package})
      list(APPEND arg_PACKAGES ${package})
    else()
      message(STATUS "feedline::${name} is built without ${package}, which was not found. ${${package}_NOT_FOUND_MESSAGE}")
    endif()
  endforeach()

  set(target feedline)
  set(header_only header_only)
  set(compiled compiled)
  if(NOT name STREQUAL "feedline")
    set(target feedline_${name})
    set(header_only ${name}_header_only)
    set(compiled ${name}_compiled)
    list(APPEND arg_LINKS feedline_header_only)
  endif()

  # What both forms need.
  add_library(${target}_header_only INTERFACE)
  add_library(feedline::${header_only} ALIAS ${target}_header_only)
  target_compile_features(${target}_header_only INTERFACE cxx_std_20)
  target_compile_definitions(${target}_header_only INTERFACE ${macros})
  target_link_libraries(${target}_header_only INTERFACE ${arg_LINKS})
  target_include_directories(${target}_header_only INTERFACE
    "$<BUILD_INTERFACE:${include}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

  add_library(${target} INTERFACE)
  add_library(feedline::${name} ALIAS ${target})
  set(links ${target}_header_only)
  if(NOT name STREQUAL "feedline")
    list(APPEND links feedline)
  endif()
  target_link_libraries(${target} INTERFACE ${links})
  set(definitions "")
  foreach(header IN LISTS headers)
    file(STRINGS "${header}" found REGEX "FEEDLINE_DEFINES_" LIMIT_COUNT 1)
    if(found)
      list(APPEND definitions ${header})
    endif()
  endforeach()
  list(REMOVE_ITEM headers ${definitions}) # what remains is the same in both forms
  target_sources(${target} INTERFACE
    FILE_SET HEADERS BASE_DIRS "${include}" FILES ${headers}
    FILE_SET definitions TYPE HEADERS BASE_DIRS "${include}" FILES ${definitions}
    FILE_SET implementations TYPE HEADERS BASE_DIRS "${include}" FILES ${implementations})
  set(verified HEADERS definitions)
  if(FEEDLINE_HEADER_ONLY)
    set(verified definitions)
  endif()

  set(targets ${target} ${target}_header_only)
  # These aren't compiled: the first includes all others, which include the second.
  list(FILTER implementations EXCLUDE REGEX "/feedline/(implementation|detail/definitions).hpp$")
  list(TRANSFORM implementations REPLACE "^${include}/" "")
  if(implementations AND NOT FEEDLINE_HEADER_ONLY)
    feedline_library(${target}_compiled "" "${links}" ${implementations})
    add_library(feedline::${compiled} ALIAS ${target}_compiled)
    set_target_properties(${target}_compiled PROPERTIES EXPORT_NAME ${compiled} OUTPUT_NAME ${target}
      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
      INSTALL_RPATH "$ORIGIN;${CMAKE_INSTALL_RPATH}")
    target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:${target}_compiled>)
    set_property(GLOBAL APPEND PROPERTY FEEDLINE_LIBRARIES ${target}_compiled)
    if(FEEDLINE_INSTALL_COMPILED)
      list(APPEND targets ${target}_compiled)
      set_target_properties(${target}_compiled PROPERTIES EXCLUDE_FROM_ALL OFF)
    endif()
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} INTERFACE_HEADER_SETS_TO_VERIFY "${verified}")
  set_target_properties(${target}_header_only PROPERTIES EXPORT_NAME ${header_only})

  if(FEEDLINE_INSTALL)
    set(packages "${arg_PACKAGES}")
    set(options "")
    foreach(option IN LISTS arg_OPTIONS)
      string(APPEND options "set(${option} \"${${option}}\") # the value with which this feedline was built\n")
    endforeach()
    configure_file("${PROJECT_SOURCE_DIR}/cmake/feedline-component.cmake.in" feedline-${name}.cmake @ONLY)
    install(TARGETS ${targets} EXPORT feedline-${name}
      FILE_SET HEADERS FILE_SET definitions FILE_SET implementations)
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
  set(any_machine ARCH_INDEPENDENT)
  if(FEEDLINE_INSTALL_COMPILED)
    set(any_machine "")
  endif()
  write_basic_package_version_file(feedline-config-version.cmake COMPATIBILITY SameMinorVersion ${any_machine})
  install(FILES
    "${PROJECT_SOURCE_DIR}/cmake/FeedlineFindLibrary.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/FeedlineLibrary.cmake"
    "${CMAKE_CURRENT_BINARY_DIR}/feedline-config.cmake"
    "${CMAKE_CURRENT_BINARY_DIR}/feedline-config-version.cmake"
    DESTINATION "${FEEDLINE_PACKAGE_DIR}")
endfunction()
