# MLIR 22 from Debian: its archives in the tools, shared libMLIR + libLLVM in the tests; one precompiled header for every MLIR room.

find_package(MLIR 22.1 REQUIRED CONFIG)
find_package(ZLIB REQUIRED)
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

# One precompiled header of all MLIR libraries and tests.
stow_pch(StowPch ${PROJECT_SOURCE_DIR}/cmake/Pch.h ${STOW_MLIR_OPTIONS})

# How an executable links MLIR and LLVM: its property STOW_STATIC_MLIR says whether from archives. The dynamic linker looks up 60,000
# names in the shared libraries at each start, which is three quarters of what a tool takes to start; but an executable from archives
# has 90 MB more, so the many tests share. Sanitizers were seen to pass with shared libraries.
find_library(STOWAGE_ZSTD NAMES zstd libzstd.so.1 REQUIRED)
file(GLOB archives ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
if(NOT archives)
  message(FATAL_ERROR "no archives of MLIR in ${LLVM_LIBRARY_DIR}: expected libMLIR*.a and libLLVM*.a; install libmlir-22-dev and llvm-22-dev")
endif()
add_library(StowMlir INTERFACE)
set(static $<BOOL:$<TARGET_PROPERTY:STOW_STATIC_MLIR>>)
target_link_libraries(StowMlir INTERFACE
  "$<${static}:-Wl,--start-group;${archives};-Wl,--end-group;${STOWAGE_ZSTD};ZLIB::ZLIB;${CMAKE_DL_LIBS}>"
  "$<$<NOT:${static}>:MLIR;LLVM>")

# stow_static_mlir(tool): an executable that is started often.
function(stow_static_mlir name)
  if(NOT STOWAGE_SANITIZE)
    set_target_properties(${name} PROPERTIES STOW_STATIC_MLIR ON)
    target_link_options(${name} PRIVATE LINKER:--gc-sections LINKER:--as-needed)
  endif()
endfunction()

# stow_use_mlir(target): link MLIR and LLVM and take their precompiled header.
function(stow_use_mlir name)
  target_link_libraries(${name} PUBLIC StowMlir)
  target_compile_options(${name} PRIVATE ${STOW_MLIR_OPTIONS})
  stow_use_pch(${name} StowPch)
endfunction()
