#pragma once
// PNG by libpng (ISO/IEC 15948).

#include <string>
#include <string_view>

#include "image/stored_picture.h"

namespace viaduct {

/// The picture in RGB: palettes and grey are widened, alpha and transparent colours dropped, of 16
/// bits the upper eight kept; gamma and colour profiles are not applied, as PIL does not. Of an
/// animation the picture that readers without animations show. IoError that begins with `name`.
StoredPicture read_png(std::string_view bytes, const std::string& name,
                       const PictureLimits& limits);

}  // namespace viaduct
