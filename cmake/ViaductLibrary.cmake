# Headers that most sources include. System headers only: a path of this checkout in the list would keep a compiler cache from
# serving other checkouts.
set(VIADUCT_PRECOMPILED <fmt/core.h> <algorithm> <cmath> <cstdint> <cstring> <filesystem> <functional> <map> <memory> <optional>
  <span> <stdexcept> <string> <string_view> <vector>)

# Additional flags of a file by instruction set, beside those of the whole project (cmake/CompilerFlags.cmake). GCC 12 mistakes
# the deliberately undefined registers of its own AVX-512 headers for uninitialized variables.
set(VIADUCT_FLAGS_portable -DVIADUCT_PORTABLE -fno-math-errno)
set(VIADUCT_FLAGS_avx2 "")
set(VIADUCT_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512 -Wno-uninitialized)
set(VIADUCT_FLAGS_avx512_bf16 ${VIADUCT_FLAGS_avx512} -mavx512bf16)
set(VIADUCT_FLAGS_amx ${VIADUCT_FLAGS_avx512_bf16} -mamx-tile -mamx-bf16)

# The instruction sets that this processor may have. Files of the others, and their part of kernel files, are not compiled.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(VIADUCT_ISAS portable avx2 avx512 avx512_bf16 amx)
else()
  set(VIADUCT_ISAS portable)
endif()

# Those of them that sanitizers instrument: what this processor has, for kernels of the others do not run here; under
# ThreadSanitizer the newest alone, which its tests use. Kernels of the others are compiled as in the release build.
set(VIADUCT_SANITIZED_ISAS ${VIADUCT_ISAS})
if(EXISTS /proc/cpuinfo AND NOT CMAKE_CROSSCOMPILING)
  file(STRINGS /proc/cpuinfo features REGEX "^flags" LIMIT_COUNT 1)
  set(VIADUCT_NEEDS_avx512 avx512f avx512bw avx512dq avx512vl)
  set(VIADUCT_NEEDS_avx512_bf16 avx512_bf16)
  set(VIADUCT_NEEDS_amx amx_tile amx_bf16)
  foreach(isa avx512 avx512_bf16 amx)
    foreach(feature ${VIADUCT_NEEDS_${isa}})
      if(NOT features MATCHES " ${feature}( |$)")
        list(REMOVE_ITEM VIADUCT_SANITIZED_ISAS ${isa})
      endif()
    endforeach()
  endforeach()
endif()
if(VIADUCT_SANITIZE MATCHES "thread")
  list(GET VIADUCT_SANITIZED_ISAS -1 VIADUCT_SANITIZED_ISAS)
endif()

# Libraries that leave the work on elements to ops, compiled with -O2 instead of CMake's -O3, which makes their code an eighth
# larger; and those whose speed nobody notices, because they parse, print or run once: -Og compiles a quarter faster than -Os.
# In neither list: hardware, whose loops measure the processor's peaks.
set(VIADUCT_WITHOUT_LOOPS config timeline precision pipeline nn engine plan checkpoint)
set(VIADUCT_RUN_ONCE model generate run inference report probe train)

# Libraries that read files of others.
set(VIADUCT_READS_FOREIGN_BYTES base config template data image conversation checkpoint generate report)

# viaduct_sanitized_loops(TARGET): optimizes a target with loops over elements under sanitizers too, and makes AddressSanitizer's
# checks inline (GCC's default).
function(viaduct_sanitized_loops target)
  if(VIADUCT_SANITIZE)
    target_compile_options(${target} PRIVATE -O1)
  endif()
  if(VIADUCT_SANITIZE MATCHES "address")
    target_compile_options(${target} PRIVATE --param=asan-instrumentation-with-call-threshold=7000)
  endif()
endfunction()

# viaduct_kernels(TARGET FILE): compiles a kernel file once for each instruction set that its first line names and
# this processor may have.
function(viaduct_kernels target file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} line LIMIT_COUNT 1)
  if(NOT line MATCHES "^// instruction sets:( (portable|avx2|avx512|avx512_bf16|amx))+$")
    message(FATAL_ERROR "${file}: the first line of a kernel file says \"// instruction sets: portable avx2 avx512 …\", not \"${line}\"")
  endif()
  string(REGEX REPLACE "^// instruction sets: " "" sets "${line}")
  string(REPLACE " " ";" sets "${sets}")
  foreach(isa ${sets})
    if(NOT isa IN_LIST VIADUCT_ISAS)
      continue()
    endif()
    if(NOT TARGET ${target}_${isa})
      add_library(${target}_${isa} OBJECT)
      target_include_directories(${target}_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/src)
      target_link_libraries(${target}_${isa} PRIVATE viaduct::base)
      target_compile_features(${target}_${isa} PRIVATE cxx_std_20)
      target_compile_options(${target}_${isa} PRIVATE ${VIADUCT_FLAGS_${isa}})
      if(isa IN_LIST VIADUCT_SANITIZED_ISAS)
        viaduct_sanitize(${target}_${isa})
        viaduct_sanitized_loops(${target}_${isa})
      endif()
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
    endif()
    target_sources(${target}_${isa} PRIVATE ${file})
  endforeach()
