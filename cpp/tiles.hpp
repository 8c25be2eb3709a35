// One register tile, and the three products made of it: panel'panel (Gram matrices), Cholesky updates, scores.
#pragma once
#include "simd.hpp"

namespace halfstep::HALFSTEP_ISA {

enum class Put { set, add, subtract };

template <class T>
constexpr int tile_columns = 2 * width<T>;
// Rows of the tallest tile of NV vectors: its sums and what it loads fill sixteen registers.
template <int NV>
constexpr int tallest = NV == 1 ? 8 : 6;
constexpr int tile_rows = tallest<2>;

// c (R rows x NV vectors) gets sum_k a[r*a_row + k*a_k] * b[k*ldb + ..]. Reads and writes whole vectors: columns are
// padded, rows need not be.
template <class T, int R, int NV>
inline void tile(Put put, int K, const T* a, ptrdiff_t a_row, ptrdiff_t a_k, const T* b, ptrdiff_t ldb, T* c,
                 ptrdiff_t ldc) {
  constexpr int w = width<T>;
  Vec<T> sum[R][NV] = {};
  for (int k = 0; k < K; ++k, a += a_k, b += ldb) {
    Vec<T> right[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) right[v] = load(b + v * w);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const T left = a[r * a_row];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      T* out = c + r * ldc + v * w;
      if (put == Put::set)
        store(out, sum[r][v]);
      else
        store(out, put == Put::add ? load(out) + sum[r][v] : load(out) - sum[r][v]);
    }
}

template <class T, int NV, int R = tallest<NV>>
inline void tile_of(int rows, Put put, int K, const T* a, ptrdiff_t a_row, ptrdiff_t a_k, const T* b, ptrdiff_t ldb,
                    T* c, ptrdiff_t ldc) {
  if constexpr (R > 1)
    if (rows < R) return tile_of<T, NV, R - 1>(rows, put, K, a, a_row, a_k, b, ldb, c, ldc);
  tile<T, R, NV>(put, K, a, a_row, a_k, b, ldb, c, ldc);
}

constexpr auto nothing = [] {};

// Any number of rows of NV vectors, cut evenly: a tile of one or two rows would wait for its own sums. `between` is
// called before each tile.
template <class T, int NV, class Between>
inline void tiles(int rows, Put put, int K, const T* a, ptrdiff_t a_row, ptrdiff_t a_k, const T* b, ptrdiff_t ldb, T* c,
                  ptrdiff_t ldc, Between& between) {
  for (int done = 0, count = (rows + tallest<NV> - 1) / tallest<NV>; count > 0; --count) {
    const int r = (rows - done + count - 1) / count;
    between();
    tile_of<T, NV>(r, put, K, a + done * a_row, a_row, a_k, b, ldb, c + done * ldc, ldc);
    done += r;
  }
}

// `rows` rows of up to two vectors, the first ones on the diagonal: of w rows there the right vector lies above it and
// is left out.
template <class T, class Between>
inline void tiles_below(int rows, int columns, Put put, int K, const T* a, ptrdiff_t a_row, ptrdiff_t a_k, const T* b,
                        ptrdiff_t ldb, T* c, ptrdiff_t ldc, Between& between) {
  constexpr int w = width<T>;
  const int narrow = columns <= w ? rows : w;
  tiles<T, 1>(narrow, put, K, a, a_row, a_k, b, ldb, c, ldc, between);
  tiles<T, 2>(rows - narrow, put, K, a + narrow * a_row, a_row, a_k, b, ldb, c + narrow * ldc, ldc, between);
}

// Lower part of c (rows x columns) gets panel'panel, the panel being K x ld with at least `rows` columns.
template <class T, class Between>
inline void panel_gram(Put put, int K, const T* panel, int ld, int rows, int columns, T* c, int ldc,
                       Between&& between) {
  for (int j = 0; j < columns; j += tile_columns<T>)
    tiles_below<T>(rows - j, columns - j, put, K, panel + j, 1, ld, panel + j, ld, c + ptrdiff_t(j) * ldc + j, ldc,
                   between);
}

// About how many tiles that is.
template <class T>
constexpr int gram_tiles(int columns) {
  return columns * columns / (2 * tile_rows * tile_columns<T>);
}

// c (rows x columns) gets a * b: a[r*a_row + k*a_k] is rows x K, b is K x columns, row-major.
template <class T>
inline void product(Put put, int rows, int columns, int K, const T* a, ptrdiff_t a_row, ptrdiff_t a_k, const T* b,
                    ptrdiff_t ldb, T* c, ptrdiff_t ldc) {
  constexpr int w = width<T>;
  for (int j = 0; j < columns; j += 2 * w)
    if (columns - j > w)
      tiles<T, 2>(rows, put, K, a, a_row, a_k, b + j, ldb, c + j, ldc, nothing);
    else
      tiles<T, 1>(rows, put, K, a, a_row, a_k, b + j, ldb, c + j, ldc, nothing);
}

// out[k][r] = by(k) * row(r)[k] for `width` rows of K values, `height` of them at a time.
template <class T, int height, class RowAt, class By>
inline void pack_group(int K, RowAt row, By by, T* out, int ld) {
  if (K < height) {
    if constexpr (height > 4) return pack_group<T, height / 2>(K, row, by, out, ld);
    for (int k = 0; k < K; ++k)
      for (int r = 0; r < width<T>; ++r) out[ptrdiff_t(k) * ld + r] = by(k)[r] * row(r)[k];
    return;
  }
  for (int from = 0; from < K; from += height) {
    const int k = from + height <= K ? from : K - height;  // the last vectors overlap their neighbours
    Vec<T> v[height];
#pragma GCC unroll 16
    for (int i = 0; i < height; ++i)
      v[i] = side_by_side<T, height, width<T>>(row, i, k, std::make_index_sequence<size_t(width<T>)>());
    transpose<T, height>(v);
#pragma GCC unroll 16
    for (int i = 0; i < height; ++i) store(out + ptrdiff_t(k + i) * ld, v[i] * by(k + i));
  }
}

// out[k][c] = by_k[k] * scale(c) * row(c)[k] for n rows; columns up to a multiple of the width are zeroed. A null by_k
// is 1.
template <class T, class RowAt, class ScaleAt>
inline void pack_transposed(int n, int K, RowAt row, ScaleAt scale, const T* by_k, T* out, int ld) {
  constexpr int w = width<T>;
  for (int c = 0; c < n; c += w) {
    const T* source[w];
    T by[w];
    for (int r = 0; r < w; ++r) {
      source[r] = row(c + r < n ? c + r : n - 1);
      by[r] = c + r < n ? scale(c + r) : T(0);
    }
    const Vec<T> factor = load(by);
    pack_group<T, w>(
        K, [&](int r) { return source[r]; }, [&](int k) { return by_k ? by_k[k] * factor : factor; }, out + c, ld);
  }
}

}  // namespace halfstep::HALFSTEP_ISA
