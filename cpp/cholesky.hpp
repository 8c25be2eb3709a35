// Blocked left-looking Cholesky of a lower row-major matrix. Rows below the matrix are solved along: with the
// right-hand side as the row after the last, the forward substitution costs nothing of its own.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>

#include "tiles.hpp"

namespace halfstep::HALFSTEP_ISA {

template <class T>
constexpr int cholesky_block = tile_columns<T>;
// Scratch of the factorisation of n columns: the transposed block row, the block, its inverse.
template <class T>
constexpr size_t cholesky_scratch(int n) {
  return size_t(round_up(n, cholesky_block<T>) + 2 * cholesky_block<T>) * cholesky_block<T>;
}

// Factors the symmetric positive definite nb x nb block of NV vectors as U'U, from and into its upper triangle; what
// lies below it is never read. False: a pivot is not above `smallest`. Rows are eliminated before they are scaled, and
// the next pivot by itself before its row: it waits for no square root and for nothing on its way through memory.
template <class T, int NV = 2>
inline bool factor_block(int nb, T (*u)[cholesky_block<T>], const T* smallest) {
  constexpr int w = width<T>;
  T pivot = u[0][0];
  for (int k = 0; k < nb; ++k) {
    if (!(pivot > smallest[k]) || !std::isfinite(pivot)) return false;
    const T reciprocal = T(1) / pivot, scale = std::sqrt(reciprocal);
    if (k + 1 < nb) pivot = u[k + 1][k + 1] - u[k][k + 1] * reciprocal * u[k][k + 1];
    const Vec<T> low = load(&u[k][0]);
    int r = k + 1;
    if constexpr (NV == 1) {
      for (; r < nb; ++r) store(&u[r][0], load(&u[r][0]) - u[k][r] * reciprocal * low);
    } else {
      const Vec<T> high = load(&u[k][w]);
      for (; r < nb && r < w; ++r) {
        const T by = u[k][r] * reciprocal;
        store(&u[r][0], load(&u[r][0]) - by * low), store(&u[r][w], load(&u[r][w]) - by * high);
      }
      for (; r < nb; ++r) store(&u[r][w], load(&u[r][w]) - u[k][r] * reciprocal * high);
      store(&u[k][w], high * scale);
    }
    store(&u[k][0], low * scale);
  }
  return true;
}

// The inverse of U; zero outside the upper triangle of its first nb rows.
template <class T>
inline void invert_block(int nb, const T (*u)[cholesky_block<T>], T (*inverse)[cholesky_block<T>]) {
  constexpr int B = cholesky_block<T>, w = width<T>;
  const Vec<T> zero = {};
  for (int k = B - 1; k >= 0; --k) {
    store(&inverse[k][0], zero), store(&inverse[k][w], zero);
    if (k >= nb) continue;
    inverse[k][k] = T(1);
    Vec<T> low = load(&inverse[k][0]), high = load(&inverse[k][w]);
    int c = nb - 1;  // from the far end: the row that was inverted last is wanted last
    for (; c > k && c >= w; --c) high -= u[k][c] * load(&inverse[c][w]);
    for (; c > k; --c) {
      low -= u[k][c] * load(&inverse[c][0]);
      high -= u[k][c] * load(&inverse[c][w]);
    }
    const T scale = T(1) / u[k][k];
    store(&inverse[k][0], low * scale), store(&inverse[k][w], high * scale);
  }
}

// row (nb values) becomes itself times U^-1: one forward substitution.
template <class T>
inline void substitute_row(int nb, const T (*u)[cholesky_block<T>], T* row) {
  constexpr int B = cholesky_block<T>, w = width<T>;
  T x[B] = {};
  for (int k = 0; k < nb; ++k) x[k] = row[k];
  for (int k = 0; k < nb; ++k) {
    const T value = row[k] = x[k] * (T(1) / u[k][k]);  // the quotient waits for nothing
    store(x, load(x) - value * load(&u[k][0])), store(x + w, load(x + w) - value * load(&u[k][w]));
  }
}

// a: `rows` x n, rows >= n, lower part of the first n rows; overwritten by L, and the further rows by themselves times
// L^-T. A pivot below a few roundings of its diagonal counts as not definite.
template <class T>
bool cholesky(T* a, int lda, int n, int rows, T* scratch) {
  constexpr int B = cholesky_block<T>;
  T* const turned = scratch;
  auto block = reinterpret_cast<T(*)[B]>(scratch + size_t(round_up(n, B)) * B);
  auto inverse = block + B;
  const auto one = [](int) { return T(1); };
  const T relative = T(4) * std::numeric_limits<T>::epsilon();
  for (int j = 0; j < n; j += B) {
    const int nb = n - j < B ? n - j : B;
    const auto block_row = [&](int r) { return a + ptrdiff_t(j + r < rows ? j + r : rows - 1) * lda; };
    T smallest[B];
    for (int c = 0; c < nb; ++c) smallest[c] = relative * block_row(c)[j + c];
    if (j > 0) {
      pack_transposed<T>(B, j, block_row, one, static_cast<const T*>(nullptr), turned, B);
      T* row = a + ptrdiff_t(j) * lda;
      tiles_below<T>(rows - j, nb, Put::subtract, j, row, lda, 1, turned, B, row + j, lda, nothing);
    }
    pack_transposed<T>(
        B, B, [&](int r) { return block_row(r) + j; }, one, static_cast<const T*>(nullptr), &block[0][0], B);
    if (!factor_block<T>(nb, block, smallest)) return false;
    if (j + nb + 1 == rows) {
      substitute_row<T>(nb, block, a + ptrdiff_t(j + nb) * lda + j);
    } else {
      invert_block<T>(nb, block, inverse);
      T* row = a + ptrdiff_t(j + nb) * lda + j;
      tiles<T, 2>(rows - j - nb, Put::set, B, row, lda, 1, &inverse[0][0], B, row, lda, nothing);
    }
    pack_transposed<T>(
        B, nb, [&](int c) { return &block[c][0]; }, one, static_cast<const T*>(nullptr), block_row(0) + j, lda);
  }
  return true;
}

// The same for a matrix of one block, n <= cholesky_block: U into `u`, y = U^-T times the row after the last into x.
// Nothing is turned back, and `a` is kept.
template <class T>
inline bool factor_small(const T* a, int lda, int n, T* u, T* x) {
  constexpr int B = cholesky_block<T>;
  auto block = reinterpret_cast<T(*)[B]>(u);
  const T relative = T(4) * std::numeric_limits<T>::epsilon();
  const bool narrow = n < width<T>, beside = n < B;  // the right-hand side is one more column, where there is one
  const T* right = a + ptrdiff_t(n) * lda;
  T smallest[B];
  for (int r = 0; r < n; ++r) {
    smallest[r] = relative * a[ptrdiff_t(r) * lda + r];
    store(&block[r][0], Vec<T>{}), store(&block[r][width<T>], Vec<T>{});
    if (beside) block[r][n] = right[r];
  }
  for (int c = 0; c < n; ++c)
    for (int r = 0; r <= c; ++r) block[r][c] = a[ptrdiff_t(c) * lda + r];
  if (!(narrow ? factor_block<T, 1>(n, block, smallest) : factor_block<T, 2>(n, block, smallest))) return false;
  for (int r = 0; r < n; ++r) x[r] = beside ? block[r][n] : right[r];
  if (!beside) substitute_row<T>(n, block, x);
  return true;
}

// x = U^-1 y, in place on x.
template <class T>
inline void solve_small(const T* u, int n, T* x) {
  constexpr int B = cholesky_block<T>;
  for (int k = n - 1; k >= 0; --k) {
    const T value = x[k] *= T(1) / u[k * B + k];
    for (int i = k - 1; i >= 0; --i) x[i] -= u[i * B + k] * value;  // what is wanted next comes first
  }
}

// x = A^-1 y for n < width, from rows of cholesky_block values: A, both triangles, and y as column n. A becomes U.
template <class T>
inline bool solve_beside(T* a, int n, T* x) {
  constexpr int B = cholesky_block<T>;
  T smallest[B];
  for (int r = 0; r < n; ++r) smallest[r] = T(4) * std::numeric_limits<T>::epsilon() * a[r * B + r];
  if (!factor_block<T, 1>(n, reinterpret_cast<T(*)[B]>(a), smallest)) return false;
  for (int r = 0; r < n; ++r) x[r] = a[r * B + n];
  solve_small(a, n, x);
  return true;
}

// x = L^-T y, in place on x.
template <class T>
inline void solve_transposed(const T* l, int ldl, int n, T* x) {
  for (int i = n - 1; i >= 0; --i) {
    const T* row = l + ptrdiff_t(i) * ldl;
    x[i] *= T(1) / row[i];
    axpy(-x[i], row, x, i);
  }
}

// x = L^-1 y, in place on x.
template <class T>
inline void solve_lower(const T* l, int ldl, int n, T* x) {
  for (int i = 0; i < n; ++i) {
    const T* row = l + ptrdiff_t(i) * ldl;
    x[i] = (x[i] - dot(row, x, i)) / row[i];
  }
}

}  // namespace halfstep::HALFSTEP_ISA
