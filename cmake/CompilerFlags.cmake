# The whole binary starts on any x86-64-v3 machine (or any aarch64); only kernel files get more
# (cmake/ViaductLibrary.cmake), and they run only after a check at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  add_compile_options(-march=x86-64-v3)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 has no _Float16 in C++ on aarch64, but the same format as __fp16.
  add_compile_definitions(_Float16=__fp16)
endif()
add_compile_options(-Wall -Wextra -Werror -Wno-missing-field-initializers)
# GCC 12 reports false positives of these in its own headers under -O2, sanitizers and precompiled headers.
add_compile_options(-Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-restrict -Wno-array-bounds
  -Wno-stringop-overread)
# Results must not depend on what the compiler contracts: kernels write FMA where they mean it.
add_compile_options(-ffp-contract=off)

if(VIADUCT_SANITIZE)
  add_compile_options(-fsanitize=${VIADUCT_SANITIZE} -fno-omit-frame-pointer -g1)
  if(VIADUCT_SANITIZE MATCHES "undefined")
    # Null pointers fault by themselves, and nothing here casts between classes that are not related; these two checks stand at
    # every access and cost a fifth of the time to compile.
    add_compile_options(-fno-sanitize=null,vptr -fno-sanitize-recover=undefined)
  endif()
  if(VIADUCT_SANITIZE MATCHES "address")
    # Checks of memory are calls: half the code to compile. Ops have them inline (cmake/ViaductLibrary.cmake).
    add_compile_options(--param=asan-instrumentation-with-call-threshold=0)
  endif()
  add_link_options(-fsanitize=${VIADUCT_SANITIZE})
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below this folder count as relative, so that checkouts in different folders share results; the other settings let
  # sources with a precompiled header be cached.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()
find_program(LLD ld.lld)
find_program(GOLD ld.gold)
if(CMAKE_CROSSCOMPILING)
  # The linker of the cross compiler.
elseif(LLD)
  add_link_options(-fuse-ld=lld)
elseif(GOLD)
  add_link_options(-fuse-ld=gold)
endif()
