# Compiles several sources in one run of the compiler: shared headers are parsed, and shared templates compiled, once a batch.
# This halves the time of a build from scratch; afterwards each change compiles its whole batch. CI and ./viaduct.sh build use
# batches in new build folders; with the preset alone every file is compiled by itself.
option(VIADUCT_BATCHES "Compile sources in batches" OFF)
set(VIADUCT_BATCH_SIZE 12 CACHE STRING "Sources of a batch")

# Sources that cannot share a batch with others of their target: they have a name in the unnamed namespace in common, or flags of
# their own. The list holds for batches of any size (-D VIADUCT_BATCH_SIZE=10000 tries all), so that a new file does not move
# others into batches that do not compile.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/compiled_alone.txt VIADUCT_COMPILED_ALONE REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/compiled_alone.txt)

# viaduct_batches(RESULT TARGET SOURCE…): sets RESULT to the sources that TARGET compiles instead of the given ones.
function(viaduct_batches result target)
  set(${result} ${ARGN} PARENT_SCOPE)
  if(NOT VIADUCT_BATCHES)
    return()
  endif()
  set(sources "")
  set(batch "")
  set(number 0)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/batches)
  foreach(source ${ARGN})
    get_filename_component(path ${source} ABSOLUTE)
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${path})
    if(name IN_LIST VIADUCT_COMPILED_ALONE OR name MATCHES "_(avx2|avx512|avx512_bf16|amx)\\.cpp$|^build/")
      list(APPEND sources ${source})
      continue()
    endif()
    # The include is relative, so the text holds no path of this checkout and a compiler cache serves other checkouts.
    file(RELATIVE_PATH relative ${folder} ${path})
    string(APPEND batch "#include \"${relative}\"\n")
    string(REGEX MATCHALL "\n" lines "${batch}")
    list(LENGTH lines length)
    if(length EQUAL VIADUCT_BATCH_SIZE)
      file(CONFIGURE OUTPUT batches/${target}_${number}.cpp CONTENT "${batch}" @ONLY)
      list(APPEND sources ${folder}/${target}_${number}.cpp)
      math(EXPR number "${number} + 1")
      set(batch "")
    endif()
  endforeach()
  if(batch)
    file(CONFIGURE OUTPUT batches/${target}_${number}.cpp CONTENT "${batch}" @ONLY)
    list(APPEND sources ${folder}/${target}_${number}.cpp)
  endif()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()