endfunction()

# viaduct_library(NAME [PUBLIC libs…] [PRIVATE libs…] [EXCLUDE regex]): builds the folder src/NAME as the static library
# viaduct_NAME, from every .cpp below it except those whose path EXCLUDE matches. Files cpu/…/*_kernels.cpp are compiled by
# viaduct_kernels; files named *_avx512.cpp, *_avx512_bf16.cpp and *_amx.cpp once, for that instruction set.
function(viaduct_library name)
  cmake_parse_arguments(ARG "" "EXCLUDE" "PUBLIC;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCLUDE}")
  endif()
  if(NOT "avx2" IN_LIST VIADUCT_ISAS)
    list(FILTER sources EXCLUDE REGEX "_(avx2|avx512|avx512_bf16|amx)\\.cpp$")
  endif()
  set(kernels ${sources})
  list(FILTER kernels INCLUDE REGEX "/cpu/.*_kernels\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "/cpu/.*_kernels\\.cpp$")
  # What runs ops on the cpu is in batches of its own: libviaduct_cuda.so links what decides about ops, and an object comes whole.
  set(on_cpu ${sources})
  list(FILTER on_cpu INCLUDE REGEX "/ops/(cpu|reference)/")
  set(others ${sources})
  list(FILTER others EXCLUDE REGEX "/ops/(cpu|reference)/")
  viaduct_batches(compiled ${name} ${others})
  viaduct_batches(compiled_on_cpu ${name}_on_cpu ${on_cpu})
  list(APPEND compiled ${compiled_on_cpu})
  add_library(viaduct_${name} STATIC ${compiled})
  add_library(viaduct::${name} ALIAS viaduct_${name})
  set_property(GLOBAL APPEND PROPERTY VIADUCT_LIBRARIES viaduct::${name})  # what viaduct::all links
  target_include_directories(viaduct_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include/viaduct>)
  target_link_libraries(viaduct_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  target_compile_features(viaduct_${name} PUBLIC cxx_std_20)
  if(name IN_LIST VIADUCT_WITHOUT_LOOPS)
    target_compile_options(viaduct_${name} PRIVATE $<$<CONFIG:Release>:-O2>)
  elseif(name IN_LIST VIADUCT_RUN_ONCE)
    target_compile_options(viaduct_${name} PRIVATE $<$<CONFIG:Release>:-Og>)
  endif()
  viaduct_sanitize(viaduct_${name})
  if(name IN_LIST VIADUCT_READS_FOREIGN_BYTES)
    viaduct_sanitize_values(viaduct_${name})
  endif()
  set_target_properties(viaduct_${name} PROPERTIES EXPORT_NAME ${name})
  if(name MATCHES "^(ops|tensor)$")
    viaduct_sanitized_loops(viaduct_${name})
  endif()
  install(TARGETS viaduct_${name} EXPORT viaduct)
  # Folders of the same flags share one precompiled header; kernel files have others and do not use it.
  if(name MATCHES "^(base|config|model)$")
    target_precompile_headers(viaduct_${name} PRIVATE ${VIADUCT_PRECOMPILED})
  elseif(name STREQUAL "timeline")
    # none
  elseif(name IN_LIST VIADUCT_WITHOUT_LOOPS)
    target_precompile_headers(viaduct_${name} REUSE_FROM viaduct_config)
  elseif(name IN_LIST VIADUCT_RUN_ONCE)
    target_precompile_headers(viaduct_${name} REUSE_FROM viaduct_model)
  else()
    target_precompile_headers(viaduct_${name} REUSE_FROM viaduct_base)
  endif()
  foreach(source ${sources})
    if(source MATCHES "_(avx512|avx512_bf16|amx)\\.cpp$")
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${VIADUCT_FLAGS_${CMAKE_MATCH_1}}")
    endif()
  endforeach()
  foreach(file ${kernels})
    viaduct_kernels(viaduct_${name} ${file})
  endforeach()
endfunction()
