#include "image/read_png.h"

#include <png.h>

#include <csetjmp>
#include <cstring>

#include "base/error.h"
#include "base/function_ref.h"

namespace viaduct {
namespace {

/// Deflate makes at most 1032 bytes of one.
constexpr int64_t kMostInflation = 1032;
constexpr png_alloc_size_t kMostChunkBytes = 4u << 20;  // unpacked text, profiles

/// What libpng reads, and what it found to be wrong. Its callbacks leave by longjmp, which passes
/// over destructors: nothing that has one lives in a function that calls libpng.
struct PngSource {
  std::string_view bytes;
  size_t at = 0;
  char problem[160] = {};
};

void on_error(png_structp png, png_const_charp message) {
  auto* source = static_cast<PngSource*>(png_get_error_ptr(png));
  std::strncpy(source->problem, message, sizeof(source->problem) - 1);
  png_longjmp(png, 1);
}

/// What libpng can pass over: PIL reads such files too.
void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep out, size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->bytes.size() - source->at) png_error(png, "the file is cut off");
  std::memcpy(out, source->bytes.data() + source->at, count);
  source->at += count;
}

/// IoError for a chunk that ends behind the file: libpng takes memory for all of it at once.
void check_chunk_lengths(std::string_view bytes, const std::string& name) {
  constexpr size_t kSignature = 8, kAround = 12;  // length, type and check sum of a chunk
  for (size_t at = kSignature; at + kAround <= bytes.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(bytes[at + i]);
    VIADUCT_CHECK(IoError, length <= bytes.size() - at - kAround,
                  "{}: not a readable PNG: a chunk at byte {} has {} bytes, the file is cut off",
                  name, at, length);
    if (bytes.substr(at + 4, 4) == "IEND") return;
    at += kAround + length;
  }
}

class PngReader {
 public:
  PngReader(std::string_view bytes, const std::string& name) : name_(name) {
    source_.bytes = bytes;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, on_error, on_warning);
    VIADUCT_CHECK(IoError, png_ != nullptr, "{}: libpng cannot be used: {}", name,
                  source_.problem[0] == 0 ? "no memory" : source_.problem);
    info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  StoredPicture read(const PictureLimits& limits) {
    VIADUCT_CHECK(IoError, info_ != nullptr, "{}: no memory", name_);
    run([&] {
      png_set_read_fn(png_, &source_, read_bytes);
      png_set_chunk_malloc_max(png_, kMostChunkBytes);
      png_read_info(png_, info_);
    });
    StoredPicture stored;
    Picture& picture = stored.picture;
    picture.height = png_get_image_height(png_, info_);
    picture.width = png_get_image_width(png_, info_);
    check_picture_size(picture.height, picture.width, limits, name_);
    // What is packed cannot be longer than its unpacked rows: memory is taken for no other.
    const auto row_bytes = static_cast<int64_t>(png_get_rowbytes(png_, info_));
    VIADUCT_CHECK(
        IoError,
        row_bytes * picture.height <= kMostInflation * static_cast<int64_t>(source_.bytes.size()),
        "{}: not a readable PNG: {} bytes do not hold {} × {} pixels, the file is cut off", name_,
        source_.bytes.size(), picture.width, picture.height);
    run([&] { ask_for_rgb(); });
    const auto width_bytes = static_cast<size_t>(3 * picture.width);
    VIADUCT_CHECK(IoError, png_get_rowbytes(png_, info_) == width_bytes,
                  "{}: not a readable PNG: libpng makes rows of {} bytes, expected {}", name_,
                  png_get_rowbytes(png_, info_), width_bytes);
    picture.rgb.resize(width_bytes * static_cast<size_t>(picture.height));
    std::vector<png_bytep> rows(static_cast<size_t>(picture.height));
    for (size_t y = 0; y < rows.size(); ++y) rows[y] = picture.rgb.data() + y * width_bytes;
    // EXIF data may stand behind the picture.
    run([&] {
      png_read_image(png_, rows.data());
      png_read_end(png_, info_);
    });
    png_uint_32 exif_bytes = 0;
    png_bytep exif = nullptr;
    run([&] { png_get_eXIf_1(png_, info_, &exif_bytes, &exif); });
    if (exif != nullptr) stored.exif.assign(reinterpret_cast<const char*>(exif), exif_bytes);
    return stored;
  }

 private:
  /// Calls libpng. IoError with what it says.
  void run(FunctionRef<void()> calls) {
    if (setjmp(png_jmpbuf(png_)) != 0)
      fail<IoError>("{}: not a readable PNG: {}", name_, source_.problem);
    calls();
  }

  void ask_for_rgb() {
    png_set_expand(png_);  // palettes, grey of fewer than 8 bits, transparent colours
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    png_set_gray_to_rgb(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  }

  const std::string& name_;
  PngSource source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

StoredPicture read_png(std::string_view bytes, const std::string& name,
                       const PictureLimits& limits) {
  check_chunk_lengths(bytes, name);
  return PngReader(bytes, name).read(limits);
}

}  // namespace viaduct
