// Whole-matrix work: Gram matrices, rotations, and scores with the best k of each row.
#pragma once
#include <cstring>
#include <limits>

#include "accumulate.hpp"
#include "kernels.hpp"

namespace halfstep::HALFSTEP_ISA {

// Adds x'x of n rows (both triangles) to `out` (d x d, float64). Partial sums of T are short, so they stay accurate.
template <class T>
void gram_rows(const T* x, int64_t n, int d, double* out) {
  constexpr int64_t flush_rows = 16 * panel_cells;
  const int ld = panel_ld<T>(d);
  const Room<T> room(size_t(panel_cells) * ld + quadratic_size<T>(d));
  T *panel = room.at, *part = panel + size_t(panel_cells) * ld;
  for (int64_t first = 0; first < n; first += flush_rows) {
    const int64_t last = first + flush_rows < n ? first + flush_rows : n;
    for (int64_t i = first; i < last; i += panel_cells) {
      const int count = int(last - i < panel_cells ? last - i : panel_cells);
      for (int k = 0; k < count; ++k) scaled_copy(x + (i + k) * d, T(1), panel + ptrdiff_t(k) * ld, d);
      panel_gram(i == first ? Put::set : Put::add, count, panel, ld, d, d, part, ld, nothing);
    }
    for (int r = 0; r < d; ++r)
      for (int c = 0; c <= r; ++c) out[ptrdiff_t(r) * d + c] += part[ptrdiff_t(r) * ld + c];
  }
}

// x[:, start:start+f] of n rows becomes itself times `basis` (f x f).
template <class T>
void rotate_rows(T* x, int64_t n, int d, int start, int f, const T* basis) {
  const int ld = panel_ld<T>(f), rows = panel_cells + tile_rows;
  const Room<T> room(size_t(ld) * (f + 2 * rows));
  T *turned = room.at, *in = turned + size_t(ld) * f, *out = in + size_t(ld) * rows;
  for (int r = 0; r < f; ++r) std::memcpy(turned + ptrdiff_t(r) * ld, basis + ptrdiff_t(r) * f, sizeof(T) * f);
  for (int64_t i = 0; i < n; i += panel_cells) {
    const int count = int(n - i < panel_cells ? n - i : panel_cells);
    for (int k = 0; k < count; ++k) std::memcpy(in + ptrdiff_t(k) * ld, x + (i + k) * d + start, sizeof(T) * f);
    product(Put::set, count, f, f, in, ld, 1, turned, ld, out, ld);
    for (int k = 0; k < count; ++k) std::memcpy(x + (i + k) * d + start, out + ptrdiff_t(k) * ld, sizeof(T) * f);
  }
}

// A binary heap of the best k so far, the worst on top. Ties: the smaller index is better.
template <class T>
struct Best {
  T* score;
  int32_t* index;
  int k, size = 0;

