// The best rows of a side for many rows of the other: what is made once for all of them, and their tasks.
#pragma once
#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "kernels.hpp"
#include "parallel.hpp"

namespace halfstep {

// Screening has to be prepared, which pays for this many rows; lists have to be full before it leaves a block alone.
constexpr int64_t screen_rows = 128, screen_columns = 512;
constexpr int screen_width = 16, screen_lists = 16;

template <class T>
class Prepared {
 public:
  Prepared(const TopK<T>& t, const ByteProducts* products, int n_threads) : order_(t.n_right) {
    const int64_t blocks = (t.n_right + byte_columns - 1) / byte_columns;
    const int mixed = t.d > 32 ? 64 : 16;
    s_.products = products, s_.mixed = mixed, s_.K = (t.d + mixed - 1) / mixed * mixed;
    sort(t, n_threads);
    bytes_.resize(blocks * (s_.K / 4) * byte_columns), of_blocks_.resize(3 * blocks);
    s_.order = order_.data(), s_.bytes = bytes_.data();
    s_.scale = of_blocks_.data(), s_.length = s_.scale + blocks, s_.error = s_.length + blocks;
    parallel(n_threads, blocks, [&](int, int64_t block) { kernels<T>().in_bytes(t, s_, block); });
  }
  const Screen* screen() const { return &s_; }

 private:
  // The longest rows first: their scores raise the bars, and those of the shortest may be out of reach.
  void sort(const TopK<T>& t, int n_threads) {
    constexpr int64_t share = 4096;
    std::vector<T> squares(t.n_right);
    parallel(n_threads, (t.n_right + share - 1) / share, [&](int, int64_t task) {
      const int64_t first = task * share, n = std::min(share, t.n_right - first);
      std::vector<int64_t> rows(n);
      for (int64_t k = 0; k < n; ++k) rows[k] = first + k;
      kernels<T>().pairs(t.right, t.right, t.d, rows.data(), rows.data(), n, squares.data() + first);
    });
    for (int64_t j = 0; j < t.n_right; ++j) {
      order_[j] = int32_t(j);
      if (!(squares[j] < std::numeric_limits<T>::infinity())) squares[j] = std::numeric_limits<T>::infinity();
    }
    std::sort(order_.begin(), order_.end(),
              [&](int32_t i, int32_t j) { return squares[i] > squares[j] || (squares[i] == squares[j] && i < j); });
  }

  Screen s_;
  std::vector<int32_t> order_, bytes_;
  std::vector<double> of_blocks_;
};

template <class T>
void best_rows(TopK<T> t, int64_t n, const ByteProducts* products, int n_threads) {
  const bool pays = products && n >= screen_rows && t.n_right >= screen_columns && t.d >= screen_width &&
                    t.k <= t.n_right / screen_lists;
  std::optional<Prepared<T>> prepared;
  if (pays) t.screen = prepared.emplace(t, products, n_threads).screen();
  // Rows that share what is packed; few are spread out.
  const int64_t share = (t.screen ? 192 : 256) * (n < 8192 ? 1 : 2);
  parallel(n_threads, (n + share - 1) / share,
           [&](int, int64_t task) { kernels<T>().top(t, task * share, std::min(task * share + share, n)); });
}

}  // namespace halfstep
