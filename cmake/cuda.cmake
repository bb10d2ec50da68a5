# Whether this build has the CUDA device: RUBATO_HAS_CUDA. docs/gpu.md says what it needs.
set(RUBATO_CUDA AUTO CACHE STRING
  "The CUDA device: ON, OFF, or AUTO (where the CUDA toolkit and cuDNN are)")
set_property(CACHE RUBATO_CUDA PROPERTY STRINGS AUTO ON OFF)
set(RUBATO_HAS_CUDA FALSE)
if(NOT RUBATO_CUDA STREQUAL "AUTO" AND NOT RUBATO_CUDA)
  return()
endif()

# Sets CMAKE_CUDA_COMPILER and the targets CUDA::cudart_static, CUDA::cublas and rubato_cudnn; or
# cuda_lacks, what is missing.
function(rubato_find_cuda)
  # The toolkit's programs are rarely in PATH.
  find_program(nvcc nvcc HINTS ${CUDAToolkit_ROOT} ENV CUDA_PATH ENV CUDA_HOME PATH_SUFFIXES bin
    PATHS /usr/local/cuda /opt/cuda NO_CACHE)
  if(NOT CMAKE_CUDA_COMPILER AND nvcc)
    # check_language() looks at nothing else.
    set(ENV{CUDACXX} ${nvcc})
  endif()
  if(NOT CMAKE_CUDA_COMPILER AND NOT nvcc)
    set(cuda_lacks "nvcc is not in PATH, /usr/local/cuda/bin or /opt/cuda/bin" PARENT_SCOPE)
    return()
  endif()
  # nvcc itself takes the first gcc of PATH, which is not always that of this build; and
  # check_language() does not see the variable.
  if(CMAKE_CUDA_HOST_COMPILER)
    set(ENV{CUDAHOSTCXX} ${CMAKE_CUDA_HOST_COMPILER})
  elseif(NOT DEFINED ENV{CUDAHOSTCXX})
    set(ENV{CUDAHOSTCXX} ${CMAKE_CXX_COMPILER})
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(cuda_lacks "${nvcc} cannot compile with $ENV{CUDAHOSTCXX}; CMAKE_CUDA_HOST_COMPILER \
names another compiler (${CMAKE_BINARY_DIR}/CMakeFiles/CMakeError.log says why)" PARENT_SCOPE)
    return()
  endif()
  # For a version from 3.25 on, CMake 3.25.1 looks for a library that CUDA 13 does not have. This is
  # a copy of the variable, for this function.
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  find_package(CUDAToolkit 11.8 QUIET)
  if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cublas OR NOT TARGET CUDA::cudart_static)
    set(cuda_lacks "CUDA toolkit 11.8 or newer, with cuBLAS" PARENT_SCOPE)
    return()
  endif()
  find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
    DOC "Folder of cuDNN's headers")
  find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64
    DOC "cuDNN")
  if(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
    set(cuda_lacks "cuDNN 8.5 or newer; CUDNN_INCLUDE_DIR and CUDNN_LIBRARY say where it is"
      PARENT_SCOPE)
    return()
  endif()
  add_library(rubato_cudnn INTERFACE)
  target_include_directories(rubato_cudnn SYSTEM INTERFACE ${CUDNN_INCLUDE_DIR})
  target_link_libraries(rubato_cudnn INTERFACE ${CUDNN_LIBRARY})
endfunction()

rubato_find_cuda()
if(cuda_lacks)
  if(RUBATO_CUDA STREQUAL "AUTO")
    message(STATUS "No CUDA device in this build. Missing: ${cuda_lacks}")
    return()
  endif()
  message(FATAL_ERROR "RUBATO_CUDA=ON. Missing: ${cuda_lacks}. docs/gpu.md has what is needed; "
    "-DRUBATO_CUDA=OFF builds without the CUDA device.")
endif()

# GPUs that are still sold or in use, as far as this toolkit knows them. The code of the last one
# also serves newer GPUs: their driver compiles it.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known)
  set(architectures "")
  foreach(each 75 80 86 87 89 90)
    if(known MATCHES "compute_${each}\n")
      list(APPEND architectures ${each}-real)
    endif()
  endforeach()
  list(POP_BACK architectures last)
  string(REPLACE "-real" "" last ${last})
  list(APPEND architectures ${last})
  set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "GPUs that the build has code for")
endif()
if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)
set(RUBATO_HAS_CUDA TRUE)
message(STATUS
  "CUDA device: toolkit ${CMAKE_CUDA_COMPILER_VERSION}, code for ${CMAKE_CUDA_ARCHITECTURES}")
# Programs of the build tree find the module by its name there.
set(CMAKE_BUILD_RPATH ${CMAKE_CURRENT_BINARY_DIR}/train/cuda)
