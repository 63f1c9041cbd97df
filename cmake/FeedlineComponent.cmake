# SPDX-License-Identifier: MIT
# A component is an INTERFACE target with separate packages, headers and export set, so that a user of one
# component doesn't need the packages of the others. The core is the component called feedline.
#
# With FEEDLINE_COMPILED a component has a library, too: feedline::compiled for the core, feedline::<name>_compiled for
# the others. It holds what the component's .ipp files define, and feedline::<name> links it. One switch decides for
# the whole project, since all of a program's parts must agree.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(FEEDLINE_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/feedline")

# What both forms of a component need.
macro(feedline_use form scope core)
  target_compile_features(${form} ${scope} cxx_std_20)
  target_compile_definitions(${form} ${scope} ${definitions})
  target_link_libraries(${form} ${scope} ${arg_LINKS})
  if(NOT name STREQUAL "feedline")
    target_link_libraries(${form} ${scope} ${core})
  endif()
endmacro()

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
  set(all_headers "")
  foreach(folder IN LISTS arg_FOLDERS)
    set(path "${PROJECT_SOURCE_DIR}/include/feedline/${folder}")
    file(GLOB beside CONFIGURE_DEPENDS "${path}.hpp" "${path}.ipp")
    file(GLOB_RECURSE inside CONFIGURE_DEPENDS "${path}/*.hpp" "${path}/*.ipp")
    list(APPEND all_headers ${beside} ${inside})
  endforeach()
  list(FILTER all_headers INCLUDE REGEX "/[a-z0-9_]+[.][hi]pp$") # not what editors leave
  set(all_definitions ${all_headers})
  list(FILTER all_headers INCLUDE REGEX "hpp$")
  list(FILTER all_definitions INCLUDE REGEX "ipp$")
  set_property(GLOBAL APPEND PROPERTY FEEDLINE_HEADERS ${all_headers})
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
  set(compiled_name compiled)
  if(NOT name STREQUAL "feedline")
    set(target feedline_${name})
    set(compiled_name ${name}_compiled)
  endif()
  set(headers ${all_headers}) # without definitions
  list(TRANSFORM all_definitions REPLACE "ipp$" "hpp" OUTPUT_VARIABLE declarations)
  list(REMOVE_ITEM headers ${declarations})

  add_library(${target} INTERFACE)
  add_library(feedline::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_sources(${target} INTERFACE
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers}
    FILE_SET declarations TYPE HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${declarations}
    FILE_SET definitions TYPE HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${all_definitions})
  set(verified declarations) # header-only these end with their definitions; a header without any is the same in both forms
  if(FEEDLINE_COMPILED)
    set(verified HEADERS definitions) # which begin with their declarations
  endif()
  set_target_properties(${target} PROPERTIES INTERFACE_HEADER_SETS_TO_VERIFY "${verified}")
  feedline_use(${target} INTERFACE feedline)

  set(targets ${target})
  if(FEEDLINE_COMPILED)
    list(TRANSFORM all_definitions REPLACE ".*/include/(.*)" "#include <\\1>\n" OUTPUT_VARIABLE includes)
    list(JOIN includes "" includes)
    file(CONFIGURE OUTPUT ${target}.cpp CONTENT "${includes}")
    add_library(${target}_compiled "${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp")
    add_library(feedline::${compiled_name} ALIAS ${target}_compiled)
    set_target_properties(${target}_compiled PROPERTIES EXPORT_NAME ${compiled_name} OUTPUT_NAME ${target}
      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
      INSTALL_RPATH "$ORIGIN;${CMAKE_INSTALL_RPATH}" POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF)
    if(NOT PROJECT_IS_TOP_LEVEL AND NOT FEEDLINE_INSTALL)
      set_target_properties(${target}_compiled PROPERTIES EXCLUDE_FROM_ALL ON) # only what is linked is compiled
    endif()
    target_compile_definitions(${target}_compiled PUBLIC FEEDLINE_COMPILED)
    # Otherwise GCC inlines none of the functions into another one: a program could replace it.
    target_compile_options(${target}_compiled PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
    target_include_directories(${target}_compiled PUBLIC
      "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    feedline_use(${target}_compiled PUBLIC feedline_compiled)
    target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:${target}_compiled>)
    list(APPEND targets ${target}_compiled)
    set_property(GLOBAL APPEND PROPERTY FEEDLINE_LIBRARIES ${target}_compiled)
  endif()

  if(FEEDLINE_INSTALL)
    set(packages "${arg_PACKAGES}")
    set(options "")
    foreach(option IN LISTS arg_OPTIONS)
      string(APPEND options "set(${option} \"${${option}}\") # the value with which this feedline was built\n")
    endforeach()
    configure_file("${PROJECT_SOURCE_DIR}/cmake/feedline-component.cmake.in" feedline-${name}.cmake @ONLY)
    install(TARGETS ${targets} EXPORT feedline-${name} FILE_SET HEADERS FILE_SET declarations FILE_SET definitions)
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
  if(FEEDLINE_COMPILED)
    set(any_machine "")
  endif()
  write_basic_package_version_file(feedline-config-version.cmake COMPATIBILITY SameMinorVersion ${any_machine})
  install(FILES
    "${PROJECT_SOURCE_DIR}/cmake/FeedlineFindLibrary.cmake"
    "${CMAKE_CURRENT_BINARY_DIR}/feedline-config.cmake"
    "${CMAKE_CURRENT_BINARY_DIR}/feedline-config-version.cmake"
    DESTINATION "${FEEDLINE_PACKAGE_DIR}")
endfunction()
