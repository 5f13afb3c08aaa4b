# Compiler settings and the two helpers every room uses: stow_library and stow_test.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEV "-O1 -g")

# -fPIC everywhere, executables too: one precompiled header must fit all.
add_compile_options(-fPIC -Wall -Wextra -Wno-unused-parameter)
include_directories(${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})

# ccache makes the second build of a clean clone nearly free. PCH needs the sloppiness settings.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(launcher ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_link_options(-fuse-ld=lld)
elseif(EXISTS /usr/lib/llvm-22/bin/ld.lld)
  add_link_options(-B/usr/lib/llvm-22/bin -fuse-ld=lld)
endif()

if(STOWAGE_SANITIZE)
  add_compile_options(-fsanitize=${STOWAGE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${STOWAGE_SANITIZE})
endif()

# stow_pch(Name header [options...]): a precompiled header, built once for all who take it by stow_use_pch; clang alone pays off.
function(stow_pch name header)
  if(STOWAGE_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    file(WRITE ${PROJECT_BINARY_DIR}/${name}.cpp "// Carries the precompiled header.\n")
    add_library(${name} STATIC ${PROJECT_BINARY_DIR}/${name}.cpp)
    target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp" ${ARGN})
    target_precompile_headers(${name} PRIVATE ${header})
  endif()
endfunction()

function(stow_use_pch name pch)
  if(TARGET ${pch})
    target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    target_precompile_headers(${name} REUSE_FROM ${pch})
  endif()
endfunction()

# Of the rooms without MLIR; that of the others is in cmake/Mlir.cmake.
stow_pch(StowPlainPch ${PROJECT_SOURCE_DIR}/cmake/PlainPch.h)

# stow_library(Name sources... [LINK libs...] [MLIR]): one static library.
function(stow_library name)
  cmake_parse_arguments(ARG "MLIR" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  if(ARG_MLIR)
    stow_use_mlir(${name})
  else()
    stow_use_pch(${name} StowPlainPch)
  endif()
endfunction()

# stow_test(Name sources... [LINK libs...] [MLIR] [SHARDS n] [NIGHTLY]): one GoogleTest binary, registered with CTest; long ones
# as n tests that share their cases. NIGHTLY: it tries more in the night (tests/Cases.h).
function(stow_test name)
  cmake_parse_arguments(ARG "MLIR;NIGHTLY" "SHARDS" "LINK" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE STOWAGE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(ARG_MLIR)
    stow_use_mlir(${name})
  else()
    stow_use_pch(${name} StowPlainPch)
  endif()
  if(ARG_SHARDS)
    math(EXPR last "${ARG_SHARDS} - 1")
    foreach(shard RANGE ${last})
      stow_add_test(${name}/${shard} ${name})
      set_tests_properties(${name}/${shard} PROPERTIES
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
    endforeach()
  else()
    stow_add_test(${name} ${name})
  endif()
  if(ARG_NIGHTLY)
    stow_add_test(${name}-nightly ${name} CONFIGURATIONS nightly)
    stow_nightly(${name}-nightly)
    set_tests_properties(${name}-nightly PROPERTIES ENVIRONMENT STOWAGE_NIGHTLY=1)
  endif()
endfunction()

# Marks tests, added with CONFIGURATIONS nightly, as long: they have ten hours. Tests by day have no bound of their own;
# scripts/test.sh gives one to all.
function(stow_nightly)
  set_property(TEST ${ARGN} APPEND PROPERTY LABELS nightly)
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT 36000)
endfunction()

# A GoogleTest binary that has run no test has failed.
function(stow_add_test name binary)
  add_test(NAME ${name} COMMAND ${binary} ${ARGN})
  set_tests_properties(${name} PROPERTIES FAIL_REGULAR_EXPRESSION "Running 0 tests")
endfunction()
