// Which scores of a row may belong to its best, told by products of bytes, which cost a quarter.
//
// A row x is mixed, y = Hx with an orthogonal H, which changes no product but spreads what is large in x, and rounded
// to bytes q with y = s q + e. With lengths N = |x| and errors E >= |e|, the score of rows u and v is at most
//
//   s_u s_v q_u.q_v + E_u N_v + (N_u + E_u) E_v + rounding
//
// and at most N_u N_v + rounding. Scores of which both bounds reach the worst of a row's list have to be computed.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>

#include "accumulate.hpp"
#include "kernels.hpp"

namespace halfstep::HALFSTEP_ISA {

// Numbers that tell how far roundings reach, for rows of K columns: of sums of K products, of mixing and of bytes.
template <class T>
constexpr double slack(int K) {
  return (K + 32) * double(std::numeric_limits<T>::epsilon());
}

// byte_columns rows as bytes; their scales, bounds of their lengths and of what rounding to bytes left out.
template <class T>
struct ByteBlock {
  T scale[byte_columns], length[byte_columns], error[byte_columns];

  // row(c) for c < n <= byte_columns. `room` holds K x byte_columns. With `one_scale` the rows share the largest.
  template <class RowAt>
  void fill(int n, int d, RowAt row, const Screen& s, int most, bool one_scale, T* room) {
    constexpr int w = byte_columns;
    if (n < w) std::memset(room, 0, sizeof(T) * s.K * w);
    std::memset(room + ptrdiff_t(d) * w, 0, sizeof(T) * (s.K - d) * w);
    pack_transposed<T>(n, d, row, [](int) { return T(1); }, static_cast<const T*>(nullptr), room, w);
    measure(n, s.K, room);
    mix(s, room);
    T most_of[w] = {}, left_out[w];
    for (int c = 0; c < w; ++c) left_out[c] = s.K * least;
    for (int k = 0; k < s.K; ++k)
      for (int c = 0; c < w; ++c) most_of[c] = larger(most_of[c], std::fabs(room[k * w + c]));
    if (one_scale) {
      for (int c = 1; c < w; ++c) most_of[0] = larger(most_of[0], most_of[c]);
      for (int c = 1; c < w; ++c) most_of[c] = most_of[0];
    }
    T inverse[w];
    for (int c = 0; c < w; ++c) {
      const bool any = most_of[c] > least / std::numeric_limits<T>::epsilon();
      scale[c] = any ? most_of[c] / T(most) : T(1);
      inverse[c] = any ? T(1) / scale[c] : T(0);
    }
    for (int k = 0; k < s.K; ++k)
      for (int c = 0; c < w; ++c) {
        const T x = room[k * w + c], q = (x * inverse[c] + whole) - whole, e = x - q * scale[c];
        room[k * w + c] = q;
        left_out[c] += e * e;
      }
    const T more = T(slack<T>(s.K));
    for (int c = 0; c < w; ++c) error[c] = (std::sqrt(left_out[c]) + more * length[c]) * (1 + more);
  }

  // What was filled, with `plus` added, four columns to a lane.
  static void store(int K, const T* room, int plus, int32_t* out, ptrdiff_t ld) {
    constexpr int w = byte_columns;
    for (int k = 0; k < K; k += 4, out += ld, room += 4 * w)
      for (int c = 0; c < w; ++c) {
        const auto byte = [&](int j) { return uint32_t(int32_t(room[j * w + c]) + plus) & 255u; };
        out[c] = int32_t(byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24);
      }
  }

 private:
  static constexpr T least = std::numeric_limits<T>::min();
  static constexpr T whole =
      T(1.5) / std::numeric_limits<T>::epsilon();  // added and taken away, it leaves whole numbers
  static T larger(T a, T b) { return a > b ? a : b; }

  // Lengths; rows too long for products without overflow get none that is finite, and no numbers.
  void measure(int n, int K, T* room) {
    constexpr int w = byte_columns;
    T sum[w] = {};
    for (int k = 0; k < K; ++k)
      for (int c = 0; c < w; ++c) sum[c] += room[k * w + c] * room[k * w + c];
    for (int c = 0; c < w; ++c) {
      const bool tame = c >= n || sum[c] < std::numeric_limits<T>::max() / 4;
      const T square = c < n ? sum[c] : T(0);
      length[c] = tame ? std::sqrt(square + K * least) * T(1 + slack<T>(K)) : std::numeric_limits<T>::infinity();
      if (c >= n || !tame)
        for (int k = 0; k < K; ++k) room[k * w + c] = 0;
    }
  }

