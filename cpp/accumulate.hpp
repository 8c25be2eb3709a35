// Cells into a quadratic: Q = sum s x x' and q = sum l x, by gathered panels and register tiles.
// What s and l mean is the caller's: weights for the squared loss, curvatures and gradients for Newton steps.
#pragma once
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "row.hpp"
#include "tiles.hpp"

namespace halfstep::HALFSTEP_ISA {

// Zeroed room for a while. Standard containers would do, but their code must not be shared between instruction sets.
template <class T>
struct Room {
  T* const at;
  explicit Room(size_t size) : at(static_cast<T*>(std::calloc(size ? size : 1, sizeof(T)))) {
    if (!at) no_memory();
  }
  ~Room() { std::free(at); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
};

constexpr int panel_cells = 128;
constexpr int prefetch_ahead = 6;

// Room for f columns and the right-hand side, in whole tiles.
template <class T>
constexpr int panel_ld(int f) {
  return padded<T>(round_up(f + 1, tile_columns<T>));
}
template <class T>
constexpr size_t quadratic_size(int n) {
  return size_t(n + 1) * panel_ld<T>(n);
}

template <class T, int level = 3>
inline void prefetch_row(const T* row, int columns) {
  for (int c = 0; c < columns; c += 64 / int(sizeof(T))) __builtin_prefetch(row + c, 0, level);
}

// The rows that are wanted next: each of about `calls` calls fetches some of them into the second cache, so that memory
// works while tiles are computed.
template <class T>
struct Ahead {
  const T* x;
  int d, f;
  const int32_t *next, *last;
  int step;

  Ahead(const T* x, int d, int f, const int32_t* indices, int64_t n, int calls)
      : x(x), d(d), f(f), next(indices), last(indices + (n < panel_cells ? n : panel_cells)) {
    step = int(last - next) / (calls > 0 ? calls : 1) + 1;
  }
  void operator()() {
    for (int r = 0; r < step && next < last; ++r, ++next) prefetch_row<T, 2>(x + int64_t(*next) * d, f);
  }
};

// to = scale * from, f values; the last vector overlaps its neighbour rather than reading past the row.
template <class T>
inline void scaled_copy(const T* from, T scale, T* to, int f) {
  constexpr int w = width<T>;
  int c = 0;
  for (; c + w <= f; c += w) store(to + c, scale * load(from + c));
  if (c == f) return;
  using Half = HalfVec<T>;
  if (f >= w)
    store(to + f - w, scale * load(from + f - w));
  else if (f >= Half::width)
    Half::store(to, scale * Half::load(from)),
        Half::store(to + f - Half::width, scale * Half::load(from + f - Half::width));
  else
    for (; c < f; ++c) to[c] = scale * from[c];
}

// Lower part of rows 0..f-1 of `quadratic` gets sum s x x', row f gets sum l x; x is the column range of row
// indices[k]. Cells with s = l = 0 cost nothing. `panel` holds panel_cells x panel_ld(f). The caller will want the rows
// of the `following` indices after the n given ones next.
template <class T>
void accumulate(const T* x, int d, int f, const int32_t* indices, int64_t n, const T* s, const T* l, T* quadratic,
                T* panel, int64_t following = 0) {
  const int ld = panel_ld<T>(f);
  bool fresh = true, negative = false, flat = false;
  for (int sign = 1; sign >= -1; sign -= 2) {
    if (sign < 0 && !negative) break;
    int filled = 0;
    T before = 0, root = 0, reciprocal = 0;  // neighbours often weigh the same
    auto flush = [&](int64_t done) {
      const Put put = sign < 0 ? Put::subtract : fresh ? Put::set : Put::add;
      panel_gram(put, filled, panel, ld, f + 1, f, quadratic, ld,
                 Ahead<T>(x, d, f, indices + done, done < n ? n - done : following, gram_tiles<T>(f)));
      fresh = false, filled = 0;
    };
    for (int64_t k = 0; k < n; ++k) {
      const T weight = T(sign) * s[k];
      if (!(weight > 0)) {
        negative |= weight < 0;
        flat |= weight == 0 && l[k] != 0;
        continue;
      }
      if (k + prefetch_ahead < n) prefetch_row(x + int64_t(indices[k + prefetch_ahead]) * d, f);
      if (weight != before) before = weight, root = std::sqrt(weight), reciprocal = T(1) / root;
      T* row = panel + ptrdiff_t(filled) * ld;
      scaled_copy(x + int64_t(indices[k]) * d, root, row, f);
      row[f] = T(sign) * l[k] * reciprocal;
      if (++filled == panel_cells) flush(k + 1);
    }
    if (filled > 0 || fresh) flush(n);
  }
  if (flat)
    for (int64_t k = 0; k < n; ++k)
      if (s[k] == 0 && l[k] != 0) axpy(l[k], x + int64_t(indices[k]) * d, quadratic + ptrdiff_t(f) * ld, f);
}

}  // namespace halfstep::HALFSTEP_ISA
