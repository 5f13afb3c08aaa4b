# MLIR 22 from Debian: shared libMLIR + libLLVM, one precompiled header for every MLIR room.

find_package(MLIR 22.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})

# With sanitizers these rooms are built without optimization: it takes a third off the time of their compilation, and they are not
# what the tests spend their time in.
if(STOWAGE_SANITIZE)
  set(STOW_MLIR_OPTIONS -O0 -gline-tables-only)
endif()

# One PCH, built once and reused by all MLIR libraries and tests.
if(STOWAGE_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  file(WRITE ${PROJECT_BINARY_DIR}/StowPch.cpp "// Carries the precompiled header.\n")
  add_library(StowPch STATIC ${PROJECT_BINARY_DIR}/StowPch.cpp)
  target_compile_options(StowPch PRIVATE "SHELL:-Xclang -fno-pch-timestamp" ${STOW_MLIR_OPTIONS})
  target_precompile_headers(StowPch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/Pch.h)
endif()

# stow_use_mlir(target): link the shared MLIR and LLVM and take the PCH.
function(stow_use_mlir name)
  target_link_libraries(${name} PUBLIC MLIR LLVM)
  target_compile_options(${name} PRIVATE ${STOW_MLIR_OPTIONS})
  if(TARGET StowPch)
    target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    target_precompile_headers(${name} REUSE_FROM StowPch)
  endif()
endfunction()