  // Signs that look random, then sums and differences of columns 1, 2, 4, ... apart, as long as `mixed` goes.
  static void mix(const Screen& s, T* room) {
    constexpr int w = byte_columns;
    const T part = s.mixed == 64 ? T(1) / 8 : T(1) / 4;  // 1 / sqrt(mixed)
    for (int k = 0; k < s.K; ++k) {
      const T sign = uint32_t(k) * 0x9E3779B9u >> 31 ? -part : part;
      for (int c = 0; c < w; ++c) room[k * w + c] *= sign;
    }
    for (int apart = 1; apart < s.mixed; apart *= 2)
      for (int k = 0; k < s.K; ++k) {
        if (k & apart) continue;
        T *a = room + k * w, *b = a + apart * w;
        for (int c = 0; c < w; ++c) {
          const T x = a[c], y = b[c];
          a[c] = x + y, b[c] = x - y;
        }
      }
  }
};

// Fills a block of the screen from rows of `right`.
template <class T>
void block_in_bytes(const TopK<T>& t, const Screen& s, int64_t block) {
  const Room<T> room(size_t(s.K) * byte_columns);
  const int64_t first = block * byte_columns;
  const int n = int(t.n_right - first < byte_columns ? t.n_right - first : byte_columns);
  ByteBlock<T> b;
  b.fill(
      n, t.d, [&](int c) { return t.right + int64_t(s.order[first + c]) * t.d; }, s, s.products->right_most, true,
      room.at);
  b.store(s.K, room.at, s.products->right_most + 1, s.bytes + block * (s.K / 4) * byte_columns, byte_columns);
  s.scale[block] = b.scale[0], s.length[block] = b.length[0], s.error[block] = b.error[0];
  for (int c = 1; c < n; ++c) {
    if (b.length[c] > s.length[block]) s.length[block] = b.length[c];
    if (b.error[c] > s.error[block]) s.error[block] = b.error[c];
  }
}

// Rows of `left` in bytes, a multiple of byte_rows and byte_columns of them, and what has to be exceeded.
template <class T>
class Screened {
 public:
  static constexpr int multiple = 3 * byte_columns;
  static_assert(multiple % byte_rows == 0);

  Screened(const TopK<T>& t, int rows)
      : s_(*t.screen),
        n_right_(t.n_right),
        rows_(rows),
        ld_(round_up(rows, multiple)),
        bytes_(size_t(s_.K / 4) * ld_),
        numbers_(4 * ld_),
        places_(2 * ld_),
        above_(ld_) {
    for (int r = 0; r < ld_; ++r) bars_[r] = std::numeric_limits<int32_t>::max();
  }

  // From row(r) for all rows.
  template <class RowAt>
  void describe(int d, RowAt row) {
    const Room<T> room(size_t(s_.K) * byte_columns);
    for (int from = 0; from < rows_; from += byte_columns) {
      const int n = rows_ - from < byte_columns ? rows_ - from : byte_columns;
      ByteBlock<T> b;
      b.fill(n, d, [&](int c) { return row(from + c); }, s_, s_.products->left_most, false, room.at);
      b.store(s_.K, room.at, 0, bytes_.at + from, ld_);
      for (int c = 0; c < n; ++c) {
        const int r = from + c;
        length_[r] = b.length[c], error_[r] = b.error[c], inverse_[r] = 1 / double(b.scale[c]);
        bar_[r] = -std::numeric_limits<double>::infinity();
        for (int k = 0; k < s_.K; ++k) shift_[r] += int32_t(room.at[k * byte_columns + c]);
        shift_[r] *= s_.products->right_most + 1;
      }
    }
  }

  void raise(int r, T bar) { bar_[r] = double(bar); }
  uint64_t above(int r) const { return above_.at[r]; }

  // Looks for scores of a block that may reach the bars, and counts them.
  int64_t look(int64_t block) {
    set_bars(block);
    const int32_t* right = s_.bytes + block * (s_.K / 4) * byte_columns;
    const int64_t left_over = n_right_ - block * byte_columns;
    const uint64_t there = left_over < byte_columns ? (uint64_t(1) << left_over) - 1 : ~uint64_t(0);
    int64_t count = 0;
    for (int r = 0; r < rows_; r += byte_rows) {
      bool any = false;
      for (int i = r; i < r + byte_rows; ++i) any |= bars_[i] != std::numeric_limits<int32_t>::max(), above_.at[i] = 0;
      if (!any) continue;
      s_.products->above(s_.K, bytes_.at + r, ld_, right, bars_ + r, above_.at + r);
      for (int i = r; i < r + byte_rows; ++i) above_.at[i] &= there, count += __builtin_popcountll(above_.at[i]);
    }
    return count;
  }

 private:
  // Products of bytes that are not above these have scores below the bars.
  void set_bars(int64_t block) {
    constexpr double reach = 1e9, tiny = max_columns * double(std::numeric_limits<T>::min());
    const double N = s_.length[block], E = s_.error[block], inverse = 1 / s_.scale[block], more = slack<T>(s_.K);
    for (int r = 0; r < rows_; ++r) {
      const double longest = length_[r] * N * (1 + more) + tiny;
      const double most = error_[r] * N + (length_[r] + error_[r]) * E + more * longest + tiny;
      double x = (bar_[r] - most) * (inverse_[r] * inverse) - 2;
      x = x > -reach ? x : -reach;  // what is no number is looked at
      x = x < reach ? x : reach;
      const int32_t bar = int32_t(x) + shift_[r];
      bars_[r] = bar_[r] > longest ? std::numeric_limits<int32_t>::max() : bar;
    }
  }

  const Screen& s_;
  const int64_t n_right_;
  const int rows_, ld_;
  const Room<int32_t> bytes_;
  const Room<double> numbers_;
  const Room<int32_t> places_;
  const Room<uint64_t> above_;
  double *const length_ = numbers_.at, *const error_ = length_ + ld_, *const inverse_ = error_ + ld_,
                *const bar_ = inverse_ + ld_;
  int32_t *const shift_ = places_.at, *const bars_ = shift_ + ld_;
};

}  // namespace halfstep::HALFSTEP_ISA
