// Products of rows of bytes: a quarter of the memory and of the instructions of products in single precision.
#pragma once
#include <cstddef>
#include <cstdint>

namespace halfstep {

constexpr int byte_rows = 6, byte_columns = 64;  // of one tile

// Rows lie four columns at a time, [K/4][rows][4], so that a lane holds four columns of one row. Bytes of the left side
// are signed; those of the right side have right_most + 1 added. K is a multiple of 8.
struct ByteProducts {
  int left_most, right_most;  // the largest magnitudes for which no sum overflows
  // Bit c of above[r] tells whether row r of the left side times row c of the right side exceeds bars[r]. `ld` rows of
  // the left side lie side by side.
  void (*above)(int K, const int32_t* left, ptrdiff_t ld, const int32_t* right, const int32_t* bars, uint64_t* above);
};

// Of the vectors named: nullptr where this build or CPU has no such products.
const ByteProducts* byte_products(bool wide);

}  // namespace halfstep
