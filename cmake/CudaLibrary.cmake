# viaduct_cuda: the kernels of src/ops/cuda for GPUs, compiled by nvcc for each target, with their launches (cmake --preset cuda).
# A target that links it links viaduct::ops and the CUDA runtime; nothing else of the project needs either.
enable_language(CUDA)
set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
find_package(CUDAToolkit REQUIRED)

file(GLOB launch_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cuda/launch/*.cpp
  ${PROJECT_SOURCE_DIR}/src/device/cuda/*.cpp ${PROJECT_SOURCE_DIR}/src/comm/nccl/*.cpp)
# Checks at compile time that the tests' double of the runtime has this toolkit's values.
list(APPEND launch_sources ${PROJECT_SOURCE_DIR}/tests/cuda_host/runtime/check_values.cpp)
file(GLOB kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cuda/kernels/*.cu)
viaduct_load_kernels(load_kernels ${kernel_sources})
# cuDNN is loaded at run time too; a build without its header has no attention_backend=fused.
find_path(VIADUCT_CUDNN_INCLUDE cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS} DOC
  "Folder of cudnn_graph.h (package libcudnn9-dev-cuda-13, or nvidia/cudnn/include of the wheel nvidia-cudnn-cu13)")
if(VIADUCT_CUDNN_INCLUDE)
  list(FILTER launch_sources EXCLUDE REGEX "/attention_library_absent\\.cpp$")
  list(APPEND launch_sources ${PROJECT_SOURCE_DIR}/tests/cuda_host/cudnn/check_values.cpp)
else()
  list(FILTER launch_sources EXCLUDE REGEX "/(attention_library|cudnn_[a-z]+)\\.cpp$")
  message(STATUS "No cudnn_graph.h (VIADUCT_CUDNN_INCLUDE): built without attention by cuDNN")
endif()
# NCCL is loaded at run time, so the build needs only its header.
find_path(VIADUCT_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED DOC
  "Folder of nccl.h (package libnccl-dev, or nvidia/nccl/include of the wheel nvidia-nccl-cu13)")
list(APPEND launch_sources ${PROJECT_SOURCE_DIR}/tests/cuda_host/nccl/check_values.cpp)
# check_values.cpp checks that the tests' double of cuBLASLt has this toolkit's values.
add_library(viaduct_cuda STATIC EXCLUDE_FROM_ALL ${launch_sources} ${kernel_sources} ${load_kernels}
  ${PROJECT_SOURCE_DIR}/tests/cuda_host/cublaslt/check_values.cpp)
add_library(viaduct::cuda ALIAS viaduct_cuda)
target_include_directories(viaduct_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src)
# The files here need only the headers of viaduct::ops; targets that link this library link it too.
target_link_libraries(viaduct_cuda INTERFACE viaduct::ops viaduct::comm CUDA::cudart_static CUDA::cublasLt)
target_link_libraries(viaduct_cuda PRIVATE fmt::fmt)
target_include_directories(viaduct_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${VIADUCT_NCCL_INCLUDE}
  $<$<BOOL:${VIADUCT_CUDNN_INCLUDE}>:${VIADUCT_CUDNN_INCLUDE}>)
# The project's compile options are for the C++ compiler only, not for nvcc.
get_target_property(host_options viaduct_cuda COMPILE_OPTIONS)
set_target_properties(viaduct_cuda PROPERTIES COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:${host_options}>")
# -std: CMake 3.25 does not know C++20 for CUDA and would choose an older standard. -fmad=false: kernels write fma where they
# mean it, so that results equal the cpu's bit for bit.
target_compile_options(viaduct_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-fmad=false;--compress-mode=size>")
# The code of each target of src/hardware/cuda_target.h, and for later GPUs the PTX of the newest.
set(VIADUCT_CUDA_TARGETS "80-real;89-real;90a-real;100f-real;120-real;120-virtual" CACHE STRING "GPUs that kernels are compiled for, as CUDA_ARCHITECTURES")
set_target_properties(viaduct_cuda PROPERTIES CUDA_STANDARD_REQUIRED OFF CUDA_ARCHITECTURES "${VIADUCT_CUDA_TARGETS}"
  CUDA_RUNTIME_LIBRARY None)

# libviaduct_cuda.so, which programs load when a run asks for dist.device=cuda. It lies beside the program of this build.
add_library(viaduct_cuda_module MODULE EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/src/run/cuda/backend.cpp)
target_link_libraries(viaduct_cuda_module PRIVATE viaduct_cuda)
# --as-needed: communicators of hosts would otherwise link MPI's library, which nothing here calls.
target_link_options(viaduct_cuda_module PRIVATE -Wl,--exclude-libs,ALL -Wl,--as-needed)
set_target_properties(viaduct_cuda_module PROPERTIES OUTPUT_NAME viaduct_cuda LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
# The folder in which a program looks for it. cuBLASLt, 500 MB, is not bundled: base/toolkit_library.h finds the machine's.
set_target_properties(viaduct_cuda_module PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS viaduct_cuda_module LIBRARY DESTINATION lib COMPONENT cuda)
option(VIADUCT_CUDA_REPORT "Print the registers and memory of each kernel in the build (tools/gpu_code.py reads it)" OFF)
if(VIADUCT_CUDA_REPORT)
  target_compile_options(viaduct_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>")
endif()
