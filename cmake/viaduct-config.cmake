# find_package(viaduct): the target viaduct::viaduct is the whole library; viaduct::base and so on are its folders.
set(VIADUCT_INSTALLED ON)
include(${CMAKE_CURRENT_LIST_DIR}/Dependencies.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/viaduct-targets.cmake)
