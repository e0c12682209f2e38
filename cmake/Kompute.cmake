# Makes the target kompute::kompute from Kompute's source release.

set(kompute_version 0.9.0)
set(kompute_sha256 98e583dc6e9731ff6d7a3e3317817e4d93f7b2945929619e29a56325db279949)

if(NOT KOMPUTE_SOURCE_DIR)
  set(kompute_fetch_dir "${CMAKE_CURRENT_BINARY_DIR}/kompute-source")
  set(kompute_archive "${kompute_fetch_dir}/kp-${kompute_version}.tar.gz")
  set(kompute_unpacked "${kompute_fetch_dir}/kp-${kompute_version}")
  if(NOT EXISTS "${kompute_unpacked}/CMakeLists.txt")
    file(MAKE_DIRECTORY "${kompute_fetch_dir}")
    # pip refuses a file whose hash differs from the requirement's.
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

# Kompute's own -Werror must not fail the build under a newer compiler or newer Vulkan headers, and its Vulkan calls
# go through the dynamic dispatcher (native/dispatch.hpp says why).
target_compile_options(kompute PRIVATE -Wno-error)
target_compile_options(kp_logger PRIVATE -Wno-error)
target_compile_definitions(kompute PUBLIC VULKAN_HPP_DISPATCH_LOADER_DYNAMIC=1)
