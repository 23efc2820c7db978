# What most sources include. Headers of the system alone: a path of this checkout in the list would keep a compiler cache from
# serving other checkouts.
set(VIADUCT_PRECOMPILED <fmt/core.h> <algorithm> <cmath> <cstdint> <cstring> <filesystem> <functional> <map> <memory> <optional>
  <span> <stdexcept> <string> <string_view> <vector>)

# viaduct_library(NAME [PUBLIC libs…] [PRIVATE libs…] [EXCLUDE regex]): the folder src/NAME as the static library viaduct_NAME,
# from every .cpp below it but those whose path EXCLUDE matches. Files named *_avx512.cpp, *_avx512_bf16.cpp and *_amx.cpp get that instruction set.
function(viaduct_library name)
  cmake_parse_arguments(ARG "" "EXCLUDE" "PUBLIC;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCLUDE}")
  endif()
  add_library(viaduct_${name} STATIC ${sources})
  add_library(viaduct::${name} ALIAS viaduct_${name})
  set_property(GLOBAL APPEND PROPERTY VIADUCT_LIBRARIES viaduct::${name})  # what viaduct::all links
  target_include_directories(viaduct_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include/viaduct>)
  target_link_libraries(viaduct_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  target_compile_features(viaduct_${name} PUBLIC cxx_std_20)
  set_target_properties(viaduct_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS viaduct_${name} EXPORT viaduct)
  # One precompiled header for all folders that see base; kernel files have other flags and do without.
  if(name STREQUAL "base")
    target_precompile_headers(viaduct_base PRIVATE ${VIADUCT_PRECOMPILED})
  elseif(NOT name STREQUAL "timeline")
    target_precompile_headers(viaduct_${name} REUSE_FROM viaduct_base)
  endif()
  # GCC 12 takes the deliberately undefined registers of its own AVX-512 headers for mistakes.
  foreach(source ${sources})
    if(source MATCHES "_(avx512|avx512_bf16|amx)\\.cpp$")
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
    if(source MATCHES "_avx512\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mprefer-vector-width=512;-Wno-uninitialized")
    elseif(source MATCHES "_avx512_bf16\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mprefer-vector-width=512;-Wno-uninitialized")
    elseif(source MATCHES "_amx\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mamx-tile;-mamx-bf16;-mprefer-vector-width=512;-Wno-uninitialized")
    endif()
  endforeach()
endfunction()
