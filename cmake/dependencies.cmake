# Everything is linked statically from Debian's packages (tools/packages.txt). Debian 12 has no static Zydis, so
# tools/fetch-zydis brings the source package, and its decoder (without the formatter) is built here.
find_library(LIBASMJIT NAMES libasmjit.a REQUIRED)
find_library(LIBIBERTY NAMES libiberty.a REQUIRED)
find_library(LIBZ NAMES libz.a REQUIRED)
find_library(LIBLZMA NAMES liblzma.a REQUIRED)
find_library(LIBZSTD NAMES libzstd.a REQUIRED)

add_library(fmt STATIC cmake/fmt_once.cpp)
target_compile_options(fmt PRIVATE -O2)

set(ZYDIS_DIR "${CMAKE_SOURCE_DIR}/build/deps/zydis" CACHE PATH "Unpacked source package of Zydis")
if(NOT EXISTS "${ZYDIS_DIR}/src/Decoder.c")
  execute_process(COMMAND "${CMAKE_SOURCE_DIR}/tools/fetch-zydis" "${ZYDIS_DIR}" COMMAND_ERROR_IS_FATAL ANY)
endif()
add_library(zydis STATIC
  ${ZYDIS_DIR}/src/Decoder.c ${ZYDIS_DIR}/src/DecoderData.c ${ZYDIS_DIR}/src/MetaInfo.c ${ZYDIS_DIR}/src/Register.c
  ${ZYDIS_DIR}/src/SharedData.c ${ZYDIS_DIR}/src/Utils.c ${ZYDIS_DIR}/src/Mnemonic.c)
target_include_directories(zydis SYSTEM PUBLIC ${ZYDIS_DIR}/include PRIVATE ${ZYDIS_DIR}/src)
target_compile_definitions(zydis PUBLIC ZYDIS_STATIC_BUILD ZYCORE_STATIC_BUILD ZYDIS_DISABLE_FORMATTER)
target_compile_options(zydis PRIVATE -w -O2)
