#pragma once
// PNG and JPEG files as pictures, upright and in RGB.

#include <filesystem>
#include <string>
#include <string_view>

#include "image/picture.h"

namespace viaduct {

/// The picture of a file's bytes: the EXIF orientation is applied, palettes and grey become RGB,
/// alpha is dropped, of 16 bits a channel the upper eight are kept. IoError that begins with `name`
/// for another format (by its name), for CMYK, for a file that is damaged or cut off, and for one
/// beyond the limits.
Picture decode_picture(std::string_view bytes, const std::string& name,
                       const PictureLimits& limits = {});

/// `decode_picture` of a file. IoError with its path.
Picture read_picture(const std::filesystem::path& file, const PictureLimits& limits = {});

}  // namespace viaduct
