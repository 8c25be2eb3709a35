// One register tile, and the three products made of it: panel'panel (Gram matrices), Cholesky updates, scores.
#pragma once
#include "simd.hpp"

namespace halfstep::HALFSTEP_ISA {

enum class Put { set, add, subtract };

constexpr int tile_rows = 6;
template <class T>
constexpr int tile_columns = 2 * width<T>;

// c (tile_rows x NV vectors) gets sum_k a[r*a_row + k*a_k] * b[k*ldb + ..]. Overruns to whole tiles: buffers are
// padded.
template <class T, int NV, Put put>
inline void tile(int K, const T* a, ptrdiff_t a_row, ptrdiff_t a_k, const T* b, ptrdiff_t ldb, T* c, ptrdiff_t ldc) {
  constexpr int w = width<T>;
  Vec<T> sum[tile_rows][NV] = {};
  for (int k = 0; k < K; ++k, a += a_k, b += ldb) {
    Vec<T> right[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) right[v] = load(b + v * w);
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) {
      const T left = a[r * a_row];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      T* out = c + r * ldc + v * w;
      if constexpr (put == Put::set) store(out, sum[r][v]);
      if constexpr (put == Put::add) store(out, load(out) + sum[r][v]);
      if constexpr (put == Put::subtract) store(out, load(out) - sum[r][v]);
    }
}

// Lower part of c (rows x columns) gets panel'panel, the panel being K x ld with at least `rows` columns.
template <class T, Put put>
inline void panel_gram(int K, const T* panel, int ld, int rows, int columns, T* c, int ldc) {
  constexpr int w = width<T>;
  for (int j = 0; j < columns;) {
    const bool wide = columns - j > w;
    for (int i = j / tile_rows * tile_rows; i < rows; i += tile_rows) {
      T* out = c + ptrdiff_t(i) * ldc + j;
      if (wide)
        tile<T, 2, put>(K, panel + i, 1, ld, panel + j, ld, out, ldc);
      else
        tile<T, 1, put>(K, panel + i, 1, ld, panel + j, ld, out, ldc);
    }
    j += wide ? 2 * w : w;
  }
}

// c (rows x columns) = a (rows x K, row-major) * b (K x columns, row-major).
template <class T>
inline void product(int rows, int columns, int K, const T* a, ptrdiff_t lda, const T* b, ptrdiff_t ldb, T* c,
                    ptrdiff_t ldc) {
  constexpr int w = width<T>;
  for (int j = 0; j < columns;) {
    const bool wide = columns - j > w;
    for (int i = 0; i < rows; i += tile_rows) {
      T* out = c + ptrdiff_t(i) * ldc + j;
      if (wide)
        tile<T, 2, Put::set>(K, a + i * lda, lda, 1, b + j, ldb, out, ldc);
      else
        tile<T, 1, Put::set>(K, a + i * lda, lda, 1, b + j, ldb, out, ldc);
    }
    j += wide ? 2 * w : w;
  }
}

// out[k][c] = by_k[k] * scale(c) * row(c)[k] for n rows; columns up to a multiple of the width are zeroed. A null by_k
// is 1.
template <class T, class RowAt, class ScaleAt>
inline void pack_transposed(int n, int K, RowAt row, ScaleAt scale, const T* by_k, T* out, int ld) {
  constexpr int w = width<T>;
  const int whole = K / w * w;
  for (int c = 0; c < n; c += w) {
    const T* source[w];
    T by[w];
    for (int r = 0; r < w; ++r) {
      source[r] = row(c + r < n ? c + r : n - 1);
      by[r] = c + r < n ? scale(c + r) : T(0);
    }
    const Vec<T> factor = load(by);
    for (int k = 0; k < whole; k += w) {
      Vec<T> v[w];
#pragma GCC unroll 16
      for (int r = 0; r < w; ++r) v[r] = load(source[r] + k);
      transpose<T>(v);
#pragma GCC unroll 16
      for (int r = 0; r < w; ++r) store(out + ptrdiff_t(k + r) * ld + c, v[r] * (by_k ? by_k[k + r] * factor : factor));
    }
    for (int k = whole; k < K; ++k)
      for (int r = 0; r < w; ++r) out[ptrdiff_t(k) * ld + c + r] = (by_k ? by_k[k] : T(1)) * by[r] * source[r][k];
  }
}

}  // namespace halfstep::HALFSTEP_ISA
