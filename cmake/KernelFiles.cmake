# viaduct_load_kernels(RESULT FILE…): sets RESULT to the source that loads the kernels of these .cu files before the first of them
# runs (src/ops/cuda/launch/load_kernels.h).
function(viaduct_load_kernels result)
  set(VIADUCT_KERNEL_FILES "")
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME_WE)
    string(APPEND VIADUCT_KERNEL_FILES "X(${name}) ")
  endforeach()
  string(STRIP "${VIADUCT_KERNEL_FILES}" VIADUCT_KERNEL_FILES)
  configure_file(${PROJECT_SOURCE_DIR}/src/ops/cuda/launch/load_kernels.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/load_kernels.cpp @ONLY)
  set(${result} ${CMAKE_CURRENT_BINARY_DIR}/load_kernels.cpp PARENT_SCOPE)
endfunction()
