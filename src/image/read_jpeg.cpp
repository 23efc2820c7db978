#include "image/read_jpeg.h"

#include <csetjmp>
#include <cstdio>
#include <cstring>

// Behind <cstdio>, whose types it uses.
#include <jerror.h>
#include <jpeglib.h>

#include "base/error.h"
#include "base/function_ref.h"

namespace viaduct {
namespace {

using namespace std::string_view_literals;

/// libjpeg's errors. Its callbacks leave by longjmp, which passes over destructors: nothing that
/// has one lives in a function that calls libjpeg.
struct JpegErrors {
  jpeg_error_mgr base;  // first: libjpeg knows its address
  std::jmp_buf back;
  char problem[JMSG_LENGTH_MAX];
};

JpegErrors& errors_of(j_common_ptr info) {
  return *reinterpret_cast<JpegErrors*>(info->err);
}

[[noreturn]] void on_error(j_common_ptr info) {
  JpegErrors& errors = errors_of(info);
  (*info->err->format_message)(info, errors.problem);
  std::longjmp(errors.back, 1);
}

/// Behind these warnings libjpeg goes on with grey blocks.
bool is_damage(int code) {
  return code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE;
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && is_damage(info->err->msg_code)) on_error(info);
}

/// Called now and then while libjpeg reads: each scan of a few bytes costs a pass over the picture.
void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= PictureLimits::kScans) return;
  std::strncpy(errors_of(info).problem, "too many scans", JMSG_LENGTH_MAX - 1);
  std::longjmp(errors_of(info).back, 1);
}

class JpegReader {
 public:
  JpegReader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = on_error;
    errors_.base.emit_message = on_message;
    progress_.progress_monitor = on_progress;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  StoredPicture read(const PictureLimits& limits) {
    run([&] {
      jpeg_create_decompress(&info_);
      info_.progress = &progress_;
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
      jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xffff);
      jpeg_read_header(&info_, TRUE);
    });
    check_colours();
    StoredPicture stored;
    Picture& picture = stored.picture;
    picture.height = info_.image_height;
    picture.width = info_.image_width;
    check_picture_size(picture.height, picture.width, limits, name_);
    // A block of 8 × 8 pixels takes a bit or more, but with arithmetic coding.
    const int64_t blocks = (picture.height + 7) / 8 * ((picture.width + 7) / 8);
    VIADUCT_CHECK(IoError, info_.arith_code || blocks <= 8 * static_cast<int64_t>(bytes_.size()),
                  "{}: not a readable JPEG: {} bytes do not hold {} × {} pixels, the file is cut "
                  "off",
                  name_, bytes_.size(), picture.width, picture.height);
    for (auto* marker = info_.marker_list; marker != nullptr; marker = marker->next) {
      const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
      if (!data.starts_with("Exif\0\0"sv)) continue;
      stored.exif = data;
      break;
    }
    const auto row_bytes = static_cast<size_t>(3 * picture.width);
    picture.rgb.resize(row_bytes * static_cast<size_t>(picture.height));
    run([&] {
      info_.out_color_space = JCS_RGB;
      jpeg_start_decompress(&info_);
      while (info_.output_scanline < info_.output_height) {
        JSAMPROW row = picture.rgb.data() + info_.output_scanline * row_bytes;
        jpeg_read_scanlines(&info_, &row, 1);
      }
    });
    return stored;
  }

 private:
  /// Calls libjpeg. IoError with what it says.
  void run(FunctionRef<void()> calls) {
    if (setjmp(errors_.back) != 0)
      fail<IoError>("{}: not a readable JPEG: {}", name_, errors_.problem);
    calls();
  }

  void check_colours() const {
    const J_COLOR_SPACE colours = info_.jpeg_color_space;
    VIADUCT_CHECK(IoError, colours != JCS_CMYK && colours != JCS_YCCK,
                  "{}: a JPEG in {}, the colours of printing; expected RGB or grey", name_,
                  colours == JCS_CMYK ? "CMYK" : "YCCK (CMYK)");
    VIADUCT_CHECK(IoError, info_.num_components == 1 || info_.num_components == 3,
                  "{}: a JPEG of {} channels, expected 1 (grey) or 3", name_, info_.num_components);
  }

  std::string_view bytes_;
  const std::string& name_;
  JpegErrors errors_ = {};
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct info_ = {};
};

}  // namespace

StoredPicture read_jpeg(std::string_view bytes, const std::string& name,
                        const PictureLimits& limits) {
  return JpegReader(bytes, name).read(limits);
}

}  // namespace viaduct
