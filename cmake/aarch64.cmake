# Toolchain file of ./viaduct.sh arm: Debian's cross compiler for aarch64, with the libraries that tools/arm/run.sh unpacks into
# VIADUCT_ARM_ROOT.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES VIADUCT_ARM_ROOT)

set(CMAKE_FIND_ROOT_PATH ${VIADUCT_ARM_ROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${VIADUCT_ARM_ROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${VIADUCT_ARM_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${VIADUCT_ARM_ROOT}/usr/share/pkgconfig)

# Libraries need other libraries of the same folder.
set(CMAKE_EXE_LINKER_FLAGS_INIT
  "-Wl,-rpath-link,${VIADUCT_ARM_ROOT}/usr/lib/aarch64-linux-gnu:${VIADUCT_ARM_ROOT}/lib/aarch64-linux-gnu")
set(CMAKE_CXX_FLAGS_INIT "-isystem ${VIADUCT_ARM_ROOT}/usr/include/aarch64-linux-gnu")
