// The best k of all scores of a row. A score is summed column by column, as tiles do it, wherever it is computed, and
// ties are decided by index: so it changes no list that most scores are only screened, nor in which order rows come.
#pragma once
#include <cstring>
#include <limits>

#include "screened.hpp"

namespace halfstep::HALFSTEP_ISA {

// A binary heap of the best k so far, the worst on top. Ties: the smaller index is better.
template <class T>
struct Best {
  T* score;
  int32_t* index;
  int k, size = 0;

  static bool worse(T a, int32_t i, T b, int32_t j) { return a < b || (a == b && i > j); }
  // What a score must reach to enter, or equal with a smaller index.
  T bar() const { return size == k ? score[0] : -std::numeric_limits<T>::infinity(); }
  bool takes(T s, int32_t i) const {
    return size == k ? worse(score[0], index[0], s, i) : s > -std::numeric_limits<T>::infinity();
  }
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
  void put(T s, int32_t i) {  // what it takes
    if (size == k) return sink(0, k, s, i);
    int at = size++;
    while (at > 0 && worse(s, i, score[(at - 1) / 2], index[(at - 1) / 2])) {
      place(at, score[(at - 1) / 2], index[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    place(at, s, i);
  }
  void finish() {  // best first; short lists end in index -1 and score NaN
    for (int last = size - 1; last > 0; --last) {
      const T s = score[last];
      const int32_t i = index[last];
      place(last, score[0], index[0]);
      sink(0, last, s, i);
    }
    for (int s = size; s < k; ++s) place(s, std::numeric_limits<T>::quiet_NaN(), -1);
  }
};

// How many vectors of scores are looked at together. Few of them have one that belongs to the best.
constexpr int scan_vectors = 4;

// The largest of `count` vectors, NaN left out.
template <class T>
inline T largest(const T* score, int count) {
  constexpr int w = width<T>;
  Vec<T> most = -std::numeric_limits<T>::infinity() - Vec<T>{};
#pragma GCC unroll 4
  for (int v = 0; v < count; ++v) {
    const Vec<T> at = load(score + v * w);
    most = at > most ? at : most;
  }
  return largest_lane<T>(most);
}

// Lists of the rows first..last.
template <class T>
class Lists {
 public:
  Lists(const TopK<T>& t, int64_t first, int64_t last)
      : t_(t),
        first_(first),
        rows_(int(last - first)),
        lda_(panel_ld<T>(t.d)),
        best_(rows_),
        left_(size_t(rows_ + tile_rows) * lda_),
        right_(size_t(t.d) * ld),
        scores_(size_t(rows_ + tile_rows) * ld),
        waiting_(t.screen ? size_t(rows_) * batch : 0),
        waits_(t.screen ? rows_ : 0) {
    for (int r = 0; r < rows_; ++r) {
      std::memcpy(left(r), t.left + (t.rows ? t.rows[first + r] : first + r) * t.d, sizeof(T) * t.d);
      best_.at[r] = Best<T>{t.scores + (first + r) * t.k, t.indices + (first + r) * t.k, t.k, 0};
    }
  }

  void all() {
    for (int64_t from = 0; from < t_.n_right; from += byte_columns) score(from);
    for (int r = 0; r < rows_; ++r) best_.at[r].finish();
  }

  // A block of which too many scores may count is scored as a whole, and for a while so are the next ones.
  void screened() {
    Screened<T> screen(t_, rows_);
    screen.describe(t_.d, [&](int r) { return left(r); });
    int pause = 1;
    for (int64_t block = 0, next = 0; block * byte_columns < t_.n_right; ++block) {
      if (block < next || screen.look(block) * too_many > int64_t(rows_) * byte_columns) {
        if (block >= next) next = block + pause, pause = pause < 16 ? 2 * pause : pause;
        score(block * byte_columns);
        for (int r = 0; r < rows_; ++r) screen.raise(r, best_.at[r].bar());
        continue;
      }
      pause = 1;
      for (int r = 0; r < rows_; ++r)
        for (uint64_t above = screen.above(r); above; above &= above - 1) {
          const int32_t item = t_.screen->order[block * byte_columns + __builtin_ctzll(above)];
          if (seen(r, item)) continue;
          prefetch_row(t_.right + int64_t(item) * t_.d, t_.d);
          waiting_.at[r * batch + waits_.at[r]++] = item;
          if (waits_.at[r] == batch) settle(r), screen.raise(r, best_.at[r].bar());
        }
    }
    for (int r = 0; r < rows_; ++r) settle(r), best_.at[r].finish();
  }

 private:
  static constexpr int ld = padded<T>(byte_columns), batch = width<T>, too_many = 20;

  T* left(int r) const { return left_.at + ptrdiff_t(r) * lda_; }
  int32_t item(int64_t place) const { return t_.screen ? t_.screen->order[place] : int32_t(place); }

  bool seen(int r, int32_t item) const {
    if (!t_.seen_indptr) return false;
    const int32_t* at = t_.seen_indices + t_.seen_indptr[first_ + r];
    int64_t n = t_.seen_indptr[first_ + r + 1] - t_.seen_indptr[first_ + r];
    for (; n > 1; n -= n / 2) at += at[n / 2] <= item ? n / 2 : 0;
    return n == 1 && *at == item;
  }

  // Scores of byte_columns items or what is left of them, for all rows.
  void score(int64_t from) {
    constexpr int w = width<T>, step = scan_vectors * w;
    const int columns = int(t_.n_right - from < byte_columns ? t_.n_right - from : byte_columns);
    pack_transposed<T>(
        columns, t_.d, [&](int c) { return t_.right + int64_t(item(from + c)) * t_.d; }, [](int) { return T(1); },
        static_cast<const T*>(nullptr), right_.at, ld);
    product(Put::set, rows_, columns, t_.d, left_.at, lda_, 1, right_.at, ld, scores_.at, ld);
    for (int r = 0; r < rows_; ++r) {
      T* score = scores_.at + ptrdiff_t(r) * ld;
      for (int c = columns; c < round_up(columns, step); ++c) score[c] = std::numeric_limits<T>::quiet_NaN();
      for (int s = 0; s < columns; s += step) {
        if (!(largest(score + s, scan_vectors) >= best_.at[r].bar())) continue;
        for (int v = s; v < s + step; v += w) {
          if (!(largest(score + v, 1) >= best_.at[r].bar())) continue;
          for (int c = v; c < v + w; ++c)
            if (score[c] >= best_.at[r].bar()) offer(r, score[c], from + c);
        }
      }
    }
  }

  void offer(int r, T score, int64_t place) {
    const int32_t i = item(place);
    if (best_.at[r].takes(score, i) && !seen(r, i)) best_.at[r].put(score, i);
  }

  // Scores what waits for a row, each item in a lane: column by column, as tiles do it.
  void settle(int r) {
    T packed[batch];
    const int n = waits_.at[r];
    const int32_t* items = waiting_.at + r * batch;
    if (!n) return;
    pack_transposed<T>(
        n, t_.d, [&](int c) { return t_.right + int64_t(items[c]) * t_.d; }, [](int) { return T(1); },
        static_cast<const T*>(nullptr), right_.at, batch);
    product(Put::set, 1, n, t_.d, left(r), lda_, 1, right_.at, batch, packed, batch);
    for (int c = 0; c < n; ++c)
      if (best_.at[r].takes(packed[c], items[c])) best_.at[r].put(packed[c], items[c]);
    waits_.at[r] = 0;
  }

  const TopK<T>& t_;
  const int64_t first_;
  const int rows_, lda_;
  const Room<Best<T>> best_;
  const Room<T> left_, right_, scores_;
  const Room<int32_t> waiting_, waits_;
};

template <class T>
void top_rows(const TopK<T>& t, int64_t first, int64_t last) {
  Lists<T> lists(t, first, last);
  t.screen ? lists.screened() : lists.all();
}

}  // namespace halfstep::HALFSTEP_ISA
