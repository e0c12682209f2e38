# How all C++ is compiled: in the extension module and in the C library.
set(NNVK_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them; empty: none")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # static libraries and objects go into shared ones

if(NNVK_SANITIZE)
  # Undefined behaviour is an end, not a message.
  add_compile_options(-fsanitize=${NNVK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${NNVK_SANITIZE})
endif()
