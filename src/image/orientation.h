#pragma once
// The orientation that a camera writes into EXIF, and pictures turned by it.

#include <string_view>

#include "image/picture.h"

namespace viaduct {

/// The orientation (tag 0x0112 of the first directory, EXIF 2.3 §4.6.4) of EXIF data, with or
/// without the mark "Exif\0\0" in front: 1 … 8; 1, which is upright, where there is none or the
/// data are damaged.
int exif_orientation(std::string_view exif);

/// The picture as it is meant to be seen: mirrored, turned, or both (2 … 8).
Picture upright(Picture picture, int orientation);

}  // namespace viaduct
