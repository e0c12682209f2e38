# Makes the target kompute from Kompute's source release.

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

# Nothing of Vulkan is linked: the module opens the Vulkan loader itself (native/loader.hpp), and Kompute calls it
# through the dynamic dispatcher (native/dispatch.hpp). The build needs the headers alone; find_package(Vulkan) would ask
# for the loader's library too.
find_path(Vulkan_INCLUDE_DIR vulkan/vulkan.hpp HINTS "$ENV{VULKAN_SDK}/include")
if(NOT Vulkan_INCLUDE_DIR)
  message(FATAL_ERROR "The Vulkan headers are missing: expected vulkan/vulkan.hpp on the include path (Debian's "
    "libvulkan-dev, Fedora's and Arch's vulkan-headers) or in $VULKAN_SDK/include.")
endif()
# A folder with these headers alone: a cross compiler must not see the rest of /usr/include.
set(vulkan_headers "${CMAKE_CURRENT_BINARY_DIR}/vulkan-headers")
file(MAKE_DIRECTORY "${vulkan_headers}")
foreach(folder vulkan vk_video)
  file(REMOVE "${vulkan_headers}/${folder}")
  if(EXISTS "${Vulkan_INCLUDE_DIR}/${folder}")
    file(CREATE_LINK "${Vulkan_INCLUDE_DIR}/${folder}" "${vulkan_headers}/${folder}" SYMBOLIC)
  endif()
endforeach()

# The classes that nnvk uses. Kompute's own CMake project would compile the rest too, kp::Manager above all, which calls
# the loader's functions by name, and would ask for fmt (native/kompute/fmt/format.h) and the loader's library.
add_library(kompute STATIC EXCLUDE_FROM_ALL)
foreach(class Algorithm Sequence Tensor)
  target_sources(kompute PRIVATE "${KOMPUTE_SOURCE_DIR}/src/${class}.cpp")
endforeach()
target_include_directories(kompute SYSTEM PUBLIC
  "${KOMPUTE_SOURCE_DIR}/src/include" "${CMAKE_CURRENT_SOURCE_DIR}/native/kompute" "${vulkan_headers}")
target_compile_definitions(kompute PUBLIC
  KOMPUTE_OPT_LOG_LEVEL_DISABLED=1 VK_NO_PROTOTYPES=1 VULKAN_HPP_DISPATCH_LOADER_DYNAMIC=1)
target_compile_options(kompute PRIVATE -w) # newer Vulkan headers warn of results that Kompute does not check