  static bool worse(T a, int32_t i, T b, int32_t j) { return a < b || (a == b && i > j); }
  void place(int at, T s, int32_t i) { score[at] = s, index[at] = i; }
  void sink(int at, int size_now, T s, int32_t i) {
    for (;;) {
      int child = 2 * at + 1;
      if (child >= size_now) break;
      if (child + 1 < size_now && worse(score[child + 1], index[child + 1], score[child], index[child])) ++child;
      if (!worse(score[child], index[child], s, i)) break;
      place(at, score[child], index[child]);
      at = child;
    }
    place(at, s, i);
  }
  void offer(T s, int32_t i) {
    if (size < k) {
      int at = size++;
      while (at > 0 && worse(s, i, score[(at - 1) / 2], index[(at - 1) / 2])) {
        place(at, score[(at - 1) / 2], index[(at - 1) / 2]);
        at = (at - 1) / 2;
      }
      place(at, s, i);
    } else if (worse(score[0], index[0], s, i)) {
      sink(0, k, s, i);
    }
  }
  void sort() {  // best first
    for (int last = size - 1; last > 0; --last) {
      const T s = score[last];
      const int32_t i = index[last];
      place(last, score[0], index[0]);
      sink(0, last, s, i);
    }
  }
};

// How many vectors of scores are looked at together. Few of them have one that belongs to the best.
constexpr int scan_vectors = 4;

// The largest of `count` vectors and of `least`, which is no NaN, so that none is found.
template <class T>
inline T largest(const T* score, int count, T least) {
  constexpr int w = width<T>;
  Vec<T> most = least - Vec<T>{};
#pragma GCC unroll 4
  for (int v = 0; v < count; ++v) {
    const Vec<T> at = load(score + v * w);
    most = at > most ? at : most;
  }
  return largest_lane<T>(most);
}

// Scores of items first, first + 1, ... enter the best of a row. n is a multiple of the vectors looked at together.
template <class T>
inline void offer_all(const T* score, int n, int32_t first, Best<T>& heap) {
  constexpr int w = width<T>;
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  T bar = heap.size == heap.k ? heap.score[0] : lowest;  // equal scores come later, so they lose the tie
  for (int s = 0; s < n; s += scan_vectors * w) {
    if (!(largest(score + s, scan_vectors, bar) > bar)) continue;
    for (int v = s; v < s + scan_vectors * w; v += w) {
      if (!(largest(score + v, 1, bar) > bar)) continue;
      for (int at = v; at < v + w; ++at)
        if (score[at] > bar) {
          heap.offer(score[at], first + at);
          if (heap.size == heap.k) bar = heap.score[0];
        }
    }
  }
}

// The best k items of the rows first..last, seen items left out; short lists end in index -1 and score NaN.
template <class T>
void top_rows(const TopK<T>& t, int64_t first, int64_t last) {
  constexpr int block = 128, step = scan_vectors * width<T>;
  const int d = t.d, lda = panel_ld<T>(d), ldb = padded<T>(block), rows = int(last - first);
  const size_t high = rows + tile_rows;
  const Room<T> room(high * lda + size_t(d) * ldb + high * ldb);
  const Room<int64_t> seen_room(rows);
  const Room<Best<T>> best_room(rows);
  T *a = room.at, *b = a + high * lda, *c = b + size_t(d) * ldb;
  int64_t* seen = seen_room.at;
  Best<T>* best = best_room.at;
  for (int r = 0; r < rows; ++r) {
    const int64_t user = t.rows ? t.rows[first + r] : first + r;
    std::memcpy(a + ptrdiff_t(r) * lda, t.left + user * d, sizeof(T) * d);
    seen[r] = t.seen_indptr ? t.seen_indptr[first + r] : 0;
    best[r] = Best<T>{t.scores + (first + r) * t.k, t.indices + (first + r) * t.k, t.k, 0};
  }
  for (int64_t j = 0; j < t.n_right; j += block) {
    const int columns = int(t.n_right - j < block ? t.n_right - j : block);
    pack_transposed<T>(
        columns, d, [&](int r) { return t.right + (j + r) * d; }, [](int) { return T(1); },
        static_cast<const T*>(nullptr), b, ldb);
    product(Put::set, rows, columns, d, a, lda, 1, b, ldb, c, ldb);
    for (int r = 0; r < rows; ++r) {
      T* score = c + ptrdiff_t(r) * ldb;
      const T lowest = -std::numeric_limits<T>::infinity();
      for (int s = columns; s < round_up(columns, step); ++s) score[s] = lowest;
      if (t.seen_indptr)
        for (; seen[r] < t.seen_indptr[first + r + 1] && t.seen_indices[seen[r]] < j + columns; ++seen[r])
          score[t.seen_indices[seen[r]] - j] = lowest;
      offer_all(score, round_up(columns, step), int32_t(j), best[r]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    best[r].sort();
    for (int s = best[r].size; s < t.k; ++s) {
      best[r].score[s] = std::numeric_limits<T>::quiet_NaN();
      best[r].index[s] = -1;
    }
  }
}

// out[p] = left[rows[p]] . right[columns[p]].
template <class T>
void pair_scores(const T* left, const T* right, int d, const int64_t* rows, const int64_t* columns, int64_t n, T* out) {
  for (int64_t p = 0; p < n; ++p) out[p] = dot(left + rows[p] * d, right + columns[p] * d, d);
}

}  // namespace halfstep::HALFSTEP_ISA
