# The CMake package: find_package(viaduct) gives viaduct::viaduct (examples/link_library shows its use).
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/viaduct)
install(EXPORT viaduct NAMESPACE viaduct:: FILE viaduct-targets.cmake DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/viaduct-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/viaduct-config.cmake.in viaduct-config.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/viaduct-config.cmake cmake/Dependencies.cmake ${PROJECT_BINARY_DIR}/viaduct-config-version.cmake
  DESTINATION ${package_folder})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
