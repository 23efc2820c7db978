#include "support/compress.h"

#include <zlib.h>
#include <zstd.h>

#include "base/error.h"

namespace viaduct::test {

std::string gzip(std::string_view text) {
  z_stream state{};
  constexpr int kGzip = 16 + MAX_WBITS;
  VIADUCT_CHECK(Error, ::deflateInit2(&state, 6, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK,
                "deflateInit2");
  std::string packed(::deflateBound(&state, text.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(packed.data());
  state.avail_out = static_cast<uInt>(packed.size());
  const int status = ::deflate(&state, Z_FINISH);
  packed.resize(state.total_out);
  ::deflateEnd(&state);
  VIADUCT_CHECK(Error, status == Z_STREAM_END, "deflate");
  return packed;
}

std::string zstd(std::string_view text) {
  std::string packed(::ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ::ZSTD_createCCtx();
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  const size_t size =
      ::ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size());
  ::ZSTD_freeCCtx(context);
  VIADUCT_CHECK(Error, !::ZSTD_isError(size), "ZSTD_compress2");
  packed.resize(size);
  return packed;
}

}  // namespace viaduct::test
