# Compiles several sources in one run of the compiler: shared headers are parsed, and shared templates compiled, once a batch.
# This saves half the time of a build from scratch; afterwards each change compiles its whole batch. CI and ./viaduct.sh
# build use batches in new build folders; with the preset alone every file is compiled by itself.
set(VIADUCT_BATCHES OFF CACHE STRING "Compile sources in batches: ON, OFF, or those of tests")
set_property(CACHE VIADUCT_BATCHES PROPERTY STRINGS ON OFF tests)
set(VIADUCT_BATCH_SIZE 12 CACHE STRING "Sources of a batch")
if(VIADUCT_BATCHES)
  # The system's own interpreter first: those of version managers take a tenth of a second to start, and it starts for each target.
  find_program(VIADUCT_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
  find_program(VIADUCT_PYTHON python3 REQUIRED)
endif()

# Sources that batches.py cannot place (compiled_alone.txt says why).
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/compiled_alone.txt VIADUCT_COMPILED_ALONE REGEX "^[^#]")
set(VIADUCT_BATCHES_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/batches.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/compiled_alone.txt ${VIADUCT_BATCHES_SCRIPT})

# viaduct_batches(RESULT TARGET SOURCE…): sets RESULT to the sources that TARGET compiles instead of the given ones.
function(viaduct_batches result target)
  set(${result} ${ARGN} PARENT_SCOPE)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  if(NOT VIADUCT_BATCHES OR (VIADUCT_BATCHES STREQUAL "tests" AND NOT folder MATCHES "^tests"))
    return()
  endif()
  set(sources "")
  set(shared "")
  foreach(source ${ARGN})
    get_filename_component(path ${source} ABSOLUTE)
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${path})
    if(name IN_LIST VIADUCT_COMPILED_ALONE OR name MATCHES "_(avx2|avx512|avx512_bf16|amx)\\.cpp$|^build/")
      list(APPEND sources ${source})
    else()
      list(APPEND shared ${path})
    endif()
  endforeach()
  execute_process(COMMAND ${VIADUCT_PYTHON} ${VIADUCT_BATCHES_SCRIPT} ${VIADUCT_BATCH_SIZE} ${PROJECT_SOURCE_DIR} ${shared}
    OUTPUT_VARIABLE lines OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" lines "${lines}")
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/batches)
  set(number 0)
  foreach(batch ${lines})
    # The includes are relative, so the text holds no path of this checkout and a compiler cache serves other checkouts.
    set(text "")
    string(REPLACE "|" ";" batch "${batch}")
    foreach(path ${batch})
      file(RELATIVE_PATH relative ${folder} ${path})
      string(APPEND text "#include \"${relative}\"\n")
    endforeach()
    file(CONFIGURE OUTPUT batches/${target}_${number}.cpp CONTENT "${text}" @ONLY)
    list(APPEND sources ${folder}/${target}_${number}.cpp)
    math(EXPR number "${number} + 1")
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()
