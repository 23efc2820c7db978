# viaduct_cuda: the kernels of src/ops/cuda for GPUs, compiled by nvcc for each target, with their launches (cmake --preset cuda).
# Whatever links it links viaduct::ops and the CUDA runtime; nothing else of the project needs either.
enable_language(CUDA)
set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
find_package(CUDAToolkit REQUIRED)

file(GLOB launch_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cuda/launch/*.cpp
  ${PROJECT_SOURCE_DIR}/src/device/cuda/*.cpp ${PROJECT_SOURCE_DIR}/src/comm/nccl/*.cpp)
# Whether the double of the runtime has the values of this toolkit.
list(APPEND launch_sources ${PROJECT_SOURCE_DIR}/tests/cuda_host/runtime/check_values.cpp)
file(GLOB kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cuda/kernels/*.cu)
# NCCL is loaded when a run needs it, so the build needs its header alone.
find_path(VIADUCT_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED DOC
  "Folder of nccl.h (package libnccl-dev, or nvidia/nccl/include of the wheel nvidia-nccl-cu13)")
list(APPEND launch_sources ${PROJECT_SOURCE_DIR}/tests/cuda_host/nccl/check_values.cpp)
# check_values.cpp: whether the tests' double of cuBLASLt has the values of this toolkit.
add_library(viaduct_cuda STATIC EXCLUDE_FROM_ALL ${launch_sources} ${kernel_sources}
  ${PROJECT_SOURCE_DIR}/tests/cuda_host/cublaslt/check_values.cpp)
add_library(viaduct::cuda ALIAS viaduct_cuda)
target_include_directories(viaduct_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src)
# Only users wait for viaduct::ops; the files here need its headers.
target_link_libraries(viaduct_cuda INTERFACE viaduct::ops viaduct::comm CUDA::cudart_static CUDA::cublasLt)
target_link_libraries(viaduct_cuda PRIVATE fmt::fmt)
target_include_directories(viaduct_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${VIADUCT_NCCL_INCLUDE})
# Options of the whole project are the C++ compiler's.
get_target_property(host_options viaduct_cuda COMPILE_OPTIONS)
set_target_properties(viaduct_cuda PROPERTIES COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:${host_options}>")
# -std: CMake 3.25 knows no C++20 for CUDA, and would take an older one. -fmad=false: kernels write fma where they mean it, and
# have the cpu's bits.
target_compile_options(viaduct_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-fmad=false;--compress-mode=size>")
set_target_properties(viaduct_cuda PROPERTIES CUDA_STANDARD_REQUIRED OFF CUDA_ARCHITECTURES "80-real;90a-real;100a-real"
  CUDA_RUNTIME_LIBRARY None)

# libviaduct_cuda.so, which programs load when a run asks for dist.device=cuda: beside the program of this build.
add_library(viaduct_cuda_module MODULE EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/src/run/cuda/backend.cpp)
target_link_libraries(viaduct_cuda_module PRIVATE viaduct_cuda)
# --as-needed: communicators of hosts bring MPI's library along, which nothing here calls.
target_link_options(viaduct_cuda_module PRIVATE -Wl,--exclude-libs,ALL -Wl,--as-needed)
set_target_properties(viaduct_cuda_module PROPERTIES OUTPUT_NAME viaduct_cuda LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
# Where a program looks for it; cuBLASLt, 500 MB, stays on the machine (base/toolkit_library.h finds it).
set_target_properties(viaduct_cuda_module PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS viaduct_cuda_module LIBRARY DESTINATION lib COMPONENT cuda)
option(VIADUCT_CUDA_REPORT "The build says what each kernel uses (tools/gpu_code.py reads it)" OFF)
if(VIADUCT_CUDA_REPORT)
  target_compile_options(viaduct_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>")
endif()
