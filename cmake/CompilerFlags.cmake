# The whole binary runs on any x86-64-v3 machine (or any aarch64). Only kernel files are compiled for newer
# instructions (cmake/ViaductLibrary.cmake), and they run only after a check at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  add_compile_options(-march=x86-64-v3)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 has no _Float16 in C++ on aarch64, but has the same format as __fp16.
  add_compile_definitions(_Float16=__fp16)
endif()
add_compile_options(-Wall -Wextra -Werror -Wno-missing-field-initializers)
# GCC 12 reports false positives of these warnings in its own headers under -O2, sanitizers and precompiled headers.
add_compile_options(-Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-restrict -Wno-array-bounds
  -Wno-stringop-overread)
if(VIADUCT_BATCHES)
  # Names of unnamed namespaces in templates: right in a source, suspicious in a header, and a batch includes its sources.
  add_compile_options(-Wno-subobject-linkage)
endif()
# Results must not depend on which products and sums the compiler contracts: kernels write FMA where they mean it.
add_compile_options(-ffp-contract=off)

# The linker drops functions that nothing calls, also where others of their file are called.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections> $<$<COMPILE_LANGUAGE:CXX>:-fdata-sections>)
if(NOT VIADUCT_SANITIZE)
  add_link_options(-Wl,--gc-sections)
endif()

# Fewer garbage collections inside the compiler: a tenth less time, for at most half a gigabyte a process.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288;--param=ggc-min-expand=100>")
endif()

# Sanitizers instrument the code under test: libraries and programs that ask for it by viaduct_sanitize. AddressSanitizer does
# not instrument the tests: they are compiled by the same commands as in the release build, whose objects a compiler cache has
# (scripts.same_objects); accesses to memory of the libraries and of malloc are then not checked in test code. ThreadSanitizer
# instruments everything. Sanitizers make GCC see more that is not there; the release build has these warnings as errors.
set(VIADUCT_SANITIZER_OPTIONS "")
if(VIADUCT_SANITIZE)
  # -Og compiles a quarter faster than -O1. Loops over elements keep -O1 (viaduct_sanitized_loops).
  set(VIADUCT_SANITIZER_OPTIONS -Og -UNDEBUG -Wno-error -fsanitize=${VIADUCT_SANITIZE} -fno-omit-frame-pointer -g1)
  if(VIADUCT_SANITIZE MATCHES "undefined")
    # Null pointers fault by themselves, no code casts between unrelated classes, and AddressSanitizer checks the memory
    # behind pointers; these checks stand at every access and cost a third of the compile time.
    list(APPEND VIADUCT_SANITIZER_OPTIONS -fno-sanitize=null,vptr,pointer-overflow,object-size -fno-sanitize-recover=undefined)
    # Checks of values that only foreign bytes can make wrong, at every load and call: a quarter of the compile time. Folders that
    # read foreign bytes have them (viaduct_sanitize_values).
    set(VIADUCT_VALUE_CHECKS bool,enum,alignment,nonnull-attribute,returns-nonnull-attribute,builtin,return,unreachable,vla-bound)
    list(APPEND VIADUCT_SANITIZER_OPTIONS -fno-sanitize=${VIADUCT_VALUE_CHECKS})
  endif()
  if(VIADUCT_SANITIZE MATCHES "address")
    # Memory checks are calls, which halves the code to compile. Loops over elements have them inline.
    list(APPEND VIADUCT_SANITIZER_OPTIONS --param=asan-instrumentation-with-call-threshold=0)
  endif()
  add_link_options(-fsanitize=${VIADUCT_SANITIZE})
endif()
function(viaduct_sanitize target)
  target_compile_options(${target} PRIVATE ${VIADUCT_SANITIZER_OPTIONS})
endfunction()
# viaduct_sanitize_values(TARGET): also checks values that are loaded or passed.
function(viaduct_sanitize_values target)
  if(VIADUCT_SANITIZE MATCHES "undefined")
    target_compile_options(${target} PRIVATE -fsanitize=${VIADUCT_VALUE_CHECKS})
  endif()
endfunction()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below this folder count as relative, so that checkouts in different folders share results; the other settings let
  # sources with a precompiled header be cached.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_IGNOREOPTIONS=--param=ggc-* ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()
find_program(LLD ld.lld)
find_program(GOLD ld.gold)
if(CMAKE_CROSSCOMPILING)
  # Cross compilers use their own linker.
elseif(LLD)
  add_link_options(-fuse-ld=lld)
elseif(GOLD)
  add_link_options(-fuse-ld=gold)
endif()
