# Makes the target kompute::kompute from Kompute's source release.

set(kompute_version 0.9.0)
set(kompute_sha256 98e583dc6e9731ff6d7a3e3317817e4d93f7b2945929619e29a56325db279949)

if(NOT KOMPUTE_SOURCE_DIR)
  set(kompute_fetch_dir "${CMAKE_CURRENT_BINARY_DIR}/kompute-source")
  set(kompute_archive "${kompute_fetch_dir}/kp-${kompute_version}.tar.gz")
  set(kompute_unpacked "${kompute_fetch_dir}/kp-${kompute_version}")
  if(NOT EXISTS "${kompute_unpacked}/CMakeLists.txt")
    file(MAKE_DIRECTORY "${kompute_fetch_dir}")
    # pip refuses a file whose hash differs from the requirement's. It is one of the build's requirements
    # (pyproject.toml), so that an isolated build has it.
    file(WRITE "${kompute_fetch_dir}/requirements.txt" "kp==${kompute_version} --hash=sha256:${kompute_sha256}\n")
    message(STATUS "Fetching Kompute ${kompute_version}")
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all:
        --require-hashes -r requirements.txt
      WORKING_DIRECTORY "${kompute_fetch_dir}"
      RESULT_VARIABLE kompute_failed ERROR_VARIABLE kompute_error)
    if(kompute_failed)
      message(FATAL_ERROR "Kompute ${kompute_version} could not be fetched; without a network, unpack it and give "
        "-DKOMPUTE_SOURCE_DIR=DIR.\n${kompute_error}")
    endif()
    file(ARCHIVE_EXTRACT INPUT "${kompute_archive}" DESTINATION "${kompute_fetch_dir}")
  endif()
  set(KOMPUTE_SOURCE_DIR "${kompute_unpacked}")
endif()

set(KOMPUTE_OPT_USE_BUILT_IN_VULKAN_HEADER OFF CACHE BOOL "" FORCE)
set(KOMPUTE_OPT_USE_BUILT_IN_FMT OFF CACHE BOOL "" FORCE)
set(KOMPUTE_OPT_INSTALL OFF CACHE BOOL "" FORCE)
set(KOMPUTE_OPT_DISABLE_VULKAN_VERSION_CHECK ON CACHE BOOL "" FORCE)
set(KOMPUTE_OPT_LOG_LEVEL Off CACHE STRING "" FORCE)
set(BUILD_SHARED_LIBS OFF)
add_subdirectory("${KOMPUTE_SOURCE_DIR}" kompute EXCLUDE_FROM_ALL)

# Kompute's own -Werror must not fail the build under a newer compiler or newer Vulkan headers.
target_compile_options(kompute PRIVATE -Wno-error)
target_compile_options(kp_logger PRIVATE -Wno-error)

# Nothing of Vulkan or fmt is linked: the module opens the Vulkan loader itself (native/loader.hpp), Kompute calls it
# through the dynamic dispatcher (native/dispatch.hpp), and fmt's headers are enough.
# Kompute's debug layers are a member of kp::Manager, which nnvk does not use, of a type that Vulkan headers from 301 on
# have in another namespace.
target_compile_definitions(kompute PUBLIC VK_NO_PROTOTYPES=1 VULKAN_HPP_DISPATCH_LOADER_DYNAMIC=1
  KOMPUTE_DISABLE_VK_DEBUG_LAYERS=1)
find_package(fmt REQUIRED)
foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
  get_target_property(libraries kompute ${property})
  list(TRANSFORM libraries REPLACE "^Vulkan::Vulkan$" "Vulkan::Headers")
  list(TRANSFORM libraries REPLACE "^fmt::fmt$" "fmt::fmt-header-only")
  set_property(TARGET kompute PROPERTY ${property} ${libraries})
endforeach()
# Only what is used of it. kp::Manager calls the loader's functions by name; native/device.cpp is in its place.
set_property(TARGET kompute PROPERTY SOURCES Algorithm.cpp Core.cpp Sequence.cpp Tensor.cpp)
